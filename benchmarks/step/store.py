"""Results of jobs, one JSON file each, so that an interrupted run goes on with the jobs that are missing.

Results belong to one state of the code: the folder's name is a digest of the library and of the measurements.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["FOLDER", "Store"]

ROOT = Path(__file__).parents[2]
FOLDER = Path(__file__).parent / ".rows"
MEASURING = ("delay", "launch", "models", "plan", "rank", "small", "stages", "systems")
"""Modules that change results; the others only format them."""


class Store:
    """Results of one state of the code.

    Args:
        settings: text of the settings that change results.
        folder: of all states of the code.
    """

    def __init__(self, settings: str, folder: Path = FOLDER) -> None:
        total = hashlib.sha256(settings.encode())
        for path in _list_sources():
            total.update(path.read_bytes())
        self.folder = folder / total.hexdigest()[:12]

    def _path(self, name: str) -> Path:
        return self.folder / f"{name.replace(' ', '_').replace(',', '')}.json"

    def __contains__(self, name: str) -> bool:
        return self._path(name).exists()

    def __getitem__(self, name: str) -> Any:
        return json.loads(self._path(name).read_text())

    def get(self, name: str, default: Any) -> Any:
        """Return a record, or the default if there is none."""
        path = self._path(name)
        return json.loads(path.read_text()) if path.exists() else default

    def save(self, name: str, record: Any) -> None:
        """Write a record; an interrupt leaves no part of it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        partial = self._path(name).with_suffix(f".{os.getpid()}")
        partial.write_text(json.dumps(record))
        partial.replace(self._path(name))


def _list_sources() -> Sequence[Path]:
    sources = [Path(__file__).with_name(f"{name}.py") for name in MEASURING]
    return sources + [
        path for name in ("wirecodec", "collectives") for path in sorted((ROOT / name).rglob("*.py"))
    ]
