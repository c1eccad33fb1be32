"""Seconds from a trainer's step until rollouts behind slow links have its weights; needs torch, and root.

A trainer publishes its bfloat16 weights after every step of GRPO in an S3 server beside it. Two rollouts in
network namespaces of their own follow over links of 100 Mbit/s, and sample with the weights that they have.
Whole files, patches of another project's format, and feeds are compared.

    python -m benchmarks.feed [--quick] [--only "WORD; WORD"] [--report]

The training before the run takes minutes; its state is kept in benchmarks/feed/.states. ``--report`` draws
the page and the picture from their kept figures, in benchmarks/results/feed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from benchmarks.common.command import PARTIAL_RUN, choose_names, create_parser, show_steps
from benchmarks.common.hosts import RATES, find_missing_tools
from benchmarks.common.rest import Rest, load_rest, save_rest
from benchmarks.common.results import RESULTS, describe_machine, write_result
from benchmarks.common.tables import read_rows, write_rows
from benchmarks.feed import plot, report
from benchmarks.feed.records import Published, Served
from benchmarks.feed.rows import build_rows
from benchmarks.feed.targets import NAMES

__all__ = ["main"]

FIGURES = RESULTS / "feed"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark, and write the page if the run is complete; a partial run is only printed."""
    texts = {
        "quick": "a small model and few steps: a minute",
        "only": "methods; names or parts",
    }
    options = create_parser(__doc__, __package__, **texts, report=None).parse_args(arguments)
    if not options.report:
        names = choose_names(options.only, NAMES)
        published, served, facts = _measure(names, quick=options.quick)
        if options.quick or options.only:
            print(report.format_page(build_rows(published, served, facts["warm_up"]), facts))
            print(PARTIAL_RUN)
            return
        write_rows(FIGURES / "published.csv", published)
        write_rows(FIGURES / "served.csv", served)
        save_rest(Rest(describe_machine(), [], [], [json.dumps(facts)]), FIGURES)
    rest = load_rest(FIGURES)
    if rest is None:
        sys.exit("there is no complete run: start one")
    published = read_rows(FIGURES / "published.csv", Published)
    served = read_rows(FIGURES / "served.csv", Served)
    facts = json.loads(rest.sections[0])
    text = report.format_page(build_rows(published, served, facts["warm_up"]), facts)
    print(text)
    print(write_result("feed", "Feeds of weights over slow links", text, rest.machine))
    plot.draw(RESULTS / "feed.png", published, served, facts["warm_up"], facts["transfer"])


def _measure(names: Sequence[str], *, quick: bool) -> tuple[list[Published], list[Served], dict[str, Any]]:
    """Run the methods; return all records, and what the page says about the run."""
    if reason := find_missing_tools():
        sys.exit(f"no shaped links: {reason}")
    absent = [name for name in ("torch", "s3fs", "localbucket") if find_spec(name) is None]
    if absent:
        sys.exit(f"not installed: {', '.join(absent)}; pip install -e '.[test,gradients]'")
    from benchmarks.feed.methods import METHODS
    from benchmarks.feed.run import run_method
    from benchmarks.feed.settings import QUICK, Settings
    from benchmarks.feed.states import load_start, prepare_start

    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # so that hosts are removed
    settings, load = QUICK if quick else Settings(), os.getloadavg()[0]
    published, served = list[Published](), list[Served]()
    with show_steps() as step:
        prepare_start(settings, step)
        for name in names:
            step(name)
            made, updates = run_method(name, settings)
            published += made
            served += updates
    elements = sum(x.size for x in load_start(settings).masters.values())
    facts = {
        "rate": f"{settings.rate:.0e}".replace("e-0", "e-"),
        "cores": len(os.sched_getaffinity(0)),
        "load": load,
        "elements": elements,
        "nbytes": 2 * elements,
        "transfer": 16 * elements / RATES[settings.link].bits,
        "versions": settings.steps - settings.warm_up,
        "methods": [[method.name, method.about] for method in METHODS.values()],
    }
    fields = ("interval", "rollouts", "link", "poll", "idle", "warm_up")
    return published, served, facts | {field: getattr(settings, field) for field in fields}


if __name__ == "__main__":
    main()
