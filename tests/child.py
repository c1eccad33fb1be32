"""Code in a Python of its own, for what a process does once: compile, fork, read its environment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

__all__ = ["run"]

ROOT = Path(__file__).parents[1]


def run(code: str, **env: str) -> str:
    """What ``code`` prints, warnings being errors; CalledProcessError where it fails."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT), **env},
        check=True,
        timeout=240,
        capture_output=True,
        text=True,
    )
    return done.stdout
