"""Time of whole models: hundreds or thousands of tensors, compared with one flat vector.

Measures ``encode_many``, ``decode_add``, ``decode_many`` and a Compressor's step, with one thread and two,
on ResNet-50's shapes, a transformer's, and tiny tensors. The reference is the same call on one vector with
the same values. Sums of several ranks' containers, one small tensor, and one sparse tensor follow.

    python -m benchmarks.model [--quick | --redraw]

``--redraw`` draws the picture of the page from its kept figures, benchmarks/results/model/stages.csv.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from benchmarks.common.command import PARTIAL_RUN, create_parser, show_steps
from benchmarks.common.results import RESULTS, write_result
from benchmarks.common.tables import read_rows, write_rows
from benchmarks.model import plot, report, stages, sums
from benchmarks.model.models import Model, build_resnet50, build_tiny, build_transformer

__all__ = ["main", "measure"]

FIGURES, PICTURE = RESULTS / "model" / "stages.csv", RESULTS / "model.png"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark, print the page, and write it if the run is complete."""
    quick = "smaller models, few runs"
    options = create_parser(__doc__, __package__, quick=quick, redraw=None).parse_args(arguments)
    if options.redraw:
        plot.draw(PICTURE, read_rows(FIGURES, report.StageRow))
        return
    load = os.getloadavg()[0]
    with show_steps() as step:
        if options.quick:
            models = [build_resnet50(), build_transformer(layers=32), build_tiny(1000)]
            found = measure(models, (1, 4, 16), step, budget=0.05, min_calls=3)
        else:
            models = [build_resnet50(), build_transformer(), build_tiny()]
            found = measure(models, (1, 4, 16, 64), step, budget=0.2, min_calls=7)
    command = f"python -m {__package__}{' --quick' if options.quick else ''}"
    text = report.format_page(found, command=command, load=load, end=os.getloadavg()[0])
    print(text)
    if options.quick:
        print(PARTIAL_RUN)
        return
    print(write_result("model", "Time of whole models", text))
    rows = report.list_stages(found)
    write_rows(FIGURES, rows)
    plot.draw(PICTURE, rows)


def measure(
    models: Sequence[Model],
    counts: Sequence[int],
    step: Callable[[str], None],
    *,
    budget: float,
    min_calls: int,
) -> report.Measurements:
    """Run all measurements.

    Args:
        models: the models; the containers of several ranks are of the first.
        counts: numbers of containers, ascending; the first is 1.
        step: called with the name of each measurement before it starts.
        budget: approximate seconds per call.
        min_calls: runs of each call even if the budget is exceeded.
    """
    dense, times = [], []
    for model in models:
        limits, calls = stages.measure_stages(model, step, budget=budget, min_calls=min_calls)
        dense.append(limits)
        times += calls
    return report.Measurements(
        dense,
        times,
        sums.measure_sums(models[0], counts, step, budget=budget, min_calls=min_calls),
        sums.measure_small_calls(step, budget=budget, min_calls=min_calls),
        sums.measure_index_calls(step, budget=budget, min_calls=min_calls),
        stages.measure_schemes(models[0], step, budget=budget, min_calls=min_calls),
    )


if __name__ == "__main__":
    main()
