"""Tests of 64 KiB containers of tiny tensors, the last one invalid: rejected within the budget.

Objects take far more memory than the bytes of a tiny tensor. A decoder that creates them before it has
validated all needs up to seven times the budget of 64 KiB + 4 · (length + 12 · Σr) bytes.
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
from formats.reference.transform.coefficients import coefficient_count
from formats.reference.writing.assembly import write_extension_block
from formats.reference.writing.records import write_fused, write_joined, write_names, write_shape
from formats.reference.writing.transform.coefficients import write_lengths
from wirecodec.container import content

MAX_BYTES = 1 << 16
FLOAT32, FFT, DCT = 1, 1 << 4 | 1, 2 << 4 | 1


@dataclass(frozen=True)
class ManyTensors:
    """Container whose last entry's values are truncated."""

    blob: bytes
    stored: int
    schema: dict[str, Any] | None = None


def assemble_tensors(
    n: int, d: int, r: int, *, dtype: int = FLOAT32, width: int = 1, records: list[Record] | None = None
) -> ManyTensors:
    """Assemble n entries of d elements, r of them stored, and a last entry that is invalid."""
    index = b"".join((2 * i).to_bytes(2, "little") for i in range(r)) if 0 < r < d else b""
    rows = [Row(key, 0, d, r, dtype, 1, 1, index, bytes(4 * width * r)) for key in range(n)]
    rows.append(Row(n, 0, 9, 9, FLOAT32, 1, 1, b"", b"short"))
    return ManyTensors(assemble(rows, write_extension_block(records) if records else b""), n * r + 9)


