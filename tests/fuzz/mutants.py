"""Mutation testing of the decoding side: finds changes to its Python code that no test detects.

    python -m tests.fuzz.mutants [--reference] [--later | --patches] [--sample N] [--seed N] [--minutes N]
                                 [--verdicts FILE] [--write]

A mutant is one function with one comparison, operator, constant or check changed (``mutation``). Only
functions that a vector runs are changed. A forked child replaces the function's code. It runs the golden
vectors that execute the function until one result differs; if all are right, the probes. If they are right,
too, another child tells whether other functions of the decoder run: a change of a shortcut is visible only
there (``trials``).

``--reference`` changes the reference decoder instead of the library, ``--later`` only the readers of version
1.1, by vectors alone. ``--patches`` changes the readers of patches of weights, by their vectors alone.
tests/fuzz/mutants_c.py does the same with the C decoder. The order is random;
``--sample`` ends a run after this number of mutants, ``--minutes`` after this time. ``--verdicts`` keeps the
verdicts in a file. A run continues from it: it tries the survivors again, and mutants without a verdict.
``--write`` writes the decoder's tables in tests/fuzz/survivors, and MUTANTS.md (``mutant_pages``). Reasons
that are given there for survivors stay.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numba
import numpy as np

from tests.fuzz import mutant_pages
from tests.fuzz.mutant_pages import Row, Verdict, Verdicts
from tests.fuzz.mutation import LIBRARY, TARGETS, identify_mutants, list_mutants, place_of
from tests.fuzz.trials import find_trials, judge


def parse_options(tool: str, arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line of a tool."""
    parser = argparse.ArgumentParser(prog=tool, description="Mutation testing of a decoder.")
    if tool == "mutants":
        parser.add_argument("--reference", action="store_true", help="change the reference decoder")
        parser.add_argument("--patches", action="store_true", help="only the readers of patches; no probes")
    if tool != "mutants_kernels":
        parser.add_argument("--later", action="store_true", help="only the readers of version 1.1; no probes")
    parser.add_argument("--sample", type=int, help="number of mutants; by default all")
    parser.add_argument("--seed", type=int, default=0, help="of the random order")
    parser.add_argument("--minutes", type=float, default=math.inf, help="end after this time")
    parser.add_argument("--verdicts", type=Path, help="file of verdicts from which a run continues")
    parser.add_argument("--write", action="store_true", help="write the tables and the page")
    return parser.parse_args(arguments)


def try_mutants(
    decoder: str,
    rows: Iterable[Row],
    judge_row: Callable[[Row], Verdict | None],
    options: argparse.Namespace,
) -> int:
    """Try mutants in the order given; return 0 if 90 % are noticed, in a table of a part 96 %.

    Args:
        decoder: name of the table: "library", "reference" or "c", or one of a part of a decoder.
        rows: of all mutants.
        judge_row: returns a mutant's verdict, or None if the mutant does not compile.
        options: of ``parse_options``.
    """
    end = time.monotonic() + 60 * options.minutes
    verdicts, rows = Verdicts(options.verdicts), list(rows)
    for row in rows[: options.sample]:
        if time.monotonic() > end:
            break
        if verdicts.needs_trial(row):
            verdict = judge_row(row)
            if verdict is None:
                rows.remove(row)
            else:
                verdicts.add(row, verdict)
                if not verdict.is_noticed:
                    print(*row, sep=", ", flush=True)
    if options.write:
        mutant_pages.write_decoder(decoder, rows, verdicts)
        page = mutant_pages.make_page(mutant_pages.read_counts())
        mutant_pages.PAGE.write_text(page, encoding="utf-8")
    tried = [verdicts.found[row].is_noticed for row in rows if row in verdicts.found]
    print(f"{len(tried)} of {len(rows)} mutants were tried; {sum(tried)} were killed.")
    return int(100 * sum(tried) < (96 if "-" in decoder else 90) * len(tried))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return what ``try_mutants`` does."""
    options = parse_options("mutants", arguments)
    np.seterr(all="ignore")
    numba.set_num_threads(1)  # which functions run is seen on this thread alone
    decoder = "reference" if options.reference else "library"
    decoder += "-patches" if options.patches else ""
    target = TARGETS[decoder]
    found = find_trials(target, probes=not options.later and target is LIBRARY)
    known = {
        place: noticing for place, noticing in found.items() if not all(one.is_probe for one in noticing)
    }
    every = {row: mutant for mutant, row in identify_mutants(list(list_mutants(known, target))).items()}
    if options.later:
        every = {row: mutant for row, mutant in every.items() if target.later.fullmatch(mutant.where)}
    rows = random.Random(options.seed).sample(list(every), len(every))

    def judge_row(row: Row) -> Verdict:
        return judge(every[row], known[place_of(every[row].function.__code__)], target)

    return try_mutants(f"{decoder}-1.1" if options.later else decoder, rows, judge_row, options)


if __name__ == "__main__":
    sys.exit(main())
