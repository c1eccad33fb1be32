"""Training with compressed gradients: metric and bits of every system, on tasks that every machine can make.

Four workers are simulated in one process. Each has its own batches and its own Compressor, and every
container is encoded and decoded. Each system tries the same grid of learning rates and momenta. The best
settings on validation are reported on test. Results are kept in benchmarks/results/training, so an
interrupted benchmark can go on.

    python -m benchmarks.training [--quick] [--task text-lstm] [--system "dense; budget"] [--minutes 480]

Needs torch: ``pip install torch``.
"""

from __future__ import annotations

import os
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.common.command import choose_names, create_parser, create_progress
from benchmarks.common.results import RESULTS, write_result
from benchmarks.training.runs import FOLDER

__all__ = ["main"]

MOST_SEEDS = 5
"""Seeds of the page: it shows all that have run, up to this number."""
QUICK_STEPS = 1 / 12
QUICK_SYSTEMS = (
    "dense; budget 0.25; budget 0.03; top-k 1 % as published; PowerSGD, rank 4; local updates, dense"
)


def _create_parser() -> ArgumentParser:
    parser = create_parser(__doc__, __package__)
    parser.add_argument(
        "--quick", action="store_true", help="100 steps of the LSTM, one rate; nothing is written"
    )
    parser.add_argument(
        "--task", default="", help="only these tasks; names, or parts of names, separated by ;"
    )
    parser.add_argument("--system", default="", help="only these systems, written as for --task")
    parser.add_argument(
        "--seeds", type=int, default=1, help="seeds per system other than dense (default: %(default)s)"
    )
    parser.add_argument(
        "--dense-seeds", type=int, default=MOST_SEEDS, help="seeds of dense (default: %(default)s)"
    )
    parser.add_argument("--tries", type=int, default=0, help="only the first points of the grid; 0 for all")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: %(default)s)"
    )
    parser.add_argument(
        "--device",
        default="",
        help='"cuda" or "cpu": train text-long in stacks of runs there (default: one run per process)',
    )
    parser.add_argument("--stack", type=int, default=6, help="runs of a stack (default: %(default)s)")
    parser.add_argument("--minutes", type=float, default=1e6, help="start no run after them")
    parser.add_argument(
        "--folder",
        type=Path,
        default=FOLDER,
        help="of the results, and of the page and its pictures if it is not the default: %(default)s",
    )
    parser.add_argument(
        "--list", action="store_true", help="only list the runs that are missing and can start"
    )
    parser.add_argument("--report", action="store_true", help="only write the page from the results")
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing, and write the page from all that is there."""
    options = _create_parser().parse_args(arguments)
    try:
        from benchmarks.training import report
        from benchmarks.training.plan import NEAR, Plan
        from benchmarks.training.pool import describe_run, run_missing
        from benchmarks.training.stacked.run import run_stacks
        from benchmarks.training.systems.registry import SYSTEMS
        from benchmarks.training.tasks.registry import TASKS
    except ImportError as error:
        sys.exit(f"this benchmark trains models ({error}): pip install torch scikit-learn matplotlib")
    wanted = QUICK_SYSTEMS if options.quick and not options.system else options.system
    chosen_tasks, chosen_systems = choose_names(options.task, TASKS), choose_names(wanted, SYSTEMS)
    tasks = [task for name, task in TASKS.items() if name in chosen_tasks]
    systems = [system for name, system in SYSTEMS.items() if name in chosen_systems]
    near = {key: SYSTEMS[other] for key, other in NEAR.items()}
    plan = Plan(options.folder, options.dense_seeds, options.seeds, tries=options.tries, near=near)
    if options.quick:
        tasks = tasks if options.task else [TASKS["text-lstm"]]
        plan = Plan(Path(tempfile.mkdtemp(prefix="training-")), 1, 1, QUICK_STEPS, 1)
    cells = [(task, system) for task in tasks for system in systems]
    if options.list:
        print("\n".join(map(describe_run, plan.list_missing(cells))))
        return
    if not options.report:
        with create_progress(76) as progress:
            limits = {"jobs": options.jobs, "minutes": options.minutes}
            if options.device:
                stacks = {"device": options.device, "most": options.stack}
                run_stacks(plan, cells, **stacks, **limits, progress=progress)
            else:
                run_missing(plan, cells, **limits, progress=progress)
    if not options.quick:
        plan = replace(plan, tries=0, dense_seeds=MOST_SEEDS, seeds=MOST_SEEDS)
    shown = (tasks, systems) if options.quick else (list(TASKS.values()), list(SYSTEMS.values()))
    text = report.format_page(plan, *shown)
    print(report.format_tasks(plan, tasks, shown[1]) if options.task else text)
    if options.quick:
        print("A quick run is only printed: 100 steps rank systems differently from 1,200.")
        return
    pages = RESULTS if plan.folder.resolve() == FOLDER.resolve() else plan.folder
    print(write_result("training", "Training with compressed gradients", text, folder=pages))
    print(report.write_details(plan, *shown))
    from benchmarks.training import plot

    for path in plot.draw(pages, plan, list(TASKS.values()), list(SYSTEMS.values())):
        print(path)


if __name__ == "__main__":
    main()
