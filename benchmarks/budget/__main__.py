"""Bytes and squared error of ``budget``, compared with a grid of schemes and with bounds.

Measures ``budget`` with three index codecs, a grid of ``topk`` schemes, every value codec and selector, and
all elements with a coarse step, on saved and synthetic gradients. Rate-distortion bounds, the time of a call
in reads of the array, and steps under error feedback follow.

    python -m benchmarks.budget [--quick] [--data FOLDER] [--only "WORD; WORD"] [--minutes 8]

The results of each gradient are kept in benchmarks/results/budget, and a run goes on from there. --report
measures nothing. Remove that folder to start over.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence

from benchmarks.budget import kept, plot, report
from benchmarks.budget.bounds import LAPLACE, compute_bound, fit_shape
from benchmarks.budget.cost import COST_BITS, measure_costs
from benchmarks.budget.feedback import TAILS, run_feedback
from benchmarks.budget.gradients import Gradients, build_gradients
from benchmarks.budget.kept import Bounds
from benchmarks.budget.measurement import Point, measure_families
from benchmarks.budget.schemes import INDEX_CODECS, Family, budget_family, build_families, build_grid
from benchmarks.common.command import PARTIAL_RUN, choose_names, create_parser, show_steps
from benchmarks.common.inputs import TEST_GRADIENTS, list_gradient_files
from benchmarks.common.results import RESULTS, describe_machine, write_result
from benchmarks.common.timing import numba_threads

__all__ = ["main", "measure"]

ELEMENTS, QUICK_ELEMENTS = 262_144, 131_072
SIZES = (65_536, 1_000_000, 26_000_000)
"""Elements of the arrays whose times are measured; a quick run omits the last."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark, and write the page if the run is complete; a partial run is only printed."""
    parser = create_parser(
        __doc__,
        __package__,
        quick="smaller vectors, fewer densities, 200 steps, no 26M elements",
        data=None,
        only="these gradients; names, or parts of names, separated by ;",
        minutes="start no gradient after them",
        report=None,
    )
    options = parser.parse_args(arguments)
    if options.quick or options.data or options.only:
        print(_measure_part(options))
        print(PARTIAL_RUN)
        return
    if not options.report:
        _continue_run(time.monotonic() + 60 * options.minutes)
    rest = kept.load_rest()
    if rest is None:
        sys.exit("the run is not complete: start it again")
    points, bounds = kept.load()
    text = report.format_page(points, bounds, rest)
    print(text)
    print(write_result("budget", "Bytes and error of budget", text, rest.machine))
    plot.draw(RESULTS / "budget.png", points, bounds)


def _measure_part(options: argparse.Namespace) -> str:
    """Measure some gradients, or short ones, and return the page."""
    folders = [TEST_GRADIENTS, *([options.data] if options.data else [])]
    elements = QUICK_ELEMENTS if options.quick else ELEMENTS
    gradients = build_gradients(elements, list_gradient_files(*folders))
    gradients = {name: gradients[name] for name in choose_names(options.only, gradients)}
    families = _choose_families(options.quick)
    with show_steps(_count_steps(gradients, families)) as step:
        points, bounds = measure(gradients, families, step)
        rest = _measure_rest(step, quick=options.quick)
    return report.format_page(points, bounds, rest, every=True)


def _continue_run(stop: float) -> None:
    """Measure the gradients and the parts that have no results, and keep each of them.

    Args:
        stop: nothing is started after this time.
    """
    gradients = build_gradients(ELEMENTS, list_gradient_files(TEST_GRADIENTS))
    done = kept.load()[1]
    left = {name: make for name, make in gradients.items() if name not in done}
    families = _choose_families(quick=False)
    with show_steps(_count_steps(left, families)) as step:
        for name, make in left.items():
            if time.monotonic() > stop:
                return
            kept.save(*measure({name: make}, families, step))
        if kept.load_rest() is None and time.monotonic() <= stop:
            kept.save_rest(_measure_rest(step, quick=False))


def _measure_rest(step: Callable[[str], None], *, quick: bool) -> kept.Rest:
    """Measure times, and steps under error feedback."""
    load = os.getloadavg()[0]
    costs = measure_costs(SIZES[:-1] if quick else SIZES, step, 0.2 if quick else 1.0)
    loads = load, os.getloadavg()[0]
    command = f"python -m {__package__}{' --quick' if quick else ''}"
    return kept.Rest(describe_machine(), command, loads, costs, run_feedback(200 if quick else 1000, step))


def _count_steps(gradients: Gradients, families: Sequence[Family]) -> int:
    return len(gradients) * (len(families) + 1) + len(SIZES) * len(COST_BITS) + 1 + len(TAILS)


def measure(
    gradients: Gradients, families: Sequence[Family], step: Callable[[str], None]
) -> tuple[list[Point], Bounds]:
    """Measure every scheme on every gradient, on one thread, and compute the bounds.

    Args:
        gradients: recipes by name.
        families: the schemes by curve.
        step: called with the name of each measurement before it starts.
    """
    points: list[Point] = []
    bounds: Bounds = {}
    laplace = None
    with numba_threads(1):
        for name, make in gradients.items():
            x = make()
            step(f"{name}: bound")
            laplace = laplace or compute_bound(LAPLACE, x.size)
            bounds[name] = laplace, compute_bound(fit_shape(x), x.size)
            points += measure_families(name, x, families, step)
    return points, bounds


def _choose_families(quick: bool) -> list[Family]:
    """Return ``budget``, the grid and the other curves, which have every second or fourth density."""
    budgets = [budget_family(index) for index in INDEX_CODECS]
    others = build_families(slice(None, None, 4 if quick else 2))
    return [*budgets, build_grid(), *others]


if __name__ == "__main__":
    main()
