"""Options of ``wirecodec advise``, which finds the schemes that make an exchange faster."""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import Any

from wirecodec.cli.options import add_command, add_file, add_imports, add_picture

_MAX_ERROR = 0.95
"""An exchange with this error sends 1 - 0.95², a tenth, of the gradient's squared norm."""


def add_to(commands: Any) -> None:
    """Add the subcommand."""
    command = add_command(
        commands,
        "advise",
        _run,
        "Find the schemes that make an exchange faster than a dense all-reduce",
        "The fastest scheme whose error is at most --max-error is marked. With --compute, this is the scheme "
        "with the least error of those whose step takes at most 5 % longer than the fastest one. The error "
        "is the relative error: the norm of the part of a gradient that one exchange loses, over the norm of "
        "the gradient.",
    )
    add_file(command, ".npy, or .npz or .safetensors of named tensors, exchanged together", nargs="?")
    command.add_argument(
        "--elements",
        metavar="N",
        help="measure synthetic elements (Laplace, float32) in place of a file: 25M, 1e6",
    )
    command.add_argument(
        "--bandwidth",
        required=True,
        help="of one rank, in each direction; the slower one, if they differ: 10Gbit, 1.25GB/s",
    )
    command.add_argument("--ranks", type=int, help="2 or more (default: 8, with a table of 2 to 1,024)")
    command.add_argument(
        "--latency",
        default="50us",
        help="of a message, one way: half of what ping shows (default: %(default)s)",
    )
    command.add_argument(
        "--compute", metavar="TIME", help="of forward and backward: compare whole steps, not exchanges"
    )
    command.add_argument(
        "--overlap",
        action="store_true",
        help="gradients are exchanged during the backward pass, in DistributedDataParallel's buckets, on "
        "cores with nothing else to do",
    )
    command.add_argument(
        "--step", metavar="TIME", help="also find the budget whose exchange takes this time: 0.3s, 50ms"
    )
    group = command.add_mutually_exclusive_group()
    group.add_argument(
        "--scheme",
        action="append",
        help="a scheme or preset to compare; clt-k(RATIO) or 'ok-topk | SCHEME', the methods of "
        "collectives.CLTk and OkTopK; 'local-updates(STEPS) | SCHEME', that of LocalUpdates; or "
        "powersgd(RANK); repeat for several (default: common schemes, a budget, and each of these methods)",
    )
    group.add_argument(
        "--all", action="store_true", help="compare further schemes; takes several times as long"
    )
    command.add_argument(
        "--bytes-per-step",
        metavar="N",
        help="also compare Compressor(bytes_per_step=N), a budget of N bytes for all tensors: 400kB, 1.5MB",
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
    add_imports(command)


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
    # Both packages ship in one distribution. By its name, the other one is loaded only for this command.
    return int(import_module("collectives.advise.command").run(options))
