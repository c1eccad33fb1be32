"""Result page of ``budget``: the answer, targets, bytes, errors, bounds, times and error feedback."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence

from benchmarks.budget.cost import Cost
from benchmarks.budget.feedback import FEEDBACK_BITS, FeedbackRun
from benchmarks.budget.kept import Bounds, Rest
from benchmarks.budget.measurement import Point, best_error
from benchmarks.budget.schemes import ALL, BITS, GRID, build_grid
from benchmarks.budget.targets import check_targets, format_scheme, is_budget
from benchmarks.common.results import format_markdown, pivot_rows
from benchmarks.common.targets import format_targets

__all__ = ["format_page"]

INTRODUCTION = """`budget(bits) | rice | error-bounded` chooses the number of elements and the quantizer's
step so that a container takes at most a number of bits per element. Bits count the whole container. An
error is Σ(x - x̂)² / Σx².

The grid is `topk(density) | rice | …` with 12 densities from .001 to .3, each with `error-bounded` at 8
errors from .01 to .7, and with `qsgd` at 2, 4 and 8 bits: 132 schemes for each gradient. "At no more
bytes": no more than the container of `budget` took, up to 5 % less than the budget.
"""
GRADIENTS = """- `…_raw` and `lstm_raw_slice`: gradients of small models
  ([tests/data](../../tests/data/README.md)); `…_residual`: gradients + residuals under error feedback.
- `laplace`, `student` (t, four degrees of freedom), `pareto` (shape 1/3): independent values.
- `layers`: eight layers whose scales differ by up to 2^10. `rows`: rows of 64 values, nine in ten zero.
- `mixture`: normal values, one in a hundred 50 times as large. `walk`: a scale that is a random walk.
- `zipf`: rows of 128 values with the scales of words by frequency.

