"""Train twice, dense and compressed, and compare: ``mpirun -n 4 python -m benchmarks.demo``.

Every rank runs this; rank 0 alone talks. An exception on one rank ends them all, and so the demo never hangs.
The exit status is 1 where the ranks did not end the compressed run with the same weights.
"""

from __future__ import annotations

import argparse
import json
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mpi4py import MPI
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.demo import data, exchange, model, report
from benchmarks.demo.train import Run, Settings, train

__all__ = ["main"]


def main() -> int:
    """The exit status, the same on every rank."""
    comm = MPI.COMM_WORLD
    try:
        return demo(comm, arguments(comm))
    except BaseException as error:
        if comm.size == 1 or isinstance(error, SystemExit):
            raise
        traceback.print_exc()
        sys.stderr.flush()
        comm.Abort(1)
        raise


def arguments(comm: Any) -> argparse.Namespace:
    """The command line, as rank 0 reads it; where it is wrong, all ranks exit and rank 0 says why."""
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
    """The options: steps, seed, output, json."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.demo",
        description="Train a small network on digits with dense and with compressed gradients, and compare.",
        epilog="Start it under `mpirun -n RANKS` for more ranks than one.",
    )
    parser.add_argument(
        "--steps", type=int, default=Settings.steps, help="steps of each run (default: %(default)s)"
    )
    parser.add_argument(
        "--seed", type=int, default=Settings.seed, help="of weights and batches (default: %(default)s)"
    )
    parser.add_argument(
        "--output", type=Path, default=Path("demo.png"), help="the picture (default: %(default)s)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers to FILE, too")
    options = parser.parse_args(words)
    if options.steps < 1:
        parser.error("--steps must be at least 1")
    if options.seed < 0:
        parser.error("--seed must not be negative")
    for path in (options.output, options.json):
        if path is not None and not path.absolute().parent.is_dir():
            parser.error(f"there is no folder {path.absolute().parent}")
    return options


def demo(comm: Any, options: argparse.Namespace) -> int:
    """Both runs and their report."""
    console = Console(quiet=comm.rank != 0)
    settings = Settings(steps=options.steps, seed=options.seed)
    digits = comm.bcast(data.load() if comm.rank == 0 else None)  # importing scikit-learn takes seconds
    params = model.initialise(settings.seed)
    parameters = sum(value.size for value in params.values())
    with console.status("loading the kernels (the first time, they are compiled) …"):
        exchange.warm_up(MPI.COMM_SELF, params)
        comm.Barrier()

    runs: dict[str, Run] = {}
    with Progress(
        TextColumn("{task.description:10}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("steps, loss {task.fields[loss]:6.3f}"),
        TimeElapsedColumn(),
        console=console,
        disable=comm.rank != 0,
    ) as progress:
        for name, way in (
            ("dense", exchange.Dense(comm)),
            ("compressed", exchange.Compressed(comm, seed=settings.seed)),
        ):
            task = progress.add_task(name, total=settings.steps, loss=float("nan"))
            runs[name] = train(comm, way, settings, digits, on_step=_reporter(progress, task))

    if comm.rank == 0:
        console.print(report.table(runs["dense"], runs["compressed"], parameters))
        for name, run in runs.items():
            console.print(f"{name}: {report.weights_text(run)}", highlight=False, soft_wrap=True)
        # Matplotlib, for one rank only.
        from benchmarks.demo import plot

        plot.draw(options.output, runs["dense"], runs["compressed"], parameters)
        console.print(f"picture: {options.output.absolute()}", highlight=False, soft_wrap=True)
        if options.json is not None:
            options.json.write_text(json.dumps(report.summary(runs, settings, parameters), indent=1) + "\n")
            console.print(f"numbers: {options.json.absolute()}", highlight=False, soft_wrap=True)
    return 0 if runs["compressed"].same_weights else 1


def _reporter(progress: Progress, task: Any) -> Callable[[int, float], None]:
    return lambda step, loss: progress.update(task, completed=step + 1, loss=loss)


if __name__ == "__main__":
    sys.exit(main())
