"""Patches that are decoded and checked against a state, and that can be written into it.

    blob -> header and record -> digests of the state's tensors -> new bits of elements -> their digests

All checks come before the first write. A commit writes elements alone; after an exception, it restores those
that it has written.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from wirecodec.arrays import UNSIGNED, Array, Bytes
from wirecodec.container.based import BASE, BY_CLASS, STEPS, STEPS_ZSTD, BaseRecord
from wirecodec.container.reader import ContainerHeader, Row, read_header, sections
from wirecodec.container.schema import TensorSpecs
from wirecodec.element_types import name_of
from wirecodec.errors import Invalid, LimitExceeded, SchemaMismatch, Unsupported
from wirecodec.index.bitmap import Bitmap
from wirecodec.index.raw import RawIndex
from wirecodec.index.rice import Rice
from wirecodec.kernels.uninterrupted import run_uninterrupted
from wirecodec.limits import DecodeLimits
from wirecodec.patch import digest, positions, steps
from wirecodec.patch.shared import check_shared, explain_shared
from wirecodec.patch.states import (
    Bits,
    check_writable,
    join,
    make_tensor,
    read_bits,
    view_memory,
    write_elements,
)
from wirecodec.patch.writes import Write
from wirecodec.registry import index_codec, value_codec
from wirecodec.value.raw import Raw
from wirecodec.value.zstd import Zstd

_INDEX_CODECS = frozenset({RawIndex.wire_id, Bitmap.wire_id, Rice.wire_id, BY_CLASS})
_VALUE_CODECS = frozenset({Raw.wire_id, Zstd.wire_id, STEPS, STEPS_ZSTD})
"""Codecs of a patch's entries."""


@dataclass(eq=False)
class PreparedPatch:
    """Patch that was checked against a state.

    Attributes:
        writes: what a commit writes.
        removed: names that a commit removes.
        complete: names of tensors that had the patch's bits already.
        unchanged: names of tensors that the patch says to leave as they are.
    """

    writes: list[Write] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    complete: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)

    def commit(self, state: MutableMapping[str, Any]) -> None:
        """Write into the state that the patch was checked against.

        No signal handler interrupts it. After an exception, the state is as it was.
        """
        in_place = [write for write in self.writes if not write.replaces(state)]
        for write in in_place:
            check_writable(write.name, state[write.name])
        check_shared(state, in_place, [*self.complete, *self.unchanged])
        run_uninterrupted(partial(self._commit, state))

    def _commit(self, state: MutableMapping[str, Any]) -> None:
        from wirecodec.kernels.cpu.patch import digest as kernels

        undone: list[Write] = []
        replaced: dict[str, Any] = {}
        added: list[str] = []
        try:
            for write in self.writes:
                if write.indices is not None and write.memory is not None:
                    old = digest.take(write.memory, write.indices)
                    undone.append(replace(write, values=old))
                    kernels.scatter(write.memory, write.indices, write.values)
                    continue
                if not write.replaces(state):
                    before = read_bits(write.name, state[write.name]).bits
                    old = before.copy() if write.indices is None else digest.take(before, write.indices)
                    undone.append(Write(write.name, write.indices, old))
                    write_elements(state, write.name, write.indices, write.values)
                    continue
                assert write.bits is not None
                made = make_tensor(state, write.bits.bits, write.bits.dtype, write.bits.shape)
                if write.name in state:
                    replaced[write.name] = state[write.name]
                else:
                    added.append(write.name)
                state[write.name] = made
            for name in self.removed:
                replaced[name] = state[name]
                del state[name]
        except BaseException:
            for name in added:
                state.pop(name, None)
            for name, tensor in replaced.items():
                state[name] = tensor
            for write in reversed(undone):
                if write.indices is not None and write.memory is not None:
                    kernels.scatter(write.memory, write.indices, write.values)
                else:
                    write_elements(state, write.name, write.indices, write.values)
            raise


