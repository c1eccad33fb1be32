"""Run code in a separate process, for effects that occur once per process, such as compilation."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

__all__ = ["run"]

ROOT = Path(__file__).parents[1]


def run(code: str, **env: str) -> str:
    """Run ``code`` with warnings as errors and return its output; raise CalledProcessError if it fails."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT), **env},
        check=True,
        timeout=240,
        capture_output=True,
        text=True,
    )
    return done.stdout
