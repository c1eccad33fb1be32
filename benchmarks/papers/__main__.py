"""Measurements behind results/papers.md: tables and figures of five papers with this library.

Prints the result of every measurement, and writes the data files of the page. The page itself is written by
hand: it has the papers' results, ours, and the reasons for differences. Figures about how a
selection behaves during training use small networks: the demo's, ResNet-20, an LSTM and embeddings. Other
figures use the gradients of tests/data.

Each measurement is kept in the folder .parts beside the code. So an interrupted run goes on from there, and a
run after ``--only`` measures the rest. If the library or the measurements change, a run starts from nothing.

    python -m benchmarks.papers [--quick] [--only "NAME; NAME"] [--list] [--jobs N] [--fresh]
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from benchmarks.common.command import PARTIAL_RUN, choose_names, create_parser, create_progress
from benchmarks.common.results import RESULTS
from benchmarks.papers.parts import FOLDER, Store, run_missing
from benchmarks.papers.plan import QUICK, Steps, list_parts
from benchmarks.papers.reproductions import DecodedGradient
from benchmarks.papers.tables import list_tables, write_table

__all__ = ["format_measurement", "main"]

MISSING = """torch is missing. A CPU build is sufficient:
    pip install torch
`make bench-papers` installs it into the project's virtual environment."""
JOBS = 2
SHOWN = 8
"""Elements of a result that are printed; of more, the range."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what is missing; if everything is there, write the data files."""
    parser = create_parser(
        __doc__,
        __package__,
        quick="few steps; only prints",
        only="only these; names or parts of names, separated by ;",
        fresh=None,
    )
    parser.add_argument("--list", action="store_true", help="only print the names of --only")
    parser.add_argument("--jobs", type=int, default=JOBS, metavar="N", help="processes, default %(default)s")
    options = parser.parse_args(arguments)
    if importlib.util.find_spec("torch") is None:
        sys.exit(MISSING)
    steps = QUICK if options.quick else Steps()
    parts = list_parts(steps)
    if options.list:
        print(*(part.name for part in parts), sep="\n")
        return
    names = choose_names(options.only, [part.name for part in parts])
    if options.fresh:
        shutil.rmtree(FOLDER, ignore_errors=True)
    store = Store(repr(steps))
    with create_progress(72) as progress:
        run_missing([part for part in parts if part.name in names], store, options.jobs, progress)
    for name in names:
        print(f"{name}: {format_measurement(store[name])}")
    found = {part.name: store[part.name] for part in parts if part.name in store}
    if len(found) < len(parts):
        print(f"{len(parts) - len(found)} of {len(parts)} measurements are missing; the files need all.")
        return
    if options.quick:
        print(PARTIAL_RUN)
        return
    for name, table in list_tables(found).items():
        write_table(RESULTS / "papers" / f"{name}.csv", table)
        print(RESULTS / "papers" / f"{name}.csv")


def format_measurement(result: Any) -> str:
    """Format the numbers of any measurement's result in one line.

    Args:
        result: numbers, texts, arrays, dataclasses, sequences and mappings of these.
    """
    if isinstance(result, float | np.floating):
        return f"{result:.4g}"
    if isinstance(result, np.ndarray) and result.size > SHOWN:
        mean, low, high = (f"{pick(result):.4g}" for pick in (np.mean, np.min, np.max))
        return f"{result.size} numbers, mean {mean}, {low} to {high}"
    if isinstance(result, DecodedGradient):
        times = f"encoded in {result.encode:.2g} s, decoded in {result.decode:.2g} s"
        sections = f"index {result.index}, values {result.value}"
        return f"{result.method} {result.nbytes} bytes ({sections}), error {result.error:.4g}, {times}"
    if is_dataclass(result):
        named = ((each.name, getattr(result, each.name)) for each in fields(result))
        return ", ".join(f"{name} {format_measurement(one)}" for name, one in named)
    if isinstance(result, Mapping):
        return "; ".join(f"{name}: {format_measurement(one)}" for name, one in result.items())
    if isinstance(result, list | tuple | np.ndarray):
        more = f", … {len(result)} in all" if len(result) > SHOWN else ""
        between = "; " if len(result) and is_dataclass(result[0]) else ", "
        return f"({between.join(format_measurement(one) for one in result[:SHOWN])}{more})"
    return str(result)


if __name__ == "__main__":
    main()
