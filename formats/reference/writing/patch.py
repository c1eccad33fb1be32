"""Patches of weights: writing (spec/patch.md). The caller chooses the codecs, and which tensors are fused.

``draft_patch`` returns the parts of a patch, so that a case can change one of them. ``PatchDraft.assemble``
makes a container of them.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from formats.reference.element_types import BY_NUMBER, IN_RECORD, ElementType, RecordType, write_types
from formats.reference.extension import BASE, FUSED, KNOWN_FLAGS, LATER, NAMES, SHAPES, TYPES
from formats.reference.floats import BY_NAME
from formats.reference.patch import (
    COMPLEX,
    WRAP,
    State,
    StateTensor,
    add_name,
    digest_touched,
    seal,
)
from formats.reference.value.codecs import STEPS, STEPS_ZSTD
from formats.reference.writing.assembly import Record, Row, assemble, write_extension_block
from formats.reference.writing.index.rice import Rice
from formats.reference.writing.protocols import IndexWriter, ValueWriter
from formats.reference.writing.records import write_fused, write_names, write_shape
from formats.reference.writing.value.raw import Raw
from formats.reference.writing.value.steps import Steps

FLAGS = {**KNOWN_FLAGS, **LATER, BASE: 1}
"""Flags of each type of record."""


class BasedWriter(Protocol):
    """Index or value codec that is told the old elements."""

    @property
    def id(self) -> int:
        """Id of the codec."""
        ...

    def write_section(self, found: Sequence[int], old: Sequence[int], width: int) -> bytes:
        """Write the section.

        Args:
            found: the indices of the present elements; or their new words.
            old: the old words of all elements; or of the present ones.
            width: bits of each.
        """
        ...


@dataclass(frozen=True)
class Positions:
    """Index codec that is told no base."""

    writer: IndexWriter

    @property
    def id(self) -> int:
        """Id of the codec."""
        return self.writer.id

    def write_section(self, found: Sequence[int], old: Sequence[int], width: int) -> bytes:
        """Write the indices."""
        return self.writer.write_section(found, len(old))


@dataclass(frozen=True)
class Elements:
    """Value codec that is told no base."""

    writer: ValueWriter

    @property
    def id(self) -> int:
        """Id of the codec."""
        return self.writer.id

    def write_section(self, found: Sequence[int], old: Sequence[int], width: int) -> bytes:
        """Write the new words."""
        size = width // 8
        packed = b"".join(word.to_bytes(size, "little") for word in found)
        return self.writer.write_section(packed, RecordType(0, "", size), 0)


RICE, RAW, STEPPED = Positions(Rice()), Elements(Raw()), Steps()


@dataclass(frozen=True)
class Coding:
    """Choice of the codecs of a key.

    Attributes:
        index, value: the codecs.
        more: indices of elements that are present although they do not change; None for all.
    """

    index: BasedWriter = RICE
    value: BasedWriter = STEPPED
    more: Sequence[int] | None = ()


WHOLE = Coding(value=RAW, more=None)


@dataclass
class PatchDraft:
    """Parts of a patch: its entries, and the bodies of the records by type."""

    rows: list[Row]
    records: dict[int, bytes] = field(default_factory=dict)

    def assemble(self) -> bytes:
        """Return the container."""
        records = [Record(kind, FLAGS[kind], body) for kind, body in sorted(self.records.items())]
        return assemble(self.rows, write_extension_block(records), minor=1)


def type_of(number: int) -> ElementType:
    """Return the element type of a number of SPEC section 2.2 or 3.6."""
    return BY_NUMBER.get(number) or {t.id: t for t in BY_NAME.values()}[number]


def words_of(tensor: StateTensor) -> list[int]:
    """Return the elements of a tensor as unsigned integers."""
    number, _, data = tensor
    size = type_of(number).itemsize
    return [int.from_bytes(data[at : at + size], "little") for at in range(0, len(data), size)]


def draft_patch(
    old: State,
    new: State,
    codings: Mapping[str, Coding] | None = None,
    *,
    groups: Sequence[Sequence[str]] = (),
    touched: bool = False,
    shaped: Sequence[str] = (),
) -> PatchDraft:
    """Write the parts of a patch.

    Args:
        old: the base.
        new: the target.
        codings: of tensors by name, or by the first name of a group. By default, a tensor of the same type
            and shape has Rice gaps and steps, and any other or complex one is whole. A tensor that has a
            coding is in the patch even if it does not change.
        groups: names of the tensors that share an entry, ascending.
        touched: whether the patch is for receivers that do not read the whole base.
        shaped: names of partial tensors whose shapes are in the record, too.
    """
    codings = codings or {}
    ascending = sorted(new, key=str.encode)
    names = [name for name in ascending if name in codings or old.get(name) != new[name]]
    keys = {name: key for key, name in enumerate(names)}
    fused = {name for group in groups for name in group}
    units = [*groups, *([name] for name in names if name not in fused)]
    rows, digests = [], dict[str, list[int]]()
    shapes = {keys[name]: new[name][1] for name in shaped}
    for unit in sorted(units, key=lambda unit: keys[unit[0]]):
        coding = codings.get(unit[0]) or _choose_coding(old, new, unit[0])
        row, present = _write_row(keys[unit[0]], unit, old, new, coding)
        rows.append(row)
        is_whole = len(unit) == 1 and row.r == row.d and row.value not in (STEPS, STEPS_ZSTD)
        shapes |= {row.key: new[unit[0]][1]} if is_whole else {}
        for name, indices in zip(unit, present, strict=True):
            own = indices if touched and not is_whole else None
            digests[name] = [_digest(state[name], own) if name in state else 0 for state in (old, new)]
    records = {BASE: _write_base(old, new, names, digests, touched=touched)}
    if names:
        records[NAMES] = write_names([name.encode() for name in names])
    if groups:
        sizes = [[(keys[name], math.prod(new[name][1])) for name in group] for group in groups]
        records[FUSED] = write_fused(sorted(sizes))
    if stated := [write_shape(key, shape) for key, shape in sorted(shapes.items()) if len(shape) != 1]:
        records[SHAPES] = b"".join(stated)
    if types := [(keys[name], new[name][0]) for name in names if new[name][0] in BY_NUMBER]:
        records[TYPES] = write_types(types)
    return PatchDraft(rows, records)


def _choose_coding(old: State, new: State, name: str) -> Coding:
    """Return the coding of a tensor by default."""
    is_complex = type_of(new[name][0]).name in COMPLEX
    return Coding() if _is_alike(old, new, name) and not is_complex else WHOLE


def _is_alike(old: State, new: State, name: str) -> bool:
    """Return whether a tensor has the same type and shape before and after."""
    return name in old and old[name][:2] == new[name][:2]


def _digest(tensor: StateTensor, indices: Sequence[int] | None) -> int:
    """Return the digest of a tensor, or of some elements of it."""
    if indices is None:
        return seal(tensor)
    words = words_of(tensor)
    return digest_touched(tensor, indices, [words[i] for i in indices])


def _write_base(
    old: State, new: State, names: Sequence[str], digests: Mapping[str, Sequence[int]], *, touched: bool
) -> bytes:
    """Return the body of the record ``base``."""
    removed = sorted((name for name in old if name not in new), key=str.encode)
    rest = [] if touched else [name for name in old if name in new and name not in names]
    total = sum(add_name(seal(old[name]), name) for name in rest) % WRAP
    body = struct.pack("<BBHIIIQ", 1, touched, 0, len(removed), len(rest), 0, total)
    body += b"".join(struct.pack("<QQ", *digests[name]) for name in names)
    body += b"".join(struct.pack("<Q", seal(old[name])) for name in removed)
    body += b"".join(struct.pack("<H", len(name.encode())) for name in removed)
    return body + b"".join(name.encode() for name in removed)


def _write_row(
    key: int, unit: Sequence[str], old: State, new: State, coding: Coding
) -> tuple[Row, list[list[int]]]:
    """Return the entry of a tensor or of a group, and the present elements of each tensor."""
    dtype = type_of(new[unit[0]][0])
    parts = [words_of(new[name]) for name in unit]
    after = [word for part in parts for word in part]
    is_based = all(_is_alike(old, new, name) for name in unit)
    before = [word for name in unit for word in words_of(old[name])] if is_based else after
    more = range(len(after)) if coding.more is None else coding.more
    present = [i for i, word in enumerate(after) if before[i] != word or i in more]
    d, r, width = len(after), len(present), 8 * dtype.itemsize
    number = IN_RECORD if isinstance(dtype, RecordType) else dtype.id
    row = Row(key, 0, d, r, number, coding.index.id, coding.value.id)
    if 0 < r < d:
        row.index_section = coding.index.write_section(present, before, width)
    if r:
        words = [after[i] for i in present]
        row.value_section = coding.value.write_section(words, [before[i] for i in present], width)
    found, start = [], 0
    for part in parts:
        found.append([i - start for i in present if start <= i < start + len(part)])
        start += len(part)
    return row, found
