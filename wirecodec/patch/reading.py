"""Reading of a patch: the checks of the whole container and of the whole state, and the reading of its keys.

    blob -> header and record -> digests of the state's tensors -> new bits of elements -> their digests

All checks come before the first write.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wirecodec.arrays import Bytes
from wirecodec.container.based import BASE, BY_CLASS, STEPS, STEPS_ZSTD, BaseRecord
from wirecodec.container.reader import ContainerHeader, Row, read_header, sections
from wirecodec.container.schema import TensorSpecs
from wirecodec.errors import Invalid, LimitExceeded, SchemaMismatch, Unsupported
from wirecodec.index.bitmap import Bitmap
from wirecodec.index.huffman import Huffman
from wirecodec.index.raw import RawIndex
from wirecodec.index.rice import Rice
from wirecodec.limits import DecodeLimits
from wirecodec.patch import digest
from wirecodec.patch.keys import KeyReader, wrong_base
from wirecodec.patch.named import sum_named
from wirecodec.patch.prepared import PreparedPatch
from wirecodec.patch.shared import explain_shared
from wirecodec.patch.states import read_bits
from wirecodec.patch.threads import map_in_threads
from wirecodec.value.raw import Raw
from wirecodec.value.zstd import Zstd

_INDEX_CODECS = frozenset({*(codec.wire_id for codec in (RawIndex, Bitmap, Rice, Huffman)), BY_CLASS})
_VALUE_CODECS = frozenset({Raw.wire_id, Zstd.wire_id, STEPS, STEPS_ZSTD})
"""Codecs of a patch's entries."""


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
    return _Reader(read_contents(blob, limits), limits, state, partial_state).read()


@dataclass(frozen=True, eq=False)
class Key:
    """Key of a patch: one tensor, or several that share an entry.

    Attributes:
        members: (key of a tensor, its elements) of each.
        rows: entries with their sections.
        is_whole: whether it is one tensor that needs no base.
    """

    members: Sequence[Sequence[int]]
    rows: Sequence[tuple[Row, list[Bytes]]]
    is_whole: bool


@dataclass(frozen=True, eq=False)
class Contents:
    """Contents of a patch, of which nothing is decoded.

    Attributes:
        record: what the patch was made from, and what it makes.
        specs: names, types and shapes of its tensors.
        keys: in order.
    """

    record: BaseRecord
    specs: Sequence[Any]
    keys: Sequence[Key]


def read_contents(blob: Bytes, limits: DecodeLimits) -> Contents:
    """Make the checks of a patch that need no state. Raises WireError."""
    header = read_header(blob, limits, based=True, sizes_trusted=True)
    if BASE not in header.extension.bodies:
        raise Unsupported(
            "base-absent",
            "the container is not a patch of weights; read it with wirecodec.decode or the command wirecodec"
            " decode",
        )
    specs = list(TensorSpecs(header, None))
    record = BaseRecord.read(header.extension.bodies[BASE], [spec.name for spec in specs])
    groups = {int(members[0, 0]): members.tolist() for members in header.extension.groups()}
    kinds = _find_kinds(header, record, specs, groups)
    _check_expansion(header, kinds, limits)
    parts: dict[int, list[tuple[Row, list[Bytes]]]] = {}
    for _, _, row, sections_of_row in sections(blob, header):
        parts.setdefault(row.key, []).append((row, sections_of_row))
    keys = [
        Key(groups.get(key, [[key, sum(row.d for row, _ in rows)]]), rows, kinds[key])
        for key, rows in parts.items()
    ]
    return Contents(record, specs, keys)


def _find_kinds(
    header: ContainerHeader, record: BaseRecord, specs: Sequence[Any], fused: Container[int]
) -> dict[int, bool]:
    """Return whether the tensor of each key is whole: alone, with all elements, and without a base.

    Raises Invalid for an entry that a patch does not have.
    """
    table = header.table
    if header.extension.is_transformed or (table["map"] != 0).any():
        raise Invalid("base-entries", "an entry of a patch is transformed, or has a map")
    index = _INDEX_CODECS - {BY_CLASS} if record.touched else _INDEX_CODECS
    for name, known in (("index", index), ("value", _VALUE_CODECS)):
        if others := {*table[name].tolist()} - known:
            raise Invalid("base-entries", f"{name} codec {min(others)} is not one of this patch's")
    based = np.isin(table["value"], (STEPS, STEPS_ZSTD)) | (table["r"] < table["d"])
    kinds: dict[int, bool] = {}
    for key, is_based in zip(table["key"].tolist(), based.tolist(), strict=True):
        kinds[key] = kinds.get(key, key not in fused) and not is_based
    for key, is_whole in kinds.items():
        if not is_whole and specs[key].dtype.kind == "c":
            raise Invalid("base-entries", f"tensor {specs[key].name!r} is complex, and not whole")
    return kinds


def _check_expansion(header: ContainerHeader, kinds: Mapping[int, bool], limits: DecodeLimits) -> None:
    """Check the elements of whole tensors, whose sizes no tensor of the state confirms."""
    keys = [key for key, is_whole in kinds.items() if is_whole]
    whole = int(header.table["d"][np.isin(header.table["key"], keys)].sum(dtype=np.int64))
    if whole > limits.max_expansion * header.nbytes:
        raise LimitExceeded("max-expansion", f"{whole} elements of whole tensors in {header.nbytes} bytes")


@dataclass(eq=False)
class _Reader:
    """One reading of a patch."""

    contents: Contents
    limits: DecodeLimits
    state: Mapping[str, Any]
    partial_state: bool
    found: PreparedPatch = field(default_factory=PreparedPatch)

    def read(self) -> PreparedPatch:
        """Make all checks of the state in their order."""
        specs, keys = self.contents.specs, self.contents.keys

        def read_key(key: Key) -> PreparedPatch:
            return KeyReader(
                key.members,
                key.rows,
                self.limits,
                self.contents.record,
                specs,
                self.state,
                self.partial_state,
            ).read(is_whole=key.is_whole)

        for part in map_in_threads(read_key, keys):
            self.found.writes += part.writes
            self.found.complete += part.complete
            self.found.unchanged += part.unchanged
        self._check_removed()
        self._check_rest({specs[key].name for one in keys for key, _ in one.members})
        return self.found

    def _check_removed(self) -> None:
        for name, expected in self.contents.record.removed.items():
            if name not in self.state:
                if not self.partial_state:  # a part may never have had it
                    self.found.complete.append(name)
                continue
            if digest.digest_tensor(read_bits(name, self.state[name])) != expected:
                raise wrong_base(name)
            self.found.removed.append(name)

    def _check_rest(self, touched: set[str]) -> None:
        """Check the tensors that do not change."""
        if self.partial_state or self.contents.record.touched:
            return
        others = [
            name for name in self.state if name not in touched and name not in self.contents.record.removed
        ]
        if len(others) != self.contents.record.unchanged:
            raise SchemaMismatch(
                "base-tensors",
                f"beside the tensors of the patch, the state has {len(others)}, and its base"
                f" {self.contents.record.unchanged}{self._explain_more(others)}",
            )
        if sum_named(self.state, others) != self.contents.record.rest:
            raise SchemaMismatch(
                "base", "a tensor that the patch does not change is not that of its base, or has another name"
            )
        self.found.unchanged += others

    def _explain_more(self, others: Sequence[str]) -> str:
        """Return the reason why a state may have more tensors than the base: checkpoints lack tied names."""
        return explain_shared(self.state) if len(others) > self.contents.record.unchanged else ""
