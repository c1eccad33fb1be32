"""Run the command line: ``python -m wirecodec``."""

from __future__ import annotations

from wirecodec.cli import run

run()
