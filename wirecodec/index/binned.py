"""``binned``: elements by their number within bins of T (formats/spec/index/binned.md).

After AdaComp (Chen et al. 2018), which takes 8 or 16 bits per element, the value's sign included.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.errors import EncodeError, Invalid, Malformed
from wirecodec.index.base import IndexCodec
from wirecodec.limits import DecodeLimits
from wirecodec.validation import as_integer, set_fields

_MAX_BIN = 16_383
_WORD_BYTES = 8
"""Bytes after the records, so that kernels can load and store whole words."""


@dataclass(frozen=True)
class Binned(IndexCodec):
    """Binned index codec: positions within bins of equal size.

    A section takes 2 bytes, and ⌊log2 bin⌋ + 2 bits per index and per empty bin: 7 bits for bins of 32 to 63
    elements. It suits the indices that ``AdaComp`` selects, a few per bin.

    Source: formats/spec/index/binned.md; AdaComp (Chen et al. 2018).

    Args:
        bin: elements per bin, 1 to 16,383.

    Raises:
        EncodeError: ``bin`` is out of range.
        Malformed: in decoding, the records are cut, or not in the form that a writer produces.
        Invalid: in decoding, the indices do not ascend, or one is not below d.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> wc.codecs.Binned(bin=50).encode(np.arange(0, 40_000, 50, dtype=np.uint32), 40_000, 0).size
        702
    """

    name: ClassVar[str] = "binned"
    wire_id: ClassVar[int] = 8
    bin: int = 50

    def __post_init__(self) -> None:
        set_fields(self, bin=as_integer(self.bin, "binned: bin"))
        if not 1 <= self.bin <= _MAX_BIN:
            raise EncodeError(f"binned: bin is {self.bin}; it must be 1 to {_MAX_BIN}")

    def encode(self, indices: Array, d: int, stream: int) -> Bytes:
        """Encode indices as a section in two passes, count and write; see ``IndexCodec.encode``."""
        from wirecodec.kernels.cpu.index import binned

        width = self.bin.bit_length()
        records = int(binned.count_records(indices, self.bin))
        section = np.empty(2 + -(-records * (width + 1) // 8) + _WORD_BYTES, np.uint8)
        section[:2] = np.array([self.bin], "<u2").view(np.uint8)
        binned.write(indices, self.bin, width, records, section[2:])
        return section[:-_WORD_BYTES]

    def max_bytes(self, r: int, d: int) -> int:
        """Return the maximum number of bytes of a section of at most r indices below d."""
        records = r + -(-d // self.bin) - 1  # one per index, and one per empty bin before the last index
        return 2 + -(-records * (self.bin.bit_length() + 1) // 8)

    @classmethod
    def decode(cls, section: Bytes, d: int, r: int, limits: DecodeLimits) -> Array:
        """Decode a copy of a section in one pass; see ``IndexCodec.decode``."""
        from wirecodec.kernels.cpu.index import binned

        if section.size < 2:
            raise Malformed("binned-length", f"{section.size} bytes; the header takes 2")
        size = int.from_bytes(section[:2].tobytes(), "little")
        if not 1 <= size <= _MAX_BIN:
            raise Malformed("binned-bin", f"the bin size is {size}; it must be 1 to {_MAX_BIN}")
        records = section[2:]
        data = np.zeros(records.size + _WORD_BYTES, np.uint8)
        data[: records.size] = records
        indices = np.empty(r, np.uint32)
        at, last = binned.read(data, 8 * records.size, size, size.bit_length(), d, indices)
        if at < 0:
            raise _make_error(at)
        if not last:
            raise Malformed("binned-last", "the last record does not end its bin")
        if records.size != -(-at // 8):
            raise Malformed("binned-length", f"{records.size} bytes; the records take {-(-at // 8)}")
        if at % 8 and data[at // 8] >> (at % 8):
            raise Malformed("binned-padding", "a bit after the records is set")
        return indices


def _make_error(code: int) -> Malformed | Invalid:
    """Return the WireError of a kernel's error code."""
    from wirecodec.kernels.cpu.index import binned

    if code == binned.BAD_LENGTH:
        return Malformed("binned-length", "the records end before the last element")
    if code == binned.BAD_NUMBER:
        return Malformed("binned-number", "a number exceeds the bin size")
    if code == binned.BAD_EMPTY:
        return Malformed(
            "binned-empty", "the record of an empty bin is inside another bin, or does not end one"
        )
    if code == binned.BAD_ORDER:
        return Invalid("index-order", "the numbers in a bin do not ascend")
    return Invalid("index-range", "an element exceeds the chunk")
