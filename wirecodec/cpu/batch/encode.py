"""Selection and encoding of many tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from wirecodec.arrays import Flat, read_only
from wirecodec.container.writer import CHUNK, EntryBatch
from wirecodec.cpu.batch import MIN_TENSORS
from wirecodec.index.base import is_lossy
from wirecodec.prng import mix_each
from wirecodec.select.base import all_finite
from wirecodec.settings.scheme import Scheme
from wirecodec.support import Support

__all__ = ["encode_batches", "select_batches"]


def select_batches(flats: Mapping[str, Flat], schemes: Mapping[str, Scheme]) -> dict[str, Support]:
    """Select from the tensors that a batch can take; return those only.

    Args:
        flats, schemes: by name.
    """
    groups: dict[tuple[int, Any], list[str]] = {}
    for name, flat in flats.items():
        scheme = schemes[name]
        if scheme.transform is None and not is_lossy(scheme.index) and hasattr(scheme.select, "select_batch"):
            groups.setdefault((id(scheme.select), flat.data.dtype), []).append(name)
    supports: dict[str, Support] = {}
    for names in groups.values():
        if len(names) < MIN_TENSORS:
            continue
        selector: Any = schemes[names[0]].select
        found = selector.select_batch([flats[name].data for name in names])
        for name, selection in zip(names, found, strict=True):
            if selection is not None:
                flat = flats[name]
                supports[name] = Support(selection.indices, selection.values, flat.data.size, flat.shape)
    return supports


def encode_batches(
    supports: Mapping[str, Support], schemes: Mapping[str, Scheme], *, seed: int, fuse: int
) -> list[EntryBatch]:
    """Encode the tensors that a batch can take, as entries whose sections are not written yet.

    Args:
        supports, schemes: by name, in the order of their keys.
        seed, fuse: as for ``encode_many``.
    """
    groups: dict[tuple[int, Any, bool], list[int]] = {}
    members = list(supports.values())
    for key, (name, support) in enumerate(supports.items()):
        count = support.values.size
        if fuse < support.size <= CHUNK and count and not support.domain and _is_batchable(schemes[name]):
            groups.setdefault((id(schemes[name]), support.dtype, count == support.size), []).append(key)
    names = list(supports)
    batches = [
        _encode_batch(keys, [members[key] for key in keys], schemes[names[keys[0]]], seed)
        for keys in groups.values()
        if len(keys) >= MIN_TENSORS
    ]
    return [batch for batch in batches if batch is not None]


def _is_batchable(scheme: Scheme) -> bool:
    """Return whether both codecs of a scheme have a batched form."""
    return hasattr(scheme.index, "encode_batch") and hasattr(scheme.value, "encode_batch")


def _encode_batch(keys: list[int], members: list[Support], scheme: Scheme, seed: int) -> EntryBatch | None:
    """Encode tensors of one scheme and dtype, all full or none; return None if the codecs cannot."""
    index: Any = scheme.index
    value: Any = scheme.value
    full = members[0].values.size == members[0].size
    counts = np.array([support.values.size for support in members], np.int64)
    cuts = np.zeros(counts.size + 1, np.int64)
    np.cumsum(counts, out=cuts[1:])
    values = read_only(np.concatenate([support.values for support in members]))
    if not value.carries_nonfinite and not all_finite(values):
        return None
    value_sections = value.encode_batch(values, cuts, mix_each(seed, np.array(keys, np.uint64), 0))
    if value_sections is None:
        return None
    index_sections = None
    if not full:
        indices = np.concatenate([support.indices for support in members])
        index_sections = index.encode_batch(
            read_only(indices.astype(np.int32, copy=False).view(np.uint32)), cuts
        )
    return EntryBatch(
        np.array(keys, np.uint32),
        np.array([support.size for support in members], np.uint32),
        counts,
        values.dtype,
        index.wire_id,
        index_sections,
        value_sections,
    )
