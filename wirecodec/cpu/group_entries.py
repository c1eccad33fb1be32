"""Entries of groups of tensors, both ways: a group is encoded as one vector, and split only on demand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.container import extension_writer as ext
from wirecodec.container import writer
from wirecodec.container.reader import read_header
from wirecodec.cpu.batch.selection import ModelSelection
from wirecodec.cpu.chunk import encode_chunks
from wirecodec.cpu.decode import decode_chunks
from wirecodec.cpu.fuse import concatenate, move_error, plan_runs, split_fused, step_owner
from wirecodec.cpu.group import GroupSelection
from wirecodec.errors import EncodeError
from wirecodec.limits import UNLIMITED
from wirecodec.support import DecodedChunk, Support


def encode_groups(
    selected: ModelSelection, groups: Sequence[GroupSelection], *, seed: int, names: bool, fuse: int
) -> tuple[Bytes, tuple[tuple[int, ...], ...]]:
    """Encode the selected elements of a model as one container (n,) u8; small tensors share entries.

    Args:
        selected: those of no group; without transforms.
        groups: the others.
        seed, names, fuse: as for ``encode_many``.

    Returns the container, and the keys of the tensors of each entry or of each larger tensor.

    Raises EncodeError, which names the tensor.
    """
    supports, shapes, schemes = selected.all_supports(), selected.shapes, selected.schemes
    place_of = {key: (group, at) for group in groups for at, key in enumerate(group.keys.tolist())}
    sizes, kinds = [0] * len(schemes), [0] * len(schemes)
    numbers: dict[Any, int] = {}
    for group in groups:
        alone = None if group.support.step is None else group  # its step is not that of others
        number = numbers.setdefault((group.table.dtype, group.scheme, alone), len(numbers))
        for key, size in zip(group.keys.tolist(), group.table.sizes.tolist(), strict=True):
            sizes[key], kinds[key] = size, number
    for key, support in supports.items():
        kind = support.dtype, schemes[key], step_owner(support)
        sizes[key], kinds[key] = support.size, numbers.setdefault(kind, len(numbers))
    runs = plan_runs(tuple(sizes), tuple(kinds), fuse)
    block = _write_block(
        tuple(selected.names), tuple(shapes), tuple(sizes), tuple(run for run in runs if len(run) > 1), names
    )
    entries: list[writer.Entry] = []
    for run in runs:
        place = place_of.get(run[0])
        try:
            if place is not None and _is_slice(*place, run):
                support = place[0].support_of(place[1], place[1] + len(run), shapes)
            else:
                members = [_support_of(key, supports, place_of, shapes) for key in run]
                support = concatenate(members) if len(members) > 1 else members[0]
            entries += encode_chunks(run[0], support, schemes[run[0]], seed)
        except EncodeError as error:
            if len(run) > 1:
                error = move_error(error, [(selected.names[key], sizes[key]) for key in run])
            raise error.of(selected.names[run[0]]) from None
    return writer.pack(entries, block), runs


def _is_slice(group: GroupSelection, at: int, run: Sequence[int]) -> bool:
    """Tell whether the tensors of a run follow each other in a group."""
    return bool(np.array_equal(group.keys[at : at + len(run)], run))


def _support_of(
    key: int,
    supports: Mapping[int, Support],
    place_of: Mapping[int, tuple[GroupSelection, int]],
    shapes: Sequence[tuple[int, ...]],
) -> Support:
    """Return the selected elements of one tensor."""
    if key in supports:
        return supports[key]
    group, at = place_of[key]
    return group.support_of(at, at + 1, shapes)


@lru_cache(maxsize=16)
def _write_block(
    names: tuple[str, ...],
    shapes: tuple[tuple[int, ...], ...],
    sizes: tuple[int, ...],
    runs: tuple[tuple[int, ...], ...],
    names_stored: bool,
) -> bytes:
    """Write the extension block, which is the same in every step of a training.

    Raises EncodeError, which names the tensor, if the format cannot hold a shape or a name.
    """
    for name, shape in zip(names, shapes, strict=True):
        try:
            ext.check_shape(shape)
        except EncodeError as error:
            raise error.of(name) from None
    return ext.write(
        ext.Extension(
            names=names if names_stored else None,
            shapes={key: shape for key, shape in enumerate(shapes) if len(shape) != 1},
            groups=tuple(np.array([(key, sizes[key]) for key in run], np.int64) for run in runs),
        )
    )


class SplitChunks(Mapping[int, list[DecodedChunk]]):
    """Decoded chunks of tensors by key; a fused entry is split when one of its tensors is first read.

    Args:
        parts: chunks by key, of tensors that are not fused.
        fused: {first key: (chunk, members)} of the fused entries; a member is a row (key, size).
    """

    def __init__(
        self,
        parts: Mapping[int, list[DecodedChunk]],
        fused: Mapping[int, tuple[DecodedChunk, Array]],
    ) -> None:
        self._parts, self._fused = parts, fused
        self._split: dict[int, list[DecodedChunk]] = {}

    def __len__(self) -> int:
        return len(self._parts)

    def __iter__(self) -> Iterator[int]:
        return iter(self._parts)

    def __getitem__(self, key: int) -> list[DecodedChunk]:
        if self._fused and not self._split:
            for part, group in self._fused.values():
                self._split |= split_fused(part, group)
        return self._split[key] if key in self._split else self._parts[key]

    def values_of(self, key: int) -> Array:
        """Return the values of the entry that begins with a tensor, or of all chunks of that tensor."""
        if key in self._fused:
            return self._fused[key][0].values
        parts = self._parts[key]
        return parts[0].values if len(parts) == 1 else np.concatenate([part.values for part in parts])


def decode_groups(blob: Bytes) -> SplitChunks:
    """Decode a container of this process, with fused entries left whole."""
    header = read_header(blob, UNLIMITED, sizes_trusted=True)
    fused: dict[int, tuple[DecodedChunk, Array]] = {}

    def keep(part: DecodedChunk, group: Array) -> dict[int, list[DecodedChunk]]:
        fused[int(group[0, 0])] = part, group
        return {}

    return SplitChunks(decode_chunks(blob, header, UNLIMITED, cut=keep), fused)


def subtract_received(
    groups: Sequence[GroupSelection], runs: Sequence[Sequence[int]], decoded: SplitChunks
) -> None:
    """Complete the residuals of groups, in place.

    Args:
        groups: what was selected.
        runs: keys of the tensors of each entry.
        decoded: the values that receivers decode.
    """
    place_of = {key: (group, at) for group in groups for at, key in enumerate(group.keys.tolist())}
    for run in runs:
        if run[0] in place_of and _is_slice(*place_of[run[0]], run):
            group, at = place_of[run[0]]
            group.subtract(at, at + len(run), decoded.values_of(run[0]))
            continue
        for key in run:  # an entry of tensors of several groups
            if key in place_of:
                group, at = place_of[key]
                group.subtract(at, at + 1, np.concatenate([part.values for part in decoded[key]]))