Nothing was tuned on `zipf`.
"""
BOUNDS = """The squared error of `budget` with `rice` in multiples of a rate-distortion bound: for a Laplace
source, and for a generalized Gaussian whose shape p has the gradient's ratio of mean magnitude and root
mean square. The bounds hold for independent values, within about 1.5 %. Codecs that follow layers and rows
can be below them.
"""
PICTURE = "![squared error relative to budget](budget.png)\n"
DATA = """The picture has four of the gradients. [points.csv](budget/points.csv) has every scheme on every
gradient: bytes, and squared error relative to Σx². [bounds.jsonl](budget/bounds.jsonl) has the bounds.
"""
CURVES = ("budget, rice", "budget, context", GRID, "raw", "qsgd", ALL)
BOUND_BITS = (0.06, 0.25, 1.0)
"""Budgets of the table of bounds."""
CURVE_BITS = (0.25,)
"""Curves and budgets of the tables of least errors; the data file has the others."""
SHOWN = ("lstm_raw_slice", "resnet20_raw", "resnet20_residual", "laplace", "zipf")
"""Gradients of the tables of errors and of bounds; the data files have all."""
SHOWN_BITS = (0.03, 0.25, 2.0)
"""Budgets of the table of times."""
CODECS = ("budget, rice",)
"""Curves that the table of gains shows."""
ALL_NOTE = """In per cent, at so many bits per element at most. `all, error-bounded` sends every element with
a coarse step, one of 12. `budget` is better on most gradients, and about as good at 2 bits.
"""
COST_NOTE = """Laplace values, one thread, least processor time of calls that take turns, in reads: the time
to sum the magnitudes of the array. `topk` has the same density, and `error-bounded` the error that `budget`
had. A selection by `budget` encodes the selected elements at least once, and the encoder reuses these
sections, so compare whole encodes. *Coding in it* is the time to encode them once.
"""
FEEDBACK_NOTE = f"""{FEEDBACK_BITS:g} bits per element, 65,536 elements, Laplace values with different
scales and a mean that stays. Each ratio of `topk` is set so that its containers take as many bytes. Norms
are the residual's, in norms of a gradient.
"""


def format_page(points: Sequence[Point], bounds: Bounds, rest: Rest, *, every: bool = False) -> str:
    """Format the result page as Markdown.

    Args:
        points: all measurements.
        bounds: by gradient.
        rest: times and steps under error feedback.
        every: whether to show every curve of every gradient instead of some.
    """
    budgets = [point for point in points if is_budget(point)]
    gradients = list(dict.fromkeys(point.gradient for point in points))
    start, end = rest.loads
    parts = [
        _format_answer(points, rest.costs),
        PICTURE,
        "## Targets\n",
        format_targets(check_targets(points, rest.costs, rest.runs)),
        "## Method\n",
        INTRODUCTION,
        DATA,
        f"Command: `{rest.command}`. Load average while times were measured: {start:.1f} at the start, "
        f"{end:.1f} at the end.\n",
        "## Gradients\n",
        GRADIENTS,
        "## Bytes in budgets\n",
        _format_spent(budgets),
        "## Squared error in multiples of the grid's best at no more bytes\n",
        _format_budgets(
            [point for point in budgets if every or (point.family in CODECS and point.gradient in SHOWN)],
            lambda point: _format_gain(point, points),
        ),
        "## Distance from the bounds\n",
        BOUNDS,
        _format_bounds(points, bounds if every else {name: bounds[name] for name in SHOWN if name in bounds}),
        "## Time\n",
        COST_NOTE,
        _format_costs([cost for cost in rest.costs if every or cost.bits in SHOWN_BITS]),
        "## Error feedback\n",
        FEEDBACK_NOTE,
        _format_runs(rest.runs),
        "## Least squared error of each curve\n",
        ALL_NOTE,
    ]
    if not every:
        shown = [point for point in points if point.gradient in SHOWN]
        return "\n".join([*parts, *(_format_curves_at(shown, bits) for bits in CURVE_BITS)])
    for gradient in gradients:
        found = [point for point in points if point.gradient == gradient]
        parts += [f"### {gradient}\n", _format_curves(found, dict.fromkeys(one.family for one in found))]
    return "\n".join(parts)


def _format_answer(points: Sequence[Point], costs: Sequence[Cost]) -> str:
    """Answer the benchmark's question in a few sentences."""
    ratios = []
    for point in points:
        if is_budget(point) and point.family == "budget, rice":
            grid = [one for one in points if (one.gradient, one.family) == (point.gradient, GRID)]
            best = best_error(grid, point.nbytes)
            ratios += [point.error / best] if math.isfinite(best) else []
    if not ratios or not costs:
        return ""
    ordered = sorted(costs, key=lambda cost: cost.budget_encode / cost.topk_encode)
    least, most = (_format_ratio(cost) for cost in (ordered[0], ordered[-1]))
    return (
        f"At equal bytes, the squared error of `budget` is at most {max(ratios):.3f} times that of the best "
        f"of {len(build_grid().schemes)} `topk` schemes. The median over "
        f"{len({point.gradient for point in points})} gradients and {len(BITS)} budgets is "
        f"{statistics.median(ratios):.2f} times. An encode takes {least} to {most} as long as with `topk` at "
        "the same density.\n"
    )


def _format_ratio(cost: Cost) -> str:
    """Format the time of an encode relative to that with ``topk``, and the case."""
    ratio = cost.budget_encode / cost.topk_encode
    return f"{ratio:.2f} times ({cost.size:,} elements, {cost.bits:g} bits)"


def _columns() -> list[str]:
    return [f"{bits:g} bits" for bits in BITS]


def _format_spent(points: Sequence[Point]) -> str:
    """Format the least and the most bytes over all gradients, in budgets."""
    cells = []
    for family in dict.fromkeys(point.family for point in points):
        for bits in BITS:
            spent = [point.spent for point in points if (point.family, point.asked) == (family, bits)]
            if spent:
                cells.append((family[8:], bits, f"{min(spent):.3f}-{max(spent):.3f}"))
    return format_markdown(["index codec", *_columns()], pivot_rows(cells, BITS, "header"))


