"""``binned``: elements by their number within bins of T (formats/spec/index/binned.md).

After AdaComp (Chen et al. 2018), whose 8 and 16 bits an element it keeps, the value's sign included.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.errors import EncodeError, Invalid, Malformed
from wirecodec.limits import DecodeLimits
from wirecodec.validation import as_integer, settle

__all__ = ["Binned"]

_MOST = 16383
_SLACK = 8
"""Bytes behind the records, so that kernels can read and write whole words."""


@dataclass(frozen=True)
class Binned:
    """7 bits an index where bins of 32 to 63 elements have few each, as AdaComp selects them.

    Args:
        bin: how many elements, 1 to 16383.
    """

    name: ClassVar[str] = "binned"
    wire_id: ClassVar[int] = 8
    bin: int = 50

    def __post_init__(self) -> None:
        settle(self, bin=as_integer(self.bin, "binned: bin"))
        if not 1 <= self.bin <= _MOST:
            raise EncodeError(f"binned: bin is {self.bin}; it must be from 1 to {_MOST}")

    def encode(self, indices: Array, d: int, stream: int) -> Bytes:
        """Two passes over the indices: count the records, then write them."""
        from wirecodec.kernels.cpu.index import binned

        width = self.bin.bit_length()
        records = int(binned.count_records(indices, self.bin))
        section = np.empty(2 + -(-records * (width + 1) // 8) + _SLACK, np.uint8)
        section[:2] = np.array([self.bin], "<u2").view(np.uint8)
        binned.write(indices, self.bin, width, records, section[2:])
        return section[:-_SLACK]

    def max_bytes(self, r: int, d: int) -> int:
        """Return the most bytes of a section of at most r indices below d."""
        records = r + -(-d // self.bin) - 1  # one per index, and one per empty bin before the last index
        return 2 + -(-records * (self.bin.bit_length() + 1) // 8)

    @classmethod
    def decode(cls, section: Bytes, d: int, r: int, limits: DecodeLimits) -> Array:
        """One pass over the records."""
        from wirecodec.kernels.cpu.index import binned

        if section.size < 2:
            raise Malformed("binned-length", f"{section.size} bytes")
        size = int.from_bytes(section[:2].tobytes(), "little")
        if not 1 <= size <= _MOST:
            raise Malformed("binned-bin", f"bins of {size} elements; from 1 to {_MOST} are possible")
        records = section[2:]
        data = np.zeros(records.size + _SLACK, np.uint8)
        data[: records.size] = records
        indices = np.empty(r, np.uint32)
        at, last = binned.read(data, 8 * records.size, size, size.bit_length(), d, indices)
        if at < 0:
            raise _error_of(at)
        if not last:
            raise Malformed("binned-last", "the last element does not end its bin")
        if records.size != -(-at // 8):
            raise Malformed("binned-length", f"{records.size} bytes; the records take {-(-at // 8)}")
        if at % 8 and data[at // 8] >> (at % 8):
            raise Malformed("binned-padding", "a bit after the records is set")
        return indices


def _error_of(code: int) -> Malformed | Invalid:
    """The WireError of a kernel's negative answer."""
    from wirecodec.kernels.cpu.index import binned

    if code == binned.BAD_LENGTH:
        return Malformed("binned-length", "the records end before the last element")
    if code == binned.BAD_NUMBER:
        return Malformed("binned-number", "a number is greater than that of an empty bin")
    if code == binned.BAD_EMPTY:
        return Malformed("binned-empty", "an empty bin is within another, or is not ended")
    if code == binned.BAD_ORDER:
        return Invalid("index-order", "the numbers of a bin do not ascend")
    return Invalid("index-range", "an element is beyond the chunk")
