"""``wirecodec stats``: measure how compressible a gradient is."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from wirecodec.cli.array_files import load_tensors
from wirecodec.cli.formatting import format_name
from wirecodec.cli.options import add_command
from wirecodec.errors import EncodeError

__all__ = ["add_to"]


def add_to(commands: Any) -> None:
    """Add the subcommand."""
    command = add_command(
        commands, "stats", _run, "Measure how compressible a gradient is, and how well SIDCo's fits match it"
    )
    command.add_argument("file", type=Path, help=".npy, or .npz of named tensors, measured one by one")
    command.add_argument(
        "--png", metavar="FILE", type=Path, help="draw the statistics of one tensor; needs Matplotlib"
    )


def _run(options: argparse.Namespace) -> int:
    from wirecodec.cli.gradient_stats import compute_stats
    from wirecodec.cli.stats_page import format_stats

    tensors = load_tensors(options.file)
    if options.png is not None and len(tensors) != 1:
        raise ValueError(f"{options.file} holds {len(tensors)} tensors; a picture shows one")
    for name, tensor in tensors.items():
        try:
            stats = compute_stats(tensor)
        except EncodeError as error:
            raise error.of(name) from None
        if options.png is not None:
            from wirecodec.cli.stats_picture import draw_stats

            draw_stats(stats, format_name(name), options.png)
        print(format_stats(stats, format_name(name)))
    return 0
