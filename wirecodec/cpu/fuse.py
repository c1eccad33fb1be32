"""Fusion of small tensors: named tensors become entries, and small ones share one (formats/SPEC.md, 3.3)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Protocol, TypeVar

import numpy as np

from wirecodec.arrays import Array
from wirecodec.container import extension_writer as ext
from wirecodec.container.writer import CHUNK, Entry
from wirecodec.errors import EncodeError
from wirecodec.settings.scheme import Scheme
from wirecodec.sparse import index_dtype
from wirecodec.support import DecodedChunk, Support


class _Selected(Protocol):
    """Selected elements of a tensor on any device."""

    @property
    def size(self) -> int: ...
    @property
    def domain(self) -> int: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def shape(self) -> tuple[int, ...]: ...


S = TypeVar("S", bound=_Selected)


def _group_small(
    supports: Mapping[str, _Selected], schemes: Mapping[str, Scheme], fuse: int
) -> dict[int, list[int]]:
    """Group small tensors that share an entry, as {first key: keys}, of those with two or more."""
    numbers: dict[Any, int] = {}
    kinds = tuple(
        -1
        if support.domain
        else numbers.setdefault((support.dtype, schemes[name], step_owner(support)), len(numbers))
        for name, support in supports.items()
    )
    runs = plan_runs(tuple(support.size for support in supports.values()), kinds, fuse)
    return {run[0]: list(run) for run in runs if len(run) > 1}


def step_owner(support: _Selected) -> tuple[Any, Any]:
    """Return what tensors that share an entry have in common: the entries of their group, and their step."""
    return getattr(support, "shared", None), getattr(support, "step", None)


@lru_cache(maxsize=64)
def plan_runs(sizes: tuple[int, ...], kinds: tuple[int, ...], fuse: int) -> tuple[tuple[int, ...], ...]:
    """Group small tensors that share an entry; return the keys of each entry or tensor, by their first key.

    Args:
        sizes: elements, by key.
        kinds: numbers of dtype, scheme and group, by key; -1 for tensors with a transform.
        fuse: number of elements up to which tensors share entries.

    Members have no transform, one dtype and one scheme. If they were encoded as groups, they are of one.
    Each has at most ``fuse`` elements, and all together have at most one chunk.
    """
    filling: dict[int, list[int]] = {}
    capacity: dict[int, int] = {}
    runs: list[list[int]] = []
    for key, (size, kind) in enumerate(zip(sizes, kinds, strict=True)):
        if not 0 < size <= min(fuse, CHUNK) or kind < 0:
            runs.append([key])
            continue
        if capacity.get(kind, 0) < size:
            filling[kind], capacity[kind] = [], CHUNK
            runs.append(filling[kind])
        filling[kind].append(key)
        capacity[kind] -= size
    return tuple(map(tuple, runs))


def make_entries(
    supports: Mapping[str, S],
    schemes: Mapping[str, Scheme],
    encode: Callable[[int, Sequence[S], Scheme], Iterable[Entry]],
    *,
    tag: bytes,
    names: bool,
    fuse: int,
) -> tuple[list[Entry], ext.Extension]:
    """Encode named tensors as entries, and collect the content of the extension block.

    Args:
        supports, schemes: by name, in the order of their keys.
        encode: returns the entries of a key, for its one tensor or the tensors that share them.
        tag, names, fuse: as for ``encode_many``.

    Raises EncodeError, which names the tensor.
    """
    for name, support in supports.items():
        try:
            ext.check_shape(support.shape)
        except EncodeError as error:
            raise error.of(name) from None
    order = list(supports)
    groups = _group_small(supports, schemes, fuse)
    absorbed = {key for group in groups.values() for key in group[1:]}
    entries: list[Entry] = []
    for key, name in enumerate(order):
        if key in absorbed:
            continue
        members = [order[k] for k in groups.get(key, [key])]
        try:
            entries += encode(key, [supports[member] for member in members], schemes[name])
        except EncodeError as error:
            if len(members) > 1:
                error = move_error(error, [(member, supports[member].size) for member in members])
            raise error.of(name) from None
    return entries, ext.Extension(
        names=tuple(order) if names else None,
        shapes={key: s.shape for key, s in enumerate(supports.values()) if len(s.shape) != 1},
        groups=tuple(
            np.array([(k, supports[order[k]].size) for k in group], np.int64) for group in groups.values()
        ),
        lengths={key: math.prod(s.shape) for key, s in enumerate(supports.values()) if s.domain},
        tag=tag,
    )


def concatenate(supports: Sequence[Support]) -> Support:
    """Concatenate small tensors to one; their selector gave all of them one step, or none."""
    starts = np.cumsum([0] + [s.size for s in supports])
    size, step, entries = int(starts[-1]), supports[0].step, _find_entries(supports)
    values = np.concatenate([s.values for s in supports])
    if values.size == size:
        return Support(None, values, size, (size,), step=step, entries=entries)
    parts = [
        start + (np.arange(s.size) if s.indices is None else s.indices)
        for start, s in zip(starts[:-1], supports, strict=True)
    ]
    indices = np.concatenate(parts).astype(index_dtype(size))
    source = partial(_gather_concatenated, supports, starts)
    return Support(indices, values, size, (size,), source, step=step, entries=entries)


def _find_entries(supports: Sequence[Support]) -> Sequence[Entry] | None:
    """Return the entries of tensors end to end, if the selector has encoded exactly these together."""
    shared = supports[0].shared
    if shared is None or shared.count != len(supports) or any(s.shared is not shared for s in supports):
        return None
    return shared.entries


def _gather_concatenated(supports: Sequence[Support], starts: Array, where: Array) -> Array:
    """Gather the values of concatenated tensors at ascending element numbers."""
    cuts = np.searchsorted(where, starts)
    parts = zip(supports, starts, cuts, cuts[1:], strict=False)
    return np.concatenate([support.at(where[a:b] - start) for support, start, a, b in parts if a < b])


def move_error(error: EncodeError, members: list[tuple[str, int]]) -> EncodeError:
    """Move a fused entry's error to its member; ``members`` are (name, size)."""
    if error.position is None:
        return error
    position = error.position
    for name, size in members:
        if position < size:
            return EncodeError(error.reason, tensor=name, position=position)
        position -= size
    raise AssertionError("a position outside its entry")


def split_fused(part: DecodedChunk, group: Array) -> dict[int, list[DecodedChunk]]:
    """Split a fused chunk into its members, given as rows of (key, size); returns them by key."""
    # Edges of the indices' type avoid their conversion. They are below 2^24.
    edges = np.cumsum([0, *group[:, 1]]).astype(np.uint32)
    cuts = edges if part.indices is None else np.searchsorted(part.indices, edges)
    members = {}
    for (key, size), edge, a, b in zip(group.tolist(), edges, cuts, cuts[1:], strict=False):
        indices = None if part.indices is None or b - a == size else part.indices[a:b] - edge
        members[key] = [DecodedChunk(0, size, indices, part.values[a:b])]
    return members
