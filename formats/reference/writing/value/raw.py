"""Value codecs 1 to 3, raw, raw-float16, raw-bfloat16: writing (spec/value/raw.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from formats.reference.element_types import ElementType
from formats.reference.floats import BY_NAME, Format, convert, pack_elements, unpack_elements


@dataclass(frozen=True)
class Raw:
    """Value codecs 1 to 3: the element type, or float16 or bfloat16."""

    dtype: Literal["float16", "bfloat16"] | None = None

    @property
    def id(self) -> int:
        """Id of the codec: 1, 2 or 3."""
        return {None: 1, "float16": 2, "bfloat16": 3}[self.dtype]

    @property
    def scheme(self) -> str:
        """The codec in the syntax of schemes."""
        return "raw" if self.dtype is None else f"raw(dtype={self.dtype})"

    def write_section(self, values: bytes, dtype: ElementType, stream: int) -> bytes:
        """Write the elements, rounded if they are narrowed."""
        if self.dtype is None:
            return values
        if not isinstance(dtype, Format):
            raise ValueError(f"{dtype.name} cannot be narrowed")
        return write_raw(values, dtype, BY_NAME[self.dtype])


def write_raw(values: bytes, dtype: Format, narrow: Format | None = None) -> bytes:
    """Write the elements, or the elements narrowed to 16 bits.

    Args:
        values: the elements' little-endian bytes.
        dtype: their format.
        narrow: the format of 16 bits, or None to keep theirs.

    Raises:
        ValueError: if a finite element would become infinite.
    """
    if narrow is None:
        return values
    out = []
    for i, bits in enumerate(unpack_elements(values, dtype.itemsize)):
        half = convert(bits, dtype, narrow)
        if half & (narrow.sign - 1) == narrow.infinity and bits & (dtype.sign - 1) < dtype.infinity:
            raise ValueError(f"value {i} is finite but becomes infinite in {narrow.name}")
        out.append(half)
    return pack_elements(out, narrow.itemsize)
