"""Slices of tensors, such as the rows or columns that a rank of a tensor-parallel server has, and patches.

The positions of all changes of a tensor are decoded, and those in the slice are applied. So positions and
values must be coded without the elements that the reader lacks: ``diff`` with the base "slices" does so. The
digests of such a patch are those of all changed elements of a tensor. A reader can find them only if all of
these are in its slice. So it keeps the sums of its slices, and compares them before the next patch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from wirecodec.arrays import UNSIGNED, Array, Bytes
from wirecodec.container.based import STEPS, BaseRecord
from wirecodec.element_types import name_of
from wirecodec.errors import LimitExceeded, SchemaMismatch
from wirecodec.limits import DecodeLimits
from wirecodec.patch import digest
from wirecodec.patch.host import of_array
from wirecodec.patch.keys import KeyReader, check_bool, find_cuts, join_parts, wrong_base, wrong_target
from wirecodec.patch.prepared import PreparedPatch
from wirecodec.patch.reading import Contents, Key, read_contents
from wirecodec.patch.states import read_bits, view_memory
from wirecodec.patch.steps import count_contexts
from wirecodec.patch.threads import map_in_threads
from wirecodec.patch.writes import Write, drop_equal

Chooser: TypeAlias = Callable[[str, tuple[int, ...]], Any]
"""Function of a tensor's name and whole shape: a slice, a tuple of slices for the first axes, or None for a
tensor that the reader does not have."""


@dataclass(frozen=True)
class Slice:
    """Slice of a tensor.

    Attributes:
        dtype: the element type.
        whole: shape of the tensor.
        spans: first index, and the one behind the last, on each axis.
        total: sum of the slice's mixed words (formats/spec/patch.md, "Digests").
    """

    dtype: np.dtype[Any]
    whole: tuple[int, ...]
    spans: tuple[tuple[int, int], ...]
    total: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the slice."""
        return tuple(stop - start for start, stop in self.spans)

    def cut(self, array: Array) -> Array:
        """Return the slice of a whole tensor, contiguous."""
        return np.ascontiguousarray(array[tuple(slice(*span) for span in self.spans)]).reshape(self.shape)

    def locate(self, indices: Array) -> tuple[Array, Array]:
        """Find which of (r,) ascending elements of the tensor are in the slice, and where, u32."""
        rest, places = indices.astype(np.int64), np.zeros(indices.size, np.int64)
        inside, stride = np.ones(indices.size, bool), 1
        axes = self._merge_axes()
        for number, (size, start, stop) in enumerate(axes):
            at = rest
            if number + 1 < len(axes):
                rest, at = np.divmod(rest, size)
            inside &= (at >= start) & (at < stop)
            places += (at - start) * stride
            stride *= stop - start
        return np.flatnonzero(inside), places[inside].astype(np.uint32)

    def _merge_axes(self) -> list[tuple[int, int, int]]:
        """Return (size, start, stop) of each axis, the last first; one that is not cut joins the next one."""
        axes: list[tuple[int, int, int]] = []
        for size, (start, stop) in zip(reversed(self.whole), reversed(self.spans), strict=True):
            inner = 1
            if axes and axes[-1] == (axes[-1][0], 0, axes[-1][0]):
                inner = axes.pop()[0]
            axes.append((size * inner, start * inner, stop * inner))
        return axes


View: TypeAlias = Mapping[str, Slice]
"""Slices of one state by the names of the tensors."""


class SlicedPatch(NamedTuple):
    """Patch of slices that was checked.

    Attributes:
        patch: what a commit writes.
        view: the slices that it leaves.
        target: digest of the new state, if the patch makes it of nothing; else 0.
    """

    patch: PreparedPatch
    view: View
    target: int


