"""delta: LEB128 numbers of every length, and places where groups of bytes meet."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

import wirecodec as wc
from tests import inputs
from tests.wirecodec.index.varints import (
    NUMBERS,
    from_gaps,
    gaps_of,
    held,
    leb128,
    refuses_or_agrees,
)

SUPPORTS = inputs.supports(np.random.default_rng(21))


@pytest.mark.parametrize("case", SUPPORTS)
def test_sections_are_the_definition(case: str) -> None:
    _, indices = SUPPORTS[case]
    assert held(wc.Delta(), indices) == leb128(gaps_of(indices))


@settings(max_examples=400, deadline=None)
@given(NUMBERS)
def test_delta_of_any_gaps(gaps: list[int]) -> None:
    assert held(wc.Delta(), from_gaps(gaps)) == leb128(gaps)


@pytest.mark.sampled
@pytest.mark.parametrize("before", range(60, 68))
@pytest.mark.parametrize("number", [127, 128, 16_383, 16_384, 2**21])
def test_numbers_that_straddle_groups_of_bytes(before: int, number: int) -> None:
    """64 bytes that all end a number are read at once, but the first may end one that began before."""
    gaps = [1] * before + [number] + [2] * 200
    assert held(wc.Delta(), from_gaps(gaps)) == leb128(gaps)


def test_chunks_of_the_loops_join(rng: np.random.Generator) -> None:
    """Longer than what is gathered before it is written, with runs and gaps across the joints."""
    for shift in range(3):
        gaps = np.where(rng.random(20_000) < 0.3, rng.integers(0, 300, 20_000), 0)
        gaps[4090 + shift : 4100] = 0
        indices = from_gaps(gaps.tolist())
        assert held(wc.Delta(), indices) == leb128(gaps.tolist())


def test_any_bytes_decode_or_are_refused(rng: np.random.Generator) -> None:
    assert len(refuses_or_agrees(wc.Delta, rng)) >= 4
