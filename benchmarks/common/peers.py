"""Optional third-party compressors."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

__all__ = ["load_peers"]

T = TypeVar("T")


def load_peers(packages: Mapping[str, Callable[[Any], list[T]]]) -> tuple[list[T], list[str]]:
    """Build the peers whose packages are installed.

    Args:
        packages: for each module, a function that builds its peers from the imported module.

    Returns:
        The peers, and the names of the missing packages.
    """
    peers: list[T] = []
    missing: list[str] = []
    for module, build in packages.items():
        try:
            peers += build(importlib.import_module(module))
        except ImportError:
            missing.append(module.partition(".")[0])
    return peers, missing