def prepare_replacement(state: Mapping[str, Any], target: Mapping[str, Array]) -> PreparedPatch:
    """Compare a state with contiguous arrays that become its own: a commit gives it their names and bits."""
    found = PreparedPatch(removed=[name for name in state if name not in target])
    for name, array in target.items():
        new = read_bits(name, array)
        old = read_bits(name, state[name]) if name in state else None
        own = replace(new, bits=array.reshape(-1).view(new.bits.dtype))  # which can be written
        if old is None or (old.dtype, old.shape) != (new.dtype, new.shape):
            found.writes.append(Write(name, None, own.bits, own))
        elif not np.array_equal(old.bits, new.bits):
            found.writes.append(Write(name, None, own.bits))
        else:
            found.unchanged.append(name)
    return found


def prepare(
    blob: Bytes, state: Mapping[str, Any], limits: DecodeLimits, *, partial_state: bool
) -> PreparedPatch:
    """Decode a patch and check it against a state, which does not change.

    Args:
        blob: the container.
        state: {name: tensor}.
        limits: bounds on its cost.
        partial_state: whether the state may lack tensors that the patch has, and have others.

    Raises:
        WireError: the container is not valid, exceeds a limit, or does not fit the state.
    """
    header = read_header(blob, limits, based=True, sizes_trusted=True)
    if BASE not in header.extension.bodies:
        raise Unsupported(
            "base-absent",
            "the container is not a patch of weights; read it with wirecodec.decode or the command wirecodec"
            " decode",
        )
    specs = list(TensorSpecs(header, None))
    record = BaseRecord.read(header.extension.bodies[BASE], len(specs))
    if both := [spec.name for spec in specs if spec.name in record.removed]:
        raise Invalid("base-names", f"tensor {both[0]!r} is changed, and removed")
    return _Reader(blob, header, limits, record, specs, state, partial_state).read()