def prepare_slices(
    blob: Bytes, state: Mapping[str, Any], view: View, choose: Chooser, limits: DecodeLimits
) -> SlicedPatch:
    """Decode a patch for slices of its tensors, and check it against them.

    Args:
        blob: the container.
        state: {name: slice}, which does not change.
        view: the slices of the patch's base that the state has, as ``fits`` finds out; empty for a patch that
            makes a state of nothing.
        choose: the slices of tensors that are new, or whole.
        limits: bounds on the cost.

    Raises:
        WireError: the container is not valid, exceeds a limit, or does not fit; or it cannot be read without
            the other elements of a tensor (SchemaMismatch with code "base-tensors").
        ValueError: ``choose`` returns no slice.
    """
    contents = read_contents(blob, limits)
    record, specs = contents.record, contents.specs
    if not record.touched and not all(key.is_whole for key in contents.keys):
        raise _needs_all("the positions of changes")
    if not view and record.digests[:, 0].any():
        raise SchemaMismatch("base-tensors", "the patch makes no state of nothing")
    _check_expansion(contents, view, blob.size, limits)

    def read_key(key: Key) -> _Found:
        reader = KeyReader(key.members, key.rows, limits, record, specs, state, True)
        return _KeyOfSlices(reader, state, view, choose).read(is_whole=key.is_whole)

    patch, slices = PreparedPatch(), dict(view)
    for part in map_in_threads(read_key, contents.keys):
        patch.writes += part.writes
        slices |= part.slices
        for name in part.dropped:
            slices.pop(name)
            patch.removed.append(name)
    for name in record.removed:
        if slices.pop(name, None) is not None:
            patch.removed.append(name)
    written = {write.name for write in patch.writes}
    patch.unchanged += [name for name in slices if name not in written]
    return SlicedPatch(patch, slices, 0 if view else _digest_target(record, specs))


def _check_expansion(contents: Contents, view: View, nbytes: int, limits: DecodeLimits) -> None:
    """Check the stored elements of entries with a tensor whose size no slice confirms."""
    stored = 0
    for key in contents.keys:
        names = [contents.specs[number].name for number, _ in key.members]
        if not (key.is_whole or all(name in view for name in names)) and any(name in view for name in names):
            stored += sum(row.r for row, _ in key.rows)
    if stored > limits.max_expansion * nbytes:
        raise LimitExceeded(
            "max-expansion", f"{stored} elements beside tensors without a slice in {nbytes} bytes"
        )


def fits(state: Mapping[str, Any], view: View, *, sums: bool) -> bool:
    """Return whether a state has the names, types and shapes of a view, and with ``sums`` its bits."""
    if {*state} != {*view}:
        return False

    def fits_one(name: str) -> bool:
        bits, own = read_bits(name, state[name]), view[name]
        if (bits.dtype, bits.shape) != (own.dtype, own.shape):
            return False
        return not sums or bits.forms.sum_elements(bits.bits) == own.total

    return all(map_in_threads(fits_one, view))


