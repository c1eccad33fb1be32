"""What the vectors of many codecs are made of: tensors of ones, and containers of a single section."""

from __future__ import annotations

from collections.abc import Sequence

from formats.reference import Row, Tensor, assemble
from formats.reference.floats import FLOAT16
from formats.reference.writing.value.qsgd import write_qsgd

__all__ = ["gapped", "index_row", "of_index", "of_values", "ones"]


def ones(d: int, indices: Sequence[int]) -> Tensor:
    """A float16 tensor, all of its values 1.

    Args:
        d: its size.
        indices: the elements that are present.
    """
    return Tensor("0", "float16", (d,), indices, b"\x00\x3c" * len(indices))


def gapped(gaps: Sequence[int]) -> Tensor:
    """The same with these gaps before its elements, and nothing after the last."""
    indices = []
    at = 0
    for gap in gaps:
        indices.append(at + gap)
        at += gap + 1
    return ones(at + 1, indices)


def index_row(codec: int, r: int, d: int, section: bytes, key: int = 0) -> Row:
    """An entry of this index section and of fitting values: qsgd zeros of float16, small for any r."""
    values = write_qsgd(bytes(2 * r), FLOAT16, bits=2, bucket=2**24, norm=0, stream=0)
    return Row(key, 0, d, r, FLOAT16.id, codec, 4, section, values)


def of_index(codec: int, r: int, d: int, section: bytes) -> bytes:
    """A container of such an entry."""
    return assemble([index_row(codec, r, d, section)])


def of_values(codec: int, dtype: int, r: int, section: bytes) -> bytes:
    """A container of all r elements of a tensor, with this value section."""
    return assemble([Row(0, 0, r, r, dtype, 1, codec, value_section=section)])
