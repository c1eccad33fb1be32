"""``wirecodec advise``: find the schemes that make an exchange faster."""

from __future__ import annotations

import argparse
import sys
from contextlib import nullcontext
from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.cli.advise_candidates import parse_candidate
from wirecodec.cli.array_files import load_gradient
from wirecodec.cli.cost_model import Network
from wirecodec.cli.files import STANDARD, FileArgument, name_file, name_of
from wirecodec.cli.formatting import escape
from wirecodec.cli.options import add_command, add_file, add_picture
from wirecodec.cli.progress import show_progress
from wirecodec.cli.units import parse_bandwidth, parse_count, parse_seconds

_DEFAULT_RANKS = 8
_OTHER_RANKS = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
"""Numbers of ranks that are compared if none is given."""
_MAX_ERROR = 0.95
"""An exchange with this error sends 1 - 0.95², a tenth, of the gradient's squared norm."""
_MAX_SYNTHETIC = 2**22
"""Synthetic elements that are measured; times and bytes of more elements are computed from these."""


def add_to(commands: Any) -> None:
    """Add the subcommand."""
    command = add_command(
        commands,
        "advise",
        _run,
        "Find the schemes that make an exchange faster than a dense all-reduce",
        "The fastest scheme whose error is at most --max-error is marked. The error is the norm of the part "
        "of a gradient that one exchange loses, over the norm of the gradient.",
    )
    add_file(command, ".npy, or .npz of named tensors, exchanged together", nargs="?")
    command.add_argument(
        "--elements",
        metavar="N",
        help="measure synthetic elements (Laplace, float32) in place of a file: 25M, 1e6",
    )
    command.add_argument(
        "--bandwidth", required=True, help="of one rank, in both directions at once: 10Gbit, 1.25GB/s"
    )
    command.add_argument("--ranks", type=int, help="2 or more (default: 8, with a table of 2 to 1,024)")
    command.add_argument("--latency", default="50us", help="per message (default: %(default)s)")
    command.add_argument(
        "--step", metavar="TIME", help="also find the budget whose exchange takes this time: 0.3s, 50ms"
    )
    group = command.add_mutually_exclusive_group()
    group.add_argument(
        "--scheme",
        action="append",
        help="a scheme or preset to compare; clt-k(RATIO), the method of collectives.CLTk; or "
        "'local-updates(STEPS) | SCHEME', that of collectives.LocalUpdates; repeat for several (default: ten "
        "common schemes, clt-k(0.01), and local updates every 15 steps)",
    )
    group.add_argument(
        "--all", action="store_true", help="compare further schemes; takes several times as long"
    )
    command.add_argument(
        "--max-error",
        metavar="E",
        type=_parse_error,
        default=_MAX_ERROR,
        help="the largest error of the scheme that is marked, or 'none' (default: %(default)s: an exchange "
        "then sends a tenth of the gradient's squared norm, and error feedback the rest later)",
    )
    add_picture(command, "the speed-up over bandwidth")


def _parse_error(text: str) -> float:
    """Parse a bound on the error: a number from 0 on, or "none"."""
    try:
        error = float("inf" if text == "none" else text)
    except ValueError:
        error = -1.0
    if not error >= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 on, nor 'none'")
    return error


def _run(options: argparse.Namespace) -> int:
    from wirecodec.cli.advise_budget import find_budget, format_budget
    from wirecodec.cli.advise_page import format_advice
    from wirecodec.cli.advise_prediction import advise

    ranks = _DEFAULT_RANKS if options.ranks is None else options.ranks
    network = Network(ranks, parse_bandwidth(options.bandwidth), parse_seconds(options.latency))
    step = None if options.step is None else parse_seconds(options.step)
    candidates = [parse_candidate(text) for text in options.scheme] if options.scheme else None
    gradient, name, scale = _load(options.file, options.elements)
    named = nullcontext() if options.file is None else name_file(options.file)
    with named, show_progress("measuring") as progress:
        advice = advise(
            gradient,
            network,
            candidates,
            more=options.all,
            max_error=options.max_error,
            scale=scale,
            progress=progress,
        )
    if options.png is not None:
        from wirecodec.cli.advise_picture import draw_advice

        draw_advice(advice, name, options.png)
    other_ranks = _OTHER_RANKS if options.ranks is None else ()
    page = sys.stderr if options.png == STANDARD else sys.stdout
    print(format_advice(advice, name, other_ranks=other_ranks), file=page)
    if step is not None:
        with show_progress("finding the budget") as progress:
            budget = find_budget(gradient, network, step, scale=scale, progress=progress)
        print("", *format_budget(budget), sep="\n", file=page)
    return 0


def _load(file: FileArgument | None, elements: str | None) -> tuple[dict[str, Array], str, float]:
    """Load the gradient of a file, or make one of this many elements.

    Returns:
        The tensors to measure, a title, and the size to advise for in sizes of these tensors.

    Raises:
        ValueError: not exactly one of the two is given, or it cannot be read.
    """
    if (file is None) == (elements is None):
        raise ValueError("either a file or --elements must be given, not both")
    if file is not None:
        return load_gradient(file), escape(name_of(file)), 1.0
    count = parse_count(str(elements))
    measured = min(count, _MAX_SYNTHETIC)
    x = np.random.default_rng(0).laplace(size=measured).astype(np.float32)
    sample = "" if measured == count else f", scaled from {measured:,}"
    return {"synthetic": x}, f"synthetic gradient (Laplace, float32{sample})", count / measured
