"""What does a selector cost in reads of the array, and how near does it come to the k that was asked for?

Every selector, ``np.argpartition`` and, where it is installed, ``torch.topk``, on synthetic arrays of several
sizes and on real gradients; thresholds that need not meet k, iteration after iteration, with and without
error feedback; inputs that are meant to be slow; encoding and decoding as a whole. The SIDCo paper's figures
1, 9 and 16 in our numbers.

    python -m benchmarks.select [--sizes 0.26,2.6,26,260] [--data FOLDER] [--quick]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from benchmarks.common.timing import RESULTS, keep, machine
from benchmarks.index.cases import TESTED, TRAINED
from benchmarks.select import count_accuracy as quality
from benchmarks.select import plot, report, speeds
from benchmarks.select import slow_inputs as corners
from benchmarks.select.targets import verdicts

SIZES = "0.26,2.6,26"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print; keep what all of it gave."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default=SIZES, metavar="MILLIONS", help=f"of elements; {SIZES}")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="gradients (*.npy) to measure as well")
    parser.add_argument("--quick", action="store_true", help="the first size, a few iterations, no training")
    options = parser.parse_args(arguments)
    sizes = [round(1e6 * float(size)) for size in options.sizes.split(",")]
    folders = [TESTED, TRAINED, *([options.data] if options.data else [])]
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns) as progress:
        task = progress.add_task("", total=None)

        def step(name: str) -> None:
            progress.update(task, description=name)

        if options.quick:
            found = measure(sizes[:1], folders[:1], {}, 3, step, 0.005)
        else:
            found = measure(sizes, folders, quality.MODELS, 40, step, 0.25)
    text = report.document(verdicts(*found), *found)
    print(text)
    if options.quick or options.data or options.sizes != SIZES:
        print("A part is printed only; the whole, without options, is kept in benchmarks/results.")
        return
    print(keep("select", "What a selector costs, and what it keeps", text))
    plot.draw(RESULTS / "select.png", found[0], found[1], machine())


Found = tuple[list[speeds.Speed], list[quality.Quality], list[corners.Corner], list[speeds.Path]]


def measure(
    sizes: Sequence[int],
    folders: Sequence[Path],
    models: dict[str, int],
    iterations: int,
    step: Callable[[str], None],
    budget: float,
) -> Found:
    """Everything.

    Args:
        sizes: of the synthetic arrays; the last one is that of slow inputs and of the whole path.
        folders: of saved gradients.
        models: to train, and for how many iterations.
        iterations: of the synthetic streams.
        step: called with the name of what is measured next.
        budget: seconds for each time, about.
    """
    saved = speeds.gradients(folders)
    taken = [speed for n in sizes for speed in speeds.measured(n, step, budget=budget)]
    for name, x in saved.items():
        taken += speeds.of_gradient(name, x, step, budget=budget / 5)
    slow = corners.measured(sizes[-1], step, budget=budget / 2)
    paths = speeds.whole_path(sizes[-1], step, budget=budget)
    near: list[quality.Quality] = []
    for name, stream in quality.synthetic(sizes[0], iterations).items():
        near += quality.judge(name, stream, False, step)
    for model, steps in models.items():
        near += quality.judge(f"{model} in training", quality.trained(model, steps), True, step)
    for name, x in saved.items():
        near += [q for q in quality.judge(name, iter([x]), True, step) if not q.feedback]
    return taken, near, slow, paths


if __name__ == "__main__":
    main()
