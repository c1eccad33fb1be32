"""Bytes and squared error of ``budget``, compared with a grid of schemes and with bounds.

Measures ``budget`` with three index codecs, a grid of ``topk`` schemes, every value codec and selector, and
all elements with a coarse step, on saved and synthetic gradients. Rate-distortion bounds, the time of a call
in reads of the array, and steps under error feedback follow.

    python -m benchmarks.budget [--quick] [--data FOLDER] [--only WORD,WORD]
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.budget import plot, report
from benchmarks.budget.bounds import LAPLACE, compute_bound, fit_shape
from benchmarks.budget.cost import COST_BITS, measure_costs
from benchmarks.budget.feedback import TAILS, run_feedback
from benchmarks.budget.gradients import Gradients, build_gradients
from benchmarks.budget.measurement import Point, measure_families
from benchmarks.budget.schemes import INDEX_CODECS, Family, budget_family, build_families, build_grid
from benchmarks.common.command import PARTIAL_RUN, create_parser, create_progress, filter_by_name
from benchmarks.common.inputs import TEST_GRADIENTS, TRAINED_GRADIENTS, list_gradient_files
from benchmarks.common.results import RESULTS, describe_machine, write_result
from benchmarks.common.timing import numba_threads

__all__ = ["main", "measure"]

ELEMENTS, QUICK_ELEMENTS = 262_144, 131_072
SIZES = (65_536, 1_000_000, 26_000_000)
"""Elements of the arrays whose times are measured; a quick run omits the last."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark, print the page, and write it if the run is complete."""
    parser = create_parser(__doc__, __package__)
    parser.add_argument(
        "--quick", action="store_true", help="smaller vectors, fewer densities, 200 steps, no 26M elements"
    )
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="folder of more gradients (*.npy)")
    parser.add_argument(
        "--only", default="", metavar="WORDS", help="gradients whose name contains one of these words"
    )
    options = parser.parse_args(arguments)
    folders = [TEST_GRADIENTS, TRAINED_GRADIENTS, *([options.data] if options.data else [])]
    files = list_gradient_files(*folders)
    gradients = build_gradients(QUICK_ELEMENTS if options.quick else ELEMENTS, files)
    names = filter_by_name(list(gradients), options.only, str)
    gradients = {name: gradients[name] for name in names}
    families = _choose_families(options.quick)
    load = os.getloadavg()[0]
    sizes = SIZES[:-1] if options.quick else SIZES
    with create_progress() as progress:
        steps = len(gradients) * (len(families) + 1) + len(sizes) * len(COST_BITS) + 1 + len(TAILS)
        task = progress.add_task("", total=steps)

        def step(name: str) -> None:
            progress.update(task, description=name, advance=1)

        points, bounds = measure(gradients, families, step)
        costs = measure_costs(sizes, step, 0.2 if options.quick else 1.0)
        runs = run_feedback(200 if options.quick else 1000, step)
    command = f"python -m {__package__}{' --quick' if options.quick else ''}"
    text = report.format_page(points, bounds, costs, runs, command, (load, os.getloadavg()[0]))
    print(text)
    if options.quick or options.data or options.only:
        print(PARTIAL_RUN)
        return
    print(write_result("budget", "Bytes and error of budget", text))
    plot.draw(RESULTS / "budget.png", points, bounds, describe_machine())


def measure(
    gradients: Gradients, families: Sequence[Family], step: Callable[[str], None]
) -> tuple[list[Point], report.Bounds]:
    """Measure every scheme on every gradient, on one thread, and compute the bounds.

    Args:
        gradients: recipes by name.
        families: the schemes by curve.
        step: called with the name of each measurement before it starts.
    """
    points: list[Point] = []
    bounds = {}
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
