"""Selection and encoding of many tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from wirecodec.arrays import Array, read_only
from wirecodec.container.writer import CHUNK, EntryBatch
from wirecodec.cpu.batch import MIN_TENSORS
from wirecodec.cpu.batch.sections import can_encode_together
from wirecodec.cpu.batch.selection import SelectedBatch, group_tensors
from wirecodec.cpu.columns import ArrayColumns
from wirecodec.prng import mix_each
from wirecodec.select.base import all_finite
from wirecodec.settings.scheme import Scheme
from wirecodec.support import Support


def select_batches(columns: ArrayColumns, schemes: Sequence[Scheme]) -> list[SelectedBatch]:
    """Select from the tensors that a batch can take.

    Args:
        columns: the tensors' addresses, sizes and types, by key.
        schemes: by key.
    """
    batches = []
    for scheme, dtype, keys in group_tensors(schemes, columns.kinds, "select_batch"):
        selector: Any = scheme.select
        found = selector.select_batch(columns.addresses[keys], columns.sizes[keys], dtype)
        if found is not None:
            batches.append(SelectedBatch.of(scheme, keys, columns.sizes[keys], found))
    return batches


def encode_selected(batch: SelectedBatch, *, seed: int) -> EntryBatch | None:
    """Encode tensors that were selected together, as entries whose sections are not written yet.

    Returns None if a codec of the scheme has no batched form, or cannot encode them.
    """
    if not can_encode_together(batch.scheme):
        return None
    indices = batch.indices.view(np.uint32)
    return _encode(batch.keys, batch.sizes, batch.cuts, indices, batch.values, batch.scheme, seed)


def encode_batches(
    supports: Mapping[int, Support], schemes: Sequence[Scheme], *, seed: int, fuse: int
) -> list[EntryBatch]:
    """Encode the tensors that a batch can take, as entries whose sections are not written yet.

    Args:
        supports: by key, ascending.
        schemes: of all tensors, by key.
        seed, fuse: as for ``encode_many``.
    """
    groups: dict[tuple[int, Any, bool], list[int]] = {}
    for key, support in supports.items():
        count = support.values.size
        if (
            fuse < support.size <= CHUNK
            and count
            and not support.domain
            and support.step is None
            and support.entries is None
            and can_encode_together(schemes[key])
        ):
            groups.setdefault((id(schemes[key]), support.dtype, count == support.size), []).append(key)
    batches = [
        _encode_supports(keys, [supports[key] for key in keys], schemes[keys[0]], seed)
        for keys in groups.values()
        if len(keys) >= MIN_TENSORS
    ]
    return [batch for batch in batches if batch is not None]


def _encode_supports(keys: list[int], members: list[Support], scheme: Scheme, seed: int) -> EntryBatch | None:
    """Encode tensors of one scheme and dtype, all full or none; return None if the codecs cannot."""
    full = members[0].values.size == members[0].size
    cuts = np.zeros(len(members) + 1, np.int64)
    np.cumsum([support.values.size for support in members], out=cuts[1:])
    values = np.concatenate([support.values for support in members])
    if not scheme.value.carries_nonfinite and not all_finite(values):
        return None
    indices = None if full else np.concatenate([support.indices for support in members])
    if indices is not None:
        indices = indices.astype(np.int32, copy=False).view(np.uint32)
    sizes = np.array([support.size for support in members], np.int64)
    return _encode(np.array(keys, np.int64), sizes, cuts, indices, values, scheme, seed)


def _encode(
    keys: Array, sizes: Array, cuts: Array, indices: Array | None, values: Array, scheme: Scheme, seed: int
) -> EntryBatch | None:
    """Encode the values, and the u32 indices unless all tensors are full, of tensors of one type."""
    streams = mix_each(seed, keys.astype(np.uint64), 0)
    value_sections = scheme.value.encode_batch(read_only(values), cuts, streams)
    if value_sections is None:
        return None
    index_sections = None
    if indices is not None:
        index_sections = scheme.index.encode_batch(read_only(indices), cuts, sizes, streams)
        if index_sections is None:
            return None
    return EntryBatch(
        keys.astype(np.uint32),
        sizes.astype(np.uint32),
        np.diff(cuts),
        values.dtype,
        scheme.index.choose(None, 1, 0)[0].wire_id,
        index_sections,
        value_sections,
    )
