"""Train twice, with dense and with compressed gradients, and compare.

    mpirun -n 4 python -m benchmarks.demo [--recipe dgc | --budget 0.25] …

Every rank runs this program, and only rank 0 prints. An exception on one rank aborts all ranks, so that the
demo cannot hang. The exit status is 1 if the ranks end the compressed run with different weights.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mpi4py import MPI
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import wirecodec as wc
from benchmarks.demo import data, exchange, model, report
from benchmarks.demo.choices import choose
from benchmarks.demo.train import Run, Settings, train

__all__ = ["main"]


def main() -> int:
    """Run the demo and return the exit status, which is the same on every rank."""
    comm = MPI.COMM_WORLD
    try:
        return run_demo(comm, parse_on_rank_0(comm))
    except BaseException as error:
        if comm.size == 1 or isinstance(error, SystemExit):
            raise
        traceback.print_exc()
        sys.stderr.flush()
        comm.Abort(1)
        raise


def parse_on_rank_0(comm: Any) -> argparse.Namespace:
    """Parse the command line on rank 0; if it is invalid, rank 0 prints the reason and all ranks exit."""
    parsed: argparse.Namespace | int
    if comm.rank == 0:
        try:
            parsed = parse(sys.argv[1:])
        except SystemExit as error:
            parsed = int(error.code or 0)
        comm.bcast(parsed)
    else:
        parsed = comm.bcast(None)
    if isinstance(parsed, int):
        raise SystemExit(parsed)
    return parsed


def parse(words: list[str]) -> argparse.Namespace:
    """Parse the options, and check them."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.demo",
        description="Train a small network on digits with dense and with compressed gradients, and compare.",
        epilog="Run it under `mpirun -n RANKS` for several ranks.",
    )
    parser.add_argument(
        "--steps", type=int, default=Settings.steps, help="steps of each run (default: %(default)s)"
    )
    parser.add_argument(
        "--seed", type=int, default=Settings.seed, help="seed of weights and batches (default: %(default)s)"
    )
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--recipe",
        metavar="NAME",
        help=f"compress as a published system, with its feedback and warm-up: {', '.join(wc.RECIPES)}",
    )
    group.add_argument(
        "--budget", type=float, metavar="BITS", help="compress to so many bits per element and step: 0.25"
    )
    parser.add_argument(
        "--output", type=Path, default=Path("demo.png"), help="path of the picture (default: %(default)s)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers to FILE also")
    options = parser.parse_args(words)
    if options.steps < 1:
        parser.error(f"--steps is {options.steps}; it must be 1 or more")
    if options.seed < 0:
        parser.error(f"--seed is {options.seed}; it must be 0 or more")
    try:
        choose(options.recipe, options.budget)
    except wc.EncodeError as error:
        parser.error(str(error))
    for path in (options.output, options.json):
        if path is not None and not path.absolute().parent.is_dir():
            parser.error(f"the folder {path.absolute().parent} does not exist")
    return options


def run_demo(comm: Any, options: argparse.Namespace) -> int:
    """Run both trainings and report them."""
    console = Console(quiet=comm.rank != 0)
    settings = Settings(steps=options.steps, seed=options.seed)
    choice = choose(options.recipe, options.budget)
    digits = comm.bcast(data.load() if comm.rank == 0 else None)  # scikit-learn takes seconds to import
    params = model.initialise(settings.seed)
    parameters = sum(value.size for value in params.values())
    with console.status("loading the kernels (compiled on first use) …"):
        exchange.warm_up(MPI.COMM_SELF, params, choice)
        comm.Barrier()

    runs: dict[str, Run] = {}
    with Progress(
        TextColumn("{task.description:20}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("steps, loss {task.fields[loss]:6.3f}"),
        TimeElapsedColumn(),
        console=console,
        disable=comm.rank != 0,
    ) as progress:
        own = settings if choice.momentum is None else dataclasses.replace(settings, momentum=choice.momentum)
        compressed = exchange.Compressed(comm, seed=settings.seed, choice=choice)
        for key, name, mean_gradient, given in (
            ("dense", "dense", exchange.Dense(comm), settings),
            ("compressed", choice.name, compressed, own),
        ):
            task = progress.add_task(name, total=settings.steps, loss=float("nan"))
            runs[key] = train(comm, mean_gradient, given, digits, on_step=_create_callback(progress, task))

    if comm.rank == 0:
        console.print(report.build_table(runs["dense"], runs["compressed"], parameters, choice))
        for name, run in zip(("dense", choice.name), runs.values(), strict=True):
            console.print(f"{name}: {report.describe_weights(run)}", highlight=False, soft_wrap=True)
        # Only rank 0 imports Matplotlib.
        from benchmarks.demo import plot

        plot.draw(options.output, runs["dense"], runs["compressed"], parameters, choice)
        console.print(f"picture: {options.output.absolute()}", highlight=False, soft_wrap=True)
        if options.json is not None:
            numbers = report.summarise(runs, settings, parameters, choice)
            options.json.write_text(json.dumps(numbers, indent=1) + "\n")
            console.print(f"numbers: {options.json.absolute()}", highlight=False, soft_wrap=True)
    return 0 if runs["compressed"].same_weights else 1


def _create_callback(progress: Progress, task: Any) -> Callable[[int, float], None]:
    """Return a callback that updates the progress bar."""
    return lambda step, loss: progress.update(task, completed=step + 1, loss=loss)


if __name__ == "__main__":
    sys.exit(main())
