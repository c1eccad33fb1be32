"""The cost model of the FFT paper: its figures."""

from __future__ import annotations

import math

import pytest

from tests.collectives.advise.min_ratio import published_min_ratio

GBIT = 1e9 / 8


def the_rest(limit: float, selection: float) -> dict[str, float]:
    """Rates under which no ratio pays from ``limit`` on, with what the paper does not tell all in packing."""
    packing = 1 / (1 / (2 * limit) - 1 / selection)
    return {"conversion": math.inf, "transform": math.inf, "packing": packing, "selection": selection}


def test_figures_of_the_paper() -> None:
    """Selection at 12 GB/s: none above 22 Gbit/s, and 2 is enough at 10. About 30 at 56 Gbit/s: 1.2 at 10."""
    rates = the_rest(22 * GBIT, 12e9)
    assert published_min_ratio(22.01 * GBIT, **rates) == math.inf
    assert published_min_ratio(21.9 * GBIT, **rates) > 100
    assert 1.5 < published_min_ratio(10 * GBIT, **rates) < 2
    limit = 56 * GBIT / (1 - 1 / 30)
    rates = the_rest(limit, math.inf)
    assert published_min_ratio(56 * GBIT, **rates) == pytest.approx(30)
    assert published_min_ratio(10 * GBIT, **rates) < 2
