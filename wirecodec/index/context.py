"""``context``: each element as a bit, coded arithmetically with contexts from its row and column
(formats/spec/index/context.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.errors import EncodeError, Invalid, Malformed
from wirecodec.index.base import IndexCodec
from wirecodec.kernels.layout import CONTEXT_BLOCK, CONTEXT_PART, CONTEXT_PERIODS
from wirecodec.limits import DecodeLimits
from wirecodec.validation import as_integer, set_fields

_MIN_PERIOD, _MAX_PERIOD = CONTEXT_PERIODS
_VALID_PERIODS = f"0 or {_MIN_PERIOD} to {_MAX_PERIOD}"
_HEADER_BYTES = 2
_MAX_DECISION_BITS = 17
"""The coder's least probability is 2^-16; truncation of its interval adds less than one bit."""
_MAX_TAIL_BYTES = 4
"""Bytes of the last interval."""


@dataclass(frozen=True)
class ContextIndex(IndexCodec):
    """Context-modelling index codec: adaptive binary arithmetic coding of each element.

    It is usually the smallest exact codec, and always the slowest. On a uniform support a section takes 1 to
    6 % more than the entropy bound log2 C(d, r) / r bits per index. On a matrix whose columns differ in
    density it approaches the entropy of the columns.

    Source: formats/spec/index/context.md.

    Args:
        period: elements per row, 64 to 16,384, or 0 for no rows. None detects a period and keeps the smaller
            of the sections with and without rows.

    Raises:
        EncodeError: ``period`` is out of range.
        Malformed: in decoding, the period is out of range, or no writer produces the section.
        Invalid: in decoding, fewer than r elements are present.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> indices = np.arange(0, 100_000, 100, dtype=np.uint32)
        >>> wc.codecs.ContextIndex().encode(indices, 100_000, 0).size
        16
    """

    name: ClassVar[str] = "context"
    wire_id: ClassVar[int] = 11
    has_work: ClassVar[bool] = True
    period: int | None = None

    def __post_init__(self) -> None:
        if self.period is None:
            return
        set_fields(self, period=as_integer(self.period, "context: period"))
        if not _is_valid_period(self.period):
            raise EncodeError(f"context: period is {self.period}; it must be {_VALID_PERIODS}")

    def encode(self, indices: Array, d: int, stream: int) -> Bytes:
        """Encode indices as a section, with and without rows by default; see ``IndexCodec.encode``."""
        from wirecodec.kernels.cpu.index import context

        indices = np.array(indices)  # The kernel also decodes, so that its argument must be writable.
        if self.period is not None:
            return _encode_with_period(indices, d, self.period)
        plain = _encode_with_period(indices, d, 0)
        period = context.find_period(indices)
        rows = _encode_with_period(indices, d, period) if period else plain
        return rows if rows.size < plain.size else plain

    def max_bytes(self, r: int, d: int) -> int:
        """Return the maximum number of bytes of a section of at most r indices below d."""
        blocks = d // CONTEXT_BLOCK + d // _MIN_PERIOD + 2  # each row ends its last block and part
        decisions = d + (d // CONTEXT_PART + blocks) + blocks
        return _HEADER_BYTES + -(-decisions * _MAX_DECISION_BITS // 8) + _MAX_TAIL_BYTES

    @classmethod
    def work(cls, section: Bytes, d: int, r: int) -> int:
        """Check the header, and count one step per element."""
        _read_period(section)
        return d

    @classmethod
    def decode(cls, section: Bytes, d: int, r: int, limits: DecodeLimits) -> Array:
        """Decode a section element by element, up to the last present one; see ``IndexCodec.decode``."""
        from wirecodec.kernels.cpu.index import context

        period = _read_period(section)
        indices = np.empty(r, np.uint32)
        code = context.walk(np.array(section[_HEADER_BYTES:]), indices, period, d, False)
        if code == context.BAD_COUNT:
            raise Invalid("context-count", f"fewer than {r} of {d} elements are present")
        if code == context.BAD_LENGTH:
            raise Malformed("context-length", "the last index does not end in the last byte")
        if code == context.BAD_END:
            raise Malformed("context-end", "the last byte is not the least possible")
        return indices


def _is_valid_period(period: int) -> bool:
    return period == 0 or _MIN_PERIOD <= period <= _MAX_PERIOD


def _read_period(section: Bytes) -> int:
    """Read and check the period in a section's header."""
    if section.size <= _HEADER_BYTES:
        raise Malformed("context-length", f"{section.size} bytes; the minimum is {_HEADER_BYTES + 1}")
    period = int.from_bytes(section[:_HEADER_BYTES].tobytes(), "little")
    if not _is_valid_period(period):
        raise Malformed("context-period", f"the period is {period}; it must be {_VALID_PERIODS}")
    return period


def _encode_with_period(indices: Array, d: int, period: int) -> Bytes:
    """Encode indices as a section with rows of ``period`` elements; the buffer is enlarged if needed."""
    from wirecodec.kernels.cpu.index import context

    size = d // 8 + indices.size
    while True:
        section = np.empty(_HEADER_BYTES + size, np.uint8)
        section[:_HEADER_BYTES] = period & 255, period >> 8
        body = section[_HEADER_BYTES:]
        if (size := context.walk(body, indices, period, d, True)) <= body.size:
            return section[: _HEADER_BYTES + size]
