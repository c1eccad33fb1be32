"""Containers of as many tiny tensors as fit 64 KiB, of which the last is broken: refused within the budget.

Objects take far more room than the bytes of a tiny tensor: a decoder that makes them before all is validated
needs up to seven times of 64 KiB + 4 · (length + 12 · Σr) bytes.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import wirecodec as wc
from formats.reference import Record, Row, assemble
from formats.reference.writing.assembly import write_extension_block
from formats.reference.writing.records import write_fused, write_names, write_shape
from formats.reference.writing.transform.coefficients import write_lengths

MOST = 1 << 16
FLOAT32, FFT, DCT = 1, 1 << 4 | 1, 2 << 4 | 1


@dataclass(frozen=True)
class Crowd:
    """A container whose last entry's values end too early."""

    blob: bytes
    stored: int
    schema: dict[str, Any] | None = None


def crowd(
    n: int, d: int, r: int, *, dtype: int = FLOAT32, width: int = 1, records: list[Record] | None = None
) -> Crowd:
    """n entries of d elements, r of them stored, and one that is broken behind them."""
    index = b"".join((2 * i).to_bytes(2, "little") for i in range(r)) if 0 < r < d else b""
    rows = [Row(key, 0, d, r, dtype, 1, 1, index, bytes(4 * width * r)) for key in range(n)]
    rows.append(Row(n, 0, 9, 9, FLOAT32, 1, 1, b"", b"short"))
    return Crowd(assemble(rows, write_extension_block(records) if records else b""), n * r + 9)


def plain(r: int) -> Crowd:
    return crowd((MOST - 100) // (40 + 8 * (r > 0) * 2), 9, r)


def full(r: int) -> Crowd:
    return crowd((MOST - 100) // (40 + 8 * -(-r // 2)), r, r)


def named() -> Crowd:
    n = 1400
    names = [b"%04d" % key for key in range(n + 1)]
    return crowd(n, 9, 0, records=[Record(2, 0, write_names(names))])


def shaped() -> Crowd:
    n = 1300
    rows = b"".join(write_shape(key, (3, 3)) for key in range(n))
    return crowd(n, 9, 0, records=[Record(3, 0, rows)])


def expected() -> Crowd:
    """One that a schema names."""
    found = plain(0)
    return Crowd(found.blob, found.stored, {f"{key:04}": ((9,), "float32") for key in range(1636)})


def transformed() -> Crowd:
    n = 1150
    lengths = write_lengths([(key, 9) for key in range(n)])
    return crowd(n, 9, 0, dtype=DCT, records=[Record(4, 1, lengths)])


def coefficients() -> Crowd:
    n = 1010
    lengths = write_lengths([(key, 1) for key in range(n)])
    return crowd(n, 1, 1, dtype=FFT, width=2, records=[Record(4, 1, lengths)])


def fused(size: int) -> Crowd:
    """One entry for as many members as there can be."""
    n = 8160
    members = [(key, size) for key in range(n)]
    row = Row(0, 0, n * size, 0, FLOAT32, 1, 1)
    last = Row(n, 0, 9, 9, FLOAT32, 1, 1, b"", b"short")
    return Crowd(assemble([row, last], write_extension_block([Record(1, 1, write_fused([members]))])), 9)


def pairs() -> Crowd:
    """Entries of two members each."""
    n = 1015
    groups = [[(2 * i, 1), (2 * i + 1, 1)] for i in range(n)]
    rows = [Row(2 * i, 0, 2, 0, FLOAT32, 1, 1) for i in range(n)]
    rows.append(Row(2 * n, 0, 9, 9, FLOAT32, 1, 1, b"", b"short"))
    return Crowd(assemble(rows, write_extension_block([Record(1, 1, write_fused(groups))])), 9)


CROWDS: dict[str, Callable[[], Crowd]] = {
    "empty": lambda: plain(0),
    "of one": lambda: plain(1),
    "of two": lambda: plain(2),
    "full": lambda: full(1),
    "of sixteen": lambda: full(16),
    "of seventeen": lambda: full(17),
    "named": named,
    "shaped": shaped,
    "expected": expected,
    "transformed": transformed,
    "coefficients": coefficients,
    "fused": lambda: fused(3),
    "fused, empty": lambda: fused(0),
    "pairs": pairs,
}


def refuse(crowd: Crowd) -> None:
    with pytest.raises(wc.Malformed) as caught:
        wc.decode_many(crowd.blob, schema=crowd.schema)
    assert caught.value.code == "raw-length"
    assert caught.value.entry


@pytest.mark.parametrize("made", CROWDS.values(), ids=CROWDS)
def test_a_crowd_is_refused_within_the_budget(made: Callable[[], Crowd]) -> None:
    crowd = made()
    assert MOST - 1200 < len(crowd.blob) <= MOST
    refuse(crowd)
    tracemalloc.start()
    try:
        refuse(crowd)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= 65_536 + 4 * (len(crowd.blob) + 12 * crowd.stored)
    start = time.process_time()
    refuse(crowd)
    assert time.process_time() - start < 0.2  # 50 ms and 50 µs per entry, and noise