def choose_slice(choose: Chooser, name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Slice | None:
    """Return the slice that a reader has of a tensor; None if it has none.

    Raises ValueError if the choice is no slice of the tensor.
    """
    index = choose(name, shape)
    if index is None:
        return None
    parts = index if isinstance(index, tuple) else (index,)
    spans = [
        (part.start or 0, n if part.stop is None else part.stop)
        for part, n in zip(parts, shape, strict=False)
        if isinstance(part, slice) and part.step in (None, 1)
    ]
    is_within = all(0 <= start <= stop <= n for (start, stop), n in zip(spans, shape, strict=False))
    if len(spans) != len(parts) or not is_within:
        raise ValueError(
            f"the slice of tensor {name!r} of shape {shape} is {index!r}; it must be a slice within the"
            " tensor, without a step, or a tuple of slices for its first axes"
        )
    return Slice(dtype, shape, (*spans, *((0, n) for n in shape[len(spans) :])))


@dataclass(eq=False)
class _Found:
    """Changes of a key: writes, new slices, and names of tensors that the reader drops."""

    writes: list[Write] = field(default_factory=list)
    slices: dict[str, Slice] = field(default_factory=dict)
    dropped: list[str] = field(default_factory=list)


@dataclass(eq=False)
class _KeyOfSlices:
    """One reading of a key for slices."""

    key: KeyReader
    state: Mapping[str, Any]
    view: View
    choose: Chooser
    found: _Found = field(default_factory=_Found)

    def read(self, *, is_whole: bool) -> _Found:
        """Read the key; ``is_whole`` if it is one tensor that needs no base."""
        if is_whole:
            self._read_whole()
        else:
            self._read_changes()
        return self.found

    def _read_whole(self) -> None:
        """Read a tensor that the patch has whole, and cut it; skip one of which the reader has nothing."""
        spec = self.key.specs[self.key.members[0][0]]
        own = choose_slice(self.choose, spec.name, spec.dtype, tuple(spec.shape))
        if own is None:
            self.found.dropped += [spec.name] if spec.name in self.view else []
            return
        bits = self.key.decode_whole()
        part = own.cut(bits.bits.view(bits.dtype).reshape(bits.shape))
        new = of_array(part.reshape(-1), own.shape)
        before = self.view.get(spec.name)
        if before is not None and (before.dtype, before.shape) == (own.dtype, own.shape):
            changes = drop_equal(None, new.bits, read_bits(spec.name, self.state[spec.name]))
            self.found.writes.append(Write(spec.name, *changes))
        else:
            self.found.writes.append(Write(spec.name, None, new.bits, new))
        self.found.slices[spec.name] = replace(own, total=new.forms.sum_elements(new.bits))

    def _read_changes(self) -> None:
        """Read changes, and apply those in the slices."""
        key = self.key
        names = [key.specs[number].name for number, _ in key.members]
        if not any(name in self.view for name in names):
            return
        for number, name in enumerate(names):
            if name in self.view:
                self._check_member(number, self.view[name])
        starts = key.find_starts()
        indices = join_parts(
            [key.decode_indices(row, own[0]) for row, own in key.rows], [row.base for row, _ in key.rows]
        )
        cuts = find_cuts(indices, starts).tolist()
        olds = np.zeros(indices.size, UNSIGNED[key.specs[key.members[0][0]].dtype.itemsize])
        known = np.zeros(indices.size, bool)
        parts = []
        for number, name in enumerate(names):
            if name not in self.view:
                continue
            own, here = self.view[name], slice(cuts[number], cuts[number + 1])
            inside, places = own.locate(indices[here] - np.uint32(starts[number]))
            bits = read_bits(name, self.state[name])
            olds[here][inside] = bits.take(places)
            known[here][inside] = True
            parts.append((number, here, inside, places, bits))
        values = self._decode_values(olds, known)
        for number, here, inside, places, bits in parts:
            name = names[number]
            new = values[here][inside]
            check_bool(new, bits.dtype)
            if inside.size == here.stop - here.start:
                self._check_digests(number, indices[here] - np.uint32(starts[number]), olds[here], new)
            sums = np.array([self.view[name].total], np.uint64)
            ends = np.array([0, bits.bits.size]), np.array([0, places.size])
            bits.forms.add_changes(sums, bits.bits, *ends, (places, new))
            self.found.slices[name] = replace(self.view[name], total=int(sums[0]))
            memory = view_memory(self.state[name], bits)
            self.found.writes.append(Write(name, *key.leave_out(places, new, bits), None, memory))

    def _check_member(self, number: int, own: Slice) -> None:
        """Check that a partial tensor of the patch has the type and the size of the one that was cut."""
        size, spec = self.key.members[number][1], self.key.specs[self.key.members[number][0]]
        expected = self.key.specs[self.key.members[0][0]].dtype
        if own.dtype != expected or math.prod(own.whole) != size:
            raise SchemaMismatch(
                "base-shape",
                f"tensor {spec.name!r} had shape {own.whole} and type {name_of(own.dtype)}; the patch has"
                f" {size} elements of type {name_of(expected)}",
            )

    def _decode_values(self, olds: Array, known: Array) -> Array:
        """Return the new bits of all changed elements; those of elements that are not known are wrong."""
        found = []
        ends = accumulate(row.r for row, _ in self.key.rows)
        for (row, own), end in zip(self.key.rows, ends, strict=True):
            here = slice(end - row.r, end)
            if row.r and row.value_codec == STEPS and count_contexts(own[1]) != 1 and not known[here].all():
                raise _needs_all("the new values")
            found.append(self.key.decode_values(row, own[1], olds[here]))
        return join_parts(found)

    def _check_digests(self, number: int, indices: Array, olds: Array, values: Array) -> None:
        """Check the digests of a tensor of which all changed elements are in the slice."""
        tensor = self.key.members[number][0]
        name, pair = self.key.specs[tensor].name, self.key.record.digests[tensor].tolist()
        own = self.view[name]
        ends = np.array([0, math.prod(own.whole)]), np.array([0, indices.size])
        sums = [int(digest.sum_touched(*ends, indices, x)[0]) for x in (olds, values)]
        before, after = (
            digest.close(total + digest.describe(own.dtype, own.whole), indices.size) for total in sums
        )
        if before != pair[0]:
            raise wrong_base(name)
        if after != pair[1]:
            raise wrong_target(name)


def _digest_target(record: BaseRecord, specs: Sequence[Any]) -> int:
    """Return the digest of the state that a patch of nothing makes, by the digests of its record."""
    rows = zip(specs, record.digests[:, 1].tolist(), strict=True)
    total = sum(digest.digest_named(spec.name, after) for spec, after in rows)
    return digest.close(total & digest.MASK, len(specs))


def _needs_all(what: str) -> SchemaMismatch:
    return SchemaMismatch(
        "base-tensors",
        f"{what} are coded by elements of which the state has only slices; write the patch with"
        ' base="slices", or read it with whole tensors',
    )
