"""Reader of containers for programs without NumPy: tensors as lists of Python numbers.

    from wirecodec_reader import read
    weight = read(data)["weight"]
    weight.shape, weight.indices, weight.values

It makes all checks of SPEC section 7, and is slow: some microseconds per element. ``pip install
./formats/reader`` installs it as the module ``wirecodec_reader``, which needs Python's standard library only.
Values of ``zstd`` need Python 3.14, or the package ``zstandard``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from formats.reference.annotations import ZERO
from formats.reference.container import decode
from formats.reference.element_types import TYPE_NAMED
from formats.reference.errors import (
    ChecksumMismatch,
    Invalid,
    LimitExceeded,
    Malformed,
    SchemaMismatch,
    Truncated,
    Unsupported,
    WireError,
)
from formats.reference.limits import DEFAULT_LIMITS, Limits, Schema
from formats.reference.numbers import Number, to_numbers
from formats.zstd import find_decompressor

__all__ = [
    "DEFAULT_LIMITS",
    "ChecksumMismatch",
    "Invalid",
    "LimitExceeded",
    "Limits",
    "Malformed",
    "Numbers",
    "Schema",
    "SchemaMismatch",
    "Truncated",
    "Unsupported",
    "WireError",
    "read",
    "read_meta",
    "read_tag",
]


@dataclass(frozen=True)
class Numbers:
    """Sparse tensor: its elements that are present; all others have zero bits, or are unchanged in a patch.

    Attributes:
        dtype: the element type: "float32", "float16", "bfloat16", "float64", or one of SPEC section 3.6.
        shape: the dimensions.
        indices: row-major numbers of the elements, ascending.
        values: one for each of them: float, int, bool or complex, as the element type is; (first, second) of
            "float4_e2m1fn_x2".
        absent: "zero", or "unchanged" for a patch of a tensor that the caller has.
    """

    dtype: str
    shape: tuple[int, ...]
    indices: Sequence[int]
    values: list[Number]
    absent: str = ZERO

    def to_list(self) -> list[Number]:
        """Return all elements in row-major order.

        Raises:
            ValueError: the tensor is a patch, whose other elements are not known.
        """
        if self.absent != ZERO:
            raise ValueError("the tensor is a patch: its other elements are unchanged, not 0")
        size = 1
        for n in self.shape:
            size *= n
        dense = to_numbers(bytes(TYPE_NAMED[self.dtype].itemsize), self.dtype) * size
        for index, value in zip(self.indices, self.values, strict=True):
            dense[index] = value
        return dense


def read(data: bytes, limits: Limits = DEFAULT_LIMITS, schema: Schema | None = None) -> dict[str, Numbers]:
    """Read the tensors of one container.

    Args:
        data: the container; its last byte is the last one of the data.
        limits: the highest cost that is accepted.
        schema: {name: (shape, element type)} of all expected tensors, or None to accept any.

    Returns:
        {name: tensor}. Tensors without names have the numbers of their keys: "0", "1", …

    Raises:
        WireError: the bytes are not a valid container, exceed a limit, or do not match the schema.

    Examples:
        >>> read(b"junk")
        Traceback (most recent call last):
        formats.reference.errors.Truncated: prefix: 4 bytes; the prefix has 24 at byte 4
    """
    decoded = decode(bytes(data), limits, schema, zstd=find_decompressor())
    tensors = {}
    for tensor in decoded.tensors:
        values = to_numbers(tensor.values, tensor.dtype)
        tensors[tensor.name] = Numbers(tensor.dtype, tensor.shape, tensor.indices, values, tensor.absent)
    return tensors


def read_meta(data: bytes, limits: Limits = DEFAULT_LIMITS) -> dict[str, str]:
    """Return the container's metadata, {name: text}; arguments and errors as ``read``."""
    return decode(bytes(data), limits, zstd=find_decompressor()).meta.container


def read_tag(data: bytes, limits: Limits = DEFAULT_LIMITS) -> bytes:
    """Return the tag of a container, b"" if it has none; arguments and errors as ``read``."""
    return decode(bytes(data), limits, zstd=find_decompressor()).tag
