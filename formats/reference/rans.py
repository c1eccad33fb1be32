"""Entropy coder of patches of weights (spec/patch.md, "The coder"): lanes of rANS over one list of words."""

from __future__ import annotations

import struct

LEAST = 2**31
"""Least state between two symbols, and the state of every lane at the end."""


class Broken(Exception):
    """Error of a stream that breaks a rule of the coder; each codec has a code of its own for it."""


class Lanes:
    """Reader of a stream.

    Args:
        data: its words, a multiple of 4 bytes.
        count: number of lanes.

    Raises:
        Broken: a state is missing or out of range.
    """

    def __init__(self, data: bytes, count: int) -> None:
        if len(data) < 8 * count:
            raise Broken("the states are missing")
        self.states: list[int] = list(struct.unpack_from(f"<{count}Q", data))
        if not all(LEAST <= x < 2**63 for x in self.states):
            raise Broken("a first state is out of range")
        self.words = [word for (word,) in struct.iter_unpack("<I", data[8 * count :])]
        self.at = 0

    def slot(self, lane: int, bits: int) -> int:
        """Return the place of the lane's next symbol, out of 2^bits."""
        return self.states[lane] % (1 << bits)

    def leave(self, lane: int, start: int, frequency: int, bits: int) -> None:
        """Leave a symbol. Raises Broken if a word is needed and none is left."""
        x = self.states[lane]
        x = frequency * (x // 2**bits) + x % 2**bits - start
        if x < LEAST:
            if self.at == len(self.words):
                raise Broken("the words end early")
            x = 2**32 * x + self.words[self.at]
            self.at += 1
        self.states[lane] = x

    def close(self) -> None:
        """Raise Broken if the stream does not end here."""
        if self.at != len(self.words) or any(x != LEAST for x in self.states):
            raise Broken("words are left, or a last state is not 2^31")


def row_of(word: int, width: int, shift: int) -> int:
    """Return the row of an element of ``width`` bits."""
    return (word >> shift) % count_rows(width, shift)


def count_rows(width: int, shift: int) -> int:
    """Return the number of rows; ``shift`` is less than ``width``."""
    return 1 << (width - 1 - shift)


def has_rows(width: int, shift: int) -> bool:
    """Return whether there are rows, and at most 2048."""
    return shift < width and count_rows(width, shift) <= 2048
