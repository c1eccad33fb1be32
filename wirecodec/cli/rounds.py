"""Options of ``wirecodec rounds``, which shows the rounds of a run in an object store."""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import Any

from wirecodec.cli.options import add_command, add_newest, add_picture


def add_to(commands: Any) -> None:
    """Add the subcommand."""
    command = add_command(
        commands,
        "rounds",
        _run,
        "Show who took part in the rounds of a run in an object store",
        "The run is one of collectives.StoreComm. A folder with several runs lists these. The command needs"
        " fsspec, and the package of the store's protocol.",
    )
    command.add_argument("url", help="folder of a run, /mnt/shared/RUN or s3://BUCKET/FOLDER/RUN, or of runs")
    add_newest(command, "rounds")
    command.add_argument("--json", action="store_true", help="print JSON; times are in seconds")
    add_picture(command, "who took part in each round, and the bytes")


def _run(options: argparse.Namespace) -> int:
    # As for ``advise``: by its name, the other package is loaded only for this command.
    return int(import_module("collectives.rounds.command").run(options))