def plain(r: int) -> ManyTensors:
    return assemble_tensors((MAX_BYTES - 100) // (40 + 8 * (r > 0) * 2), 9, r)


def full(r: int) -> ManyTensors:
    return assemble_tensors((MAX_BYTES - 100) // (40 + 8 * -(-r // 2)), r, r)


def named() -> ManyTensors:
    n = 1400
    names = [b"%04d" % key for key in range(n + 1)]
    return assemble_tensors(n, 9, 0, records=[Record(2, 0, write_names(names))])


def shaped() -> ManyTensors:
    n = 1300
    rows = b"".join(write_shape(key, (3, 3)) for key in range(n))
    return assemble_tensors(n, 9, 0, records=[Record(3, 0, rows)])


def with_schema() -> ManyTensors:
    """Assemble tensors that a schema lists."""
    found = plain(0)
    return ManyTensors(found.blob, found.stored, {f"{key:04}": ((9,), "float32") for key in range(1636)})


def described() -> ManyTensors:
    """Assemble tensors with names and shapes of eight dimensions."""
    n = 3000
    names = write_names([b"%04d" % key for key in range(n + 1)])
    rows = b"".join(write_shape(key, (1,) * 7 + (9,)) for key in range(n))
    return assemble_tensors(n, 9, 0, records=[Record(2, 0, names), Record(3, 0, rows)])


def long_shapes() -> ManyTensors:
    n = 780
    rows = b"".join(write_shape(key, (1,) * 31 + (9,)) for key in range(n))
    return assemble_tensors(n, 9, 0, records=[Record(3, 0, rows)])


def transformed() -> ManyTensors:
    n = 1150
    lengths = write_lengths([(key, 9) for key in range(n)])
    return assemble_tensors(n, 9, 0, dtype=DCT, records=[Record(4, 1, lengths)])


def coefficients() -> ManyTensors:
    n = 1010
    lengths = write_lengths([(key, 1) for key in range(n)])
    return assemble_tensors(n, 1, 1, dtype=FFT, width=2, records=[Record(4, 1, lengths)])


def fused(size: int) -> ManyTensors:
    """Assemble one entry with the maximum number of fused members."""
    n = 8160
    members = [(key, size) for key in range(n)]
    row = Row(0, 0, n * size, 0, FLOAT32, 1, 1)
    last = Row(n, 0, 9, 9, FLOAT32, 1, 1, b"", b"short")
    return ManyTensors(
        assemble([row, last], write_extension_block([Record(1, 1, write_fused([members]))])), 9
    )


def fused_described(*, shaped: bool) -> ManyTensors:
    """Assemble one entry of fused members that have names, or shapes, and a schema that lists them."""
    n = 3600 if shaped else 4650
    row = Row(0, 0, 4 * n, 0, FLOAT32, 1, 1)
    last = Row(n, 0, 9, 9, FLOAT32, 1, 1, b"", b"short")
    own = Record(2, 0, write_names([b"%04d" % key for key in range(n + 1)]))
    if shaped:
        own = Record(3, 0, b"".join(write_shape(key, (2, 2)) for key in range(n)))
    records = [Record(1, 1, write_fused([[(key, 4) for key in range(n)]])), own]
    shape = (2, 2) if shaped else (4,)
    schema: dict[str, Any] = {f"{key:04}": (shape if key < n else (9,), "float32") for key in range(n + 1)}
    return ManyTensors(assemble([row, last], write_extension_block(records)), 9, schema)


def pairs() -> ManyTensors:
    """Assemble entries of two fused members each."""
    n = 1015
    groups = [[(2 * i, 1), (2 * i + 1, 1)] for i in range(n)]
    rows = [Row(2 * i, 0, 2, 0, FLOAT32, 1, 1) for i in range(n)]
    rows.append(Row(2 * n, 0, 9, 9, FLOAT32, 1, 1, b"", b"short"))
    return ManyTensors(assemble(rows, write_extension_block([Record(1, 1, write_fused(groups))])), 9)


def joined(size: int, members: int) -> ManyTensors:
    """Assemble vectors of equal members, each with one entry and no coefficient."""
    count = (MAX_BYTES - 200) // (40 + 16 + 16 * members)
    firsts, n = range(0, count * members, members), members * size
    vectors = [[(first + i, size) for i in range(members)] for first in firsts]
    d = coefficient_count(DCT >> 4, n)
    rows = [Row(first, 0, d, 0, DCT, 1, 1) for first in firsts]
    rows.append(Row(count * members, 0, 9, 9, FLOAT32, 1, 1, b"", b"short"))
    records = [
        Record(4, 1, write_lengths([(first, n) for first in firsts])),
        Record(10, 1, write_joined(vectors)),
    ]
    return ManyTensors(assemble(rows, write_extension_block(records)), 9)


CASES: dict[str, Callable[[], ManyTensors]] = {
    "empty": lambda: plain(0),
    "of one": lambda: plain(1),
    "of two": lambda: plain(2),
    "full": lambda: full(1),
    "of sixteen": lambda: full(16),
    "of seventeen": lambda: full(17),
    "named": named,
    "shaped": shaped,
    "expected": with_schema,
    "transformed": transformed,
    "coefficients": coefficients,
    "fused": lambda: fused(3),
    "fused, empty": lambda: fused(0),
    "pairs": pairs,
    "joined": lambda: joined(3, 4075),
    "joined, empty": lambda: joined(0, 4075),
    "joined pairs": lambda: joined(1, 2),
}


def check_rejected(case: ManyTensors) -> None:
    with pytest.raises(wc.Malformed) as caught:
        wc.decode_many(case.blob, schema=case.schema)
    assert caught.value.code == "raw-length"
    assert caught.value.entry


def measure_peak(case: ManyTensors) -> int:
    tracemalloc.start()
    try:
        check_rejected(case)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def budget_of(case: ManyTensors) -> int:
    return 65_536 + 4 * (len(case.blob) + 12 * case.stored)


@pytest.mark.parametrize("made", CASES.values(), ids=CASES)
def test_many_tensors_are_rejected_within_the_budget(made: Callable[[], ManyTensors]) -> None:
    case = made()
    assert MAX_BYTES - 1200 < len(case.blob) <= MAX_BYTES
    check_rejected(case)
    assert measure_peak(case) <= budget_of(case)
    start = time.process_time()
    check_rejected(case)
    assert time.process_time() - start < 0.2  # 50 ms and 50 µs per entry, with a margin


DESCRIBED: dict[str, Callable[[], ManyTensors]] = {
    "named": named,
    "shaped": shaped,
    "both": described,
    "long rows": long_shapes,
    "names of fused tensors": lambda: fused_described(shaped=False),
    "shapes of fused tensors": lambda: fused_described(shaped=True),
}


@pytest.mark.parametrize("made", DESCRIBED.values(), ids=DESCRIBED)
def test_names_and_shapes_are_not_kept_before_all_is_valid(made: Callable[[], ManyTensors]) -> None:
    case = made()
    for kept in (content._NAMES, content._ROWS):
        kept.clear()
    check_rejected(case)  # compiles the kernels
    assert measure_peak(case) <= budget_of(case)
    assert not content._NAMES._found
    assert not content._ROWS._found
