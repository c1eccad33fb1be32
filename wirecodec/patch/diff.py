"""Writing of patches: the changes between two states, the entries that hold them, and the container.

states -> tensors that changed, and their positions -> entries, each by the smallest of some codings -> blob
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.container import extension_writer as ext
from wirecodec.container.based import BASE, BY_CLASS, STEPS, STEPS_ZSTD, BaseRecord
from wirecodec.container.writer import CHUNK, Entry, pack
from wirecodec.element_types import RECORD_NUMBERS
from wirecodec.errors import EncodeError
from wirecodec.index.huffman import Huffman
from wirecodec.index.raw import RawIndex
from wirecodec.index.rice import Rice
from wirecodec.limits import DEFAULT_LIMITS
from wirecodec.patch import digest, positions, steps
from wirecodec.patch.bits import Bits
from wirecodec.patch.compare import Change, Difference, Progress, digest_present, fill, ignore
from wirecodec.patch.states import join, read_state
from wirecodec.patch.threads import map_in_threads
from wirecodec.value.zstd import Zstd

SHARED = 2**22
"""Elements up to which tensors share an entry."""
BASES = ("read", "unread", "slices")
"""Names of what the readers of a patch read of the old elements."""
_DENSE = 0.2
"""Share of changed elements from which codings of all elements are tried, too."""
_PROBED = 2**12
"""Elements that change, of which the old bits tell whether a tensor is so regular that all of it is short."""
_SHORT = 512
"""Bytes of few changes for which no other coding is tried, as much as a table of differences may take."""
_NOTHING = np.empty(0, np.uint8)


def diff(old: Mapping[str, Any], new: Mapping[str, Any], *, base: str = "read", level: int = 3) -> Bytes:
    """Write a lossless patch that makes one state of another.

    Elements are compared by their bits: -0.0, the bits of NaN, and a value that becomes 0 are changes like
    all others. A tensor that is new, or has another shape or type, is in the patch whole. A step of
    reinforcement learning that changes 1.4 % of bfloat16 weights takes about 6.6 bits per changed element, of
    which the bound given the old exponents is 6.5. Source: formats/spec/patch.md.

    Args:
        old: {name: tensor} before, or a torch module. NumPy arrays (with ml_dtypes), torch tensors on any
            device, CuPy and JAX arrays, of any shape and of any type that containers carry.
        new: the same of after.
        base: "read" for a patch whose reader reads all old elements; "unread" for one that takes about 2.5
            bits more per changed element, and whose reader looks at changed elements alone; "slices" for one
            that takes .4 bits more than that, and whose readers may have slices of the tensors.
        level: of Zstandard, 1 to 19, for tensors that are dense or whole.

    Returns:
        A container, a uint8 array. ``apply`` reads it; ``decode`` does not.

    Raises:
        EncodeError: a tensor cannot be carried, or an argument is out of range.
        TypeError: a state is neither a mapping nor a module.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> old = {"w": np.arange(4, dtype="f4")}
        >>> patch = wc.diff(old, {"w": np.array([0, 1, -0.0, 3], "f4")})
        >>> wc.apply(patch, old)["w"]
        array([ 0.,  1., -0.,  3.], dtype=float32)
    """
    touched = check_base(base) != "read"
    found, writer = Difference(), _Writer(_Coding(touched, base == "slices", Zstd(level=level)))
    for _ in fill(found, read_state(old), read_state(new), touched=touched):
        writer.add(found.changes)
        found.changes.clear()
        writer.encode()
    return writer.finish(found)


def check_base(base: str) -> str:
    """Return the name of what the readers of a patch read of the old elements. Raises EncodeError."""
    if base not in BASES:
        raise EncodeError(f"base is {base!r}; it must be one of {BASES}")
    return base


def write(
    found: Difference, *, touched: bool, level: int, for_slices: bool = False, progress: Progress = ignore
) -> Bytes:
    """Write a patch of changes.

    Args:
        found: of ``compare``.
        touched: whether readers of the patch look at changed elements alone; as for ``compare``.
        level: of Zstandard.
        for_slices: whether readers of a touched patch may have slices of the tensors.
        progress: is called with the completed fraction.
    """
    writer = _Writer(_Coding(touched, for_slices, Zstd(level=level)))
    writer.add(found.changes)
    return writer.finish(found, progress)


@dataclass(frozen=True)
class _Coding:
    """Choices of a patch.

    Attributes:
        touched: whether the reader looks at changed elements alone.
        for_slices: whether it may lack some of these, so that the values have one context.
        zstd: of tensors that are dense or whole.
    """

    touched: bool
    for_slices: bool
    zstd: Zstd


@dataclass(frozen=True)
class _Tensor:
    """Tensor of a patch.

    Attributes:
        name, dtype, shape: of the tensor.
        size: its elements.
        digests: of the old and of the new one.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    size: int
    digests: tuple[int, int]


