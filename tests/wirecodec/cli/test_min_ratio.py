"""The subcommand min-ratio: the FFT paper's figures."""

from __future__ import annotations

import math

import pytest

from wirecodec.cli import main
from wirecodec.cli.min_ratio import published_min_ratio

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


def test_min_ratio_is_the_papers(capsys: pytest.CaptureFixture[str]) -> None:
    rates = ["--conversion", "200GB/s", "--transform", "120GB/s", "--packing", "34GB/s"]
    assert main(["min-ratio", "--bandwidth", "10Gbit", *rates, "--selection", "12GB/s"]) == 0
    lines = capsys.readouterr().out.splitlines()
    per_byte = 2 / 200 + 1 / 120 + 1 / 34 + 1 / 12
    assert lines[0] == f"compression pays at 10 Gbit/s from a ratio of {1 / (1 - 2.5 * per_byte):.4g} on"
    assert lines[1].startswith(f"no ratio pays from {8 / (2 * per_byte):.3g}")
    assert main(["min-ratio", "--bandwidth", "100Gbit", *rates]) == 0
    assert capsys.readouterr().out.startswith("no ratio pays at 100 Gbit/s\n")
