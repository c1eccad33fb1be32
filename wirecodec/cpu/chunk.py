"""Codecs of one chunk, both ways, and the division of a tensor into chunks.

    indices, values -> index section, value section, map   (encode_chunks)
    index section, value section, map -> indices, values   (decode_chunk)

Complex coefficients are one index and one complex value each; value codecs see their real and imaginary
parts, interleaved.

A support that is empty or full needs no index bytes (formats/SPEC.md, 2.2), and index codecs do not get it.
After a lossy index codec, the values are gathered again from the tensor, at the indices that readers find.
Value codecs that need order get sorted values; a map stores their positions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar

import numpy as np

from wirecodec.arrays import Array, Bytes, nothing, read_only
from wirecodec.container.reader import Row
from wirecodec.container.writer import CHUNK, Entry
from wirecodec.element_types import DTYPES, RECORD_DTYPES
from wirecodec.errors import EncodeError, Invalid, LimitExceeded, Malformed, WireError
from wirecodec.index.base import IndexChoice, IndexCodec, LossyIndexCodec
from wirecodec.index.raw import ascending_below
from wirecodec.limits import DEFAULT_LIMITS, DecodeLimits
from wirecodec.prng import mix
from wirecodec.registry import EXPERIMENTAL, index_codec, transform, value_codec
from wirecodec.select.base import require_finite
from wirecodec.settings.scheme import Scheme, call_string
from wirecodec.sparse import ascending_indices
from wirecodec.support import DecodedChunk, Support
from wirecodec.tensors import as_bytes
from wirecodec.transform.base import coefficient_type, is_in_range
from wirecodec.value.base import ValueChoice
from wirecodec.value.sort_permutation import pack_map, restore_order, sort_ascending, unpack_map

T = TypeVar("T")
_INDEX_TYPE = np.dtype(np.uint32)


def encode_chunks(key: int, support: Support, scheme: Scheme, seed: int) -> Sequence[Entry]:
    """Encode a tensor's chunks."""
    if support.entries is not None:
        return [replace(entry, key=key) for entry in support.entries] if key else support.entries
    chunk = CHUNK // support.width
    if support.size <= chunk:
        count = support.values.size
        local = None if count == support.size else _local_indices(support.indices, 0, count, 0)
        stream = mix(seed, key, 0)
        return [_encode_chunk(key, 0, support.size, local, support.values, scheme, stream, support)]
    bases = range(0, support.size, chunk)
    if len(bases) > DEFAULT_LIMITS.max_entries:
        raise EncodeError(f"{support.size} elements have {len(bases)} chunks; no reader takes so many")
    cuts = [*bases, support.size]
    if support.indices is not None:  # edges of another type would convert all indices
        last = np.array(cuts[1:]) - 1
        ends = np.searchsorted(support.indices, last.astype(support.indices.dtype), side="right")
        cuts = [0, *ends.tolist()]
    entries = []
    for base, start, stop in zip(bases, cuts, cuts[1:], strict=False):
        d = min(chunk, support.size - base)
        values = support.values[start:stop]
        full = values.size == d
        local = None if full else _local_indices(support.indices, start, stop, base)
        entries.append(_encode_chunk(key, base, d, local, values, scheme, mix(seed, key, base), support))
    return entries


def _local_indices(indices: Array | None, start: int, stop: int, base: int) -> Array:
    """Count a chunk's indices from its base, as u32; a chunk at the tensor's start is not copied."""
    assert indices is not None
    part = indices[start:stop]
    if part.dtype == np.int32:
        aligned = base == 0 and part.flags.aligned
        return read_only((part if aligned else part - np.int32(base)).view(np.uint32))
    return read_only((part - base).astype(np.uint32))


def _encode_chunk(
    key: int,
    base: int,
    d: int,
    indices: Array | None,
    values: Array,
    scheme: Scheme,
    stream: int,
    support: Support,
) -> Entry:
    """Encode one chunk: indices, then values. An empty or full support has no index bytes."""
    index_section = value_section = np.empty(0, np.uint8)
    map_section = positions = None
    some = indices if values.size else None
    try:
        index: IndexChoice = scheme.index
        if some is not None and isinstance(index, LossyIndexCodec):
            made = index.approximate(some, d, stream)
            if not made.complete:
                require_finite(
                    read_only(_real_numbers(values) if support.domain else values), call_string(index)
                )
            known = made.found is not None and index.wire_id < EXPERIMENTAL
            if made.found is not None:
                indices = _check_found(index, made.found, d)
                values = support.at(indices.astype(np.int64) + base)
            if values.size < d:
                index_section = made.section
        else:
            index, index_section = index.choose(some, d, stream)
            known = index.wire_id < EXPERIMENTAL
        values = read_only(_real_numbers(values) if support.domain else values)
        value: ValueChoice = scheme.value
        if not (value.carries_nonfinite or (support.finite and not index.lossy)):
            require_finite(values, value.name)
        if value.ordered:
            values, positions = sort_ascending(values)
            map_section = pack_map(positions)
        if support.step is None or not values.size:
            value, value_section = value.choose(values, stream)
        else:
            value, value_section = value.choose_with_step(values, stream, support.step)
    except EncodeError as error:
        raise _at_element(error, indices, positions, base, support) from None
    return Entry(
        key,
        base,
        d,
        values.size // support.width,
        support.dtype,
        support.domain,
        index.wire_id,
        value.wire_id,
        _flat_bytes(index_section, index.name),
        _flat_bytes(value_section, value.name),
        map_section,
        indices,
        known,
    )


