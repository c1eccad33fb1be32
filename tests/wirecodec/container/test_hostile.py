"""Tests of hostile bytes: only a WireError escapes, and a small input costs little time and memory.

The budget of an invalid input of at most 64 KiB is 50 ms and 5 ns per declared output byte, and
64 KiB + 4 · (length + 12 · Σr) bytes of memory.
"""

from __future__ import annotations

import contextlib
import struct
import time
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import wirecodec as wc
from formats import conformance, reference
from tests.fuzz.judge import library
from tests.golden import vectors

BAD = [v for v in vectors() if v.result != "ok" and len(v.data) <= 1 << 16]


def sum_declared(data: bytes) -> int:
    """Return Σ r of the entries that fit in the bytes."""
    if len(data) < 24:
        return 0
    count = min(struct.unpack_from("<I", data, 8)[0], (len(data) - 24) // 40)
    return sum(struct.unpack_from("<I", data, 24 + 40 * i + 20)[0] for i in range(count))


def check_rejected(vector: conformance.Vector) -> None:
    with pytest.raises(wc.WireError):
        library(vector.data, vector.limits, vector.expected)


def test_bad_inputs_cost_little_time() -> None:
    for vector in BAD:
        check_rejected(vector)  # compiles the kernels
        best = min(measure_rejection(vector) for _ in range(3))
        assert best <= 0.05 + 5e-9 * 8 * sum_declared(vector.data), vector.id


def measure_rejection(vector: conformance.Vector) -> float:
    start = time.perf_counter()
    check_rejected(vector)
    return time.perf_counter() - start


def test_bad_inputs_cost_little_memory() -> None:
    for vector in BAD:
        check_rejected(vector)
    tracemalloc.start()
    try:
        for vector in BAD:
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            check_rejected(vector)
            peak = tracemalloc.get_traced_memory()[1] - before
            r = sum_declared(vector.data)
            allowed = 65_536 + 4 * (len(vector.data) + 12 * r)
            assert peak <= allowed, (vector.id, peak, allowed)
    finally:
        tracemalloc.stop()


def assemble_entries(entries: list[tuple[int, ...]], payload: bytes, **head: Any) -> bytes:
    """Assemble a container with arbitrary numbers in its table and correct checksums."""
    total = 24 + 40 * len(entries) + len(payload)
    blob = struct.pack(
        "<4sBBHIIQ",
        b"\xf7WC\x1a",
        1,
        0,
        0,
        head.get("count", len(entries)),
        0,
        head.get("total", total),
    )
    for key, base, d, r, index_len, value_len, map_len, dtype, index, value, map_ in entries:
        blob += struct.pack(
            "<IIQIIIIIBBBB", key, 0, base, d, r, index_len, value_len, map_len, dtype, index, value, map_
        )
    return reference.reseal(blob + payload)


HUGE = 2**32 - 1


@pytest.mark.parametrize(
    ("blob", "kind", "code"),
    [
        (assemble_entries([], b"", count=HUGE), wc.LimitExceeded, "max-entries"),
        (assemble_entries([], b"", count=60_000), wc.Malformed, "table-length"),
        (assemble_entries([], b"", total=2**63), wc.LimitExceeded, "max-bytes"),
        (assemble_entries([], b"", total=2**64 - 8), wc.LimitExceeded, "max-bytes"),
        (assemble_entries([(0, 0, 2**24, HUGE, 8, 8, 0, 1, 1, 1, 0)], bytes(16)), wc.Invalid, "count"),
        (assemble_entries([(0, 0, HUGE, HUGE, 0, 8, 0, 1, 1, 1, 0)], bytes(8)), wc.Invalid, "chunks"),
        (
            assemble_entries([(0, 0, 2**24, 2**24, 0, 8, 0, 1, 1, 4, 0)], bytes(8)),
            wc.LimitExceeded,
            "max-expansion",
        ),
        (assemble_entries([(0, 0, 9, 3, HUGE, HUGE, HUGE, 1, 1, 1, 0)], b""), wc.Malformed, "layout"),
        (assemble_entries([(0, 0, 9, 3, HUGE - 6, 0, 0, 1, 1, 1, 0)], b""), wc.Malformed, "layout"),
        (assemble_entries([(0, 2**64 - 2**24, 9, 3, 8, 8, 0, 1, 1, 1, 0)], bytes(16)), wc.Invalid, "chunks"),
        (
            assemble_entries([(0, 0, 1 << 24, 100_000, 4, 4, 0, 1, 3, 1, 0)], bytes(16)),
            wc.Malformed,
            "rice-length",
        ),
        (assemble_entries([(0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0)] * 3, b""), wc.Invalid, "table-order"),
    ],
)
def test_huge_numbers_are_rejected(blob: bytes, kind: type[wc.WireError], code: str) -> None:
    with pytest.raises(kind) as caught:
        wc.decode_many(blob)
    assert caught.value.code == code


def assemble_records(*records: tuple[int, int, bytes], entries: bytes = b"") -> bytes:
    """Assemble a container with arbitrary records."""
    body = b"".join(struct.pack("<HHI", k, f, len(b)) + b + bytes(-len(b) % 8) for k, f, b in records)
    block = struct.pack("<II", 8 + len(body), len(records)) + body
    total = 24 + len(entries) + len(block)
    prefix = struct.pack("<4sBBHIIQ", b"\xf7WC\x1a", 1, 0, 1, len(entries) // 40, 0, total)
    return reference.reseal(prefix + entries + block)


ONE = struct.pack("<IIQIIIIIBBBB", 0, 0, 0, 8000, 0, 0, 0, 0, 1, 1, 1, 0)
CROWDED = {
    "fused": assemble_records(
        (
            1,
            1,
            struct.pack("<IIII", 1, 0, 0, 8000) + b"".join(struct.pack("<II", 2 * i, 1) for i in range(8000)),
        ),
        entries=ONE,
    ),
    "names": assemble_records((2, 0, struct.pack("<I", 32_000) + bytes(64_000 - 3))),
    "shapes": assemble_records((3, 0, b"".join(struct.pack("<IBBH", i, 0, 1, 0) for i in range(8000)))),
    "records": assemble_records(*((0xFFF0, 0, b"") for _ in range(8000))),
}


@pytest.mark.parametrize("blob", CROWDED.values(), ids=CROWDED)
def test_crowded_records_cost_little(blob: bytes) -> None:
    assert len(blob) < 66_000
    with pytest.raises(wc.WireError):
        wc.decode_many(blob)
    tracemalloc.start()
    try:
        with pytest.raises(wc.WireError):
            wc.decode_many(blob)
        assert tracemalloc.get_traced_memory()[1] <= 65_536 + 4 * len(blob)
    finally:
        tracemalloc.stop()
    start = time.perf_counter()
    with pytest.raises(wc.WireError):
        wc.decode_many(blob)
    assert time.perf_counter() - start < 0.2


def test_fused_members_cost_no_more_than_their_elements() -> None:
    """Eight times as many members take about eight times as long; a search of all indices for each, 64 times.

    Both are the same code on the same machine, so a slow or loaded one has the same ratio.
    """
    few, many = [_fuse_members(count) for count in (1000, 8000)]
    times: dict[int, list[float]] = {few[0].size: [], many[0].size: []}
    for blob, schema in [
        few,
        many,
    ] * 8:  # the first round may compile kernels; other processes slow some down
        start = time.process_time()
        wc.decode_many(blob, schema=schema)
        times[blob.size].append(time.process_time() - start)
    assert min(times[many[0].size]) < 2.5 * 8 * min(times[few[0].size])


def _fuse_members(count: int) -> tuple[Any, dict[str, Any]]:
    """Return a container of members in one fused entry, whose support is not full, and its schema."""
    tensors = {f"{i:05}": np.ones(40, np.float32) for i in range(count)}
    tensors["00000"] = np.arange(40, dtype=np.float32)
    return wc.encode_many(tensors, "nonzero | bitmap | raw", fuse=40), dict.fromkeys(
        tensors, ((40,), np.float32)
    )


def test_a_sparse_giant_costs_only_its_elements() -> None:
    """Decode one of 2^32 elements quickly; only to_dense would be expensive."""
    tensor = wc.SparseTensor([2**31], np.ones(1, np.float32), (2**32,))
    blob = wc.encode(tensor, "all | rice | raw")
    wc.decode(blob)
    start = time.perf_counter()
    decoded = wc.decode(blob)
    assert time.perf_counter() - start < 0.1
    assert decoded.indices.tolist() == [2**31]
    with pytest.raises(wc.LimitExceeded):
        wc.SparseTensor._of(None, decoded.values, (2**33,)).to_dense()


@settings(max_examples=800, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(st.binary(max_size=300), st.booleans())
def test_noise(data: bytes, with_prefix: bool) -> None:
    """Decode random bytes, half of them after a valid prefix."""
    if with_prefix:
        n = len(data) // 60
        data = data[: len(data) // 8 * 8]
        data = struct.pack("<4sBBHIIQ", b"\xf7WC\x1a", 1, 0, len(data) % 2, n, 0, 24 + len(data)) + data
        data = reference.reseal(data)
    for read in (wc.decode, wc.decode_many, wc.inspect):
        with contextlib.suppress(wc.WireError):
            read(data)  # noise may happen to be a container
