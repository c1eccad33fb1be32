"""Work of ``wirecodec rounds``; ``wirecodec/cli/rounds.py`` has its options."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from collectives.errors import CollectiveError
from collectives.rounds.history import History, NoRun, Summary, read_history, read_runs
from collectives.rounds.page import format_history, format_runs
from collectives.store.backends import UnsuitableStore
from collectives.store.files import Files
from wirecodec.cli.files import STANDARD

_PATIENCE = 20.0
"""Seconds for which requests are repeated while the store fails."""


def run(options: argparse.Namespace) -> int:
    """Read the rounds, and print the page; the options are those of ``wirecodec rounds``.

    The page of a folder of runs lists these.
    """
    if options.last < 1:
        raise ValueError(f"--last is {options.last}; it must be 1 or more")
    files = _open(options.url, _parse_options(options.storage_options))
    with _explained(options.url):
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


def _open(url: str, storage_options: Mapping[str, Any]) -> Files:
    """Open a folder of a store; raise ValueError if there is no such store."""
    try:
        return Files(url, "", storage_options, _PATIENCE)
    except UnsuitableStore:
        raise
    except ImportError as error:
        raise ValueError(str(error)) from error
    except Exception as error:  # file systems raise errors of many kinds
        raise _explain(url, error) from error


@contextmanager
def _explained(url: str) -> Iterator[None]:
    """Raise an error of a store as a ValueError."""
    try:
        yield
    except CollectiveError as error:
        raise _explain(url, error) from error


def _explain(url: str, error: Exception) -> ValueError:
    """Return the error of a store that cannot be used; it names the option with the store's settings."""
    kind = "" if isinstance(error, CollectiveError) else f"{type(error).__name__}: "
    advice = "; check --storage-options" if "://" in url else ""
    return ValueError(f"{url} cannot be read: {kind}{error}{advice}")


def _parse_options(text: str | None) -> dict[str, Any]:
    """Parse the JSON of ``--storage-options``; raise ValueError if it is no object."""
    try:
        found = json.loads(text) if text else {}
    except ValueError as error:
        raise ValueError(f"--storage-options is no valid JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError("--storage-options must be a JSON object")
    return found


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
