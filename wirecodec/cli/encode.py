"""``wirecodec encode``: encode a .npy or .npz as a container."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from wirecodec.cli.array_files import NAME_RULE, load_arrays
from wirecodec.cli.files import FileArgument, name_file, parse_file
from wirecodec.cli.options import add_command, add_file, add_scheme_options, get_scheme
from wirecodec.cli.output import open_output
from wirecodec.pipeline import encode, encode_many

__all__ = ["add_to"]


def add_to(commands: Any) -> None:
    """Add the subcommand."""
    command = add_command(commands, "encode", _run, "Encode a .npy or .npz as a container", NAME_RULE)
    add_file(command, ".npy, or .npz, whose arrays all have the same scheme")
    add_scheme_options(command)
    command.add_argument(
        "--seed", type=int, default=0, help="seed of random codecs and selectors (default: 0)"
    )
    command.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=_parse_output,
        required=True,
        help="the container to write; any name that does not end in .npy or .npz; - is standard output",
    )


def _parse_output(text: str) -> FileArgument:
    """Parse the output; refuse names of arrays, such as that of the input."""
    file = parse_file(text)
    if isinstance(file, Path) and file.suffix in (".npy", ".npz"):
        raise argparse.ArgumentTypeError(
            f"{text!r} ends in {file.suffix}, but encode writes a container; write {file.stem}.wc"
        )
    return file


def _run(options: argparse.Namespace) -> int:
    scheme = get_scheme(options)
    arrays = load_arrays(options.file)
    with name_file(options.file):
        if isinstance(arrays, np.ndarray):
            blob = encode(arrays, scheme, seed=options.seed)
        else:
            blob = encode_many(arrays, scheme, seed=options.seed)
    with open_output(options.output) as file:
        file.write(blob.data)
    return 0
