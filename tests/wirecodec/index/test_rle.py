"""Tests of ``rle``: sections by definition, numbers of every length, group boundaries."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wirecodec as wc
from tests import inputs
from tests.wirecodec.index.varints import (
    EDGES,
    ONE,
    check_random_sections,
    encode_and_check,
    from_gaps,
    leb128,
    runs_of,
)
from wirecodec.index import rle
from wirecodec.limits import UNLIMITED

SUPPORTS = inputs.supports(np.random.default_rng(21))


@pytest.mark.parametrize("case", SUPPORTS)
def test_sections_match_the_definition(case: str) -> None:
    _, indices = SUPPORTS[case]
    assert encode_and_check(wc.codecs.RLE(), indices) == leb128(runs_of(indices))


@settings(max_examples=150)
@given(
    st.lists(st.tuples(st.sampled_from(EDGES[:10]), st.one_of(ONE, st.sampled_from(EDGES[:10]))), min_size=1)
)
def test_rle_of_any_runs(runs: list[tuple[int, int]]) -> None:
    gaps: list[int] = []
    for n, (absent, present) in enumerate(runs):
        gaps += [absent + (n > 0), *([0] * present)]
    assert encode_and_check(wc.codecs.RLE(), from_gaps(gaps)) == leb128(
        [number for run in runs for number in run]
    )


@pytest.mark.parametrize("length", [2**21 - 1, 2**21, 2**21 + 1, 2**24 - 1])
def test_one_run_of_any_length(length: int) -> None:
    indices = np.arange(length, dtype=np.uint32)
    section = wc.codecs.RLE().encode(indices, 2**24, 0)
    assert bytes(section) == leb128([0, length - 1])
    assert rle.measure_section(indices) == section.size
    assert np.array_equal(wc.codecs.RLE.decode(section, 2**24, length, UNLIMITED), indices)


@pytest.mark.sampled
@pytest.mark.parametrize("before", range(60, 68))
@pytest.mark.parametrize("number", [127, 128, 16_383, 16_384, 2**21])
def test_numbers_that_straddle_groups_of_bytes(before: int, number: int) -> None:
    """64 one-byte numbers are read at once, unless the first byte ends a number from the group before."""
    gaps = [1] * before + [number] + [2] * 200
    assert encode_and_check(wc.codecs.RLE(), from_gaps(gaps)) == leb128(runs_of(from_gaps(gaps)))


def test_passes_of_the_kernels_join(rng: np.random.Generator) -> None:
    """Encode more indices than one pass holds, with runs and gaps across the joints."""
    for shift in range(3):
        gaps = np.where(rng.random(20_000) < 0.3, rng.integers(0, 300, 20_000), 0)
        gaps[4090 + shift : 4100] = 0
        indices = from_gaps(gaps.tolist())
        assert encode_and_check(wc.codecs.RLE(), indices) == leb128(runs_of(indices))


def test_any_bytes_decode_or_raise_a_wire_error(rng: np.random.Generator) -> None:
    assert len(check_random_sections(wc.codecs.RLE, rng)) >= 4
