"""Whole training steps with the hook for DistributedDataParallel, beside torch's hooks; needs torch.

Three models train on 2 and 4 ranks over gloo: on loopback, on emulated links of 1 Gbit/s and 100 Mbit/s, and
with a delay. The time of a step is compared with computing alone plus a floor for the exchange. Calls on few
small tensors over MPI follow. Emulated links need Linux, root, ip and tc.

    python -m benchmarks.step [--quick] [--only "MLP, 4 ranks"] [--fresh] [--report | --redraw] [--output …]

The result of each job is kept in the folder .rows beside the code. So an interrupted run goes on from there,
and a run after ``--only`` measures the rest. If the library changes, a run starts from nothing. ``--redraw``
draws the picture of the page from its kept figures, benchmarks/results/step/steps.csv.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import sys
from collections.abc import Sequence

from rich.progress import Progress

from benchmarks.common.command import PARTIAL_RUN, choose_names, create_parser, create_progress
from benchmarks.common.hosts import find_missing_tools
from benchmarks.common.results import RESULTS, describe_machine, write_result
from benchmarks.common.tables import read_rows as read_table
from benchmarks.common.tables import write_rows
from benchmarks.step import plot, report
from benchmarks.step.kept import Step, list_steps
from benchmarks.step.launch import needs_hosts, run_job, run_small_calls
from benchmarks.step.plan import SMALL, Job, list_jobs
from benchmarks.step.rows import read_rows
from benchmarks.step.small import SmallCalls
from benchmarks.step.store import FOLDER, Store

__all__ = ["main"]

MISSING = """torch is missing. A CPU build is sufficient:
    pip install torch
`make bench-step` installs it into the project's virtual environment."""
TITLE = "Time of whole training steps"
FIGURES, PICTURE = RESULTS / "step" / "steps.csv", RESULTS / "step.png"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what is missing, print the page, and write it if everything is there."""
    usual = dict.fromkeys(("only", "fresh", "report", "redraw", "output"))
    quick = "the MLP on two ranks, loopback; two minutes"
    parser = create_parser(__doc__, __package__, quick=quick, **usual)
    options = parser.parse_args(arguments)
    if options.redraw:
        plot.draw(PICTURE, read_table(FIGURES, Step))
        return
    if importlib.util.find_spec("torch") is None:
        sys.exit(MISSING)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # so that hosts are removed
    jobs = list_jobs(quick=options.quick)
    load, skipped = os.getloadavg()[0], []
    if reason := find_missing_tools():
        skipped.append(f"emulated links: {reason}")
        jobs = [job for job in jobs if not needs_hosts(job)]
    names = [SMALL, *(job.name for job in jobs)]
    wanted = choose_names(options.only, names)
    if options.fresh:
        shutil.rmtree(FOLDER, ignore_errors=True)
    store = Store(f"quick={options.quick}")
    if not options.report:
        with create_progress() as progress:
            _run_missing(jobs, wanted, store, progress, quick=options.quick)
    rows = [row for job in jobs if job.name in store for row in read_rows(store[job.name])]
    found = store.get(SMALL, "not measured")
    small = None if isinstance(found, str) else SmallCalls(**found)
    missing = [name for name in names if name not in store]
    if isinstance(found, str):
        skipped.append(f"{SMALL}: {found}")
    text = report.format_page(
        rows,
        small,
        command=f"python -m {__package__}{' --quick' if options.quick else ''}",
        versions=_describe_torch(),
        load=f"{load:.1f} and {os.getloadavg()[0]:.1f}",
        skipped=skipped,
    )
    print(text)
    if options.output is not None:
        options.output.mkdir(parents=True, exist_ok=True)
        (options.output / "step.md").write_text(f"# {TITLE}\n\n{describe_machine()}\n\n{text}")
        plot.draw(options.output / "step.png", list_steps(rows))
    if missing and not options.quick:
        print(f"{len(missing)} of {len(names)} measurements are missing; the page needs all of them.")
    elif options.quick or reason:
        print(PARTIAL_RUN)
    else:
        print(write_result("step", TITLE, text))
        write_rows(FIGURES, list_steps(rows))
        write_rows(FIGURES.with_name("stages.csv"), report.list_stages(rows))
        plot.draw(PICTURE, list_steps(rows))


def _run_missing(
    jobs: Sequence[Job], wanted: Sequence[str], store: Store, progress: Progress, *, quick: bool
) -> None:
    """Run the wanted measurements that have no result, and keep each result."""
    bar = progress.add_task("", total=len(wanted), completed=sum(name in store for name in wanted))

    def show(name: str) -> None:
        progress.update(bar, description=name)

    if SMALL in wanted and SMALL not in store:
        show(SMALL)
        store.save(SMALL, run_small_calls(quick=quick))
        progress.advance(bar)
    for job in (job for job in jobs if job.name in wanted and job.name not in store):
        show(job.name)
        store.save(job.name, run_job(job, lambda part, name=job.name: show(f"{name}: {part}")))  # type: ignore[misc]
        progress.advance(bar)


def _describe_torch() -> str:
    import torch

    return f"torch {torch.__version__}"


if __name__ == "__main__":
    main()
