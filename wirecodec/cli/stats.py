"""``wirecodec stats``: measure how compressible a gradient is."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from wirecodec.cli.array_files import load_tensors
from wirecodec.cli.files import STANDARD, format_file, name_file
from wirecodec.cli.formatting import format_name
from wirecodec.cli.options import add_command, add_file, add_picture
from wirecodec.errors import EncodeError


def add_to(commands: Any) -> None:
    """Add the subcommand."""
    command = add_command(commands, "stats", _run, "Measure how compressible a gradient is")
    add_file(command, ".npy, or .npz of named tensors, measured one by one")
    command.add_argument(
        "--sidco",
        action="store_true",
        help="also measure how well SIDCo's distributions fit, and how many elements SIDCo selects",
    )
    add_picture(command, "the statistics of one tensor")


def _run(options: argparse.Namespace) -> int:
    from wirecodec.cli.gradient_stats import compute_stats
    from wirecodec.cli.sidco_stats import compute_sidco_stats
    from wirecodec.cli.stats_page import format_stats

    tensors = load_tensors(options.file)
    if options.png is not None and len(tensors) != 1:
        raise ValueError(f"{format_file(options.file)} holds {len(tensors)} tensors; a picture shows one")
    page = sys.stderr if options.png == STANDARD else sys.stdout
    for name, tensor in tensors.items():
        with name_file(options.file):
            try:
                stats = compute_stats(tensor)
                sidco = compute_sidco_stats(tensor, stats.ranks) if options.sidco else None
            except EncodeError as error:
                raise error.of(name) from None
        if options.png is not None:
            from wirecodec.cli.stats_picture import draw_stats

            draw_stats(stats, sidco, format_name(name), options.png)
        print(format_stats(stats, sidco, format_name(name)), file=page)
    return 0
