"""What a head says of its tensors, held against what the caller expects (formats/SPEC.md, section 7).

Nothing is made of all tensors at once: there may be many, and what follows may be refused.
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

from wirecodec.arrays import DTYPES, Array, dtype_named, integers
from wirecodec.container.extension import digits
from wirecodec.container.header import Head
from wirecodec.errors import EncodeError, SchemaMismatch
from wirecodec.limits import Schema, TensorSchema

__all__ = [
    "Outline",
    "Outlines",
    "check_all",
    "check_count",
    "check_names",
    "check_only",
    "dtypes_of",
]

_NO_MORE: tuple[int, tuple[int, ...]] = -1, ()


@dataclass(frozen=True, eq=False, slots=True)
class Outline:
    """What the head says of a tensor."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def size(self) -> int:
        """Its elements."""
        return math.prod(self.shape)


class Outlines:
    """The outlines of a container's tensors by key, made anew each time they are walked through.

    Names the container does not give are those of ``named``, if they are as many, else ``digits``.
    """

    def __init__(self, head: Head, named: Iterable[str] | None) -> None:
        self._block = head.block
        self._sizes = head.block.sizes(head.spans)
        self._dtypes = dtypes_of(head)
        given = sorted(named) if named is not None and not head.block.is_named else []
        self._given = given if len(given) == self._sizes.size else []  # as their UTF-8 bytes ascend

    def __len__(self) -> int:
        return int(self._sizes.size)

    def names(self) -> Iterator[str]:
        """Ascending."""
        if self._block.is_named:
            return self._block.names()
        return iter(self._given) if self._given else digits(len(self))

    def __iter__(self) -> Iterator[Outline]:
        shapes = self._block.shapes()
        place, dims = next(shapes, _NO_MORE)
        columns = zip(self.names(), integers(self._sizes), integers(self._dtypes), strict=True)
        for key, (name, size, dtype) in enumerate(columns):
            shape: tuple[int, ...] = (size,)
            if key == place:
                shape = dims
                place, dims = next(shapes, _NO_MORE)
            yield Outline(name, shape, DTYPES[dtype])


def dtypes_of(head: Head) -> Array:
    """Every tensor's element type, (n,) u8 by key, as its place in ``DTYPES``; fused members share one."""
    dtypes = np.empty(head.block.count(head.spans), np.uint8)
    dtypes[head.spans.keys] = (head.table["dtype"][head.spans.starts] & 15) - 1
    for group in head.block.groups():
        dtypes[group[:, 0]] = dtypes[group[0, 0]]
    return dtypes


def check_count(head: Head) -> None:
    """SchemaMismatch where a container does not hold exactly one tensor."""
    count = head.block.count(head.spans)
    if count != 1:
        raise SchemaMismatch("schema-count", f"the container holds {count} tensors; decode_many reads them")


def check_only(outlines: Outlines, schema: TensorSchema | None) -> None:
    """SchemaMismatch where the one tensor is not that of ``schema``."""
    if schema is not None:
        _matches((outline, schema) for outline in outlines)


def check_all(outlines: Outlines, schema: Schema | None) -> None:
    """SchemaMismatch where the tensors are not those of ``schema``: names, then shapes, then types."""
    if schema is not None:
        check_names(outlines, schema)
        _matches((outline, schema[outline.name]) for outline in outlines)


def check_names(outlines: Outlines, named: Collection[str]) -> None:
    """SchemaMismatch where the tensors are not called as ``named``."""
    wanted = sorted(named)
    if len(wanted) == len(outlines) and all(map(eq, outlines.names(), wanted)):
        return
    alike = groupby(merge(outlines.names(), wanted))
    odd = islice((name for name, both in alike if len(list(both)) == 1), 5)
    raise SchemaMismatch("schema-names", f"tensors on one side only: {', '.join(map(repr, odd))}")


def _matches(pairs: Iterable[tuple[Outline, TensorSchema]]) -> None:
    """A schema that makes no sense comes first, then shapes, then types."""
    wrong: dict[str, str] = {}
    try:
        for outline, (shape, dtype) in pairs:
            dims, kind = _dimensions(shape), dtype_named(dtype)
            if outline.shape != dims:
                what = f"tensor {outline.name!r} has shape {outline.shape}, not {dims}"
                wrong.setdefault("schema-shape", what)
            if outline.dtype != kind:
                wrong.setdefault("schema-dtype", f"tensor {outline.name!r} is {outline.dtype}, not {kind}")
    except EncodeError as error:
        raise ValueError(f"schema: {error.reason}") from None
    for code in ("schema-shape", "schema-dtype"):
        if code in wrong:
            raise SchemaMismatch(code, wrong[code])


def _dimensions(shape: Sequence[int] | int) -> tuple[int, ...]:
    return tuple(map(operator.index, shape if isinstance(shape, Iterable) else (shape,)))
