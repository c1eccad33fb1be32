"""Selection and encoding of many tensors by one call per codec; ``cpu.chunk`` encodes the others."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from wirecodec.arrays import Array, read_only
from wirecodec.container.writer import CHUNK, EntryBatch
from wirecodec.cpu.columns import ArrayColumns
from wirecodec.cpu.fast.budget import select_within_budgets
from wirecodec.cpu.fast.headers import describe_tensors
from wirecodec.cpu.fast.terms import can_encode_together, group_tensors
from wirecodec.cpu.forms import MIN_TENSORS
from wirecodec.cpu.selected import Selected, Shapes
from wirecodec.kernels.term_forms import GRADIENT, IDENTITY
from wirecodec.prng import mix_each
from wirecodec.select.base import all_finite
from wirecodec.select.term_table import TermTable
from wirecodec.settings.scheme import Scheme
from wirecodec.support import SectionBatch, Support

_NO_FACTORS = np.ones(3)


def select_many(
    tensors: Sequence[Any], schemes: Sequence[Scheme], header: int, shares: bool
) -> tuple[list[Any], list[Selected]] | None:
    """Select from the tensors that one call can take.

    Args:
        tensors, schemes: by key.
        header: bytes of the container's header that count for each tensor, if a selector asks for them.
        shares: whether small tensors may share entries.

    Returns the shapes of the tensors, and the selections; None for a single tensor.
    """
    if len(tensors) < MIN_TENSORS:
        return None
    arrays, shapes, columns = describe_tensors(tensors)
    batches = select_described(columns, schemes)
    if header and not shares:
        batches += select_within_budgets(columns, arrays, schemes, header)
    return shapes, batches


def select_described(columns: ArrayColumns, schemes: Sequence[Scheme]) -> list[Selected]:
    """Select from tensors by their addresses, sizes and types, if their selector takes many at a time."""
    batches = []
    for scheme, dtype, keys in group_tensors(schemes, columns.kinds, MIN_TENSORS):
        addresses, sizes = np.zeros((keys.size, 5), np.int64), columns.sizes[keys]
        addresses[:, GRADIENT] = columns.addresses[keys]
        selection = scheme.select.select_each(TermTable(addresses, sizes, _NO_FACTORS, IDENTITY, dtype))
        if selection is not None:
            batches.append(Selected.each(scheme, keys, sizes, selection))
    return batches


def encode_many(
    batches: Sequence[Selected],
    supports: Mapping[int, Support],
    schemes: Sequence[Scheme],
    shapes: Shapes,
    shares: Collection[int],
    seed: int,
) -> list[EntryBatch]:
    """Encode the tensors that one call can take, as entries whose sections are not written yet.

    Args:
        batches: tensors selected together.
        supports: those of other tensors by key.
        schemes, shapes: of all tensors, by key.
        shares: keys of the tensors that share an entry with others.
        seed: as for ``cpu.encode.encode_many``.
    """
    encoded, others = [], {key: support for key, support in supports.items() if key not in shares}
    for batch in batches:
        if batch.joint:
            continue
        selected = batch
        if shares:
            selected = batch.without(np.fromiter(map(shares.__contains__, batch.keys.tolist()), np.bool_))
        entries = _encode_selected(selected, seed) if can_encode_together(selected.scheme) else None
        if entries is None:
            others |= selected.supports(shapes)
        else:
            encoded.append(entries)
    return encoded + (_encode_supports(dict(sorted(others.items())), schemes, seed) if others else [])


def _encode_selected(selected: Selected, seed: int) -> EntryBatch | None:
    """Encode tensors that were selected one by one; return None if the codecs cannot."""
    assert selected.indices is not None
    indices = selected.indices.view(np.uint32)
    if not selected.keys.size or (selected.steps is not None and selected.value_sections is None):
        return None
    columns = selected.keys, selected.sizes, selected.cuts, indices, selected.values
    return _encode(*columns, selected.scheme, seed, selected.value_sections)


def _encode_supports(supports: dict[int, Support], schemes: Sequence[Scheme], seed: int) -> list[EntryBatch]:
    """Encode the tensors that one call can take; each call takes one scheme and type, all full or none."""
    groups: dict[tuple[int, object, bool], list[int]] = {}
    for key, support in supports.items():
        count = support.values.size
        plain = count and not support.domain and support.step is None and support.entries is None
        if plain and support.size <= CHUNK and can_encode_together(schemes[key]):
            groups.setdefault((id(schemes[key]), support.dtype, count == support.size), []).append(key)
    batches = [
        _encode_group(keys, [supports[key] for key in keys], schemes[keys[0]], seed)
        for keys in groups.values()
        if len(keys) >= MIN_TENSORS
    ]
    return [batch for batch in batches if batch is not None]


def _encode_group(keys: list[int], members: list[Support], scheme: Scheme, seed: int) -> EntryBatch | None:
    """Encode tensors of one scheme and type, all full or none; return None if the codecs cannot."""
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
    keys: Array,
    sizes: Array,
    cuts: Array,
    indices: Array | None,
    values: Array,
    scheme: Scheme,
    seed: int,
    value_sections: SectionBatch | None = None,
) -> EntryBatch | None:
    """Encode the values, and the u32 indices unless all tensors are full, of tensors of one type.

    The values are not encoded if their sections are given.
    """
    streams = mix_each(seed, keys.astype(np.uint64), 0)
    if value_sections is None:
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
        0 if index_sections else scheme.index.choose(None, 1, 0)[0].wire_id,
        index_sections,
        value_sections,
        indices,
    )
