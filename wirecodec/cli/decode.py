"""``wirecodec decode``: decode a container as a .npy or .npz."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from wirecodec.cli.array_files import NAME_RULE, check_names, save_npz
from wirecodec.cli.files import FileArgument, name_file, open_input, parse_file
from wirecodec.cli.options import (
    NO_LIMIT,
    add_command,
    add_file,
    add_imports,
    add_limit_options,
    get_limits,
    name_limit_options,
)
from wirecodec.cli.output import is_stream, open_output
from wirecodec.container.stream import iter_blobs
from wirecodec.limits import DEFAULT_LIMITS, DecodeLimits
from wirecodec.pipeline import decode_many
from wirecodec.sparse import SparseTensor

_LIMITS = dataclasses.replace(DEFAULT_LIMITS, max_dense=2**30, max_expansion=NO_LIMIT)
"""Dense tensors are written in full, so their size is what matters: 2^30 elements are 4 GiB of float32."""


def add_to(commands: Any) -> None:
    """Add the subcommand."""
    command = add_command(
        commands, "decode", _run, "Decode a container as a .npy, or as an .npz of all its tensors", NAME_RULE
    )
    add_file(command, "one container")
    add_imports(command)
    command.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=_parse_output,
        required=True,
        help="the file to write, which must end in .npy (one tensor) or .npz; - is standard output, which "
        "gets a .npy if the container holds one tensor, and else an .npz; bfloat16 and float8 become float32",
    )
    add_limit_options(command, _LIMITS)


def _parse_output(text: str) -> FileArgument:
    """Parse the output; its name must say which of the two formats it gets."""
    file = parse_file(text)
    if isinstance(file, Path) and file.suffix not in (".npy", ".npz") and not is_stream(file):
        raise argparse.ArgumentTypeError(
            f"{text!r} must end in .npy or .npz, which are the formats that decode writes"
        )
    return file


def _run(options: argparse.Namespace) -> int:
    output = options.output
    with name_file(options.file):
        tensors = _decode_file(options.file, get_limits(options))
        several = _is_archive(output, len(tensors))
        if several:
            check_names(tensors)
        elif len(tensors) != 1:
            raise ValueError(f"the file holds {len(tensors)} tensors; the output must end in .npz")
    arrays = ((name, _to_array(tensor)) for name, tensor in tensors.items())  # one at a time in memory
    with open_output(output) as file:
        if several:
            save_npz(file, arrays)
        else:
            np.save(file, next(arrays)[1])
    return 0


def _decode_file(file: FileArgument, limits: DecodeLimits) -> dict[str, SparseTensor]:
    """Decode the only container of a file."""
    with open_input(file) as opened, name_limit_options():
        blobs = list(iter_blobs(opened, limits=limits))
        if len(blobs) != 1:
            raise ValueError(
                f"the file holds {len(blobs)} containers; decode takes one, wirecodec.iter_blobs reads all"
            )
        return decode_many(blobs[0], limits=limits)


def _is_archive(output: FileArgument, tensors: int) -> bool:
    """Return whether the output is an .npz; a stream without a suffix gets one for several tensors."""
    if isinstance(output, Path) and output.suffix in (".npy", ".npz"):
        return output.suffix == ".npz"
    return tensors != 1


def _to_array(tensor: SparseTensor) -> Any:
    """Convert a tensor to a dense array, of float32 for a type that .npy files cannot hold."""
    array = tensor.to_dense()
    return array if array.dtype.isbuiltin == 1 else array.astype(np.float32)
