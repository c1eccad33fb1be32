"""Options of ``wirecodec feed``, which shows the versions of a feed of weights."""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import Any

from wirecodec.cli.options import add_command, add_newest


def add_to(commands: Any) -> None:
    """Add the subcommand."""
    command = add_command(
        commands,
        "feed",
        _run,
        "Show the versions of a feed of weights in an object store",
        "The feed is one of collectives.Publisher. The command needs fsspec, and the package of the store's"
        " protocol.",
    )
    command.add_argument("url", help="folder of a feed: /mnt/shared/RUN or s3://BUCKET/FOLDER/RUN")
    add_newest(command, "versions")
    command.add_argument("--json", action="store_true", help="print JSON; times are in seconds since 1970")


def _run(options: argparse.Namespace) -> int:
    # As for ``rounds``: by its name, the other package is loaded only for this command.
    return int(import_module("collectives.feed.command").run(options))
