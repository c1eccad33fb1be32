"""Tables and figures of the five papers that are not about training: theirs and ours side by side.

Writes results/papers.md and its pictures. Figures about how a selection behaves during training use the
demo's network (272,586 parameters, handwritten digits), which trains on one core without torch. Other figures
use the gradients of tests/data, or refer to the benchmark that has them.

    python -m benchmarks.papers [--quick] [--output FOLDER]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from benchmarks.common.command import PARTIAL_RUN, create_parser
from benchmarks.common.inputs import TEST_GRADIENTS, list_gradient_files
from benchmarks.common.results import RESULTS, describe_machine
from benchmarks.papers import adacomp, deepreduce, fft, scalecom, sidco
from benchmarks.value.papers import reproduce

__all__ = ["main", "measure"]

STEPS = (1000, 200, 300, 400)
"""Training steps of SIDCo's, FFT's, ScaleCom's and AdaComp's figures."""
QUICK_STEPS = (60, 20, 30, 60)

INTRODUCTION = """Every table and figure of the five papers that this library implements, except their
trainings of large models. A row has the paper's result, ours, and why they differ. Theirs are from the
papers' text; the models, machines and data differ throughout, so only the shape of a result can agree.

SIDCo's, FFT's, ScaleCom's and AdaComp's figures about training use the demo's network: 272,586 parameters,
handwritten digits. `make bench-papers` writes this page; `ARGS=--quick` takes fewer steps.

"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure everything, print the page, and write it with its pictures."""
    parser = create_parser(__doc__, __package__)
    parser.add_argument("--quick", action="store_true", help="few steps; only prints the page")
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="write the page and pictures there")
    options = parser.parse_args(arguments)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns) as progress:
        task = progress.add_task("", total=None)
        results = measure(
            QUICK_STEPS if options.quick else STEPS,
            lambda name: progress.update(task, description=name),
        )
    text = format_page(results)
    print(text)
    folder = options.output or (None if options.quick else RESULTS)
    if folder is None:
        print(PARTIAL_RUN)
        return
    from benchmarks.papers.plot import draw_all

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "papers.md").write_text(text)
    draw_all(folder, *results)
    print(folder / "papers.md")


Results = tuple[sidco.Result, deepreduce.Result, fft.Result, scalecom.Result, adacomp.Result]


def measure(steps: Sequence[int], step: Callable[[str], None]) -> Results:
    """Run all measurements.

    Args:
        steps: training steps of SIDCo's, FFT's, ScaleCom's and AdaComp's figures.
        step: called with the name of each measurement before it starts.
    """
    reproductions = reproduce(list_gradient_files(TEST_GRADIENTS), step)
    return (
        sidco.measure(steps[0], step),
        deepreduce.measure(reproductions, step),
        fft.measure(reproductions, steps[1], step),
        scalecom.measure(steps[2], step),
        adacomp.measure(steps[3], step),
    )


def format_page(results: Results) -> str:
    """Format the page."""
    sections = [
        sidco.format_section(results[0]),
        deepreduce.format_section(results[1]),
        fft.format_section(results[2]),
        scalecom.format_section(results[3]),
        adacomp.format_section(results[4]),
    ]
    head = f"# The papers' tables and figures\n\n{describe_machine()}\n\n{INTRODUCTION}"
    return head + "\n".join(sections)


if __name__ == "__main__":
    main()
