"""Several tensors as one vector: shared entries and transforms (formats/SPEC.md, 3.3 and 3.11), and groups.

plan_runs         which tensors share an entry
encode_runs       the entries of all tensors, whose errors name the tensor
concatenate       supports of tensors -> support of the vector
split_support     support of the vector -> supports of tensors
find_vectors      which tensors are transformed as one
split_fused       decoded chunk of the vector -> chunks of tensors
split_joined      elements of a transformed vector -> chunks of tensors
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, TypeAlias

import numpy as np

from wirecodec.arrays import Array, index_dtype
from wirecodec.container.writer import CHUNK, Entry
from wirecodec.errors import EncodeError
from wirecodec.settings.scheme import Scheme
from wirecodec.support import DecodedChunk, JoinedVector, SharedEntries, Support

Run: TypeAlias = tuple[int, ...]
"""Keys of the tensors that share an entry, or of one tensor."""


def kinds_of(supports: Iterable[Any], schemes: Sequence[Scheme], numbers: dict[Any, int]) -> list[int]:
    """Return numbers that are equal for tensors that may share an entry; -1 for tensors with a transform.

    Args:
        supports: of all tensors, on any device.
        schemes: of all tensors.
        numbers: the numbers so far; extended.

    Members of an entry have one dtype and one scheme, and their selector gave all of them one step, or none.
    If they were encoded as groups, they are of one.
    """
    return [
        -1
        if support.domain
        else numbers.setdefault((support.dtype, scheme, support.shared, support.step), len(numbers))
        for support, scheme in zip(supports, schemes, strict=True)
    ]


@lru_cache(maxsize=64)
def plan_runs(sizes: tuple[int, ...], kinds: tuple[int, ...], fuse: int) -> tuple[Run, ...]:
    """Group small tensors that share an entry; return the keys of each entry or tensor, by their first key.

    Args:
        sizes: elements, by key.
        kinds: from ``kinds_of``, by key.
        fuse: number of elements up to which tensors share entries.

    Each member has at most ``fuse`` elements, and all together have at most one chunk.
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


@lru_cache(maxsize=16)
def list_members(sizes: tuple[int, ...], runs: tuple[Run, ...]) -> tuple[Array, ...]:
    """Return rows (key, size) of the members of each shared entry, as the extension block has them."""
    return tuple(np.array([(key, sizes[key]) for key in run], np.int64) for run in runs if len(run) > 1)


def find_vectors(supports: Mapping[int, Any]) -> tuple[Array, ...]:
    """Return rows (key, size) of the members of each joined vector, of supports by ascending key."""
    keys: dict[JoinedVector, list[int]] = {}
    for key, support in supports.items():
        if support.vector is not None:
            keys.setdefault(support.vector, []).append(key)
    return tuple(np.array([*zip(own, vector.sizes, strict=True)], np.int64) for vector, own in keys.items())


def lengths_of(supports: Mapping[int, Any], vectors: Iterable[Array]) -> dict[int, int]:
    """Return {key: number of elements} of the tensors and vectors that are stored as coefficients.

    Args:
        supports: by key.
        vectors: from ``find_vectors``.
    """
    lengths = {key: math.prod(one.shape) for key, one in supports.items() if one.domain and not one.vector}
    return lengths | {int(members[0, 0]): int(members[:, 1].sum()) for members in vectors}


def encode_runs(
    runs: Iterable[Run],
    names: Sequence[str],
    sizes: Sequence[int],
    encode: Callable[[Run], Iterable[Entry]],
) -> list[Entry]:
    """Encode the tensors of each run; an error names the tensor.

    Args:
        runs: ascending by their first keys.
        names, sizes: of all tensors, by key; sizes only if a run has several.
        encode: returns the entries of a run.
    """
    entries: list[Entry] = []
    for run in runs:
        try:
            entries += encode(run)
        except EncodeError as error:
            own = [sizes[key] for key in run] if len(run) > 1 else []
            raise at_member(error, [names[key] for key in run], own) from None
    return entries


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


def split_support(support: Support, sizes: Sequence[int], shapes: Sequence[tuple[int, ...]]) -> list[Support]:
    """Split what was selected of a group by tensors, with these sizes and shapes."""
    if len(sizes) == 1:
        return [replace(support, shape=shapes[0])]
    if support.domain:
        vector = JoinedVector(tuple(sizes))
        return [replace(support, shape=shape, vector=vector) for shape in shapes]
    shared = None if support.entries is None else SharedEntries(support.entries, len(sizes))
    starts = np.cumsum([0, *sizes])
    indices, parts = support.indices, []
    edges = starts if indices is None else np.searchsorted(indices, starts)
    rows = zip(sizes, shapes, starts.tolist(), edges, edges[1:], strict=False)
    for size, shape, start, a, b in rows:
        values = support.values[a:b]
        if indices is None or b - a == size:
            parts.append(Support(None, values, size, shape, step=support.step, shared=shared))
            continue
        local = (indices[a:b] - indices.dtype.type(start)).astype(index_dtype(size), copy=False)
        source = partial(_gather, support, start)
        parts.append(Support(local, values, size, shape, source, step=support.step, shared=shared))
    return parts


def _gather(support: Support, start: int, where: Array) -> Array:
    """Gather the values of a tensor of a group at ascending element numbers."""
    return support.at(where.astype(np.int64) + start)


def at_member(error: EncodeError, names: Sequence[str | None], sizes: Sequence[int]) -> EncodeError:
    """Move the error of several tensors as one vector to the one that has its element, or to the first.

    Args:
        error: of the vector.
        names, sizes: of the tensors.
    """
    if error.position is None or len(names) == 1:
        return error.of(names[0])
    starts = np.cumsum([0, *sizes])
    at = int(np.searchsorted(starts, error.position, side="right")) - 1
    return EncodeError(error.reason, tensor=names[at], position=error.position - int(starts[at]))


def split_fused(part: DecodedChunk, group: Array) -> dict[int, list[DecodedChunk]]:
    """Split a fused chunk into its members, given as rows of (key, size); returns them by key."""
    # Edges of the indices' type avoid their conversion. They are below 2^24.
    edges = np.zeros(len(group) + 1, np.uint32)
    np.cumsum(group[:, 1], out=edges[1:])
    if part.indices is None:
        cuts, local = edges.tolist(), None
    else:
        places = np.searchsorted(part.indices, edges)
        cuts = places.tolist()
        local = part.indices - np.repeat(edges[:-1], places[1:] - places[:-1])
    members = {}
    for (key, size), a, b in zip(group.tolist(), cuts, cuts[1:], strict=False):
        indices = None if local is None or b - a == size else local[a:b]
        members[key] = [DecodedChunk(0, size, indices, part.values[a:b])]
    return members


def split_joined(part: DecodedChunk, vector: Array) -> dict[int, list[DecodedChunk]]:
    """Split the elements of a joined vector, all or none, into its members: rows of (key, size); by key."""
    members, start = {}, 0
    for key, size in vector.tolist():
        indices = part.indices if size else None
        values = part.values if part.indices is not None else part.values[start : start + size]
        members[key] = [DecodedChunk(0, size, indices, values)]
        start += size
    return members
