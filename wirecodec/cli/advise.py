"""``wirecodec advise``: find the schemes that make an exchange faster."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from wirecodec.cli.array_files import load_gradient
from wirecodec.cli.cost_model import Network
from wirecodec.cli.formatting import escape
from wirecodec.cli.options import add_command, parse_scheme
from wirecodec.cli.progress import show_progress
from wirecodec.cli.units import parse_bandwidth, parse_seconds

__all__ = ["add_to"]

_DEFAULT_RANKS = 8
_OTHER_RANKS = (2, 4, 8, 16, 32, 64, 128)
"""Numbers of ranks that are compared if none is given."""


def add_to(commands: Any) -> None:
    """Add the subcommand."""
    command = add_command(
        commands, "advise", _run, "Find the schemes that make an exchange faster than a dense all-reduce"
    )
    command.add_argument("file", type=Path, help=".npy, or .npz of named tensors, exchanged together")
    command.add_argument(
        "--bandwidth", required=True, help="of one rank, in both directions at once: 10Gbit, 1.25GB/s"
    )
    command.add_argument("--ranks", type=int, help="2 or more (default: 8, with a table of 2 to 128)")
    command.add_argument("--latency", default="50us", help="per message (default: %(default)s)")
    command.add_argument(
        "--scheme",
        action="append",
        help="a scheme or preset to compare; repeat for several (default: common ones)",
    )
    command.add_argument("--error", action="store_true", help="show each scheme's error")
    command.add_argument(
        "--png", metavar="FILE", type=Path, help="draw the speed-up over bandwidth; needs Matplotlib"
    )


def _run(options: argparse.Namespace) -> int:
    from wirecodec.cli.advise_page import format_advice
    from wirecodec.cli.advise_prediction import advise

    ranks = _DEFAULT_RANKS if options.ranks is None else options.ranks
    network = Network(ranks, parse_bandwidth(options.bandwidth), parse_seconds(options.latency))
    schemes = options.scheme and [parse_scheme(scheme) for scheme in options.scheme]
    gradient = load_gradient(options.file)
    with show_progress("measuring") as progress:
        advice = advise(gradient, network, schemes, progress=progress)
    name = escape(options.file.name)
    if options.png is not None:
        from wirecodec.cli.advise_picture import draw_advice

        draw_advice(advice, name, options.png)
    other_ranks = _OTHER_RANKS if options.ranks is None else ()
    print(format_advice(advice, name, error=options.error, other_ranks=other_ranks))
    return 0
