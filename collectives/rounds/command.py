"""Work of ``wirecodec rounds``; ``wirecodec/cli/rounds.py`` has its options."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from dataclasses import asdict

from collectives.rounds.history import History, NoRun, Summary, read_history, read_runs
from collectives.rounds.page import format_history, format_runs
from collectives.store.opening import explained, open_files
from wirecodec.cli.files import STANDARD


def run(options: argparse.Namespace) -> int:
    """Read the rounds, and print the page; the options are those of ``wirecodec rounds``.

    The page of a folder of runs lists these.
    """
    if options.last < 1:
        raise ValueError(f"--last is {options.last}; it must be 1 or more")
    files = open_files(options.url, options.storage_options)
    with explained(options.url):
        try:
            history = read_history(files, files.root.rpartition("/")[2], options.last)
        except NoRun:
            runs = read_runs(files)
            if options.png is not None or not runs:
                raise
            print(_runs_to_json(runs) if options.json else format_runs(options.url, runs))
            return 0
    if options.png is not None:
        from collectives.rounds.picture import draw_history

        draw_history(history, options.png)
    page = sys.stderr if options.png == STANDARD else sys.stdout
    print(_to_json(history) if options.json else format_history(history), file=page)
    return 0


def _runs_to_json(runs: Iterable[Summary]) -> str:
    content = [{"run": one.run, "rules": asdict(one.rules), "total": one.total} for one in runs]
    return json.dumps({"runs": content}, indent=2)


def _to_json(history: History) -> str:
    content = {
        "run": history.run,
        "rules": asdict(history.rules),
        "total": history.total,
        "rounds": [one.to_json() for one in history.rounds],
    }
    return json.dumps(content, indent=2)