def _flat_bytes(section: Any, name: str) -> Bytes:
    """Convert a codec's section to (n,) u8; it may be any buffer. Raises EncodeError for anything else."""
    if type(section) is np.ndarray and section.dtype == np.uint8 and section.ndim == 1:
        return section
    try:
        return as_bytes(section)
    except Malformed as error:
        raise EncodeError(f"codec {name!r} encoded to no bytes: {error.message}") from None


def _check_found(index: IndexCodec, indices: Array, d: int) -> Array:
    """Return the indices that a lossy codec reports; check those of a user-defined one."""
    return indices if index.wire_id < EXPERIMENTAL else ascending_indices(indices, d)


def _real_numbers(values: Array) -> Array:
    """View complex values as their real and imaginary parts; real values stay as they are."""
    return values.view(np.dtype(f"f{values.itemsize // 2}")) if values.dtype.kind == "c" else values


def _at_element(
    error: EncodeError, indices: Array | None, positions: Array | None, base: int, support: Support
) -> EncodeError:
    """Convert the position in a codec's error from a value's number to that of the tensor's element.

    Args:
        error: the codec's error.
        indices: (r,) of the chunk, or None for all.
        positions: original positions of the codec's sorted numbers, or None if they were not sorted.
        base: the chunk's base.
        support: the tensor's. The error names a coefficient, not an element, if there is a transform.
    """
    if error.position is None:
        return error
    slot = int(error.position if positions is None else positions[error.position]) // support.width
    position = base + int(slot if indices is None else indices[slot])
    if support.domain:
        return EncodeError(f"coefficient {position}: {error.reason}", tensor=error.tensor)
    return EncodeError(error.reason, tensor=error.tensor, position=position)


def element_type(row: Row) -> np.dtype[Any]:
    """Return the element type of a row of the table, which is one of the four floats."""
    return DTYPES[(row.dtype & 15) - 1]


def stored_type(row: Row) -> np.dtype[Any]:
    """Return the dtype of a row's stored values: elements or coefficients."""
    return _types(row.dtype, row.number)[0]


@cache
def _types(field: int, number: int) -> tuple[np.dtype[Any], np.dtype[Any], int]:
    """Return the stored dtype of a row, the dtype of its numbers, and the numbers per value.

    Args:
        field: the row's field dtype.
        number: the type in the record of types, or 0.
    """
    domain = field >> 4
    dtype = RECORD_DTYPES[number] if number else DTYPES[(field & 15) - 1]
    if not domain:
        return dtype, dtype, 1
    numbers, width = coefficient_type(dtype), transform(domain).width
    return (numbers if width == 1 else np.dtype(f"c{2 * numbers.itemsize}")), numbers, width


def decode_chunk(row: Row, sections: Sequence[Bytes], limits: DecodeLimits) -> DecodedChunk:
    """Decode one chunk: indices, values, map; each codec checks its section. Raises a WireError."""
    indices, work = decode_indices(row, sections[0], limits)
    return DecodedChunk(row.base, row.d, indices, decode_values(row, sections[1], sections[2], limits), work)


def decode_indices(row: Row, section: Bytes, limits: DecodeLimits) -> tuple[Array | None, int]:
    """Decode the indices of a chunk, (r,) u32 or None for all; and count the steps beyond bytes and r."""
    d, r, work = row.d, row.r, 0
    if not 0 < r < d:
        return None if r == d else nothing(_INDEX_TYPE), 0
    index = index_codec(row.index_codec)
    if index.has_work or row.index_codec >= EXPERIMENTAL:
        work = _call(index, lambda: int(index.work(section, d, r)))
        if work > limits.max_work:
            raise LimitExceeded("max-work", f"{work} steps; {limits.max_work} are left of the limit")
    if row.index_codec < EXPERIMENTAL:
        return index.decode(section, d, r, limits), work
    indices = _call_for_array(index, lambda: index.decode(section, d, r, limits), r, _INDEX_TYPE)
    return ascending_below(indices.copy(), d), work  # the codec's array may be a view of the buffer


def decode_values(row: Row, section: Bytes, map_section: Bytes, limits: DecodeLimits) -> Array:
    """Decode the values of a chunk, (r,) in the type of its elements or coefficients."""
    stored, dtype, width = _types(row.dtype, row.number)
    n, values = row.r * width, nothing(dtype)
    if n:
        value = value_codec(row.value_codec)
        if row.value_codec < EXPERIMENTAL:
            values = value.decode(section, n, dtype, limits)
        else:
            values = _call_for_array(value, lambda: value.decode(section, n, dtype, limits), n, dtype)
        if dtype == np.bool_ and values.view(np.uint8).max() > 1:
            raise Invalid("bool-value", "an element is neither 0 nor 1")
        if row.map_codec:
            values = restore_order(values, unpack_map(map_section, n))
        if row.dtype >> 4 and not is_in_range(values):
            raise Invalid("transform-value", "a coefficient is not finite, or above 2^1000")
    return np.ascontiguousarray(values).view(stored) if width == 2 else values


def _call_for_array(codec: Any, decoding: Callable[[], Array], r: int, dtype: np.dtype[Any]) -> Array:
    """Return the (r,) result of a user-defined codec; raise Invalid if it has another form."""
    result = _call(codec, decoding)
    if not isinstance(result, np.ndarray) or result.dtype != dtype or result.shape != (r,):
        raise Invalid("codec-failed", f"codec {codec.name!r} did not return {r} elements of {dtype}")
    return result


def _call(codec: Any, call: Callable[[], T]) -> T:
    """Call a codec's method; convert any exception of a user-defined codec to a WireError."""
    if codec.wire_id < EXPERIMENTAL:
        return call()
    try:
        return call()
    except WireError:
        raise
    except Exception as error:
        raise Invalid("codec-failed", f"codec {codec.name!r}: {error!r}") from error
