"""Supports of the index benchmark: order, size, seed and entropy bound."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, pairwise
from math import comb, log2

import numpy as np
import pytest

from benchmarks.common.inputs import CHUNK
from benchmarks.index.supports import (
    Support,
    draw_layered,
    draw_rows,
    draw_runs,
    draw_uniform,
    log2_binomial,
    select_nonzero,
    select_top,
)

GENERATORS = [draw_uniform, draw_rows, draw_runs, draw_layered]


@pytest.mark.parametrize("make", GENERATORS)
@pytest.mark.parametrize(("d", "r"), [(4096, 256), (4096, 3328), (100_000, 64), (100_000, 9_984)])
def test_supports_ascend_and_have_r_elements(make: Callable[..., Support], d: int, r: int) -> None:
    support = make(d, r)
    assert support.indices.dtype == np.uint32
    assert support.r == support.indices.size == r
    assert support.d == d > support.indices[-1]
    assert (np.diff(support.indices.astype(np.int64)) > 0).all()
    assert 0 < support.bound <= log2_binomial(d, r) / r + 1e-9


@pytest.mark.parametrize("make", GENERATORS)
def test_supports_depend_on_the_seed_only(make: Callable[..., Support]) -> None:
    first, again, other = (make(5000, 640, seed=seed).indices for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_log2_binomial_counts() -> None:
    for n, k in ((1, 0), (5, 5), (10, 3), (300, 17)):
        assert log2_binomial(n, k) == pytest.approx(log2(comb(n, k)), abs=1e-9)


def test_rows_are_whole_and_the_first_are_more_probable() -> None:
    found = draw_rows(64_000, 6_400).indices.reshape(-1, 64)
    assert (found % 64 == np.arange(64)).all()
    assert draw_rows(64_000, 10).r == 64  # at least one
    drawn = np.concatenate([draw_rows(64_000, 640, seed=seed).indices[::64] // 64 for seed in range(40)])
    assert (drawn < 500).mean() > 0.6


def test_bound_of_runs_counts_supports_with_as_many_runs() -> None:
    d, r = 11, 5
    having: dict[int, int] = {}
    for chosen in combinations(range(d), r):
        breaks = 1 + sum(b - a > 1 for a, b in pairwise(chosen))
        having[breaks] = having.get(breaks, 0) + 1
    for mean, count in ((5, 1), (2, 3), (1, 5)):
        assert draw_runs(d, r, mean=mean).bound * r == pytest.approx(log2(having[count]), abs=1e-9)


def test_runs_have_the_mean_length() -> None:
    indices = draw_runs(200_000, 20_000).indices
    assert 1 + np.count_nonzero(np.diff(indices) > 1) == pytest.approx(20_000 / 8, rel=0.02)


def test_bound_of_layers_uses_their_counts() -> None:
    one = draw_layered(10_000, 300, layers=1)
    assert one.bound == pytest.approx(log2_binomial(10_000, 300) / 300)
    assert draw_layered(10_000, 300, layers=160).bound < one.bound - 0.5


def test_supports_of_values() -> None:
    values = np.array([0, -3, 0.5, 0, 2, -0.25], np.float32)
    assert select_top(values, 1 / 3).indices.tolist() == [1, 4]
    assert select_top(values, 0.01).indices.tolist() == [1]
    assert select_nonzero(values).indices.tolist() == [1, 2, 4, 5]
    assert select_nonzero(np.zeros(3, np.float32)).r == 0


def test_chunks_skip_empty_and_full_ones() -> None:
    indices = np.array([5, CHUNK - 1, 2 * CHUNK + 7], np.uint32)
    chunks = list(Support("any", 3 * CHUNK, indices, 1.0).chunks())
    assert [(part.tolist(), d) for part, d in chunks] == [([5, CHUNK - 1], CHUNK), ([7], CHUNK)]
    full = Support("any", CHUNK + 2, np.array([3, CHUNK, CHUNK + 1], np.uint32), 1.0)
    assert [d for _, d in full.chunks()] == [CHUNK]
