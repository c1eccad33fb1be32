"""Reading of one key of a patch: a tensor, or several that share an entry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import numpy as np

from wirecodec.arrays import UNSIGNED, Array, Bytes
from wirecodec.container.based import BY_CLASS, STEPS, STEPS_ZSTD, BaseRecord
from wirecodec.container.reader import Row
from wirecodec.element_types import name_of
from wirecodec.errors import Invalid, SchemaMismatch
from wirecodec.limits import DecodeLimits
from wirecodec.patch import digest, positions, steps
from wirecodec.patch.bits import Bits
from wirecodec.patch.host import of_array
from wirecodec.patch.prepared import PreparedPatch
from wirecodec.patch.states import bring_together, read_bits
from wirecodec.patch.writes import Write, drop_equal, write_in_place
from wirecodec.registry import index_codec, value_codec


@dataclass(eq=False)
class KeyReader:
    """One reading of a key.

    Attributes:
        members: (key of a tensor, its elements) of each.
        rows: entries with their sections.
        limits: bounds on the cost of decoding.
        record: of the patch.
        specs: names, types and shapes of the patch's tensors.
        state: which does not change.
        partial_state: whether the state may lack tensors of the patch.
    """

    members: Sequence[Sequence[int]]
    rows: Sequence[tuple[Row, list[Bytes]]]
    limits: DecodeLimits
    record: BaseRecord
    specs: Sequence[Any]
    state: Mapping[str, Any]
    partial_state: bool
    _found: PreparedPatch = field(default_factory=PreparedPatch)

    def read(self, *, is_whole: bool) -> PreparedPatch:
        """Read the tensors of the key; ``is_whole`` if it is one that needs no base."""
        self._read(is_whole=is_whole)
        return self._found

    def _read(self, *, is_whole: bool) -> None:
        members = self.members
        names = [self.specs[key].name for key, _ in members]
        if absent := [name for name in names if name not in self.state]:
            if is_whole and self.record.digests[members[0][0], 0] == 0:
                self._read_whole()
                return
            if self.partial_state and len(absent) == len(names):
                return
            raise SchemaMismatch("base-tensors", f"the state has no tensor {absent[0]!r}")
        given = [read_bits(name, self.state[name]) for name in names]
        pairs = self.record.digests[[key for key, _ in members]]
        if is_whole:
            own = digest.digest_tensor(given[0])
            if own == pairs[0, 1]:
                self._keep(names, pairs)
                return
            if own != pairs[0, 0]:
                raise wrong_base(names[0])
            self._read_whole(given[0])
            return
        for (_, size), name, bits in zip(members, names, given, strict=True):
            expected = self.specs[members[0][0]].dtype
            if bits.dtype != expected or bits.bits.size != size:
                has = f"{bits.bits.size} {name_of(bits.dtype)}; the patch has {size} {name_of(expected)}"
                raise SchemaMismatch("base-shape", f"tensor {name!r} has {has}")
        if self.record.touched:
            self._read_touched(names, given, pairs)
        else:
            self._read_based(names, given, pairs)

    def _read_based(self, names: Sequence[str], given: Sequence[Bits], pairs: Array) -> None:
        """Read changes whose positions may depend on all elements."""
        together, starts = bring_together(given), self.find_starts()
        forms, described = together[0].forms, digest.describe_all(given)
        with forms.join_summed(together) as (joined, sums):
            base = Bits(joined, together[0].dtype, (int(joined.size),), forms)
            if self._are_complete(names, digest.seal_all(sums, described, given), pairs):
                return
            found = [self._decode_row(row, own, base) for row, own in self.rows]
            indices = join_parts([indices for indices, _ in found], [row.base for row, _ in self.rows])
            values = join_parts([values for _, values in found])
            cuts = find_cuts(indices, starts)
            forms.add_changes(sums, joined, starts, cuts, (indices, values))
        self._check_target(names, digest.seal_all(sums, described, given), pairs)
        self._add(names, given, starts, cuts, indices, values)

    def _read_touched(self, names: Sequence[str], given: Sequence[Bits], pairs: Array) -> None:
        """Read changes whose positions depend on no element; their values may depend on the old ones."""
        together, starts = bring_together(given), self.find_starts()
        found = [self.decode_indices(row, own[0]) for row, own in self.rows]
        indices = join_parts(found, [row.base for row, _ in self.rows])
        cuts = find_cuts(indices, starts)
        olds, sums = together[0].forms.take_touched(together, starts, cuts, indices)
        described, counts = digest.describe_all(given), np.diff(cuts)
        if self._are_complete(names, digest.seal_touched(sums, described, counts), pairs):
            return
        ends = accumulate(row.r for row, _ in self.rows)
        values = join_parts(
            [
                self._decode_checked(row, own[1], olds[end - row.r : end])
                for (row, own), end in zip(self.rows, ends, strict=True)
            ]
        )
        sums = digest.sum_touched(starts, cuts, indices, values)
        self._check_target(names, digest.seal_touched(sums, described, counts), pairs)
        self._add(names, given, starts, cuts, indices, values)

    def find_starts(self) -> Array:
        """Return the number of the first element of each member, and that of all elements: (n + 1,) i64."""
        return np.cumsum([0, *(size for _, size in self.members)])

    def _check_target(self, names: Sequence[str], own: Array, pairs: Array) -> None:
        """Check the digests (n,) of the new tensors."""
        wrong = own != pairs[:, 1]
        if wrong.any():
            raise wrong_target(names[int(wrong.argmax())])

    def _are_complete(self, names: Sequence[str], own: Array, pairs: Array) -> bool:
        """Return whether the tensors of a key are those of the target; if so, note it.

        Args:
            names: of the tensors.
            own: (n,) u64, their digests.
            pairs: (n, 2) u64, those of the base and of the target.

        Raises SchemaMismatch if they are neither all those of the target, nor all those of the base.
        """
        is_old, is_new = own == pairs[:, 0], own == pairs[:, 1]
        if is_new.all():
            self._keep(names, pairs)
            return True
        wrong = ~(is_old | is_new)
        if wrong.any():
            raise wrong_base(names[int(wrong.argmax())])
        if not is_old.all():
            done = names[int(is_old.argmin())]
            raise SchemaMismatch(
                "base",
                f"the state is half-written: {done!r} has the patch's bits already, and others that are"
                " coded with it have the old ones; load a whole state",
            )
        return False

    def _keep(self, names: Sequence[str], pairs: Array) -> None:
        """Note tensors of the patch that stay as they are: it does not change them, or was applied before."""
        for name, is_same in zip(names, (pairs[:, 0] == pairs[:, 1]).tolist(), strict=True):
            (self._found.unchanged if is_same else self._found.complete).append(name)

    def _add(
        self,
        names: Sequence[str],
        given: Sequence[Bits],
        starts: Array,
        cuts: Array,
        indices: Array,
        values: Array,
    ) -> None:
        """Note what a commit writes into the members."""
        places, ends = indices, cuts.tolist()
        if len(given) > 1:
            places = indices - np.repeat(starts[:-1].astype(np.uint32), np.diff(cuts))
        for name, bits, a, b in zip(names, given, ends, ends[1:], strict=False):
            at, new = self.leave_out(places[a:b], values[a:b], bits)
            self._found.writes.append(write_in_place(name, self.state[name], bits, at, new))

    def leave_out(self, indices: Array, values: Array, given: Bits) -> tuple[Array, Array]:
        """Leave out elements that keep their bits, as ``drop_equal`` does, if an entry may have some."""
        has_all = any(row.r == row.d for row, _ in self.rows)
        return drop_equal(indices, values, given) if has_all else (indices, values)

    def decode_indices(self, row: Row, section: Bytes) -> Array:
        """Return the positions (r,) u32 of an entry, which depend on no element."""
        if row.r == 0:
            return np.empty(0, np.uint32)
        if row.r == row.d:
            return np.arange(row.d, dtype=np.uint32)
        return index_codec(row.index_codec).decode(section, row.d, row.r, self.limits)

    def _decode_row(self, row: Row, parts: list[Bytes], whole: Bits) -> tuple[Array, Array]:
        """Return the positions (r,) u32 and the new bits (r,) of an entry."""
        base = whole.part(row.base, row.base + row.d)
        if row.index_codec == BY_CLASS and 0 < row.r < row.d:
            indices, olds = positions.decode(parts[0], base, row.r)
        else:
            indices = self.decode_indices(row, parts[0])
            olds = base.copy_to_host() if row.r == row.d else base.take(indices)
        return indices, self._decode_checked(row, parts[1], olds)

    def decode_values(self, row: Row, section: Bytes, olds: Array) -> Array:
        """Return the new bits (r,) of the elements of an entry that had the bits ``olds``."""
        if row.r == 0:
            return olds
        if row.value_codec == STEPS:
            values = steps.decode(section, olds)
        elif row.value_codec == STEPS_ZSTD:
            values = steps.decode_planes(section, olds, self.limits)
        else:
            values = value_codec(row.value_codec).decode(section, row.r, olds.dtype, self.limits)
        return values.view(olds.dtype)

    def _decode_checked(self, row: Row, section: Bytes, olds: Array) -> Array:
        """Return the new bits (r,) of the elements of an entry, and check those of bool."""
        values = self.decode_values(row, section, olds)
        check_bool(values, self.specs[row.key].dtype)
        return values

    def _read_whole(self, given: Bits | None = None) -> None:
        """Read a tensor that the patch has whole."""
        bits = self.decode_whole()
        name = self.specs[self.members[0][0]].name
        if given is None or (given.dtype, given.shape) != (bits.dtype, bits.shape):
            self._found.writes.append(Write(name, None, bits.bits, bits))
            return
        changes = drop_equal(None, bits.bits, given)
        self._found.writes.append(write_in_place(name, self.state[name], given, *changes))

    def decode_whole(self) -> Bits:
        """Return the bits of a tensor that the patch has whole."""
        key = self.members[0][0]
        spec = self.specs[key]
        width = spec.dtype.itemsize // (2 if spec.dtype.kind == "c" else 1)
        found = []
        for row, parts in self.rows:
            if row.r:
                values = value_codec(row.value_codec).decode(parts[1], row.r, spec.dtype, self.limits)
                found.append(values.view(UNSIGNED[width]))
                check_bool(found[-1], spec.dtype)
        bits = of_array(np.concatenate([np.empty(0, UNSIGNED[width]), *found]).view(spec.dtype), spec.shape)
        if digest.digest_tensor(bits) != self.record.digests[key, 1]:
            raise Invalid("base-target", f"tensor {spec.name!r} is not what its digest says")
        return bits


def join_parts(parts: Sequence[Array], firsts: Sequence[int] = ()) -> Array:
    """Join arrays; add a number to each before, if there are some."""
    if any(firsts):
        parts = [part + np.uint32(first) for part, first in zip(parts, firsts, strict=True)]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def find_cuts(indices: Array, starts: Array) -> Array:
    """Return the first change of each member, and the number of all: (n + 1,) i64."""
    return np.searchsorted(indices, starts.astype(np.uint32)).astype(np.int64)


def check_bool(values: Array, dtype: np.dtype[Any]) -> None:
    """Make the check of row 48a of SPEC section 7."""
    if dtype == np.bool_ and values.size and values.max() > 1:
        raise Invalid("bool-value", "an element is neither 0 nor 1")


def wrong_target(name: str) -> Invalid:
    """Return the error of a tensor whose new bits have another digest."""
    return Invalid("base-target", f"the changes of tensor {name!r} make other bits than those of its digest")


def wrong_base(name: str) -> SchemaMismatch:
    """Return the error of a tensor that is neither the base's nor the target's."""
    return SchemaMismatch(
        "base",
        f"tensor {name!r} is not that of the patch's base, nor that of its target; apply the patches in their"
        " order, or load a whole state",
    )