def _format_budgets(points: Sequence[Point], cell: Callable[[Point], str]) -> str:
    cells = [(f"{point.gradient}, {point.family[8:]}", point.asked, cell(point)) for point in points]
    return format_markdown(["gradient, index codec", *_columns()], pivot_rows(cells, BITS, "header"))


def _format_gain(point: Point, points: Sequence[Point]) -> str:
    grid = [one for one in points if (one.gradient, one.family) == (point.gradient, GRID)]
    best = best_error(grid, point.nbytes)
    return f"{point.error / best:.3f}" if math.isfinite(best) else "no scheme"


def _format_bounds(points: Sequence[Point], bounds: Bounds) -> str:
    cells = []
    for gradient, pair in bounds.items():
        found = [point for point in points if point.gradient == gradient and point.family == "budget, rice"]
        for point in (one for one in found if one.asked in BOUND_BITS):
            limits = [bound.at(point.bits) for bound in pair]
            ratios = ("-" if math.isnan(limit) else f"{point.error / limit:.2f}" for limit in limits)
            cells.append((f"{gradient}, p = {pair[1].shape:g}", point.asked, "; ".join(ratios)))
    columns = [f"{bits:g} bits" for bits in BOUND_BITS]
    return format_markdown(["gradient; Laplace; p", *columns], pivot_rows(cells, BOUND_BITS))


def _format_costs(costs: Sequence[Cost]) -> str:
    header = [
        "elements, bits",
        "density",
        "read",
        "topk: select",
        "encode",
        "budget: select",
        "coding in it",
        "encode",
        "more",
    ]
    rows = [
        [
            f"{cost.size:,}, {cost.bits:g}",
            f"{100 * cost.density:.2f} %",
            f"{1e6 * cost.read:,.0f} µs",
            *(
                f"{time:.1f}"
                for time in (
                    cost.topk_select,
                    cost.topk_encode,
                    cost.budget_select,
                    cost.coding,
                    cost.budget_encode,
                    cost.excess,
                )
            ),
        ]
        for cost in costs
    ]
    return format_markdown(header, rows)


def _format_runs(runs: Sequence[FeedbackRun]) -> str:
    rows = []
    for run in runs:
        steps = len(run.norms)
        norms = [run.norms[steps // 10 - 1], run.norms[steps // 2 - 1], run.norms[-1]]
        spent = (min(run.spent), statistics.mean(run.spent), max(run.spent))
        rows.append(
            [format_scheme(run.scheme), *(f"{one:.3f}" for one in spent), *(f"{one:.2f}" for one in norms)]
        )
    steps = len(runs[0].norms) if runs else 0
    ends = [f"norm after {count}" for count in (steps // 10, steps // 2, steps)]
    return format_markdown(["scheme", "bytes in budgets: least", "mean", "most", *ends], rows)


def _format_curves_at(points: Sequence[Point], bits: float) -> str:
    """Format the least errors at one budget, with a column per curve."""
    cells = []
    for gradient in dict.fromkeys(point.gradient for point in points):
        for family in CURVES:
            found = [point for point in points if (point.gradient, point.family) == (gradient, family)]
            if found:
                error = best_error(found, bits * found[0].size / 8)
                cells.append((gradient, family, f"{100 * error:.3g}" if error <= 1 else "-"))
    return format_markdown([f"{bits:g} bits", *CURVES], pivot_rows(cells, CURVES))


def _format_curves(points: Sequence[Point], families: Iterable[str]) -> str:
    """Format the least errors of one gradient, with a row per curve."""
    cells = []
    for family in families:
        found = [point for point in points if point.family == family]
        for bits in BITS if found else ():
            error = best_error(found, bits * found[0].size / 8)
            cells.append((family, bits, f"{100 * error:.3g}" if error <= 1 else "-"))
    return format_markdown(["curve", *_columns()], pivot_rows(cells, BITS))
