"""Time of a step for 4 to 1,024 ranks and 10 Mbit/s to 100 Gbit/s: which system is the fastest, as a map.

Measures the rates of this machine on whole models, predicts the time of a step with the cost model of
`wirecodec advise`, and checks it by real exchanges and training steps of 2, 4 and 8 ranks between emulated
hosts. The check needs Linux, root, ip and tc. fp16 and PowerSGD are computed by torch if it is installed.
`wirecodec advise` predicts other settings.

    python -m benchmarks.scale [--quick] [--no-check | --report]
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence

from benchmarks.common.command import PARTIAL_RUN, create_parser, show_steps
from benchmarks.common.hosts import find_missing_tools
from benchmarks.common.mpi import find_mpi
from benchmarks.common.results import RESULTS, describe_machine, write_result
from benchmarks.common.tables import write_rows
from benchmarks.scale import plot, report
from benchmarks.scale.check import CheckedTime, Series, compare, run_rates, run_systems
from benchmarks.scale.kept import PATH, Kept, load, save
from benchmarks.scale.library import describe_library, has_torch
from benchmarks.scale.models import MODELS
from benchmarks.scale.prediction import Cell, Site, predict_cells
from benchmarks.scale.rates import combine
from benchmarks.scale.steps import STEPS
from benchmarks.scale.systems import Options

__all__ = ["main"]

Cells = dict[str, list[Cell]]
"""{model: cells}."""
CHECKED = "ResNet-50"
LINKS = ("100 Mbit", "1 Gbit")
LATENCY = 50e-6
"""Seconds per message of the maps."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark, print the page, and write it if the run is complete."""
    options = _parse(arguments)
    systems = Options()
    kept = load() if options.report else _measure(options, systems)
    maps, sites, text = _format(kept, systems)
    print(text)
    if options.output is not None:
        plot.draw(options.output, maps, sites, systems.every)
    if options.quick or options.no_check:
        print(PARTIAL_RUN)
        return
    if not options.report:
        save(kept)
    print(write_result("scale", "Time of a step over ranks and bandwidths", text, kept.machine))
    write_rows(PATH.with_name("cells.csv"), report.list_cells(maps, sites))
    write_rows(PATH.with_name("runs.csv"), report.list_runs(_check(kept)))
    plot.draw(RESULTS, maps, sites, systems.every)


def _measure(options: argparse.Namespace, systems: Options) -> Kept:
    """Measure the rates of this machine, and the real runs."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # so that hosts are removed
    budget = 0.3 if options.quick else 1.5
    reason = "not requested" if options.no_check else find_missing_tools()
    if not reason and not find_mpi(sys.executable):
        reason = "mpirun is not beside this Python"
    steps = () if options.quick or not has_torch() else STEPS
    before, preferred = os.getloadavg()[0], "" if reason else _prefer_ranks()
    series: list[Series] = []
    with show_steps() as show:
        rates = {}
        for name in MODELS:
            show(f"rates of {name}")
            rates[name] = run_rates(name, systems, budget)
        if not reason:
            ranks, links = ((2, 4), LINKS[1:]) if options.quick else ((2, 4, 8), LINKS)
            for name in (CHECKED, *steps):
                series += run_systems(name, systems, ranks=ranks, links=links, budget=budget, step=show)
        for name in MODELS:
            show(f"rates of {name}, again")
            rates[name] = combine([rates[name], run_rates(name, systems, budget)], min)
    return Kept(
        machine=describe_machine(),
        library=describe_library(),
        cores=len(os.sched_getaffinity(0)),
        load=f"{before:.1f} and {os.getloadavg()[0]:.1f}{preferred}",
        skipped=reason,
        rates=rates,
        series=series,
    )


def _format(kept: Kept, systems: Options) -> tuple[Cells, Cells, str]:
    """Predict the maps, without and with sites, and format the page."""
    maps = {name: predict_cells(found, latency=LATENCY) for name, found in kept.rates.items()}
    sites = {name: predict_cells(found, site=Site(), latency=LATENCY) for name, found in kept.rates.items()}
    text = report.format_page(
        maps,
        _check(kept),
        options=systems,
        latency=LATENCY,
        library=kept.library,
        cores=kept.cores,
        load=kept.load,
        skipped=kept.skipped,
    )
    return maps, sites, text


def _check(kept: Kept) -> list[CheckedTime]:
    return [compare(run, one.rates) for one in kept.series for run in one.runs]


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    quick, output = "fewer runs: 2 and 4 ranks at 1 Gbit/s", "draw the maps there, too"
    parser = create_parser(__doc__, __package__, quick=quick, report=None, output=output)
    parser.add_argument("--no-check", action="store_true", help="predict only; needs neither root nor MPI")
    return parser.parse_args(arguments)


def _prefer_ranks() -> str:
    """Give this process and its ranks real-time priority, so that other programs do not delay them.

    Returns:
        A remark for the page.
    """
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(10))
    except (AttributeError, OSError):
        return ""
    return "; the ranks have real-time priority"


if __name__ == "__main__":
    main()
