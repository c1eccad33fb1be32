"""``wirecodec decode``: decode a container as a .npy or .npz."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from wirecodec.cli.array_files import NAME_RULE, check_names, save_npz
from wirecodec.cli.options import NO_LIMIT, add_command, add_limit_options, get_limits
from wirecodec.cli.output import open_output
from wirecodec.container.stream import iter_blobs
from wirecodec.limits import DEFAULT_LIMITS
from wirecodec.pipeline import decode_many
from wirecodec.sparse import SparseTensor

__all__ = ["add_to"]

_LIMITS = dataclasses.replace(DEFAULT_LIMITS, max_dense=2**30, max_expansion=NO_LIMIT)
"""Dense tensors are written in full, so their size is what matters: 2^30 elements are 4 GiB of float32."""


def add_to(commands: Any) -> None:
    """Add the subcommand."""
    command = add_command(
        commands, "decode", _run, "Decode a container as a .npy, or as an .npz of all its tensors", NAME_RULE
    )
    command.add_argument("file", type=Path, help="one container")
    command.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        required=True,
        help="the file to write: an .npz if it ends in .npz, else a .npy; bfloat16 becomes float32",
    )
    add_limit_options(command, _LIMITS)


def _run(options: argparse.Namespace) -> int:
    limits = get_limits(options)
    with options.file.open("rb") as file:
        blobs = list(iter_blobs(file, limits=limits))
    if len(blobs) != 1:
        raise ValueError(
            f"{options.file} holds {len(blobs)} containers; decode takes one, wirecodec.iter_blobs reads all"
        )
    tensors = decode_many(blobs[0], limits=limits)
    several = options.output.suffix == ".npz"
    if several:
        check_names(tensors)
    elif len(tensors) != 1:
        raise ValueError(f"{options.file} holds {len(tensors)} tensors; the output must end in .npz")
    arrays = ((name, _to_array(tensor)) for name, tensor in tensors.items())  # one at a time in memory
    with open_output(options.output) as file:
        if several:
            save_npz(file, arrays)
        else:
            np.save(file, next(arrays)[1])
    return 0


def _to_array(tensor: SparseTensor) -> Any:
    """Convert a tensor to a dense array, of float32 for bfloat16, which .npy files cannot hold."""
    array = tensor.to_dense()
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array
