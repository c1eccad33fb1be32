"""Kernels stay inside their arrays: the corpus under bounds checks, and with a guard page behind each array.

Under bounds checks all kernels are compiled again, which takes minutes: `make test-bounds` runs these tests.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.wirecodec.kernels.corpus import HALVES

ROOT = Path(__file__).parents[3]
pytestmark = [pytest.mark.bounds, pytest.mark.timeout(900)]


def run_corpus(*halves: str, **env: str) -> set[str]:
    """Run halves of the corpus in their own Python process; return the kernels that they do not reach."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.wirecodec.kernels.corpus", *halves],
        cwd=ROOT,
        env={**os.environ, "NUMBA_NUM_THREADS": "1", **env},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return set(done.stdout.split())


def test_no_kernel_leaves_its_arrays_under_bounds_checks(tmp_path: Path) -> None:
    """One process per half, because they mostly compile. The corpus must reach every kernel."""

    def unused(half: str) -> set[str]:
        return run_corpus(half, NUMBA_BOUNDSCHECK="1", NUMBA_CACHE_DIR=str(tmp_path / half))

    with ThreadPoolExecutor() as pool:
        assert set.intersection(*pool.map(unused, HALVES)) == set()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="LD_PRELOAD replaces malloc on Linux only")
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler (cc) to build guard.c with")
def test_no_kernel_leaves_its_arrays_with_guard_pages(tmp_path: Path) -> None:
    library, source = tmp_path / "guard.so", Path(__file__).with_name("guard.c")
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True, timeout=60)
    run_corpus(LD_PRELOAD=str(library), PYTHONFAULTHANDLER="1")
