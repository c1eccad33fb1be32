"""Tests of dexpfit beyond round trips; test_polyfit.py tests that it contracts."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from formats.reference.value.dexpfit import exponential
from tests import oracles
from wirecodec.limits import UNLIMITED
from wirecodec.value.curve_fit import split_by_sign


def round_trip(values: Any) -> tuple[Any, Any]:
    """Return the section of sorted values, and the decoded values."""
    section = wc.codecs.DExpFit().encode(values, 0)
    return section, wc.codecs.DExpFit.decode(section, values.size, values.dtype, UNLIMITED)


def check_against_scipy(v: Any) -> None:
    """Check that the error of each part is within 2 % of SciPy's curve_fit."""
    _, decoded = round_trip(v)
    edges = split_by_sign(v)
    for a, b in pairwise(edges):
        part, found = v[a:b], decoded[a:b].astype(np.float64)
        if b - a < 8 or part[0] == part[-1]:
            continue
        falling = part[::-1] if part[0] > 0 else part
        best = oracles.double_exponential(falling)
        assert np.linalg.norm(found - part) <= 1.02 * best + 1e-4 * np.linalg.norm(part)


@pytest.mark.parametrize("density", [0.001, 0.01])
def test_real_gradients_are_fitted_as_well_as_by_scipy(gradient: Any, density: float) -> None:
    check_against_scipy(np.sort(gradient[wc.selectors.TopK(density).select(gradient).indices]))


CURVES: dict[str, Callable[[np.random.Generator], Any]] = {
    "laplace": lambda rng: rng.laplace(size=3000),
    "normal": lambda rng: rng.normal(size=3000),
    "uniform": lambda rng: rng.random(3000),
    "heavy": lambda rng: rng.standard_t(1.5, 3000),
    "log-normal": lambda rng: rng.lognormal(0, 3, 3000),
    "line": lambda rng: np.linspace(1, 2, 1000),
    "two levels": lambda rng: np.repeat([1.0, 5.0], 500),
    "arc": lambda rng: np.sin(np.linspace(0.01, np.pi / 2, 900)),
    "exact": lambda rng: np.exp(-9 * np.linspace(0, 1, 900)) + 3 * np.exp(-np.linspace(0, 1, 900)),
    "short": lambda rng: rng.exponential(size=30),
}


@pytest.mark.parametrize("name", CURVES)
def test_curves_are_fitted_as_well_as_by_scipy(name: str, rng: np.random.Generator) -> None:
    """The arc has complex exponents: its discriminant is negative."""
    check_against_scipy(np.sort(CURVES[name](rng)))


def test_exponential_is_accurate() -> None:
    for t in [*np.linspace(-340, 64, 5000), 0.0, -0.0, 1e-300, -1e-9, math.log(2) / 2]:
        assert abs(exponential(float(t)) / math.exp(t) - 1) < 2.0**-46
    assert exponential(0.0) == 1.0


def test_a_curve_takes_36_bytes(rng: np.random.Generator, dtype: np.dtype[Any]) -> None:
    v = np.sort(rng.laplace(size=5000)).astype(dtype)
    assert round_trip(v)[0].size == 4 + 36 * (split_by_sign(v).size - 1)
    for r in (1, 2, 4):
        section, decoded = round_trip(v[:r])
        assert section.size == 4 + r * dtype.itemsize
        assert np.array_equal(decoded, v[:r])


def test_fit_is_invariant_to_powers_of_two(rng: np.random.Generator) -> None:
    v = np.sort(rng.laplace(size=3000)).astype(np.float32)
    _, plain = round_trip(v)
    for power in (-60, 60):
        assert np.array_equal(round_trip(np.ldexp(v, power))[1], np.ldexp(plain, power))


def test_float64_of_any_magnitude(rng: np.random.Generator) -> None:
    v = np.sort(rng.laplace(size=3000))
    for power, most in ((-1000, 0.1), (700, 0.1), (1010, 0.0)):
        w = np.ldexp(v, power)
        error = np.linalg.norm((round_trip(w)[1] - w) * 2.0**-power)
        assert error <= most * np.linalg.norm(v)


def test_equal_values_are_preserved(dtype: np.dtype[Any]) -> None:
    v = np.repeat(np.array([-3.0, 0.0, 0.1]), 100).astype(dtype)
    assert np.array_equal(round_trip(v)[1], v)
