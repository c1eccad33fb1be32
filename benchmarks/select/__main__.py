"""Time of selectors in reads of the array.

Measures every selector, ``np.argpartition`` and, if installed, ``torch.topk``, on synthetic arrays and on
real gradients. Adversarial inputs, and whole calls to encode and decode, follow. The page corresponds to
figures 1 and 16 of the SIDCo paper.

    python -m benchmarks.select [--sizes 0.26,2.6,26,260] [--data FOLDER] [--quick | --redraw]

``--redraw`` draws the picture of the page from its kept figures, in benchmarks/results/select.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.common.command import PARTIAL_RUN, create_parser, show_steps
from benchmarks.common.inputs import TEST_GRADIENTS
from benchmarks.common.results import RESULTS, write_result
from benchmarks.common.tables import read_rows, write_rows
from benchmarks.select import plot, report, slow_inputs, speeds
from benchmarks.select.targets import check_targets

__all__ = ["main", "measure"]

SIZES = "0.26,2.6,26"
FIGURES, PICTURE = RESULTS / "select", RESULTS / "select.png"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark, print the page, and write it if the run is complete."""
    parser = create_parser(__doc__, __package__, data=None, quick="first size, little time", redraw=None)
    parser.add_argument(
        "--sizes", default=SIZES, metavar="MILLIONS", help="millions of elements (default: %(default)s)"
    )
    options = parser.parse_args(arguments)
    if options.redraw:
        plot.draw(PICTURE, read_rows(FIGURES / "speeds.csv", report.Gain))
        return
    sizes = [round(1e6 * float(size)) for size in options.sizes.split(",")]
    folders = [TEST_GRADIENTS, *([options.data] if options.data else [])]
    with show_steps() as step:
        if options.quick:
            measurements = measure(sizes[:1], folders[:1], step, 0.005)
        else:
            measurements = measure(sizes, folders, step, 0.25)
    text = report.format_page(check_targets(*measurements), *measurements)
    print(text)
    if options.quick or options.data or options.sizes != SIZES:
        print(PARTIAL_RUN)
        return
    print(write_result("select", "Time of selectors", text))
    gains = report.list_speed_ups(measurements[0])
    write_rows(FIGURES / "speeds.csv", gains)
    write_rows(FIGURES / "slow_inputs.csv", report.list_slow_inputs(measurements[1]))
    plot.draw(PICTURE, gains)


Measurements = tuple[list[speeds.Speed], list[slow_inputs.SlowInput], list[speeds.SchemeSpeed]]


def measure(
    sizes: Sequence[int], folders: Sequence[Path], step: Callable[[str], None], budget: float
) -> Measurements:
    """Run all measurements.

    Args:
        sizes: of the synthetic arrays; slow inputs and whole schemes use the last one.
        folders: folders of saved gradients.
        step: called with the name of each measurement before it starts.
        budget: approximate seconds per time.
    """
    times = [speed for n in sizes for speed in speeds.measure_synthetic(n, step, budget=budget)]
    for name, x in speeds.load_gradients(folders).items():
        times += speeds.measure_array(name, x, step, budget=budget / 5)
    slow = slow_inputs.measure_slow_inputs(sizes[-1], step, budget=budget / 2)
    return times, slow, speeds.measure_schemes(sizes[-1], step, budget=budget)


if __name__ == "__main__":
    main()
