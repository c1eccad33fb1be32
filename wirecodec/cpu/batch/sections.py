"""Sections of many tensors: one call of a codec that has a batched form, or one call per tensor.

Either way all other work on the tensors is done together, and the sections are those of ``cpu.chunk``.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from wirecodec.arrays import Array, as_bytes, read_only
from wirecodec.errors import EncodeError, WireError
from wirecodec.index.base import is_lossy
from wirecodec.limits import UNLIMITED
from wirecodec.registry import EXPERIMENTAL
from wirecodec.settings.scheme import Scheme
from wirecodec.support import SectionBatch
from wirecodec.value.base import is_ordered


def can_encode_together(scheme: Scheme) -> bool:
    """Tell whether the sections of a scheme's tensors can be made without an entry per tensor."""
    value: Any = scheme.value
    index: Any = scheme.index
    own = all(getattr(codec, "wire_id", 0) < EXPERIMENTAL for codec in (index, value))
    return own and not is_lossy(index) and not is_ordered(value)


def full_index_id(index: Any) -> int:
    """Return the id of an index codec in the row of a tensor with all its elements."""
    wire_id: int = index.choose(None, 1, 0)[0].wire_id if hasattr(index, "choose") else index.wire_id
    return wire_id


def encode_indices(
    index: Any, indices: Array, cuts: Array, sizes: Array, streams: Array
) -> SectionBatch | None:
    """Encode the indices of many tensors, none full; return None if the codec cannot.

    Args:
        index: the codec.
        indices: (R,) u32, read-only.
        cuts: (n + 1,) i64, the place of each tensor's indices.
        sizes: (n,) i64, elements of each tensor.
        streams: (n,) u64.
    """
    if hasattr(index, "encode_batch"):
        batch: SectionBatch | None = index.encode_batch(indices, cuts)
        return batch
    rows = zip(pairwise(cuts.tolist()), sizes.tolist(), streams.tolist(), strict=True)
    try:
        if hasattr(index, "choose_batch"):
            chosen: SectionBatch | None = index.choose_batch(indices, cuts, sizes, streams)
            if chosen is not None:
                return chosen
        if hasattr(index, "choose"):
            return _join([index.choose(indices[a:b], d, stream) for (a, b), d, stream in rows])
        return _join([(index, index.encode(indices[a:b], d, stream)) for (a, b), d, stream in rows])
    except EncodeError:  # one by one, it names the tensor and the element
        return None


def encode_values(value: Any, values: Array, cuts: Array, streams: Array) -> SectionBatch | None:
    """Encode the finite values, or any if the codec carries them, of many tensors; otherwise as above."""
    if hasattr(value, "encode_batch"):
        batch: SectionBatch | None = value.encode_batch(values, cuts, streams)
        if batch is not None:
            return batch
    rows = zip(pairwise(cuts.tolist()), streams.tolist(), strict=True)
    try:
        if hasattr(value, "choose"):
            return _join([value.choose(values[a:b], stream) for (a, b), stream in rows])
        return _join([(value, value.encode(values[a:b], stream)) for (a, b), stream in rows])
    except EncodeError:
        return None


def _join(found: Sequence[tuple[Any, Any]]) -> SectionBatch:
    """Join sections, each given with its codec, to one that is written together."""
    wire_ids = np.array([codec.wire_id for codec, _ in found], np.uint8)
    return SectionBatch.join(wire_ids, [as_bytes(section) for _, section in found])


def can_decode_together(index: Any, value: Any) -> bool:
    """Tell whether sections can be decoded without limits, as batches are; ``index`` may be None."""
    own = all(codec is None or codec.wire_id < EXPERIMENTAL for codec in (index, value))
    return own and not hasattr(index, "work") and not is_ordered(value)


def decode_indices(
    index: Any, words: Array, starts: Array, lengths: Array, sizes: Array, cuts: Array
) -> Array | None:
    """Decode the index sections of many tensors, as ``decode_batch`` of ``IndexCodec`` does."""
    if hasattr(index, "decode_batch"):
        batch: Array | None = index.decode_batch(words, starts, lengths, sizes, cuts)
        return batch
    columns = zip(_sections(words, starts, lengths), sizes.tolist(), np.diff(cuts).tolist(), strict=True)
    try:
        return np.concatenate([index.decode(section, d, r, UNLIMITED) for section, d, r in columns])
    except WireError:
        return None


def decode_values(
    value: Any, words: Array, starts: Array, lengths: Array, cuts: Array, dtype: np.dtype[Any]
) -> tuple[Array, Array] | None:
    """Decode the value sections of many tensors, as ``decode_batch`` of ``ValueCodec`` does."""
    if hasattr(value, "decode_batch"):
        batch: tuple[Array, Array] | None = value.decode_batch(words, starts, lengths, cuts, dtype)
        return batch
    columns = zip(_sections(words, starts, lengths), np.diff(cuts).tolist(), strict=True)
    try:
        found = [value.decode(section, r, dtype, UNLIMITED) for section, r in columns]
    except WireError:
        return None
    return np.concatenate(found), cuts[:-1]


def _sections(words: Array, starts: Array, lengths: Array) -> list[Array]:
    """Return a view of each section's bytes."""
    data = read_only(words).view(np.uint8)
    pairs = zip((starts * 4).tolist(), lengths.tolist(), strict=True)
    return [data[start : start + length] for start, length in pairs]
