"""Thresholds of the last step's searches on the host: the next search starts there.

The result is the same as that of a search from the beginning (``kernels.cpu.select.feedback_batch``). So this
memory is a cache, not state, and is never saved.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from wirecodec.arrays import Array

MAX_SETS = 256
"""Sets of tensors whose thresholds are kept; a step in parts has one per part."""


class LastThresholds:
    """Cache of one threshold per tensor; 8 bytes each."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, ...], Array] = {}

    def __reduce__(self) -> tuple[type[LastThresholds], tuple[()]]:
        """Copy as an empty cache."""
        return LastThresholds, ()

    def of(self, names: Iterable[str]) -> Array:
        """Return the thresholds of a set of tensors, (n,) u64; 0 if unknown. A step overwrites them."""
        key = tuple(names)
        if key not in self._found:
            if len(self._found) >= MAX_SETS:
                self._found.clear()
            self._found[key] = np.zeros(len(key), np.uint64)
        return self._found[key]
