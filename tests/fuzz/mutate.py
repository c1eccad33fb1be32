"""Structure-aware mutations: change one part of a container, then correct its lengths and checksums.

The only source of randomness is a ``random.Random``, so a seed determines a mutation. Three of four results
have correct lengths and checksums, and therefore reach the codecs.
"""

from __future__ import annotations

import dataclasses
import random
import struct
from collections.abc import Callable, Sequence

from formats.reference import Record, Row, reseal
from tests.fuzz.anatomy import Parts, assemble_parts, split_container

NUMBERS = (
    *(0, 1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 63, 64, 127, 128, 129, 255, 256, 257, 511, 512, 1023, 1024),
    *(4095, 4096, 16383, 16384, 32767, 32768, 65535, 65536, 2**23, 2**24 - 1, 2**24, 2**24 + 1),
    *(2**31 - 1, 2**31, 2**32 - 8, 2**32 - 1, 2**48, 2**63 - 1, 2**63, 2**64 - 1),
)
"""Numbers at or beside the limits of some field."""
REALS = (0.0, -0.0, 1.0, -1.0, 1e-45, 1e-40, 65504.0, 65520.0, 3.4028235e38, 3.39e38)
REALS64 = (*REALS, 5e-324, 1e308, -1e308, 1.7976931348623157e308, 2.0**-1074, 2.0**1000, 700.0, -745.0)
ODD = (float("nan"), float("inf"), float("-inf"))


