"""``context``: every element as a bit, by an arithmetic coder that learns what rows have in common
(formats/spec/index/context.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.errors import EncodeError, Invalid, Malformed
from wirecodec.kernels.layout import CONTEXT_BLOCK, CONTEXT_PART, CONTEXT_PERIODS
from wirecodec.limits import DecodeLimits
from wirecodec.validation import as_integer, settle

__all__ = ["ContextIndex"]

_LEAST, _MOST = CONTEXT_PERIODS
_HEAD = 2
_MAX_DECISION_BITS = 17
"""The coder's least probability is 2^-16; truncation of its interval adds less than one bit."""
_MAX_TAIL = 4
"""Bytes that the last interval takes at most."""


@dataclass(frozen=True)
class ContextIndex:
    """Weight matrices with columns that are larger than others: the smallest form, and the slowest.

    Args:
        period: elements of a row, 64 to 16,384, or 0 for no rows; found and tried by default.
    """

    name: ClassVar[str] = "context"
    wire_id: ClassVar[int] = 11
    period: int | None = None

    def __post_init__(self) -> None:
        if self.period is None:
            return
        settle(self, period=as_integer(self.period, "context: period"))
        if not _possible(self.period):
            raise EncodeError(f"context: period is {self.period}; it must be 0 or {_LEAST} to {_MOST}")

    def encode(self, indices: Array, d: int, stream: int) -> Bytes:
        """The smaller of two sections, without rows and with those that the support suggests, if any."""
        from wirecodec.kernels.cpu.index import context

        indices = np.array(indices)  # one kernel for both ways: what it takes can be written
        if self.period is not None:
            return _section(indices, d, self.period)
        plain = _section(indices, d, 0)
        period = context.find_period(indices)
        rows = _section(indices, d, period) if period else plain
        return rows if rows.size < plain.size else plain

    def max_bytes(self, r: int, d: int) -> int:
        """Return the most bytes of a section of at most r indices below d."""
        blocks = d // CONTEXT_BLOCK + d // _LEAST + 2  # each row ends its last block and part
        decisions = d + (d // CONTEXT_PART + blocks) + blocks
        return _HEAD + -(-decisions * _MAX_DECISION_BITS // 8) + _MAX_TAIL

    @classmethod
    def work(cls, section: Bytes, d: int, r: int) -> int:
        """The header's checks; then a step for each element."""
        _period(section)
        return d

    @classmethod
    def decode(cls, section: Bytes, d: int, r: int, limits: DecodeLimits) -> Array:
        """One walk over the elements, up to the last that is present."""
        from wirecodec.kernels.cpu.index import context

        period = _period(section)
        indices = np.empty(r, np.uint32)
        code = context.walk(np.array(section[_HEAD:]), indices, period, d, False)
        if code == context.BAD_COUNT:
            raise Invalid("context-count", f"fewer than {r} of {d} elements are present")
        if code == context.BAD_LENGTH:
            raise Malformed("context-length", "the last index is not coded by the last byte")
        if code == context.BAD_END:
            raise Malformed("context-end", "the last byte is not the least that it can be")
        return indices


def _possible(period: int) -> bool:
    return period == 0 or _LEAST <= period <= _MOST


def _period(section: Bytes) -> int:
    if section.size <= _HEAD:
        raise Malformed("context-length", f"{section.size} bytes are no header and a byte")
    period = int.from_bytes(section[:_HEAD].tobytes(), "little")
    if not _possible(period):
        raise Malformed("context-period", f"period {period}; it must be 0 or {_LEAST} to {_MOST}")
    return period


def _section(indices: Array, d: int, period: int) -> Bytes:
    from wirecodec.kernels.cpu.index import context

    size = d // 8 + indices.size
    while True:
        section = np.empty(_HEAD + size, np.uint8)
        section[:_HEAD] = period & 255, period >> 8
        if (size := context.walk(section[_HEAD:], indices, period, d, True)) <= section.size - _HEAD:
            return section[: _HEAD + size]
