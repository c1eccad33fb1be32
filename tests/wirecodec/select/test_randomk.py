"""randomk: sets drawn uniformly from the seed alone."""

from __future__ import annotations

from itertools import combinations

import numpy as np

import wirecodec as wc
from tests import oracles
from tests.wirecodec.select.choices import chosen


def test_randomk_does_not_look_at_the_values() -> None:
    rng = np.random.default_rng(9)
    one, other = rng.normal(size=5000).astype(np.float32), np.zeros(5000)
    assert chosen(wc.selectors.RandomK(0.1), one) == chosen(wc.selectors.RandomK(0.1), other)
    seeds = {tuple(wc.selectors.RandomK(0.1).select(one, seed=s).indices) for s in range(20)}
    assert len(seeds) == 20


def test_randomk_draws_every_set_alike() -> None:
    """All C(6, 3) sets over 6000 seeds: chi-square of 19 degrees of freedom, below its 0.999 quantile."""
    counts = dict.fromkeys(combinations(range(6), 3), 0)
    x = np.ones(6, np.float32)
    for seed in range(6000):
        counts[tuple(wc.selectors.RandomK(0.5).select(x, seed=seed).indices.tolist())] += 1
    assert sum((c - 300) ** 2 / 300 for c in counts.values()) < 43.8


def test_randomk_of_a_million_is_uniform() -> None:
    x = np.zeros(1_000_000, np.float32)
    for ratio in (0.3, 0.01, 0.0001):
        found = wc.selectors.RandomK(ratio).select(x, seed=1).indices
        k = oracles.selected_count(str(ratio), x.size)
        assert found.size == np.unique(found).size == k
        counts = np.bincount(found // 100_000, minlength=10)
        assert ((counts - k / 10) ** 2 / (k / 10)).sum() < 27.9


def test_randomk_is_its_definition_at_any_size() -> None:
    for size, ratio in ((100_000, "0.1"), (99_999, "0.001"), (50_000, "0.9999")):
        found = wc.selectors.RandomK(float(ratio)).select(np.zeros(size), seed=7).indices
        assert found.tolist() == oracles.random_k(size, oracles.selected_count(ratio, size), 7)