@dataclass(eq=False)
class _Reader:
    """One reading of a patch."""

    blob: Bytes
    header: ContainerHeader
    limits: DecodeLimits
    record: BaseRecord
    specs: Sequence[Any]
    state: Mapping[str, Any]
    partial_state: bool
    found: PreparedPatch = field(default_factory=PreparedPatch)

    def read(self) -> PreparedPatch:
        """Make all checks in their order."""
        groups = {int(members[0, 0]): members.tolist() for members in self.header.extension.groups()}
        kinds = self._find_kinds(groups)
        self._check_expansion(kinds)
        touched = set[str]()
        parts: dict[int, list[tuple[Row, list[Bytes]]]] = {}
        for _, _, row, sections_of_row in sections(self.blob, self.header):
            parts.setdefault(row.key, []).append((row, sections_of_row))
        for key, rows in parts.items():
            members = groups.get(key, [[key, sum(row.d for row, _ in rows)]])
            touched |= {self.specs[member].name for member, _ in members}
            self._read_key(members, rows, is_whole=kinds[key])
        self._check_removed()
        self._check_rest(touched)
        return self.found

    def _find_kinds(self, fused: Container[int]) -> dict[int, bool]:
        """Return whether the tensor of each key is whole: alone, with all elements, and without a base.

        Raises Invalid for an entry that a patch does not have.
        """
        table = self.header.table
        if self.header.extension.is_transformed or (table["map"] != 0).any():
            raise Invalid("base-entries", "an entry of a patch is transformed, or has a map")
        index = _INDEX_CODECS - {BY_CLASS} if self.record.touched else _INDEX_CODECS
        for name, known in (("index", index), ("value", _VALUE_CODECS)):
            if others := {*table[name].tolist()} - known:
                raise Invalid("base-entries", f"{name} codec {min(others)} is not one of this patch's")
        based = np.isin(table["value"], (STEPS, STEPS_ZSTD)) | (table["r"] < table["d"])
        kinds: dict[int, bool] = {}
        for key, is_based in zip(table["key"].tolist(), based.tolist(), strict=True):
            kinds[key] = kinds.get(key, key not in fused) and not is_based
        for key, is_whole in kinds.items():
            if not is_whole and self.specs[key].dtype.kind == "c":
                raise Invalid("base-entries", f"tensor {self.specs[key].name!r} is complex, and not whole")
        return kinds

    def _check_expansion(self, kinds: Mapping[int, bool]) -> None:
        """Check the elements of whole tensors, whose sizes no tensor of the state confirms."""
        keys = [key for key, is_whole in kinds.items() if is_whole]
        whole = int(self.header.table["d"][np.isin(self.header.table["key"], keys)].sum(dtype=np.int64))
        if whole > self.limits.max_expansion * self.header.nbytes:
            raise LimitExceeded(
                "max-expansion", f"{whole} elements of whole tensors in {self.header.nbytes} bytes"
            )

    def _read_key(
        self, members: Sequence[Sequence[int]], rows: Sequence[tuple[Row, list[Bytes]]], *, is_whole: bool
    ) -> None:
        """Read the tensors of one key."""
        names = [self.specs[key].name for key, _ in members]
        if absent := [name for name in names if name not in self.state]:
            if is_whole and self.record.digests[members[0][0], 0] == 0:
                self._read_whole(members[0][0], rows)
                return
            if self.partial_state and len(absent) == len(names):
                return
            raise SchemaMismatch("base-tensors", f"the state has no tensor {absent[0]!r}")
        given = [read_bits(name, self.state[name]) for name in names]
        pairs = [self.record.digests[key] for key, _ in members]
        if is_whole:
            own = digest.digest_tensor(given[0])
            if own == pairs[0][1]:
                self.found.complete.append(names[0])
                return
            if own != pairs[0][0]:
                raise _wrong_base(names[0])
            self._read_whole(members[0][0], rows, given[0])
            return
        for (_, size), name, bits in zip(members, names, given, strict=True):
            expected = self.specs[members[0][0]].dtype
            if bits.dtype != expected or bits.bits.size != size:
                has = f"{bits.bits.size} {name_of(bits.dtype)}; the patch has {size} {name_of(expected)}"
                raise SchemaMismatch("base-shape", f"tensor {name!r} has {has}")
        if self.record.touched:
            self._read_touched(members, names, given, pairs, rows)
        else:
            self._read_based(members, names, given, pairs, rows)

    def _read_based(
        self,
        members: Sequence[Sequence[int]],
        names: Sequence[str],
        given: Sequence[Bits],
        pairs: Sequence[Array],
        rows: Sequence[tuple[Row, list[Bytes]]],
    ) -> None:
        """Read changes whose positions may depend on all elements."""
        sums = [digest.sum_elements(bits.bits) for bits in given]
        own = [digest.seal(total, bits) for total, bits in zip(sums, given, strict=True)]
        done = [name for name, one, pair in zip(names, own, pairs, strict=True) if one == pair[1]]
        if len(done) == len(names):
            self.found.complete += done
            return
        for name, one, pair in zip(names, own, pairs, strict=True):
            if one != pair[0] and one != pair[1]:
                raise _wrong_base(name)
        if done:
            raise SchemaMismatch(
                "base",
                f"the state is half-written: {done[0]!r} has the patch's bits already, and others that are"
                " coded with it have the old ones; load a whole state",
            )
        for total, bits, pair, name, (indices, values) in zip(
            sums, given, pairs, names, self._decode(members, given, rows), strict=True
        ):
            moved = total + digest.sum_change(bits.bits, indices, values)
            if digest.seal(moved & digest.MASK, bits) != pair[1]:
                raise _wrong_target(name)
            self._add(name, bits, indices, values)

    def _read_touched(
        self,
        members: Sequence[Sequence[int]],
        names: Sequence[str],
        given: Sequence[Bits],
        pairs: Sequence[Array],
        rows: Sequence[tuple[Row, list[Bytes]]],
    ) -> None:
        """Read changes whose positions depend on no element; their values may depend on the old ones."""
        positions_of = list(self._decode_positions(members, given, rows))
        olds = [digest.take(bits.bits, own) for bits, own in zip(given, positions_of, strict=True)]
        own = [
            digest.digest_touched(bits, indices, old)
            for bits, indices, old in zip(given, positions_of, olds, strict=True)
        ]
        done = [name for name, one, pair in zip(names, own, pairs, strict=True) if one == pair[1]]
        if len(done) == len(names):
            self.found.complete += done
            return
        for name, one, pair in zip(names, own, pairs, strict=True):
            if one != pair[0]:
                raise _wrong_base(name)
        together = np.concatenate(olds)
        cuts = np.cumsum([0, *(row.r for row, _ in rows)])
        values = np.concatenate(
            [
                self._decode_values(row, parts[1], together[a:b])
                for (row, parts), a, b in zip(rows, cuts, cuts[1:], strict=False)
            ]
        )
        ends = np.cumsum([0, *(old.size for old in olds)])
        for bits, pair, name, indices, a, b in zip(
            given, pairs, names, positions_of, ends, ends[1:], strict=False
        ):
            if digest.digest_touched(bits, indices, values[a:b]) != pair[1]:
                raise _wrong_target(name)
            self._add(name, bits, indices, values[a:b])

    def _add(self, name: str, bits: Bits, indices: Array, values: Array) -> None:
        """Note what a commit writes into a tensor."""
        memory = view_memory(self.state[name], bits.dtype)
        self.found.writes.append(Write(name, indices, values, None, memory))

    def _decode(
        self, members: Sequence[Sequence[int]], given: Sequence[Bits], rows: Sequence[tuple[Row, list[Bytes]]]
    ) -> Iterator[tuple[Array, Array]]:
        """Yield the positions and the new bits of each member."""
        with join([bits.bits for bits in given]) as base:
            found = [self._decode_row(row, parts, base) for row, parts in rows]
        indices = np.concatenate(
            [indices + np.uint32(row.base) for (row, _), (indices, _) in zip(rows, found, strict=True)]
        )
        values = np.concatenate([values for _, values in found])
        yield from _divide(members, indices, values)

    def _decode_positions(
        self, members: Sequence[Sequence[int]], given: Sequence[Bits], rows: Sequence[tuple[Row, list[Bytes]]]
    ) -> Iterator[Array]:
        """Yield the positions of each member."""
        indices = np.concatenate(
            [
                self._decode_indices(row, parts[0], given[0].bits[:0]) + np.uint32(row.base)
                for row, parts in rows
            ]
        )
        for own, _ in _divide(members, indices, indices):
            yield own

    def _decode_indices(self, row: Row, section: Bytes, base: Array) -> Array:
        """Return the positions (r,) u32 of an entry."""
        if row.r == 0:
            return np.empty(0, np.uint32)
        if row.r == row.d:
            return np.arange(row.d, dtype=np.uint32)
        if row.index_codec == BY_CLASS:
            return positions.decode(section, base, row.r)
        return index_codec(row.index_codec).decode(section, row.d, row.r, self.limits)

    def _decode_row(self, row: Row, parts: list[Bytes], whole: Array) -> tuple[Array, Array]:
        """Return the positions (r,) u32 and the new bits (r,) of an entry."""
        base = whole[row.base : row.base + row.d]
        indices = self._decode_indices(row, parts[0], base)
        olds = base if row.r == row.d else digest.take(base, indices)
        return indices, self._decode_values(row, parts[1], olds)

    def _decode_values(self, row: Row, section: Bytes, olds: Array) -> Array:
        """Return the new bits (r,) of the elements of an entry that had the bits ``olds``."""
        if row.r == 0:
            return olds
        if row.value_codec == STEPS:
            values = steps.decode(section, olds)
        elif row.value_codec == STEPS_ZSTD:
            values = steps.decode_planes(section, olds, self.limits)
        else:
            values = value_codec(row.value_codec).decode(section, row.r, olds.dtype, self.limits)
        values = values.view(olds.dtype)
        _check_bool(values, self.specs[row.key].dtype)
        return values

    def _read_whole(
        self, key: int, rows: Sequence[tuple[Row, list[Bytes]]], given: Bits | None = None
    ) -> None:
        """Read a tensor that the patch has whole."""
        spec = self.specs[key]
        width = spec.dtype.itemsize // (2 if spec.dtype.kind == "c" else 1)
        found = []
        for row, parts in rows:
            if row.r:
                values = value_codec(row.value_codec).decode(parts[1], row.r, spec.dtype, self.limits)
                found.append(values.view(UNSIGNED[width]))
                _check_bool(found[-1], spec.dtype)
        bits = Bits(np.concatenate([np.empty(0, UNSIGNED[width]), *found]), spec.dtype, spec.shape)
        if digest.digest_tensor(bits) != self.record.digests[key, 1]:
            raise Invalid("base-target", f"tensor {spec.name!r} is not what its digest says")
        in_place = given is not None and (given.dtype, given.shape) == (bits.dtype, bits.shape)
        self.found.writes.append(Write(spec.name, None, bits.bits, None if in_place else bits))

    def _check_removed(self) -> None:
        for name, expected in self.record.removed.items():
            if name not in self.state:
                self.found.complete.append(name)
                continue
            if digest.digest_tensor(read_bits(name, self.state[name])) != expected:
                raise _wrong_base(name)
            self.found.removed.append(name)

    def _check_rest(self, touched: set[str]) -> None:
        """Check the tensors that do not change."""
        if self.partial_state or self.record.touched:
            return
        others = [name for name in self.state if name not in touched and name not in self.record.removed]
        if len(others) != self.record.unchanged:
            raise SchemaMismatch(
                "base-tensors",
                f"beside the tensors of the patch, the state has {len(others)}, and its base"
                f" {self.record.unchanged}{self._explain_more(others)}",
            )
        total = 0
        for name in others:
            total += digest.digest_named(name, digest.digest_tensor(read_bits(name, self.state[name])))
        if total & digest.MASK != self.record.rest:
            raise SchemaMismatch(
                "base", "a tensor that the patch does not change is not that of its base, or has another name"
            )
        self.found.unchanged = others

    def _explain_more(self, others: Sequence[str]) -> str:
        """Return the reason why a state may have more tensors than the base: checkpoints lack tied names."""
        reason = explain_shared(self.state) if len(others) > self.record.unchanged else ""
        return f"; {reason}" if reason else ""


def _divide(members: Sequence[Sequence[int]], indices: Array, values: Array) -> Iterator[tuple[Array, Array]]:
    """Yield each member's part of positions and values, (r,) each."""
    if len(members) == 1:
        yield indices, values
        return
    starts = np.cumsum([0, *(size for _, size in members)])
    cuts = np.searchsorted(indices, starts.astype(np.uint32)).tolist()
    for start, a, b in zip(starts.tolist(), cuts, cuts[1:], strict=False):
        yield indices[a:b] - np.uint32(start), values[a:b]


def _check_bool(values: Array, dtype: np.dtype[Any]) -> None:
    """Make the check of row 48a of SPEC section 7."""
    if dtype == np.bool_ and values.size and values.max() > 1:
        raise Invalid("bool-value", "an element is neither 0 nor 1")


def _wrong_target(name: str) -> Invalid:
    return Invalid("base-target", f"the changes of tensor {name!r} make other bits than those of its digest")


def _wrong_base(name: str) -> SchemaMismatch:
    return SchemaMismatch(
        "base",
        f"tensor {name!r} is not that of the patch's base, nor that of its target; apply the patches in their"
        " order, or load a whole state",
    )
