"""What does an index cost, in bits and in time, and what would others' compressors cost?

Every index codec of the registry, and every peer that is installed, on the same supports. Sizes stand beside
the entropy bound of each kind of support; times are speeds relative to ``np.copyto`` of the same u32 indices
in the same run, so that 0.20× means that the copy takes a fifth of the time.

    python -m benchmarks.index [--quick] [--data FOLDER] [--only WORD,WORD]
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
from benchmarks.index import peers, plot, report
from benchmarks.index import supplement as extras
from benchmarks.index.cases import SIZES, TESTED, TRAINED, Case, cases, gradient_files
from benchmarks.index.coders import Coder, codecs
from benchmarks.index.measurement import LARGE, Figure, measured
from benchmarks.index.targets import verdicts
from wirecodec.errors import EncodeError

T = TypeVar("T")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print; keep what all of it gave."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="without 26M, zstd-19 and `make gradients`")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="gradients (*.npy) to measure as well")
    parser.add_argument(
        "--only", default="", metavar="WORDS", help="coders and supports whose names hold one: rice,zstd,runs"
    )
    options = parser.parse_args(arguments)
    others, missing = peers.installed()
    coders = _named([*codecs(), *others], options.only, lambda coder: coder.name)
    if options.quick:
        coders = [coder for coder in coders if not coder.name.startswith("zstd-19")]
    sizes = SIZES[:2] if options.quick else SIZES
    folders = [TESTED, *([] if options.quick else [TRAINED]), *([options.data] if options.data else [])]
    chosen = _named(list(cases(sizes, gradient_files(*folders))), options.only, lambda case: case.group)
    figures, (decided, notes) = measure(
        coders, chosen, 0.015 if options.quick else 0.06, 0 if options.only else sizes[-1]
    )
    text = report.document([*verdicts(figures), *decided], figures, missing, notes)
    print(text)
    if options.quick or options.data or options.only:
        print("A part is printed only; the whole, without options, is kept in benchmarks/results.")
        return
    print(keep("index", "What an index costs", text))
    plot.draw(RESULTS / "index.png", figures, machine())


def _named(found: list[T], only: str, name: Callable[[T], str]) -> list[T]:
    """Those whose name holds one of the words; all where no name does."""
    words = [word.strip() for word in only.split(",") if word.strip()]
    return [one for one in found if any(word in name(one) for word in words)] or found


def measure(
    coders: Sequence[Coder], chosen: Sequence[Case], budget: float, extras_at: int
) -> tuple[list[Figure], tuple[list[Verdict], str]]:
    """Every coder on every support, with a bar; two threads where there are indices enough; then the extras.

    Args:
        coders: codecs and peers.
        chosen: what to measure them on.
        budget: seconds for each time.
        extras_at: elements of the supports of what ``extras`` measures; 0 for none of it.
    """
    figures: list[Figure] = []
    columns = (TextColumn("{task.description:<52}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns) as progress:
        task = progress.add_task("", total=len(coders) * len(chosen) + (3 if extras_at else 0))

        def step(name: str) -> None:
            progress.update(task, description=name[:52], advance=1)

        for case in chosen:
            support = case.make()
            for coder in coders:
                step(f"{case.group}, {case.column}: {coder.name}")
                large = support.r >= LARGE
                with suppress(EncodeError):  # the tables say where a codec refuses
                    figures.append(measured(coder, case, support, budget=budget, two_threads=large))
        return figures, extras.measured(extras_at, step, budget=5 * budget) if extras_at else ([], "")


if __name__ == "__main__":
    main()
