"""``wirecodec presets``: list the schemes of published systems."""

from __future__ import annotations

import argparse
from typing import Any

from wirecodec.cli.options import add_command
from wirecodec.settings.presets import PRESETS


def add_to(commands: Any) -> None:
    """Add the subcommand."""
    add_command(commands, "presets", _run, "List the schemes of published systems, with their sources")


def _run(options: argparse.Namespace) -> int:
    for name, preset in PRESETS.items():
        print(f"{name}: {preset.scheme}\n    {preset.source}")
    return 0