@dataclass(eq=False)
class _Unit:
    """Changes that share an entry, or those of one tensor in chunks.

    Attributes:
        keys: of the tensors.
        changes: of each.
        size: elements of all tensors.
    """

    keys: list[int] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    size: int = 0

    def add(self, key: int, change: Change) -> None:
        """Add the change of a tensor."""
        self.keys.append(key)
        self.changes.append(change)
        self.size += change.new.bits.size


@dataclass(eq=False)
class _Writer:
    """Writing of a patch: changes become entries, and are let go.

    Attributes:
        coding: of its entries.
    """

    coding: _Coding
    _tensors: list[_Tensor] = field(default_factory=list)
    _entries: list[Entry] = field(default_factory=list)
    _shared: list[list[int]] = field(default_factory=list)
    _open: dict[np.dtype[Any], _Unit] = field(default_factory=dict)
    _full: list[_Unit] = field(default_factory=list)

    def add(self, changes: Iterable[Change]) -> None:
        """Divide changes among units."""
        for key, change in enumerate(changes, len(self._tensors)):
            new = change.new
            size = int(new.bits.size)
            self._tensors.append(_Tensor(change.name, new.dtype, new.shape, size, change.digests))
            if change.old is None or size > SHARED // 2:
                self._full.append(_Unit())
                self._full[-1].add(key, change)
                continue
            unit = self._open.setdefault(new.dtype, _Unit())
            if unit.size + size > SHARED:
                self._full.append(unit)
                unit = self._open[new.dtype] = _Unit()
            unit.add(key, change)

    def encode(self, progress: Progress = ignore) -> None:
        """Write the entries of the units that are full."""
        units, self._full = self._full, []
        found = map_in_threads(lambda unit: _write_unit(unit.keys, unit.changes, self.coding), units)
        for number, (unit, (entries, digests)) in enumerate(zip(units, found, strict=True), 1):
            self._entries += entries
            if len(unit.keys) > 1:
                self._shared.append(unit.keys)
            for key, pair in zip(unit.keys, digests, strict=bool(digests)):
                self._tensors[key] = replace(self._tensors[key], digests=pair)
            progress(number / len(units))

    def finish(self, found: Difference, progress: Progress = ignore) -> Bytes:
        """Write the other entries, and the container.

        Args:
            found: without its changes.
            progress: is called with the completed fraction.
        """
        self._full += self._open.values()
        self.encode(progress)
        tensors, shared = self._tensors, sorted(self._shared)
        digests = np.array([x.digests for x in tensors], np.uint64).reshape(-1, 2)
        record = BaseRecord(digests, self.coding.touched, found.removed, found.unchanged, found.rest)
        groups = [np.array([(key, tensors[key].size) for key in keys]) for keys in shared]
        based = {entry.key for entry in self._entries if entry.value != Zstd.wire_id}.union(*shared)
        alone = [key for key in range(len(tensors)) if key not in based]
        shapes = {key: tensors[key].shape for key in alone if len(tensors[key].shape) != 1}
        types = {key: RECORD_NUMBERS[x.dtype] for key, x in enumerate(tensors) if x.dtype in RECORD_NUMBERS}
        names = tuple(x.name for x in tensors)
        extension = ext.Extension(names or None, shapes, tuple(groups), types=types)
        ordered, records = sorted(self._entries, key=lambda e: (e.key, e.base)), {BASE: record.write()}
        blob, _ = pack(ordered, ext.write(extension, records))
        least = -(-sum(tensors[key].size for key in alone) // DEFAULT_LIMITS.max_expansion)
        if blob.nbytes < least:  # constant tensors; readers would take the container for a bomb
            blob, _ = pack(ordered, ext.write(replace(extension, tag=bytes(least - blob.nbytes)), records))
        return blob


def _write_unit(
    keys: Sequence[int], own: Sequence[Change], coding: _Coding
) -> tuple[list[Entry], list[tuple[int, int]]]:
    """Write the entries of tensors that share one, or of one tensor in chunks.

    Returns the entries, and the digests of each tensor if they are others than those of the changes.
    """
    entries = _write_entries(keys, own, coding)
    if not coding.touched or own[0].old is None or all(e.r < e.d for e in entries):
        return entries, []
    if len(own) > 1:
        return entries, [digest_present(each, [(0, int(each.new.bits.size), True)]) for each in own]
    if all(e.r == e.d and e.value not in (STEPS, STEPS_ZSTD) for e in entries):
        old, new = own[0].old, own[0].new
        return entries, [(digest.digest_tensor(old), digest.digest_tensor(new))]
    return entries, [digest_present(own[0], [(e.base, e.base + e.d, e.r == e.d) for e in entries])]


def _write_entries(keys: Sequence[int], own: Sequence[Change], coding: _Coding) -> list[Entry]:
    """Write the entries of ``_write_unit``."""
    first = own[0]
    if first.old is None:
        data = first.new.copy_to_host().view(first.new.dtype)
        cuts = range(0, max(data.size, 1), CHUNK)
        return [_write_whole(keys[0], at, data[at : at + CHUNK], coding.zstd) for at in cuts]
    if len(own) > 1:
        starts = np.cumsum([0, *(c.new.bits.size for c in own[:-1])]).tolist()
        parts = zip(own, starts, strict=True)
        indices = np.concatenate([c.indices + np.uint32(start) for c, start in parts])
        olds, values = (np.concatenate(x) for x in zip(*((c.olds, c.values) for c in own), strict=True))
        with join([c.old for c in own if c.old is not None]) as base:
            shared = base, indices, olds, values, first
            return [_write_entry(keys[0], 0, *shared, coding)]
    entries = []
    for at in range(0, first.new.bits.size, CHUNK):
        stop = min(at + CHUNK, first.new.bits.size)
        here = slice(*np.searchsorted(first.indices, np.array([at, stop], np.uint32)))
        indices = first.indices[here] - np.uint32(at)
        own_part = first.old.part(at, stop), indices, first.olds[here], first.values[here], first
        entries.append(_write_entry(keys[0], at, *own_part, coding))
    return entries


def _has_runs(indices: Array, d: int) -> bool:
    """Return whether neighbours of changes change much more often than others, as whole rows do."""
    neighbours = np.count_nonzero(indices[1:] - indices[:-1] == 1)
    return bool(neighbours > indices.size * (0.2 + 2 * indices.size / d))


def _estimate_whole(olds: Array, d: int, dtype: np.dtype[Any], zstd: Zstd) -> float:
    """Return the bytes that all d elements may take, from the old ones (r,) of those that change."""
    part = olds[:_PROBED]
    return zstd.encode(part.view(dtype), 0).size * d / part.size


def _write_whole(key: int, at: int, data: Array, zstd: Zstd) -> Entry:
    """Write an entry with all elements."""
    section = zstd.encode(data, 0) if data.size else _NOTHING
    return Entry(
        key, at, data.size, data.size, data.dtype, 0, RawIndex.wire_id, Zstd.wire_id, _NOTHING, section
    )


def _write_entry(
    key: int,
    at: int,
    base: Bits,
    indices: Array,
    olds: Array,
    values: Array,
    of: Change,
    coding: _Coding,
) -> Entry:
    """Write an entry of changed elements, by the smallest coding.

    Args:
        key, at: the entry's key, and its first element.
        base: (d,) unsigned.
        indices: (r,) u32.
        olds, values: (r,) unsigned.
        of: the tensor, or one of those that share the entry.
        coding: of the patch.
    """
    d, r, kind = int(base.bits.size), indices.size, of.kind
    dtype = of.new.dtype
    shape = (dtype, 0)
    if r == 0:
        return Entry(key, at, d, 0, *shape, Rice.wire_id, STEPS, _NOTHING, _NOTHING)
    chosen = positions.choose_classes(base, olds, kind.shifts if r < d else ())
    has_classes = chosen[0].count > 1
    shift = chosen[0].shift if has_classes else kind.shifts[0] if kind.signed else None
    found = Rice.wire_id, _NOTHING
    if r < d and has_classes and not coding.touched:
        found = BY_CLASS, positions.encode(base, indices, *chosen)
    elif r < d:
        found = Rice.wire_id, Rice().encode(indices, d, 0)
    if r < d and _has_runs(indices, d):
        runs = Huffman.wire_id, Huffman().encode(indices, d, 0)
        found = min(found, runs, key=lambda each: each[1].size)
    signed = kind.signed or shift is not None
    coded = steps.encode(olds, values, signed=signed, shift=None if coding.for_slices else shift)
    best = Entry(key, at, d, r, *shape, found[0], STEPS, found[1], coded)
    size = found[1].size + coded.size
    is_few, is_short = r < _DENSE * d, size <= _SHORT
    if is_short and (is_few or coding.touched):
        return best
    if is_few and size <= _SHORT + _estimate_whole(olds, d, dtype, coding.zstd):
        return best
    every = base.copy_to_host()
    whole = every.copy()
    whole[indices] = values
    dense = steps.encode(every, whole, signed=signed, shift=None if coding.for_slices else shift)
    planes = steps.encode_planes(every, whole, signed=signed, level=coding.zstd.level)
    options = [
        best,
        Entry(key, at, d, d, *shape, RawIndex.wire_id, STEPS, _NOTHING, dense),
        Entry(key, at, d, d, *shape, RawIndex.wire_id, STEPS_ZSTD, _NOTHING, planes),
        _write_whole(key, at, whole.view(dtype), coding.zstd),
    ]
    return min(options, key=lambda e: e.index_section.size + e.value_section.size)
