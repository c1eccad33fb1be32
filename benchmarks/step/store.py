"""Results of jobs on disk, so that an interrupted run goes on with the jobs that are missing."""

from __future__ import annotations

from pathlib import Path

from benchmarks.common.store import ROOT, ResultStore

__all__ = ["Store"]

FOLDER = Path(__file__).parent / ".rows"
MEASURING = ("delay", "launch", "models", "plan", "rank", "small", "stages", "systems")
"""Modules that change results; the others only format them."""


class Store(ResultStore):
    """Results of one state of the library and of the measurements.

    Args:
        settings: text of the settings that change results.
        folder: of all states of the code.
    """

    def __init__(self, settings: str, folder: Path = FOLDER) -> None:
        own = [Path(__file__).with_name(f"{name}.py") for name in MEASURING]
        library = [
            path for name in ("wirecodec", "collectives") for path in sorted((ROOT / name).rglob("*.py"))
        ]
        super().__init__(settings, folder, [*own, *library])
