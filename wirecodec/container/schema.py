"""Comparison of a container's tensors with the caller's schema (formats/SPEC.md, section 7).

A container may have very many tensors, and its payload is checked later. So tensor specs are made one at a
time.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import groupby, islice
from operator import eq
from typing import Any

import numpy as np

from wirecodec.arrays import Array, integers
from wirecodec.container.annotations import compute_digest
from wirecodec.container.extension_writer import digits
from wirecodec.container.reader import ContainerHeader
from wirecodec.container.writer import TABLE
from wirecodec.element_types import DTYPES, ELEMENT_DTYPES, RECORD_DTYPES, element_dtype_named, name_of
from wirecodec.errors import EncodeError, SchemaMismatch, Unsupported
from wirecodec.limits import Schema, TensorSchema

_DTYPE = list(TABLE.fields or ()).index("dtype")
MAX_OBJECTS = 64
"""Entries up to which all chunks may be objects; those of more take memory that the limits do not count."""

_NO_MORE: tuple[int, tuple[int, ...]] = -1, ()


@dataclass(frozen=True, eq=False, slots=True)
class TensorSpec:
    """Name, shape and dtype of a tensor, from the header."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


class TensorSpecs:
    """Iterable of the specs of a container's tensors in the order of their keys.

    If the container has no names, those of ``named`` are used if their number matches, else ``digits``.

    Attributes:
        sizes: (n,) i64, elements of each tensor.
        digest: that of the schema, or no bytes.
    """

    def __init__(self, header: ContainerHeader, named: Iterable[str] | None) -> None:
        self._extension = header.extension
        self.digest = header.extension.digest
        self.sizes = header.extension.sizes(header.spans)
        self._dtypes = dtypes_of(header)
        given = sorted(named) if named is not None and not header.extension.is_named else []
        self._given = given if len(given) == self.sizes.size else []  # in the order of their UTF-8 bytes

    def __len__(self) -> int:
        return int(self.sizes.size)

    def names(self) -> Iterator[str]:
        """Yield the names, ascending."""
        if self._extension.is_named:
            return self._extension.names()
        return iter(self._given) if self._given else digits(len(self))

    def __iter__(self) -> Iterator[TensorSpec]:
        shapes = self._extension.shapes()
        place, dims = next(shapes, _NO_MORE)
        columns = zip(self.names(), integers(self.sizes), integers(self._dtypes), strict=True)
        for key, (name, size, dtype) in enumerate(columns):
            shape: tuple[int, ...] = (size,)
            if key == place:
                shape = dims
                place, dims = next(shapes, _NO_MORE)
            yield TensorSpec(name, shape, ELEMENT_DTYPES[dtype])


def plain_spec(header: ContainerHeader) -> TensorSpec | None:
    """Return the spec of the only tensor of a container; None if it has many chunks or a transform.

    It is that of ``TensorSpecs``, which takes longer for one tensor.
    """
    extension, spans = header.extension, header.spans
    one = spans.keys.size == 1 and header.table.size <= MAX_OBJECTS
    if not one or header.types or extension.is_fused or extension.is_transformed:
        return None
    name = next(extension.names()) if extension.is_named else "0"
    dims = next(extension.shapes(), None)
    shape = (spans.sizes.item(),) if dims is None else dims[1]
    return TensorSpec(name, shape, DTYPES[(header.table.item(0)[_DTYPE] & 15) - 1])


def dtypes_of(header: ContainerHeader) -> Array:
    """Return the element type of each tensor, (n,) u8 by key, as a position in ``ELEMENT_DTYPES``."""
    dtypes = np.empty(header.extension.count(header.spans), np.uint8)
    dtypes[header.spans.keys] = (header.table["dtype"][header.spans.starts] & 15) - 1
    for members in header.extension.sharing():
        keys = members[:, 0].astype(np.int64)
        dtypes[keys] = dtypes[keys[0]]
    for key, number in header.types.items():
        dtypes[key] = ELEMENT_DTYPES.index(RECORD_DTYPES[number])
    return dtypes


def require_floats(header: ContainerHeader, what: str) -> None:
    """Raise Unsupported, with what cannot be done, if a tensor is not of the four floats."""
    for key, number in header.types.items():
        raise Unsupported("dtype", f"{what}; tensor {key} is {name_of(RECORD_DTYPES[number])}")


def check_count(header: ContainerHeader) -> None:
    """Raise SchemaMismatch unless the container has exactly one tensor."""
    count = header.extension.count(header.spans)
    if count != 1:
        raise SchemaMismatch("schema-count", f"the container has {count} tensors; decode_many reads them")


def check_only(specs: Iterable[TensorSpec], schema: TensorSchema | None) -> None:
    """Raise SchemaMismatch unless the one tensor matches the schema."""
    if schema is not None:
        _matches((spec, schema) for spec in specs)


def check_all(specs: TensorSpecs, schema: Schema | None) -> None:
    """Raise SchemaMismatch unless names, then shapes, then dtypes match the schema."""
    if schema is not None:
        check_names(specs, schema)
        _matches(zip(specs, map(schema.__getitem__, specs.names()), strict=True))
        _check_digest(specs)


def _check_digest(specs: TensorSpecs) -> None:
    """Raise SchemaMismatch if the digest is not that of these specs, which match the schema otherwise."""
    digest = specs.digest
    if digest and digest != compute_digest((spec.name, spec.shape, spec.dtype) for spec in specs):
        raise SchemaMismatch("schema-digest", "the tensors' names are not the schema's, by their digest")


def check_names(specs: TensorSpecs, named: Collection[str]) -> None:
    """Raise SchemaMismatch unless the tensors have these names."""
    wanted = sorted(named)
    if len(wanted) == len(specs) and all(map(eq, specs.names(), wanted)):
        return
    alike = groupby(merge(specs.names(), wanted))
    raise SchemaMismatch(
        "schema-names",
        "tensors of one side only: "
        + ", ".join(islice((repr(name) for name, both in alike if len(list(both)) == 1), 5)),
    )


def _matches(pairs: Iterable[tuple[TensorSpec, TensorSchema]]) -> None:
    """Check shapes and dtypes: an invalid schema is reported first, then shapes, then dtypes."""
    wrong: dict[str, str] = {}
    try:
        for spec, (shape, dtype) in pairs:
            is_same = isinstance(dtype, np.dtype) and dtype == spec.dtype
            dims, kind = _dimensions(shape), spec.dtype if is_same else element_dtype_named(dtype)
            if spec.shape != dims:
                what = f"tensor {spec.name!r} has shape {spec.shape}; the schema has {dims}"
                wrong.setdefault("schema-shape", what)
            if spec.dtype != kind:
                what = f"tensor {spec.name!r} is {name_of(spec.dtype)}; the schema has {name_of(kind)}"
                wrong.setdefault("schema-dtype", what)
    except EncodeError as error:
        raise ValueError(f"schema: {error.reason}") from None
    for code in ("schema-shape", "schema-dtype"):
        if code in wrong:
            raise SchemaMismatch(code, wrong[code])


def _dimensions(shape: Sequence[int] | int) -> tuple[int, ...]:
    """Convert a shape or one dimension to a tuple."""
    return tuple(map(operator.index, shape if isinstance(shape, Iterable) else (shape,)))
