"""What do values cost, in bits, in error and in time, and what would others' compressors cost at equal error?

Every value codec of the registry, in several configurations, and every peer that is installed, on the same
vectors: the largest values of known laws and of real gradients. Sizes stand beside the rate-distortion bound
of each vector; times are multiples of ``np.copyto`` of the same values in the same run. Two papers' tables
and figures follow, rebuilt with our data.

    python -m benchmarks.value [--quick] [--data FOLDER] [--only WORD,WORD]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.common.targets import Verdict
from benchmarks.common.timing import RESULTS, keep, machine
from benchmarks.index.cases import TESTED, gradient_files
from benchmarks.value import papers, papers_plot, peers, plot, report
from benchmarks.value import supplement as extras
from benchmarks.value.cases import CACHE, ELEMENTS, Case, cases, clock_cases
from benchmarks.value.coders import Coder, codecs
from benchmarks.value.measurement import Figure, measured
from benchmarks.value.rate_distortion import Curve
from benchmarks.value.targets import verdicts
from wirecodec.errors import EncodeError

T = TypeVar("T")

SLOW = 10.0
"""Nanoseconds a value above which a codec is not measured on a vector beyond the caches."""

Curves = dict[tuple[str, str], Curve]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print; keep what all of it gave."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="vectors of 2.6M elements in the place of 26M")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="gradients (*.npy) to measure as well")
    parser.add_argument(
        "--only",
        default="",
        metavar="WORDS",
        help="coders and vectors whose names hold one: qsgd,SZ3,laplace",
    )
    options = parser.parse_args(arguments)
    elements = ELEMENTS // 10 if options.quick else ELEMENTS
    folders = [TESTED, *([options.data] if options.data else [])]
    others, missing = peers.installed()
    coders = _named([*codecs(), *others], options.only, lambda coder: coder.name)
    every = [*clock_cases(elements), *cases(elements, gradient_files(*folders))]
    chosen = _named(every, options.only, lambda case: case.group)
    whole = not options.only
    with _progress() as progress:
        task = progress.add_task(
            "", total=len(coders) * len(chosen) + (3 + len(papers.PARTS) if whole else 0)
        )

        def step(name: str) -> None:
            progress.update(task, description=name[:56], advance=1)

        figures, curves = measure(coders, chosen, step, 0.01 if options.quick else 0.03)
        decided: list[Verdict] = []
        notes: list[str] = []
        if whole:
            decided, note = extras.measured(elements, step)
            found = papers.measured(gradient_files(TESTED), step)
            notes = [note, *papers.sections(found)]
    text = report.document([*verdicts(figures), *decided], figures, curves, missing, notes)
    print(text)
    if options.quick or options.data or options.only:
        print("A part is printed only; the whole, without options, is kept in benchmarks/results.")
        return
    print(keep("value", "What values cost", text))
    plot.draw(RESULTS / "value.png", figures, curves, machine())
    papers_plot.draw(RESULTS, found)


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description:<56}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    )


def _named(found: list[T], only: str, name: Callable[[T], str]) -> list[T]:
    """Those whose name holds one of the words; all where no name does."""
    words = [word.strip() for word in only.split(",") if word.strip()]
    return [one for one in found if any(word in name(one) for word in words)] or found


def measure(
    coders: Sequence[Coder], chosen: Sequence[Case], step: Callable[[str], None], budget: float
) -> tuple[list[Figure], Curves]:
    """Every coder on every vector, and the vectors' bounds by (group, column).

    Args:
        coders: codecs and peers.
        chosen: what to measure them on.
        step: called with the name of what is measured next.
        budget: seconds for each time.
    """
    figures: list[Figure] = []
    curves: Curves = {}
    clocked: dict[str, float] = {}
    for case in chosen:
        values = case.make()
        curve = case.bound(values)
        if curve is not None:
            curves[case.group, case.column] = curve
        for coder in coders:
            step(f"{case.group}, {case.column}: {coder.name}")
            if values.size > 10 * CACHE and (coder.peer or clocked.get(coder.name, 0) > SLOW):
                continue
            with suppress(EncodeError):  # the tables say where a codec refuses
                figures.append(measured(coder, case, values, curve, budget=budget))
                clocked[coder.name] = max(figures[-1].encode, figures[-1].decode)
    return figures, curves


if __name__ == "__main__":
    main()
