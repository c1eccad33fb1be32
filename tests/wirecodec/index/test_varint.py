"""rle and delta against their definitions: sizes, numbers of every length, where groups of bytes meet."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wirecodec as wc
from tests import inputs
from wirecodec.index import delta, rle
from wirecodec.limits import UNLIMITED

SUPPORTS = inputs.supports(np.random.default_rng(21))


def leb128(values: list[int]) -> bytes:
    out = bytearray()
    for value in values:
        groups = [value >> shift & 127 for shift in range(0, max(1, value.bit_length()), 7)]
        out += bytes([*(group + 128 for group in groups[:-1]), groups[-1]])
    return bytes(out)


def gaps_of(indices: Any) -> list[int]:
    return (np.diff(indices.astype(np.int64), prepend=-1) - 1).tolist()


def runs_of(indices: Any) -> list[int]:
    """Absent first; all but the first run less one."""
    present = np.zeros(int(indices[-1]) + 1, bool)
    present[indices] = True
    turns = np.diff(present.astype(int)).nonzero()[0] + 1
    lengths = np.diff([0, *turns, present.size]).tolist()
    if present[0]:
        lengths = [1, *lengths]  # no absent element before the first run
        lengths[0] = 0
    return [lengths[0], *(n - 1 for n in lengths[1:])]


def from_gaps(gaps: list[int]) -> Any:
    return (np.cumsum(np.array(gaps, np.int64) + 1) - 1).astype(np.uint32)


def held(codec: Any, indices: Any) -> bytes:
    """The section, read back and its size planned."""
    d = int(indices[-1]) + 2
    section = codec.encode(indices, d, 0)
    assert np.array_equal(codec.decode(section, d, indices.size, UNLIMITED), indices)
    assert {"rle": rle, "delta": delta}[codec.name].planned_bytes(indices) == section.size
    return bytes(section)


@pytest.mark.parametrize("case", SUPPORTS)
def test_sections_are_the_definition(case: str) -> None:
    _, indices = SUPPORTS[case]
    assert held(wc.Delta(), indices) == leb128(gaps_of(indices))
    assert held(wc.RLE(), indices) == leb128(runs_of(indices))


EDGES = [0, 1, 126, 127, 128, 129, 16_382, 16_383, 16_384, 16_385, 2**21 - 1, 2**21, 2**21 + 1]
ONE = st.integers(0, 127)
NUMBERS = st.one_of(
    st.lists(ONE, min_size=1, max_size=200),
    st.lists(st.one_of(ONE, ONE, ONE, st.sampled_from(EDGES)), min_size=1, max_size=200),
    st.lists(st.sampled_from(EDGES[:10]), min_size=1, max_size=200),
    st.lists(st.integers(0, 14).map(lambda n: 2**n), min_size=1, max_size=200),
)


@settings(max_examples=400, deadline=None)
@given(NUMBERS)
def test_delta_of_any_gaps(gaps: list[int]) -> None:
    assert held(wc.Delta(), from_gaps(gaps)) == leb128(gaps)


@settings(max_examples=400, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(EDGES[:10]), st.one_of(ONE, st.sampled_from(EDGES[:10]))), min_size=1)
)
def test_rle_of_any_runs(runs: list[tuple[int, int]]) -> None:
    gaps: list[int] = []
    for n, (absent, present) in enumerate(runs):
        gaps += [absent + (n > 0), *([0] * present)]
    assert held(wc.RLE(), from_gaps(gaps)) == leb128([number for run in runs for number in run])


@pytest.mark.parametrize("before", range(60, 68))
@pytest.mark.parametrize("number", [127, 128, 16_383, 16_384, 2**21])
def test_numbers_that_straddle_groups_of_bytes(before: int, number: int) -> None:
    """64 bytes that all end a number are read at once, but the first may end one that began before."""
    gaps = [1] * before + [number] + [2] * 200
    assert held(wc.Delta(), from_gaps(gaps)) == leb128(gaps)
    assert held(wc.RLE(), from_gaps(gaps)) == leb128(runs_of(from_gaps(gaps)))


@pytest.mark.parametrize("length", [2**21 - 1, 2**21, 2**21 + 1, 2**24 - 1])
def test_one_run_of_any_length(length: int) -> None:
    indices = np.arange(length, dtype=np.uint32)
    section = wc.RLE().encode(indices, 2**24, 0)
    assert bytes(section) == leb128([0, length - 1])
    assert rle.planned_bytes(indices) == section.size
    assert np.array_equal(wc.RLE.decode(section, 2**24, length, UNLIMITED), indices)


def test_chunks_of_the_loops_join(rng: np.random.Generator) -> None:
    """Longer than what is gathered before it is written, with runs and gaps across the joints."""
    for shift in range(3):
        gaps = np.where(rng.random(20_000) < 0.3, rng.integers(0, 300, 20_000), 0)
        gaps[4090 + shift : 4100] = 0
        indices = from_gaps(gaps.tolist())
        assert held(wc.Delta(), indices) == leb128(gaps.tolist())
        assert held(wc.RLE(), indices) == leb128(runs_of(indices))


@pytest.mark.parametrize("codec", [wc.RLE, wc.Delta])
def test_any_bytes_decode_or_are_refused(codec: Any, rng: np.random.Generator) -> None:
    outcomes = set()
    for _ in range(3000):
        size = int(rng.integers(0, 90))
        section = rng.integers(0, 256, size).astype(np.uint8)
        section[rng.random(size) < rng.choice([0.0, 0.5, 0.9, 1.0])] %= 4
        r = int(rng.integers(1, 90))
        try:
            indices = codec.decode(section, 100, r, UNLIMITED)
        except wc.WireError as error:
            outcomes.add(error.code)
        else:
            outcomes.add("ok")
            assert bytes(codec().encode(indices, 100, 0)) == bytes(section)  # there is one form only
    assert len(outcomes) >= 4
