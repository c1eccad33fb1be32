"""Bits per changed element and speed of patches of weights, compared with the formats of other projects.

Trains a small transformer with GRPO at the learning rates of reinforcement learning, and writes the changes
of 1, 8 and 32 steps in nine formats. fp8 codes, a dense fine-tune and a table of embeddings follow. The
training takes about eight minutes; its states are kept in benchmarks/patches/.states. Sizes and speeds are
measured in one run of minutes.

    python -m benchmarks.patches [--quick] [--data FOLDER] [--only "WORD; WORD"] [--report]

``--report`` draws the page and the picture from their kept figures, in benchmarks/results/patches.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence

from benchmarks.common.command import PARTIAL_RUN, choose_names, create_parser, show_steps
from benchmarks.common.rest import Rest, load_rest, save_rest
from benchmarks.common.results import RESULTS, describe_machine, write_result
from benchmarks.common.tables import read_rows, write_rows
from benchmarks.patches import plot, report
from benchmarks.patches.cases import Case, make_table, plan_cases, plan_folder
from benchmarks.patches.measurement import (
    Cell,
    Pair,
    TensorSize,
    describe_case,
    measure_case,
    measure_tensor,
)
from benchmarks.patches.peers import FORMATS, load_bsdiff
from benchmarks.patches.targets import check_targets
from wirecodec.kernels.cpu.threads import thread_count

__all__ = ["main", "measure"]

FIGURES = RESULTS / "patches"
TENSOR = "blocks.0.gate_up.weight"
"""Tensor on which compressors of arbitrary files are measured; they take a second per megabyte or more."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark, and write the page if the run is complete; a partial run is only printed."""
    parser = create_parser(
        __doc__,
        __package__,
        quick="no training: the table of embeddings alone",
        data="pairs NAME_030.npz, NAME_031_xor_030.npz of a folder",
        only="cases; names, or parts, separated by ;",
        report=None,
    )
    options = parser.parse_args(arguments)
    if not options.report:

        def show(name: str) -> None:
            step(name)  # of the block below, in which the cases are made

        table = make_table(20_000)
        quick = {table.name: lambda: table}
        cases = plan_folder(options.data) if options.data else quick if options.quick else plan_cases(show)
        chosen = choose_names(options.only, cases)
        with show_steps() as step:
            found = measure((cases[name]() for name in chosen), step)
        if options.quick or options.data or options.only:
            print(report.format_page(check_targets(*found[:2]), *found, thread_count()))
            print(PARTIAL_RUN)
            return
        _save(*found)
    rest = load_rest(FIGURES)
    if rest is None:
        sys.exit("there is no complete run: start one")
    pairs, cells = read_rows(FIGURES / "pairs.csv", Pair), read_rows(FIGURES / "cells.csv", Cell)
    tensor = TENSOR, read_rows(FIGURES / "tensor.csv", TensorSize)
    threads = int(rest.sections[0])
    text = report.format_page(check_targets(pairs, cells), pairs, cells, tensor, rest.missing, threads)
    print(text)
    print(write_result("patches", "Bits and speed of patches of weights", text, rest.machine))
    plot.draw(RESULTS / "patches.png", pairs, cells)


Measurements = tuple[list[Pair], list[Cell], tuple[str, list[TensorSize]], list[str]]


def measure(cases: Iterable[Case], step: Callable[[str], None]) -> Measurements:
    """Run all measurements.

    Args:
        cases: states.
        step: called with the name of each measurement before it starts.

    Returns:
        Properties of the cases, all measurements, those of one tensor, and the missing packages.
    """
    pairs, cells, sizes = list[Pair](), list[Cell](), list[TensorSize]()
    peers, missing = load_bsdiff()
    for case in cases:
        pairs.append(describe_case(case))
        cells += measure_case(case, FORMATS, thread_count(), step)
        if TENSOR in case.old and not sizes:
            step(f"{case.name}: one tensor")
            sizes = measure_tensor(case, TENSOR, dict(zip(("bsdiff4",), peers, strict=False)))
    return pairs, cells, (TENSOR, sizes), missing


def _save(
    pairs: Sequence[Pair],
    cells: Sequence[Cell],
    tensor: tuple[str, Sequence[TensorSize]],
    missing: Sequence[str],
) -> None:
    """Keep the figures of a complete run."""
    write_rows(FIGURES / "pairs.csv", pairs)
    write_rows(FIGURES / "cells.csv", cells)
    write_rows(FIGURES / "tensor.csv", tensor[1])
    save_rest(Rest(describe_machine(), list(missing), [], [str(thread_count())]), FIGURES)


if __name__ == "__main__":
    main()
