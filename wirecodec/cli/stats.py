"""``wirecodec stats``: measure how compressible a gradient is."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import Any

from wirecodec.cli.array_files import load_tensors
from wirecodec.cli.files import STANDARD, format_file, name_file, name_of
from wirecodec.cli.formatting import escape, format_name
from wirecodec.cli.options import add_command, add_file, add_picture
from wirecodec.errors import EncodeError
from wirecodec.registry import suggestion


def add_to(commands: Any) -> None:
    """Add the subcommand."""
    command = add_command(
        commands,
        "stats",
        _run,
        "Measure how compressible a gradient is",
        "The error of sending the largest elements alone is the relative error: the norm of the others, over "
        "the norm of all.",
    )
    add_file(command, ".npy, or .npz or .safetensors of named tensors: a table of all, then each by itself")
    command.add_argument(
        "--sidco",
        action="store_true",
        help="also measure how well SIDCo's distributions fit, and how many elements SIDCo selects",
    )
    command.add_argument("--tensor", metavar="NAME", help="measure only this tensor of the file")
    add_picture(command, "the statistics of one tensor")


def _run(options: argparse.Namespace) -> int:
    from wirecodec.cli.gradient_stats import compute_stats
    from wirecodec.cli.sidco_stats import compute_sidco_stats
    from wirecodec.cli.stats_page import format_legend, format_stats, format_summary

    tensors = load_tensors(options.file)
    if options.tensor is not None:
        tensors = _choose(tensors, options)
    if options.png is not None and len(tensors) != 1:
        raise ValueError(
            f"{format_file(options.file)} holds {len(tensors)} tensors; a picture shows one: --tensor NAME"
        )
    page = sys.stderr if options.png == STANDARD else sys.stdout
    measured = {}
    for name, tensor in tensors.items():
        with name_file(options.file):
            try:
                measured[name] = compute_stats(tensor)
            except EncodeError as error:
                raise error.of(name) from None
    if len(measured) > 1:
        print(format_summary(measured, escape(name_of(options.file))), file=page)
    for name, stats in measured.items():
        sidco = compute_sidco_stats(tensors[name], stats.ranks) if options.sidco else None
        if options.png is not None:
            from wirecodec.cli.stats_picture import draw_stats

            draw_stats(stats, sidco, format_name(name), options.png)
        gap = "\n" if len(measured) > 1 else ""
        print(gap + format_stats(stats, sidco, format_name(name)), file=page)
    gap = "\n" if len(measured) > 1 or options.sidco else ""
    print(gap + format_legend(sidco=options.sidco), file=page)
    return 0


def _choose(tensors: Mapping[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """Return the tensor that ``--tensor`` names; raise ValueError with the nearest name if it is unknown."""
    name = options.tensor
    if name not in tensors:
        hint = suggestion(name, map(format_name, tensors))
        raise ValueError(f"{format_file(options.file)} holds no tensor {name!r}{hint}")
    return {name: tensors[name]}
