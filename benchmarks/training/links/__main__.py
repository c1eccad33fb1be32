"""Seconds until dense's final loss + 2 %, on four hosts with shaped links; needs torch, and root.

Every method trains the character LSTM with real ranks over gloo. Ranks share this machine's cores, so
computing takes longer than on four machines.

    python -m benchmarks.training.links [--rate "100 Mbit"] [--steps 1200] [--method "dense; fp16"]

Each run's losses and seconds are kept in the folder .links beside the code, so that the benchmark goes on
from there. The rows of the page are kept in benchmarks/results/links. --report only writes the page and the
picture, from these rows.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.common.command import choose_names, create_parser
from benchmarks.common.hosts import RATES, Hosts, find_missing_tools
from benchmarks.common.ranks import run_ranks
from benchmarks.common.results import RESULTS, describe_machine, write_result
from benchmarks.common.tables import append_rows, read_rows
from benchmarks.training.links.plot import draw
from benchmarks.training.links.rank import METHODS
from benchmarks.training.links.report import format_page
from benchmarks.training.links.rows import Row, build_rows

__all__ = ["main"]

RANK = "benchmarks.training.links.rank"
FOLDER = Path(__file__).parents[1] / ".links"
KEPT = RESULTS / "links"
"""Rows of the page. They are part of the repository."""
LEARNING_RATE = 1.6e-2


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what has no record, and print the page; write it if the runs have full length."""
    parser = create_parser(__doc__, __package__)
    parser.add_argument("--rate", default="", choices=("", *RATES), help="only this rate")
    parser.add_argument("--steps", type=int, default=1200, help="steps of a run (default: %(default)s)")
    parser.add_argument(
        "--method", default="", help="only these methods; names, or parts of names, separated by ;"
    )
    parser.add_argument("--ranks", type=int, default=4, help="number of hosts (default: %(default)s)")
    parser.add_argument("--timeout", type=float, default=7200, help="seconds for a run")
    parser.add_argument("--report", action="store_true", help="run nothing; format what has been recorded")
    parser.add_argument("--output", type=Path, help="draw the picture here, too")
    options = parser.parse_args(arguments)
    methods = choose_names(options.method, METHODS)
    complete = all(getattr(options, name) == parser.get_default(name) for name in ("steps", "ranks"))
    machine = None
    if options.report and complete:
        rows, machine = read_rows(KEPT / "rows.csv", Row), (KEPT / "machine.txt").read_text().strip()
    else:
        if not options.report:
            _run(options, methods)
        rows = build_rows(list(_load(options.steps, options.ranks)))
        if rows and complete:
            _keep(rows)
    text = format_page(rows, ranks=options.ranks, steps=options.steps)
    print(text)
    if options.output is not None and rows:
        draw(options.output, rows)
    if rows and complete:
        print(write_result("training_links", "Training over shaped links", text, machine))
        draw(RESULTS / "training_links.png", rows)


def _keep(rows: Sequence[Row]) -> None:
    """Replace the rows of the page."""
    (KEPT / "rows.csv").unlink(missing_ok=True)
    append_rows(KEPT / "rows.csv", rows)
    (KEPT / "machine.txt").write_text(f"{describe_machine()}\n")


def _run(options: argparse.Namespace, methods: Sequence[str]) -> None:
    """Run the methods that have no record."""
    if reason := find_missing_tools():
        sys.exit(f"no shaped links: {reason}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # so that hosts are removed
    FOLDER.mkdir(exist_ok=True)
    for rate in [options.rate] if options.rate else ["100 Mbit", "1 Gbit"]:
        for method in methods:
            path = FOLDER / f"{options.steps}-{options.ranks}-{rate}-{method}.json".replace(" ", "_")
            if path.exists():
                continue
            print(f"{rate}, {method} ...", flush=True)
            plan = {"method": method, "steps": options.steps, "rate": LEARNING_RATE, "link": rate}
            with Hosts(options.ranks) as hosts:
                hosts.shape(RATES[rate])
                plan |= {"ranks": options.ranks}
                try:
                    record = run_ranks(RANK, plan, hosts.names, timeout=options.timeout)
                except RuntimeError as error:
                    print(error)
                    continue
            path.write_text(json.dumps(record))


def _load(steps: int, ranks: int) -> Iterator[dict[str, Any]]:
    """Yield the records, the slowest link first, in the order of the methods."""
    found = [json.loads(path.read_text()) for path in FOLDER.glob(f"{steps}-{ranks}-*.json")]
    order = list(RATES)
    yield from sorted(found, key=lambda one: (order.index(one["link"]), METHODS.index(one["method"])))


if __name__ == "__main__":
    main()
