"""Tests of ``delta``: sections by definition, numbers of every length, group boundaries."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

import wirecodec as wc
from tests import inputs
from tests.wirecodec.index.varints import (
    NUMBERS,
    check_random_sections,
    encode_and_check,
    from_gaps,
    gaps_of,
    leb128,
)

SUPPORTS = inputs.supports(np.random.default_rng(21))


@pytest.mark.parametrize("case", SUPPORTS)
def test_sections_match_the_definition(case: str) -> None:
    _, indices = SUPPORTS[case]
    assert encode_and_check(wc.codecs.Delta(), indices) == leb128(gaps_of(indices))


@settings(max_examples=150)
@given(NUMBERS)
def test_delta_of_any_gaps(gaps: list[int]) -> None:
    assert encode_and_check(wc.codecs.Delta(), from_gaps(gaps)) == leb128(gaps)


@pytest.mark.sampled
@pytest.mark.parametrize("before", range(60, 68))
@pytest.mark.parametrize("number", [127, 128, 16_383, 16_384, 2**21])
def test_numbers_that_straddle_groups_of_bytes(before: int, number: int) -> None:
    """64 one-byte numbers are read at once, unless the first byte ends a number from the group before."""
    gaps = [1] * before + [number] + [2] * 200
    assert encode_and_check(wc.codecs.Delta(), from_gaps(gaps)) == leb128(gaps)


def test_passes_of_the_kernels_join(rng: np.random.Generator) -> None:
    """Encode more indices than one pass holds, with runs and gaps across the joints."""
    for shift in range(3):
        gaps = np.where(rng.random(20_000) < 0.3, rng.integers(0, 300, 20_000), 0)
        gaps[4090 + shift : 4100] = 0
        indices = from_gaps(gaps.tolist())
        assert encode_and_check(wc.codecs.Delta(), indices) == leb128(gaps.tolist())


def test_any_bytes_decode_or_raise_a_wire_error(rng: np.random.Generator) -> None:
    assert len(check_random_sections(wc.codecs.Delta, rng)) >= 4
