"""Entropy coder of patches of weights (spec/patch.md, "Writing"): symbols are written from last to first."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from formats.reference.rans import LEAST


class LaneWriter:
    """Writer of a stream of several lanes.

    Args:
        count: number of lanes.
        ends: the states with which readers leave the first lanes; they refuse any other than 2^31.
    """

    def __init__(self, count: int, ends: Sequence[int] = ()) -> None:
        self.states = [*ends, *[LEAST] * (count - len(ends))]
        self.words: list[int] = []

    def put(self, lane: int, start: int, frequency: int, bits: int) -> None:
        """Write the symbol that a reader leaves after those that are written later."""
        x = self.states[lane]
        if x >> (63 - bits) >= frequency:
            self.words.append(x % 2**32)
            x >>= 32
        self.states[lane] = (x // frequency << bits) + x % frequency + start

    def finish(self) -> bytes:
        """Return the stream: the states, and then the words."""
        words = struct.pack(f"<{len(self.words)}I", *reversed(self.words))
        return struct.pack(f"<{len(self.states)}Q", *self.states) + words
