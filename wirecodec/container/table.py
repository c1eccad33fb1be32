"""Checks of a container's table: rows 13 to 27 of formats/SPEC.md, section 7.

``reader.read_header`` calls them in their order. ``count_keys_of_sound`` makes all checks in one kernel call,
without messages. If it does not find the table sound, the others report the first fault.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from functools import lru_cache
from typing import Any

import numpy as np

from wirecodec.arrays import WORD, Array, read_only
from wirecodec.container.based import INDEX_CODECS, REMEDY, VALUE_CODECS
from wirecodec.container.writer import CHUNK, IN_RECORD, LENGTHS, PREFIX_BYTES, TABLE
from wirecodec.element_types import DTYPES
from wirecodec.errors import Invalid, LimitExceeded, Malformed, Unsupported, WireError
from wirecodec.limits import DecodeLimits
from wirecodec.registry import EXPERIMENTAL, index_codecs, readable_codecs, transforms, value_codecs
from wirecodec.value.sort_permutation import PACKED, map_bytes


def count_keys_of_sound(
    table: Array, payload: int, total: int, limits: DecodeLimits, sizes_trusted: bool
) -> int | None:
    """Return the number of keys of a table that passes rows 13 to 27; None if it may not.

    A hundred calls of NumPy would take longer than decoding a small tensor. Tables with transforms or maps
    are left to them.
    """
    from wirecodec.kernels.cpu.table import measure_sound_table

    index_known, value_known = _mark_known(*readable_codecs())
    keys, stored, elements = measure_sound_table(
        table.view(WORD), total - payload, CHUNK, len(DTYPES), index_known, value_known
    )
    if keys < 0 or stored > limits.max_elements or elements > limits.max_dense:
        return None
    if not sizes_trusted and stored > limits.max_expansion * total:
        return None
    return int(keys)


@lru_cache(maxsize=4)
def _mark_known(index: tuple[Any, ...], value: tuple[Any, ...]) -> tuple[Array, Array]:
    """Return (256,) bool for index codecs, and for value codecs that need no map: whether an id is known."""
    return _mark(index), _mark(codec for codec in value if not codec.ordered)


def _mark(codecs: Iterable[Any]) -> Array:
    """Return (256,) bool, whether an id is that of a codec."""
    known = np.zeros(256, np.bool_)
    known[[codec.wire_id for codec in codecs]] = True
    return read_only(known)


def _refuse(kind: type[WireError], code: str, wrong: Array, message: str) -> None:
    """Raise an error for the first entry that is wrong."""
    if wrong.any():
        entry = int(np.argmax(wrong))
        raise kind(code, message, entry=entry, offset=PREFIX_BYTES + TABLE.itemsize * entry)


def _unknown(ids: Array, known: Iterable[int]) -> Array:
    """Mark the ids that are not among the known ones."""
    unknown = np.ones(256, bool)
    unknown[list(known)] = False
    return unknown[ids]


def _refuse_unknown(code: str, ids: Array, known: Iterable[int], based: Container[int]) -> None:
    """Raise Unsupported with the id of the first codec that is not registered here."""
    unknown = _unknown(ids, known)
    if unknown.any():
        wire_id = int(ids[np.argmax(unknown)])
        _refuse(
            Unsupported,
            code,
            unknown,
            f"unknown {code.replace('-', ' ')} 0x{wire_id:02x}"
            + (
                "; it is user-defined and must be registered here, too (command line: --import MODULE)"
                if wire_id >= EXPERIMENTAL
                else ""
            )
            + (f"; {REMEDY}" if wire_id in based else ""),
        )


def check_table(table: Array, payload: int, total: int, private: bool = False, based: bool = False) -> None:
    """Check rows 13 to 24.

    ``private`` accepts codecs of private ids that are not registered here, ``based`` those of patches.

    Sums fit int64: at most 2^26 entries have fields of 32 bits.
    """
    others = range(EXPERIMENTAL, 256) if private else ()
    index, value = {**index_codecs(), **(INDEX_CODECS if based else {})}, set(VALUE_CODECS if based else ())
    d, r, base, key = (table[name].astype(np.int64) for name in ("d", "r", "base", "key"))
    lengths = [table[name].astype(np.int64) for name in LENGTHS]
    end = payload + sum(int((n + 7 & -8).sum()) for n in lengths)
    if end != total:
        raise Malformed("layout", f"header and sections have {end} bytes; the container has {total}")
    first = np.ones(table.size, bool)
    first[1:] = key[1:] != key[:-1]
    unordered = np.zeros(table.size, bool)
    unordered[1:] = (key[1:] < key[:-1]) | (~first[1:] & (table["base"][1:] <= table["base"][:-1]))
    _refuse(Invalid, "table-order", unordered, "the table does not ascend by key and base")
    dtype = table["dtype"]
    nibble = dtype & 15
    typed = nibble == IN_RECORD
    unknown = ((nibble == 0) | (nibble > len(DTYPES))) & ~typed
    _refuse(Unsupported, "dtype", unknown, "unknown element type")
    _refuse(Unsupported, "domain", _unknown(dtype >> 4, (0, *transforms())), "unknown domain")
    _refuse(Unsupported, "domain", typed & (dtype != IN_RECORD), "only floats have a transform")
    _refuse_unknown("index-codec", table["index"], (*index, *others), INDEX_CODECS)
    _refuse_unknown("value-codec", table["value"], (*value_codecs(), *value, *others), VALUE_CODECS)
    foreign = _unknown(table["value"], (*value_codecs(), *value))
    of_any_type = [n for n, codec in value_codecs().items() if codec.of_any_type]
    of_floats = _unknown(table["value"], [*of_any_type, *value])
    wrong = typed & of_floats & ~foreign
    _refuse(Unsupported, "value-codec", wrong, "the value codec carries floats alone")
    maps = np.zeros(256, np.uint8)
    maps[[wire_id for wire_id, codec in value_codecs().items() if codec.ordered]] = PACKED
    wrong = np.where(foreign, table["map"] > PACKED, table["map"] != maps[table["value"]])
    _refuse(Unsupported, "map-codec", wrong, "the map codec is unknown, or not the value codec's")
    _refuse(Invalid, "count", r > d, "an entry stores more elements than it has")
    last = np.ones(table.size, bool)
    last[:-1] = first[1:]
    full = CHUNK // _widths(table)
    broken = (
        (d > full) | (~last & (d != full)) | (first & (table["base"] != 0)) | ((d == 0) & ~(first & last))
    )
    broken[1:] |= ~first[1:] & ((base[1:] != base[:-1] + d[:-1]) | (dtype[1:] != dtype[:-1]))
    _refuse(Invalid, "chunks", broken, "the chunks of a tensor are not contiguous")
    free = (r == 0) | (r == d)
    _refuse(
        Malformed,
        "index-length",
        (lengths[0] == 0) != free,
        "an index section is missing or not needed",
    )
    _refuse(
        Malformed,
        "value-length",
        (lengths[1] == 0) != (r == 0),
        "a value section is missing or not needed",
    )
    needed, numbers = np.zeros(table.size, np.int64), r * _widths(table)
    for mapped in np.flatnonzero(table["map"]).tolist():
        needed[mapped] = map_bytes(int(numbers[mapped]))
    wrong = lengths[2] != needed
    _refuse(Malformed, "map-length", wrong, "a map section is not needed or has a wrong length")


def _widths(table: Array) -> Array:
    """Return the numbers per element of each entry: 2 for complex coefficients, else 1."""
    widths = np.ones(16, np.int64)
    for domain, transform in transforms().items():
        widths[domain] = transform.width
    entry_widths: Array = widths[table["dtype"] >> 4]
    return entry_widths


def check_limits(table: Array, total: int, limits: DecodeLimits, sizes_trusted: bool) -> None:
    """Check rows 25 to 27. A transformed tensor with a coefficient stores all its elements."""
    d, r, key = table["d"] * _widths(table), table["r"], table["key"]
    plain = table["dtype"] >> 4 == 0
    restored = ~plain & np.isin(key, key[~plain & (r > 0)])
    dense = int(d.sum())
    elements = int(r[plain].sum(dtype=np.int64)) + int(d[restored].sum())
    if elements > limits.max_elements:
        raise LimitExceeded("max-elements", f"{elements} stored elements; the limit is {limits.max_elements}")
    if dense > limits.max_dense:
        raise LimitExceeded("max-dense", f"{dense} elements; the limit is {limits.max_dense}")
    if not sizes_trusted and elements > limits.max_expansion * total:
        limit = f"the limit without a schema is {limits.max_expansion} per byte"
        raise LimitExceeded("max-expansion", f"{elements} stored elements in {total} bytes; {limit}")
