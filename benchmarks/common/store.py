"""Results on disk, one file each, so that an interrupted run goes on with those that are missing.

Results belong to one state of the code: the folder's name is a digest of the sources and of the settings.
"""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import Any

__all__ = ["ROOT", "ResultStore"]

ROOT = Path(__file__).parents[2]


class ResultStore:
    """Results of one state of the code; they can be pickled.

    Args:
        settings: text of the settings that change results.
        folder: of all states of the code.
        sources: files whose content changes results.
    """

    def __init__(self, settings: str, folder: Path, sources: Iterable[Path]) -> None:
        total = hashlib.sha256(settings.encode())
        for path in sources:
            total.update(path.read_bytes())
        self.folder = folder / total.hexdigest()[:12]

    def _path(self, name: str) -> Path:
        return self.folder / f"{hashlib.sha256(name.encode()).hexdigest()[:16]}.pickle"

    def __contains__(self, name: str) -> bool:
        return self._path(name).exists()

    def __getitem__(self, name: str) -> Any:
        return pickle.loads(self._path(name).read_bytes())

    def get(self, name: str, default: Any) -> Any:
        """Return a result, or the default if the result is missing."""
        try:
            return self[name]
        except FileNotFoundError:
            return default

    def save(self, name: str, result: Any) -> None:
        """Write a result; an interrupt leaves no part of it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        partial = self._path(name).with_suffix(f".{os.getpid()}")
        partial.write_bytes(pickle.dumps(result))
        partial.replace(self._path(name))