def mutate_container(data: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    """Apply one to four changes to a container.

    Args:
        data: a container, valid or not.
        others: containers that may donate sections.
        rng: the only source of randomness.
    """
    parts = split_container(data)
    if parts is None or rng.random() < 0.15:
        out = bytearray(data)
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            _edit(out, rng)
        return reseal(bytes(out)) if rng.random() < 0.8 else bytes(out)
    for _ in range(rng.choice((1, 1, 1, 1, 2, 2, 3, 4))):
        rng.choices(CHANGES, WEIGHTS)[0](parts, others, rng)
    out = bytearray(assemble_parts(parts))
    if rng.random() < 0.02:
        _edit(out, rng)
    return bytes(out)


def _edit(out: bytearray, rng: random.Random) -> None:
    """Change some bytes in place."""
    if not out:
        out += rng.randbytes(rng.randint(1, 9))
        return
    near = rng.random() < 0.4
    at = rng.randrange(min(len(out), 24) if near else len(out))
    how = rng.randrange(11)
    if how <= 1:
        out[at] ^= 1 << rng.randrange(8)
    elif how == 2:
        out[at] = rng.choice((0, 1, 2, 0x7F, 0x80, 0xF0, 0xFE, 0xFF, rng.randrange(256)))
    elif how == 3:
        out[at] = (out[at] + rng.choice((-2, -1, 1, 2))) & 0xFF
    elif how == 4:
        width = rng.choice((2, 4, 4, 8))
        _put(out, at, (rng.choice(NUMBERS) % 256**width).to_bytes(width, "little"), rng)
    elif how == 5:
        width = rng.choice((2, 4, 8))
        old = int.from_bytes(out[at : at + width], "little")
        _put(
            out,
            at,
            ((old + rng.choice((-256, -8, -1, 1, 8, 256))) % 256**width).to_bytes(width, "little"),
            rng,
        )
    elif how == 6:
        real = rng.choice((*REALS64, *ODD))
        single = rng.choice((*REALS, *ODD))
        _put(out, at, struct.pack("<d", real) if rng.random() < 0.5 else struct.pack("<f", single), rng)
    elif how == 7:
        del out[at : at + rng.choice((1, 1, 2, 4, 8, 64))]
    elif how == 8:
        out[at:at] = rng.choice((bytes, rng.randbytes))(rng.choice((1, 1, 2, 4, 8, 64)))
    elif how == 9:
        stop = at + rng.choice((1, 4, 8, 32))
        to = rng.randrange(len(out))
        out[to : to + stop - at] = out[at:stop]
    else:
        n = rng.randint(1, 16)
        out[at : at + n] = rng.randbytes(n) if rng.random() < 0.5 else bytes([rng.choice((0, 255))]) * n


def _put(out: bytearray, at: int, new: bytes, rng: random.Random) -> None:
    """Overwrite bytes, mostly at an offset that is aligned to the new bytes' width."""
    if rng.random() < 0.8:
        at -= at % len(new)
    at = max(0, min(at, len(out) - len(new)))
    out[at : at + len(new)] = new[: len(out) - at]


def _section(parts: Parts, others: Sequence[bytes], rng: random.Random) -> None:
    row, name = _some_section(parts, rng)
    if row is not None:
        out = bytearray(getattr(row, name))
        _edit(out, rng)
        setattr(row, name, bytes(out))


def _some_section(parts: Parts, rng: random.Random) -> tuple[Row | None, str]:
    names = ("index_section", "value_section", "map_section")
    found = [(row, name) for row in parts.rows for name in names if getattr(row, name)]
    return rng.choice(found) if found else (None, "")


def _graft(parts: Parts, others: Sequence[bytes], rng: random.Random) -> None:
    """Replace a section by another container's, with or without its codec and its counts."""
    donor = split_container(rng.choice(others))
    if donor is None or not donor.rows or not parts.rows:
        return
    to, given = rng.choice(parts.rows), rng.choice(donor.rows)
    if rng.random() < 0.5:
        to.index_section = given.index_section
        to.index = given.index if rng.random() < 0.8 else to.index
    else:
        to.value_section, to.map_section, to.map = given.value_section, given.map_section, given.map
        to.value = given.value if rng.random() < 0.8 else to.value
        to.dtype = given.dtype if rng.random() < 0.5 else to.dtype
    if rng.random() < 0.8:
        to.d, to.r = given.d, given.r


def _field(parts: Parts, others: Sequence[bytes], rng: random.Random) -> None:
    if not parts.rows:
        return
    row = rng.choice(parts.rows)
    name = rng.choice(("key", "base", "d", "r", "d", "r", "dtype", "index", "value", "map", "lengths"))
    width = {"base": 8, "key": 4, "d": 4, "r": 4}.get(name, 1)
    if name == "lengths":
        name = rng.choice(("index_len", "value_len", "map_len"))
        section = getattr(row, name.replace("_len", "_section"))
        setattr(row, name, (len(section) + rng.choice((-8, -1, 1, 7, 8, 2**31))) % 2**32)
        return
    old = getattr(row, name)
    new = old + rng.choice((-1, 1, 16, -16)) if rng.random() < 0.5 else rng.choice(NUMBERS)
    setattr(row, name, new % 256**width)


def _order(parts: Parts, others: Sequence[bytes], rng: random.Random) -> None:
    """Duplicate, remove or move a row or a record."""
    listed: list[Row] | list[Record] = parts.rows if rng.random() < 0.5 else parts.records
    if not listed:
        return
    how, at = rng.randrange(3), rng.randrange(len(listed))
    if how == 0:
        listed.insert(rng.randint(0, len(listed)), dataclasses.replace(listed[at]))  # type: ignore[arg-type]
    else:
        removed = listed.pop(at)
        if how == 1:
            listed.insert(rng.randint(0, len(listed)), removed)  # type: ignore[arg-type]


def _record(parts: Parts, others: Sequence[bytes], rng: random.Random) -> None:
    if not parts.records or rng.random() < 0.2:
        kind = rng.choice((1, 2, 3, 4, 5, 6, 0xFFF0))
        parts.records.append(Record(kind, rng.choice((0, 1, 2)), rng.randbytes(rng.randint(0, 24))))
        parts.records.sort(key=lambda record: record.type)
        return
    record = rng.choice(parts.records)
    if rng.random() < 0.2:
        record.flags ^= 1 << rng.randrange(16)
    else:
        out = bytearray(record.body)
        _edit(out, rng)
        record.body = bytes(out)


CHANGES: tuple[Callable[[Parts, Sequence[bytes], random.Random], None], ...] = (
    _section,
    _graft,
    _field,
    _order,
    _record,
)
WEIGHTS = (60, 12, 14, 3, 8)
