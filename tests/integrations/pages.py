"""Scripts of a guide, run by torchrun on two CPU ranks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPT = re.compile(r"^```python title=\"(\w+\.py)\"\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Not anchored to lines: torchrun starts Python with -u, so two ranks that print at once may share a line.
LINE = re.compile(r"(\d+) steps, parameters ([\da-f]{8})")


def read_script(page: str, name: str) -> str:
    """Return a script of a page of the guides."""
    text = (ROOT / "docs/guides" / page).read_text(encoding="utf-8")
    scripts: dict[str, str] = dict(SCRIPT.findall(text))
    return scripts[name]


def change(script: str, *changes: tuple[str, str]) -> str:
    """Replace texts, each of which the script has once."""
    for old, new in changes:
        assert script.count(old) == 1, old
        script = script.replace(old, new)
    return script


def run_on_two_ranks(code: str, folder: Path, *arguments: str) -> list[tuple[int, str]]:
    """Run a script in a folder; return the steps and the checksum of the parameters of each rank."""
    (folder / "script.py").write_text(code, encoding="utf-8")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*command, "script.py", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-5000:]
    found = [(int(steps), checksum) for steps, checksum in LINE.findall(done.stdout)]
    assert len(found) == 2, done.stdout
    return found
