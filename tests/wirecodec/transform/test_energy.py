"""Tests of transforms on real gradients: the paper's claim, and the spec pages' statements."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wirecodec as wc

DATA = Path(__file__).parents[2] / "data"
FRACTIONS = (0.15, 0.05, 0.01)

each = pytest.mark.parametrize("name", sorted(path.stem for path in DATA.glob("*.npy")))


def relative_error(x: Any, blob: Any) -> float:
    return float(np.linalg.norm(wc.decode(blob).to_dense() - x) / np.linalg.norm(x))


@each
@pytest.mark.parametrize("transform", ["rfft", "dct"])
def test_most_energy_is_kept(name: str, transform: str) -> None:
    """15 % of the coefficients are kept, which is the paper's θ = 0.85."""
    x = np.load(DATA / f"{name}.npy")
    lost = relative_error(x, wc.encode(x, f"{transform} | topk(0.15) | bitmap | raw"))
    assert 1 - lost**2 > 0.6


@each
@pytest.mark.parametrize("fraction", FRACTIONS)
def test_dct_loses_less_than_rfft_for_equal_size(name: str, fraction: float) -> None:
    """rfft needs half the indices; dct gains more by selecting each number alone."""
    x = np.load(DATA / f"{name}.npy")
    rest = "auto-index | raw(bfloat16)"
    bins = wc.encode(x, f"rfft | topk({fraction}) | {rest}")
    cosines = wc.encode(x, f"dct | topk(k={int(0.85 * wc.inspect(bins).entries[0].nnz)}) | {rest}")
    assert cosines.nbytes <= bins.nbytes
    assert relative_error(x, cosines) < relative_error(x, bins)


@each
@pytest.mark.parametrize("fraction", FRACTIONS)
def test_elements_are_sparser_than_frequencies_except_residuals(name: str, fraction: float) -> None:
    """Raw gradients lose less in elements than in coefficients; residuals of error feedback lose more."""
    x = np.load(DATA / f"{name}.npy")
    rest = f"topk({fraction}) | bitmap | raw"
    elements, cosines = (relative_error(x, wc.encode(x, scheme)) for scheme in (rest, f"dct | {rest}"))
    assert (elements < cosines) == (not name.endswith("residual"))
