"""What do collectives take between hosts, beside the byte limit and beside MPI's own?

Builds hosts on this machine, as network namespaces with links shaped to 100 Mbit/s, 1 Gbit/s and 10 Gbit/s
(Linux, root, ip and tc; without them only the simulated part runs), and measures on one rank a host: times of
communication alone and of whole calls, bytes on each link, and the regret of the automatic choice of an
all-reduce. Beyond 8 ranks, bytes and times are simulated.

    python -m benchmarks.collectives [--full] [--rates 1Gbit,…] [--ranks 2,4] [--sizes 2.6e6] …
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.measure import RESULTS, keep, machine
from benchmarks.networking import plot, report
from benchmarks.networking.cases import Case
from benchmarks.networking.figure import Figure
from benchmarks.networking.hosts import RATES, Hosts, missing
from benchmarks.networking.launch import measured, mpi_of
from benchmarks.networking.simulated import METHODS, RANKS, simulated

__all__ = ["main"]

DENSITIES = (0.1, 0.01, 0.001)
QUICK = {"seconds": 0.3, "least": 3, "most": 15, "budget": 1.0}
FULL = {"seconds": 1.0, "least": 5, "most": 30, "budget": 5.0}
_MPICH = Path(".venv-mpich/bin/python")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, and keep it."""
    options = _options(arguments)
    skipped = []
    figures: list[Figure] = []
    columns = (TextColumn("{task.description:<56}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    jobs = [] if options.simulated else list(_jobs(options))
    reason = "" if not jobs else missing()
    if options.simulated or reason:
        skipped.append(f"everything between hosts: {reason or 'only the simulated part was asked for'}")
        jobs = []
    elif options.nice and os.geteuid() == 0:
        os.nice(options.nice)  # and with it the ranks
    with Progress(*columns) as progress:
        task = progress.add_task("", total=len(jobs) + len(options.simulate) * len(METHODS))

        def step(name: str, advance: int = 1) -> None:
            progress.update(task, description=name[:56], advance=advance)

        points = simulated(options.simulate, step=step)
        for python, rate, n, cases in jobs:
            step(f"{mpi_of(python)}, {rate}, n = {n}")
            plan = {"cases": cases, "kinds": ["exchange", "whole"], **(FULL if options.full else QUICK)}
            try:
                figures += _measure(python, rate, n, plan, lambda name: step(name, 0))
            except RuntimeError as error:
                skipped.append(f"{mpi_of(python)}, {rate}, n = {n}, which failed: {str(error)[-300:]}")
    text = report.document(figures, points, skipped)
    print(text)
    if options.keep:
        print(keep("collectives", "What collectives take between hosts", text))
        plot.draw(RESULTS / "collectives.png", figures, points, machine())


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--full", action="store_true", help="all rates, 2, 4 and 8 ranks, 2.6M and 26M elements; hours")
    add("--quick", action="store_true", help="the default: a part of it, minutes")
    add("--rates", type=_words, help=f"of {', '.join(RATES)}")
    add("--ranks", type=_numbers, help="2,4,8")
    add("--sizes", type=_numbers, help="elements: 2.6e6,26e6")
    add("--densities", type=_floats, default=list(DENSITIES))
    add("--alike", type=_floats, help="shares of the elements that all ranks choose alike: 0,0.9")
    add("--simulated", action="store_true", help="only what needs no hosts")
    add("--simulate", type=_numbers, default=list(RANKS), metavar="RANKS")
    add("--nice", type=int, default=-15, help="of the ranks, where root may: other programs disturb less")
    add("--no-keep", dest="keep", action="store_false", help="print only; benchmarks/results stays as it is")
    return parser.parse_args(arguments)


def _jobs(options: argparse.Namespace) -> Iterator[tuple[str, str, int, list[dict[str, Any]]]]:
    """(Python, rate, ranks, cases), one launch of ranks each."""
    pythons = [python for python in (sys.executable, str(_MPICH)) if mpi_of(python)]
    rates = options.rates or list(RATES)
    sizes = options.sizes or ([2_600_000, 26_000_000] if options.full else [2_600_000])
    for python in pythons:
        for rate in rates:
            short = not (options.full or options.rates) and rate == "100 Mbit"
            for n in options.ranks or ((2, 4, 8) if options.full else (4,)):
                yield (
                    python,
                    rate,
                    n,
                    [
                        {"elements": size, "density": density, "alike": alike}
                        for size in sizes
                        for density in ([0.01] if short else options.densities)
                        for alike in (options.alike or ([0.0] if short else [0.0, 0.9]))
                    ],
                )


def _measure(
    python: str, rate: str, n: int, plan: dict[str, Any], step: Callable[[str], None]
) -> list[Figure]:
    """Everything at one rate and rank count.

    Args:
        python: of the environment.
        rate: of the links.
        n: ranks.
        plan: for the ranks.
        step: told what is measured.
    """
    found: list[Figure] = []
    waiting: list[dict[str, Any]] = []
    with Hosts(n) as hosts:
        hosts.shape(RATES[rate])
        for said in measured(hosts, python, plan, timeout=3600 * 4):
            if said["kind"] == "goodput":
                found += [_figure(mpi_of(python), rate, n, one, said["alone"]) for one in waiting]
                waiting = []
            elif said["kind"] == "tick":
                step(f"{mpi_of(python)}, {rate}, n = {n}: {said['name']}")
            else:
                waiting.append(said)
    return found


def _figure(mpi: str, rate: str, n: int, said: dict[str, Any], goodput: float) -> Figure:
    return Figure(
        mpi=mpi,
        rate=rate,
        ranks=n,
        case=Case(**said["case"]),
        kind=said["kind"],
        name=said["name"],
        seconds=statistics.median(said["times"]),
        nbytes=said["nbytes"],
        link=said["link"][1],
        goodput=goodput,
        note=said["note"],
    )


def _words(text: str) -> list[str]:
    known = {rate.replace(" ", "").lower(): rate for rate in RATES}
    given = [word.strip().replace(" ", "").lower() for word in text.split(",")]
    wrong = [word for word in given if word not in known]
    if wrong:
        raise argparse.ArgumentTypeError(f"{wrong[0]} is none of {', '.join(RATES)}")
    return [known[word] for word in given]


def _numbers(text: str) -> list[int]:
    return [int(float(word)) for word in text.split(",")]


def _floats(text: str) -> list[float]:
    return [float(word) for word in text.split(",")]


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # or the hosts would stay
    main()
