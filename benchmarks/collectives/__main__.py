"""Times of collectives between hosts, compared with the byte limit and with MPI's own collectives.

Emulates hosts on this machine: network namespaces whose links are shaped to 100 Mbit/s, 1 Gbit/s and 10
Gbit/s. This needs Linux, root, ip and tc; without them only the simulation runs. With one rank per host, it
measures times of exchanges and of whole calls, and bytes on each link. It also measures the regret of the
automatic choice of an all-reduce. Beyond 8 ranks, bytes and times are simulated.

    python -m benchmarks.collectives [--quick | --simulated] [--no-keep]

``--redraw`` draws the pictures of the page from their kept figures, in benchmarks/results/collectives.
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

from benchmarks.collectives import kept, plot, report
from benchmarks.collectives.cases import Case
from benchmarks.collectives.measurement import Measurement
from benchmarks.collectives.plan import Job, generate_jobs
from benchmarks.collectives.simulation import METHODS, RANKS, Point, simulate_methods
from benchmarks.common.command import create_parser, create_progress
from benchmarks.common.hosts import RATES, Hosts, find_missing_tools
from benchmarks.common.mpi import find_mpi, launch_ranks
from benchmarks.common.results import RESULTS, write_result
from benchmarks.common.tables import read_rows, write_rows

__all__ = ["main"]

POINTS = kept.FOLDER / "points.csv"
NICE = -15
"""Priority of the ranks, if root runs them."""
_MPICH = Path(".venv-mpich/bin/python")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark, print the page, and write it."""
    options = _parse(arguments)
    if options.redraw:
        plot.draw(RESULTS, kept.load(), read_rows(POINTS, Point))
        return
    skipped = []
    measurements: list[Measurement] = []
    jobs = [] if options.simulated else list(_plan_jobs(quick=options.quick))
    reason = find_missing_tools() if jobs else ""
    if options.simulated or reason:
        skipped.append(f"all measurements between hosts: {reason or 'only the simulation was requested'}")
        jobs = []
    elif jobs and os.geteuid() == 0:
        os.nice(NICE)  # the ranks inherit the priority
    with create_progress() as progress:
        task = progress.add_task("", total=len(jobs) + len(options.simulate) * len(METHODS))

        def step(name: str, advance: int = 1) -> None:
            progress.update(task, description=name, advance=advance)

        points = simulate_methods(options.simulate, step=step)
        for python, job in jobs:
            title = f"{find_mpi(python)}, {job.rate}, n = {job.ranks}"
            step(title)
            try:
                measurements += _measure(python, job, partial(step, advance=0))
            except RuntimeError as error:
                skipped.append(f"{title}, which failed: {str(error)[-300:]}")
    if measurements and not any(m.mpi == "MPICH" for m in measurements):
        skipped.append(f"MPICH: {_MPICH} does not exist (`make test-mpich` creates it)")
    text = report.format_page(measurements, points, skipped)
    print(text)
    if options.keep:
        print(write_result("collectives", "Times of collectives between hosts", text))
        rows = kept.list_rows(measurements)
        write_rows(POINTS, points)
        write_rows(kept.FOLDER / kept.TABLE, rows)
        plot.draw(RESULTS, rows, points)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    quick = "26M elements at one rate only; 10 minutes instead of 35"
    parser = create_parser(__doc__, __package__, quick=quick, redraw=None)
    add = parser.add_argument
    add("--simulated", action="store_true", help="run only the simulation, which needs no hosts")
    add(
        "--simulate",
        type=lambda text: [int(word) for word in text.split(",")],
        default=list(RANKS),
        metavar="RANKS",
        help="numbers of simulated ranks",
    )
    add("--no-keep", dest="keep", action="store_false", help="print the page and do not write it")
    return parser.parse_args(arguments)


def _plan_jobs(*, quick: bool) -> Iterator[tuple[str, Job]]:
    """Yield each launch of ranks with the Python interpreter that has its MPI."""
    for python in (sys.executable, str(_MPICH)):
        if mpi := find_mpi(python):
            yield from ((python, job) for job in generate_jobs(mpi, quick=quick))


def _measure(python: str, job: Job, step: Callable[[str], None]) -> list[Measurement]:
    """Run one launch.

    Args:
        python: interpreter of the environment.
        job: the measurements.
        step: called with the name of each measurement.
    """
    mpi = find_mpi(python)
    measurements: list[Measurement] = []
    waiting: list[dict[str, Any]] = []
    with Hosts(job.ranks) as hosts:
        hosts.shape(RATES[job.rate])
        for record in launch_ranks(hosts, python, job.plan, timeout=3600 * 4):
            if record["kind"] == "goodput":
                measurements += [_read_measurement(mpi, job, each, record["alone"]) for each in waiting]
                waiting = []
            elif record["kind"] == "tick":
                step(f"{mpi}, {job.rate}, n = {job.ranks}: {record['name']}")
            else:
                waiting.append(record)
    return measurements


def _read_measurement(mpi: str, job: Job, record: dict[str, Any], goodput: float) -> Measurement:
    return Measurement(
        mpi=mpi,
        rate=job.rate,
        ranks=job.ranks,
        case=Case(**record["case"]),
        kind=record["kind"],
        name=record["name"],
        seconds=statistics.median(record["times"]),
        nbytes=record["nbytes"],
        link=record["link"][1],
        links=record["link"][0],
        goodput=goodput,
        note=record["note"],
    )


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the hosts are removed
    main()
