"""Tests of ``rice``: the best parameters, sizes near the entropy, sections of every parameter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wirecodec as wc
from formats.reference.writing.index.rice import write_rice
from tests import inputs, oracles
from wirecodec.index.rice import measure_section
from wirecodec.kernels.cpu.index import rice
from wirecodec.limits import UNLIMITED


def planned(gaps: list[int]) -> int:
    indices = np.cumsum(np.array(gaps, np.int64) + 1) - 1
    parameters, words = np.empty(1, np.uint8), np.empty(1, np.int64)
    rice.plan(indices.astype(np.uint32), parameters, words)
    return int(parameters[0])


@settings(max_examples=150)
@given(
    st.one_of(
        st.lists(st.integers(0, 3), min_size=1, max_size=256),
        st.lists(st.integers(0, 60_000), min_size=1, max_size=256),
        st.lists(st.integers(0, 15).map(lambda n: 2**n), min_size=1, max_size=256),
        st.lists(st.sampled_from([0, 64, 192, 50_000]), min_size=1, max_size=256),
    )
)
def test_rice_parameter_is_the_best(gaps: list[int]) -> None:
    assert planned(gaps) == oracles.best_rice_parameter(gaps)


@pytest.mark.parametrize(("density", "ratio"), [(0.1, 1.025), (0.01, 1.010), (0.001, 1.015)])
def test_rice_is_near_the_entropy(density: float, ratio: float) -> None:
    rng = np.random.default_rng(8)
    for d in (2**18, 2_600_000, 2**24):
        r = int(d * density)
        if r >= 2600:
            size = measure_section(inputs.support(rng, d, r))
            assert 8 * size <= ratio * oracles.entropy_bits(d, r), (d, r)


def test_small_supports_stay_small() -> None:
    rng = np.random.default_rng(9)
    for r in (1, 2, 10, 100, 500):
        for d in (1000, 100_000, 2**24):
            found = measure_section(inputs.support(rng, d, r))
            assert found <= 1.1 * oracles.entropy_bits(d, r) / 8 + 16, (d, r)


def rice_supports() -> list[Any]:
    """Gaps that fit eight to a word, that do not, and that leave a word empty between two of them."""
    rng = np.random.default_rng(10)
    gaps = [rng.geometric(p, 5000) for p in (0.9, 0.3, 0.01, 0.0005)]
    gaps += [np.where(rng.random(4500) < p, q, 1) for p, q in ((0.5, 3), (0.1, 9), (0.02, 60), (0.004, 4000))]
    gaps += [np.where(np.arange(600) == at, 900_000, 1) for at in (0, 7, 255, 256, 599)]
    return [np.cumsum(g) - 1 for g in gaps]


@pytest.mark.parametrize("indices", rice_supports(), ids=range(13))
def test_rice_writes_what_the_reference_writes(indices: Any) -> None:
    found = wc.codecs.Rice().encode(indices.astype(np.uint32), 2**24, 0)
    assert found.tobytes() == write_rice(indices.tolist())


@pytest.mark.parametrize("b", range(25))
def test_rice_reads_any_parameter(b: int) -> None:
    indices = inputs.support(np.random.default_rng(b), 2**24, 600)
    indices[300:] -= indices[300:] - (indices[299] + np.arange(1, 301, dtype=np.uint32))
    section = np.frombuffer(write_rice(indices.tolist(), [b, 24 - b]), np.uint8)
    assert np.array_equal(wc.codecs.Rice.decode(section, 2**24, 600, UNLIMITED), indices)
