"""Budget benchmark: bounds, points, targets, result page and picture."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="benchmarks need the extra [bench]")
pytest.importorskip("rich", reason="benchmarks need the extra [bench]")
pytest.importorskip("scipy", reason="benchmarks need the extra [bench]")

from benchmarks.budget import bounds, kept, plot, report, schemes
from benchmarks.budget.__main__ import measure
from benchmarks.budget.cost import Cost
from benchmarks.budget.feedback import FeedbackRun
from benchmarks.budget.gradients import draw_gradient
from benchmarks.budget.measurement import Point, best_error
from benchmarks.budget.targets import check_targets
from wirecodec import registry


def test_bound_of_a_gaussian_is_its_closed_form() -> None:
    """D = 4^-R, from below and within 3 %."""
    bound = bounds.compute_bound(2.0, 10_000)
    for bits in (0.1, 0.64, 2.0):
        assert 0.97 * 4.0**-bits <= bound.at(bits) <= 4.0**-bits


def test_shape_of_known_sources() -> None:
    rng = np.random.default_rng(0)
    assert bounds.fit_shape(rng.normal(size=200_000).astype(np.float32)) == pytest.approx(2, rel=0.03)
    assert bounds.fit_shape(draw_gradient("laplace", 200_000)) == pytest.approx(1, rel=0.03)


def test_every_selector_and_value_codec_has_a_curve() -> None:
    text = " ".join(scheme for family in schemes.build_families() for scheme, _ in family.schemes)
    not_measured = {"nonzero", "budget", "threshold", "adacomp", "deflate"}  # deflate: like zstd
    for stage in ("selector", "value codec"):
        names = set(registry._stages[stage]) - not_measured
        assert not [name for name in names if name not in text], stage


def test_page_and_picture(tmp_path: Path) -> None:
    grid = schemes.build_grid()
    families = [schemes.budget_family("rice", (0.25, 1.0)), replace(grid, schemes=grid.schemes[5::23])]
    points, limits = measure(
        {"laplace": lambda: draw_gradient("laplace", 70_000)}, families, lambda name: None
    )
    assert [point.asked for point in points[:2]] == [0.25, 1.0]
    assert all(0.95 <= point.spent <= 1 for point in points[:2])
    assert all(limits["laplace"][0].at(point.bits) <= point.error for point in points)
    costs = [Cost(1000, 0.25, 0.03, 1e-6, 2.0, 4.0, 6.0, 6.5, 2.0)]
    runs = [FeedbackRun("budget(0.25)", [0.99] * 10, [2.0] * 10), FeedbackRun("topk", [1.0] * 10, [3.0] * 10)]
    results = check_targets(points, costs, runs)
    assert [one.met for one in results] == [True, True, True, results[3].met, False, True, True, True]
    kept.save(points, limits, tmp_path)
    kept.save_rest(kept.Rest("a machine", "a command", (0.5, 1.5), costs, runs), tmp_path)
    rest = kept.load_rest(tmp_path)
    assert rest is not None
    assert (rest.costs, rest.runs, rest.loads) == (costs, runs, (0.5, 1.5))
    found, read = kept.load(tmp_path)
    assert [point.scheme for point in found] == [point.scheme for point in points]
    assert read["laplace"][0].at(0.64) == pytest.approx(limits["laplace"][0].at(0.64), rel=1e-5)
    text = report.format_page(found, read, rest)
    for expected in ("`a command`", "| laplace, rice |", "| laplace, p = 1", "| 1,000, 0.25 |"):
        assert expected in text
    assert text.startswith("At equal bytes, the squared error of `budget` is at most ")
    plot.draw(tmp_path / "budget.png", points, limits)
    assert (tmp_path / "budget.png").read_bytes().startswith(b"\x89PNG")


def test_errors_are_compared_at_equal_bits() -> None:
    """Between two points, errors are interpolated on logarithmic scales; beyond them nothing is known."""
    reference = [(0.1, 0.8), (0.4, 0.2)]
    assert plot.compare([(0.05, 0.9), (0.1, 0.4), (0.2, 0.8), (1.0, 0.1)], reference) == [
        (0.1, pytest.approx(0.5)),
        (0.2, pytest.approx(2.0)),
    ]


def test_best_error_and_front() -> None:
    points = [Point("g", "f", "s", 80, nbytes, error) for nbytes, error in ((10, 0.5), (20, 0.6), (30, 0.1))]
    assert [best_error(points, limit) for limit in (5, 10, 29, 30)] == [float("inf"), 0.5, 0.5, 0.1]
    assert plot.trace_front(points) == [(1.0, 0.5), (3.0, 0.1)]
