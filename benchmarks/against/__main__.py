"""Times of calls in this checkout and in an earlier revision, in turns on one core.

    python -m benchmarks.against REVISION [--rounds N] [--limit RATIO]

It prints the ratio of every call in every round, and exits with 1 if a call takes more than ``--limit`` times
as long in all rounds. A round has both checkouts twice, in turns, and takes the shorter time of each.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.common.command import create_parser, create_progress
from benchmarks.common.store import ROOT

__all__ = ["compare", "format_table", "main"]

CALLS = Path(__file__).with_name("calls.py")
Times = Mapping[str, float]


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare, print the table, and exit with 1 if a call is slower."""
    parser = create_parser(__doc__, __package__)
    parser.add_argument("revision", help="earlier revision, in any form that git takes")
    parser.add_argument("--rounds", type=int, default=3, help="rounds (default: %(default)s)")
    parser.add_argument("--limit", type=float, default=1.05, help="largest ratio (default: %(default)s)")
    options = parser.parse_args(arguments)
    with checkout(options.revision) as old, create_progress() as progress:
        bar = progress.add_task("kernels", total=4 * options.rounds + 2)
        for folder in (old, ROOT):
            measure(folder)
            progress.advance(bar)
        rounds = []
        for number in range(options.rounds):
            progress.update(bar, description=f"round {number + 1}")
            runs: tuple[list[Times], list[Times]] = [], []
            for _ in range(2):
                for own, folder in zip(runs, (old, ROOT), strict=True):
                    own.append(measure(folder))
                    progress.advance(bar)
            rounds.append(compare(*runs))
    print(format_table(rounds, options.limit))
    sys.exit(1 if find_slower(rounds, options.limit) else 0)


@contextmanager
def checkout(revision: str) -> Iterator[Path]:
    """Check a revision out into a temporary folder."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "checkout"
        git = ["git", "-C", os.fspath(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", os.fspath(folder), revision], check=True)
        try:
            yield folder
        finally:
            subprocess.run([*git, "remove", "--force", os.fspath(folder)], check=True)


def measure(folder: Path) -> Times:
    """Return the times of the calls in a checkout, in milliseconds."""
    core = max(os.sched_getaffinity(0))
    own = {"PYTHONPATH": os.fspath(folder), "NUMBA_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    found = subprocess.run(
        [sys.executable, os.fspath(CALLS)],  # whose folder has no module that one of both would import
        cwd=folder,
        env={**os.environ, **own},
        stdout=subprocess.PIPE,
        check=True,
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
    )
    times: Times = json.loads(found.stdout)
    return times


def compare(old: Sequence[Times], new: Sequence[Times]) -> dict[str, float]:
    """Return the ratio of the shortest times, new over old, of each call that both have."""
    return {
        name: min(run[name] for run in new) / min(run[name] for run in old)
        for name in new[0]
        if all(name in run for run in old)
    }


def find_slower(rounds: Sequence[Times], limit: float) -> list[str]:
    """Return the calls whose ratio is above a limit in all rounds."""
    return [name for name in rounds[0] if all(one[name] > limit for one in rounds)]


def format_table(rounds: Sequence[Times], limit: float) -> str:
    """Format the ratios, the slowest calls first, and what is slower in all rounds."""
    width = max(map(len, rounds[0]))
    names = sorted(rounds[0], key=lambda name: -min(one[name] for one in rounds))
    lines = [f"{name:<{width}} " + " ".join(f"{one[name]:6.2f}" for one in rounds) for name in names]
    slower = find_slower(rounds, limit)
    verdict = f"slower by more than {limit - 1:.0%} in all rounds: {'; '.join(slower) or 'none'}"
    return "\n".join([f"{'time, new / old, by round':<{width}}", *lines, "", verdict])


if __name__ == "__main__":
    main()
