"""Time of selectors in reads of the array, and the accuracy of their count.

Measures every selector, ``np.argpartition`` and, if installed, ``torch.topk``, on synthetic arrays and on
real gradients. Selectors that estimate a threshold are run over many iterations, with and without error
feedback, to compare their count with k. Adversarial inputs, and whole calls to encode and decode, follow. The
page corresponds to figures 1, 9 and 16 of the SIDCo paper.

    python -m benchmarks.select [--sizes 0.26,2.6,26,260] [--data FOLDER] [--quick | --redraw | --counts]

``--counts`` measures the accuracy of the counts again, which takes half a minute; the page keeps its times.
``--redraw`` draws the pictures of the page from their kept figures, in benchmarks/results/select.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.common.command import PARTIAL_RUN, create_parser, show_steps
from benchmarks.common.inputs import TEST_GRADIENTS, TRAINED_GRADIENTS
from benchmarks.common.results import RESULTS, write_result
from benchmarks.common.tables import read_rows, write_rows
from benchmarks.select import count_accuracy, plot, report, slow_inputs, speeds
from benchmarks.select.targets import check_accuracy, check_targets

__all__ = ["main", "measure"]

SIZES = "0.26,2.6,26"
FIGURES = RESULTS / "select"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark, print the page, and write it if the run is complete."""
    parser = create_parser(
        __doc__, __package__, data=None, quick="first size, few iterations, no training", redraw=None
    )
    parser.add_argument(
        "--sizes", default=SIZES, metavar="MILLIONS", help="millions of elements (default: %(default)s)"
    )
    parser.add_argument("--counts", action="store_true", help="only the counts; the page keeps its times")
    options = parser.parse_args(arguments)
    if options.redraw:
        gains, counts = (
            read_rows(FIGURES / "gains.csv", plot.Gain),
            read_rows(FIGURES / "counts.csv", plot.Count),
        )
        plot.draw(RESULTS, gains, counts)
        return
    sizes = [round(1e6 * float(size)) for size in options.sizes.split(",")]
    folders = [TEST_GRADIENTS, TRAINED_GRADIENTS, *([options.data] if options.data else [])]
    with show_steps() as step:
        if options.counts:
            saved = speeds.load_gradients(folders)
            accuracies = measure_counts(sizes[0], saved, count_accuracy.MODELS, 40, step)
            page = RESULTS / "select.md"
            text = page.read_text(encoding="utf-8")
            page.write_text(
                report.replace_counts(text, accuracies, check_accuracy(accuracies)), encoding="utf-8"
            )
            counts = plot.list_counts(accuracies)
            write_rows(FIGURES / "counts.csv", counts)
            write_rows(FIGURES / "accuracy.csv", report.list_accuracies(accuracies))
            plot.draw(RESULTS, read_rows(FIGURES / "gains.csv", plot.Gain), counts)
            return
        if options.quick:
            measurements = measure(sizes[:1], folders[:1], {}, 3, step, 0.005)
        else:
            measurements = measure(sizes, folders, count_accuracy.MODELS, 40, step, 0.25)
    text = report.format_page(check_targets(*measurements), *measurements)
    print(text)
    if options.quick or options.data or options.sizes != SIZES:
        print(PARTIAL_RUN)
        return
    print(write_result("select", "Time and accuracy of selectors", text))
    gains, counts = plot.list_gains(measurements[0]), plot.list_counts(measurements[1])
    write_rows(FIGURES / "gains.csv", gains)
    write_rows(FIGURES / "counts.csv", counts)
    write_rows(FIGURES / "speeds.csv", report.list_speed_ups(measurements[0]))
    write_rows(FIGURES / "accuracy.csv", report.list_accuracies(measurements[1]))
    write_rows(FIGURES / "slow_inputs.csv", report.list_slow_inputs(measurements[2]))
    plot.draw(RESULTS, gains, counts)


Measurements = tuple[
    list[speeds.Speed],
    list[count_accuracy.CountAccuracy],
    list[slow_inputs.SlowInput],
    list[speeds.SchemeSpeed],
]


def measure(
    sizes: Sequence[int],
    folders: Sequence[Path],
    models: dict[str, int],
    iterations: int,
    step: Callable[[str], None],
    budget: float,
) -> Measurements:
    """Run all measurements.

    Args:
        sizes: of the synthetic arrays; slow inputs and whole schemes use the last one.
        folders: folders of saved gradients.
        models: models to train, with their number of iterations.
        iterations: of the synthetic streams.
        step: called with the name of each measurement before it starts.
        budget: approximate seconds per time.
    """
    saved = speeds.load_gradients(folders)
    times = [speed for n in sizes for speed in speeds.measure_synthetic(n, step, budget=budget)]
    for name, x in saved.items():
        times += speeds.measure_array(name, x, step, budget=budget / 5)
    slow = slow_inputs.measure_slow_inputs(sizes[-1], step, budget=budget / 2)
    schemes = speeds.measure_schemes(sizes[-1], step, budget=budget)
    return times, measure_counts(sizes[0], saved, models, iterations, step), slow, schemes


def measure_counts(
    size: int,
    saved: Mapping[str, Any],
    models: Mapping[str, int],
    iterations: int,
    step: Callable[[str], None],
) -> list[count_accuracy.CountAccuracy]:
    """Measure the accuracy of the counts.

    Args:
        size: of the synthetic arrays.
        saved: {name: gradient}.
        models, iterations, step: as for ``measure``.
    """
    accuracies: list[count_accuracy.CountAccuracy] = []
    for name, stream in count_accuracy.generate_streams(size, iterations).items():
        accuracies += count_accuracy.measure_stream(name, stream, False, step)
    for model, steps in models.items():
        stream = count_accuracy.train_stream(model, steps)
        accuracies += count_accuracy.measure_stream(f"{model} in training", stream, True, step)
    for name, x in saved.items():
        single = count_accuracy.measure_stream(name, iter([x]), True, step)
        accuracies += [accuracy for accuracy in single if not accuracy.feedback]
    return accuracies


if __name__ == "__main__":
    main()
