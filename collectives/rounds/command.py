"""Work of ``wirecodec rounds``; ``wirecodec/cli/rounds.py`` has its options."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from typing import Any

from collectives.rounds.history import History, read_history
from collectives.rounds.page import format_history
from collectives.store.files import Files
from wirecodec.cli.files import STANDARD

_PATIENCE = 20.0
"""Seconds for which requests are repeated while the store fails."""


def run(options: argparse.Namespace) -> int:
    """Read the rounds, and print the page; the options are those of ``wirecodec rounds``."""
    if options.last < 1:
        raise ValueError(f"--last is {options.last}; it must be 1 or more")
    folder, _, name = options.url.rstrip("/").rpartition("/")
    try:
        files = Files(folder or ".", name, _parse_options(options.storage_options), _PATIENCE)
    except ImportError as error:
        raise ValueError(str(error)) from error
    history = read_history(files, name, options.last)
    if options.png is not None:
        from collectives.rounds.picture import draw_history

        draw_history(history, options.png)
    page = sys.stderr if options.png == STANDARD else sys.stdout
    print(_to_json(history) if options.json else format_history(history), file=page)
    return 0


def _parse_options(text: str | None) -> dict[str, Any]:
    """Parse the JSON of ``--storage-options``; raise ValueError if it is no object."""
    found = json.loads(text) if text else {}
    if not isinstance(found, dict):
        raise ValueError("--storage-options must be a JSON object")
    return found


def _to_json(history: History) -> str:
    content = {
        "run": history.run,
        "rules": asdict(history.rules),
        "total": history.total,
        "rounds": [one.to_json() for one in history.rounds],
    }
    return json.dumps(content, indent=2)
