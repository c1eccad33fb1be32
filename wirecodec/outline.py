"""What a head says of its tensors, held against what the caller expects (formats/SPEC.md, section 7)."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wirecodec.arrays import DTYPES, dtype_named
from wirecodec.container import Head
from wirecodec.errors import EncodeError, SchemaMismatch
from wirecodec.extension import digits, sizes_of
from wirecodec.limits import Schema, TensorSchema

__all__ = ["Outline", "check_all", "check_count", "check_names", "check_only", "outlines_of"]


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


def outlines_of(head: Head, named: Iterable[str] | None) -> list[Outline]:
    """The tensors by key.

    Names the container does not give are those of ``named``, if they are as many, else ``digits``.
    """
    table, extension = head.table, head.extension
    keys, starts = np.unique(table["key"], return_index=True)
    dtypes = {int(k): DTYPES[int(table["dtype"][at] & 15) - 1] for k, at in zip(keys, starts, strict=True)}
    sizes = sizes_of(head.spans, extension.groups, extension.lengths)
    for group in extension.groups:
        dtypes.update(dict.fromkeys(group[:, 0].tolist(), dtypes[int(group[0, 0])]))
    names = extension.names
    if names is None:
        given = sorted(named, key=str.encode) if named is not None else []
        names = tuple(given) if len(given) == len(sizes) else digits(len(sizes))
    return [
        Outline(name, tuple(extension.shapes.get(key, (sizes[key],))), dtypes[key])
        for key, name in enumerate(names)
    ]


def check_count(head: Head) -> None:
    """SchemaMismatch where a container does not hold exactly one tensor."""
    spare = sum(len(group) - 1 for group in head.extension.groups)
    count = len(head.spans) + spare
    if count != 1:
        raise SchemaMismatch("schema-count", f"the container holds {count} tensors; decode_many reads them")


def check_only(outlines: list[Outline], schema: TensorSchema | None) -> None:
    """SchemaMismatch where the one tensor is not that of ``schema``."""
    if schema is not None:
        _matches(outlines, [schema])


def check_all(outlines: list[Outline], schema: Schema | None) -> None:
    """SchemaMismatch where the tensors are not those of ``schema``: names, then shapes, then types."""
    if schema is not None:
        check_names(outlines, schema)
        _matches(outlines, [schema[outline.name] for outline in outlines])


def check_names(outlines: list[Outline], named: Iterable[str]) -> None:
    """SchemaMismatch where the tensors are not called as ``named``."""
    found, wanted = {outline.name for outline in outlines}, set(named)
    if found != wanted:
        odd = sorted(found ^ wanted)
        raise SchemaMismatch("schema-names", f"tensors on one side only: {', '.join(map(repr, odd[:5]))}")


def _matches(outlines: list[Outline], schemas: list[TensorSchema]) -> None:
    try:
        wanted = [(_dimensions(shape), dtype_named(dtype)) for shape, dtype in schemas]
    except EncodeError as error:
        raise ValueError(f"schema: {error.reason}") from None
    for outline, (shape, _) in zip(outlines, wanted, strict=True):
        if outline.shape != shape:
            raise SchemaMismatch(
                "schema-shape", f"tensor {outline.name!r} has shape {outline.shape}, not {shape}"
            )
    for outline, (_, dtype) in zip(outlines, wanted, strict=True):
        if outline.dtype != dtype:
            raise SchemaMismatch("schema-dtype", f"tensor {outline.name!r} is {outline.dtype}, not {dtype}")


def _dimensions(shape: Sequence[int] | int) -> tuple[int, ...]:
    return tuple(map(operator.index, shape if isinstance(shape, Iterable) else (shape,)))
