"""What do collectives take between hosts, beside the byte limit and beside MPI's own?

Builds hosts on this machine, as network namespaces with links shaped to 100 Mbit/s, 1 Gbit/s and 10 Gbit/s
(Linux, root, ip and tc; without them only the simulated part runs), and measures on one rank a host: times of
communication alone and of whole calls, bytes on each link, and the regret of the automatic choice of an
all-reduce. Beyond 8 ranks, bytes and times are simulated.

    python -m benchmarks.collectives [--quick | --full] [--rates 1Gbit,…] [--ranks 2,4] [--sizes 2.6e6] …
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.collectives import plot, report
from benchmarks.collectives.hosts import RATES, Hosts, missing
from benchmarks.collectives.launch import measured, mpi_of
from benchmarks.collectives.measurement import Figure
from benchmarks.collectives.plan import DENSITIES, Job, by_default, everything
from benchmarks.collectives.simulation import METHODS, RANKS, simulated
from benchmarks.collectives.workload import Case
from benchmarks.common.timing import RESULTS, keep, machine

__all__ = ["main"]

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
        for python, job in jobs:
            where = f"{mpi_of(python)}, {job.rate}, n = {job.ranks}"
            step(where)
            try:
                figures += _measure(python, job, partial(step, advance=0))
            except RuntimeError as error:
                skipped.append(f"{where}, which failed: {str(error)[-300:]}")
    if figures and not any(f.mpi == "MPICH" for f in figures):
        skipped.append(f"MPICH: there is no {_MPICH} (`make test-mpich` makes it)")
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
    add("--quick", action="store_true", help="26M elements in one place alone; 10 minutes instead of 35")
    add("--full", action="store_true", help="whole calls everywhere, too, and steady medians; hours")
    add("--rates", type=_words, help=f"of {', '.join(RATES)}")
    add("--ranks", type=_numbers, help="2,4,8")
    add("--sizes", type=_numbers, help="elements: 2.6e6,26e6")
    add("--densities", type=_floats, help="0.1,0.01,0.001")
    add("--alike", type=_floats, help="shares of the elements that all ranks choose alike: 0,0.9")
    add("--simulated", action="store_true", help="only what needs no hosts")
    add("--simulate", type=_numbers, default=list(RANKS), metavar="RANKS")
    add("--nice", type=int, default=-15, help="of the ranks, where root may: other programs disturb less")
    add("--no-keep", dest="keep", action="store_false", help="print only; benchmarks/results stays as it is")
    return parser.parse_args(arguments)


def _jobs(options: argparse.Namespace) -> Iterator[tuple[str, Job]]:
    """Launches of ranks, each with the Python that has the MPI."""
    for python in (sys.executable, str(_MPICH)):
        mpi = mpi_of(python)
        parts = (options.rates, options.ranks, options.sizes, options.densities, options.alike)
        if mpi and (options.full or any(parts)):
            jobs = everything(
                options.rates or list(RATES),
                options.ranks or ([2, 4, 8] if options.full else [4]),
                options.sizes or ([2_600_000, 26_000_000] if options.full else [2_600_000]),
                options.densities or DENSITIES,
                options.alike or [0.0, 0.9],
                long=options.full,
            )
            yield from ((python, job) for job in jobs)
        elif mpi:
            yield from ((python, job) for job in by_default(mpi, quick=options.quick))


def _measure(python: str, job: Job, step: Callable[[str], None]) -> list[Figure]:
    """One launch.

    Args:
        python: of the environment.
        job: what to measure.
        step: told what is measured.
    """
    where = f"{mpi_of(python)}, {job.rate}, n = {job.ranks}"
    found: list[Figure] = []
    waiting: list[dict[str, Any]] = []
    with Hosts(job.ranks) as hosts:
        hosts.shape(RATES[job.rate])
        for said in measured(hosts, python, job.plan, timeout=3600 * 4):
            if said["kind"] == "goodput":
                found += [_figure(mpi_of(python), job, one, said["alone"]) for one in waiting]
                waiting = []
            elif said["kind"] == "tick":
                step(f"{where}: {said['name']}")
            else:
                waiting.append(said)
    return found


def _figure(mpi: str, job: Job, said: dict[str, Any], goodput: float) -> Figure:
    return Figure(
        mpi=mpi,
        rate=job.rate,
        ranks=job.ranks,
        case=Case(**said["case"]),
        kind=said["kind"],
        name=said["name"],
        seconds=statistics.median(said["times"]),
        nbytes=said["nbytes"],
        link=said["link"][1],
        links=said["link"][0],
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
