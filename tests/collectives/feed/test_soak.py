"""A short soak of feeds, and the whole one; each runs in a process of its own, which forks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("fsspec")
NIGHTLY = [pytest.mark.nightly, pytest.mark.timeout(3600)]
ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("versions", "readers", "options"),
    [
        (40, 3, []),
        pytest.param(500, 8, [], marks=NIGHTLY),
        pytest.param(100, 4, ["--s3"], marks=NIGHTLY),
    ],
)
def test_versions_neither_fork_nor_go_back(
    tmp_path: Path, versions: int, readers: int, options: list[str]
) -> None:
    for name in ("s3fs", "localbucket") if options else ():
        pytest.importorskip(name)
    command = [sys.executable, "-m", "tests.collectives.feed.soak", "--folder", str(tmp_path), *options]
    done = subprocess.run(
        [*command, "--versions", str(versions), "--readers", str(readers)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=3500,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    assert int(done.stdout.split()[0]) >= versions - 5, done.stdout
