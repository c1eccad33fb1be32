"""``wirecodec decode``: decode a container as a .npy, .npz or .safetensors."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Mapping
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
from wirecodec.cli.safetensors_files import save_safetensors
from wirecodec.container.stream import iter_blobs
from wirecodec.element_types import OF_ML_DTYPES
from wirecodec.limits import DEFAULT_LIMITS, DecodeLimits
from wirecodec.pipeline import decode_many
from wirecodec.sparse import SparseTensor, refuse_patch

_SUFFIXES = (".npy", ".npz", ".safetensors")
_LIMITS = dataclasses.replace(DEFAULT_LIMITS, max_dense=2**30, max_expansion=NO_LIMIT)
"""Dense tensors are written in full, so their size is what matters: 2^30 elements are 4 GiB of float32."""


def add_to(commands: Any) -> None:
    """Add the subcommand."""
    command = add_command(
        commands,
        "decode",
        _run,
        "Decode a container as a .npy, or as an .npz or .safetensors of all its tensors",
        NAME_RULE,
    )
    add_file(command, "one container")
    add_imports(command)
    command.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=_parse_output,
        required=True,
        help="the file to write, which must end in .npy (one tensor), .npz or .safetensors; - is standard "
        "output, which gets a .npy if the container holds one tensor, and else an .npz. bfloat16 and float8 "
        "become float32 with the same values, but not in a .safetensors",
    )
    add_limit_options(command, _LIMITS)


def _parse_output(text: str) -> FileArgument:
    """Parse the output; its name must say which format it gets."""
    file = parse_file(text)
    if isinstance(file, Path) and file.suffix not in _SUFFIXES and not is_stream(file):
        raise argparse.ArgumentTypeError(
            f"{text!r} must end in .npy, .npz or .safetensors, which are the formats that decode writes"
        )
    return file


def _run(options: argparse.Namespace) -> int:
    output = options.output
    with name_file(options.file):
        tensors = _decode_file(options.file, get_limits(options))
        suffix = _choose_suffix(output, len(tensors))
        if suffix == ".npz":
            check_names(tensors)
        elif suffix == ".npy" and len(tensors) != 1:
            raise ValueError(
                f"the file holds {len(tensors)} tensors; the output must end in .npz or .safetensors"
            )
        _refuse_patches(tensors)
    if suffix == ".safetensors":
        specs = {name: (tensor.shape, tensor.dtype) for name, tensor in tensors.items()}
        with open_output(output) as file:
            save_safetensors(file, specs, (tensor.to_dense() for tensor in tensors.values()))
        return 0
    _warn_of_float32(tensors)
    arrays = ((name, _to_array(tensor)) for name, tensor in tensors.items())  # one at a time in memory
    with open_output(output) as file:
        if suffix == ".npz":
            save_npz(file, arrays)
        else:
            np.save(file, next(arrays)[1])
    return 0


def _refuse_patches(tensors: Mapping[str, SparseTensor]) -> None:
    """Raise ValueError if a tensor is a patch, which has no dense form of its own."""
    for name, tensor in tensors.items():
        refuse_patch(
            tensor, "apply it in Python: wirecodec.decode_many(blob)[name].to_dense(out=array)", name
        )


def _warn_of_float32(tensors: Mapping[str, SparseTensor]) -> None:
    """Print a line on standard error if tensors are of types that .npy files cannot name."""
    wider = sorted({tensor.dtype.name for tensor in tensors.values() if tensor.dtype.name in OF_ML_DTYPES})
    if wider:
        print(
            f"wirecodec: {' and '.join(wider)} written as float32 with the same values, as .npy has no such"
            " type; -o FILE.safetensors keeps it",
            file=sys.stderr,
        )


def _decode_file(file: FileArgument, limits: DecodeLimits) -> dict[str, SparseTensor]:
    """Decode the only container of a file."""
    with open_input(file) as opened, name_limit_options():
        blobs = list(iter_blobs(opened, limits=limits))
        if len(blobs) != 1:
            raise ValueError(
                f"the file holds {len(blobs)} containers; decode takes one, wirecodec.iter_blobs reads all"
            )
        return decode_many(blobs[0], limits=limits)


def _choose_suffix(output: FileArgument, tensors: int) -> str:
    """Return the format of the output; a stream without a suffix gets an .npz for several tensors."""
    if isinstance(output, Path) and output.suffix in _SUFFIXES:
        return output.suffix
    return ".npy" if tensors == 1 else ".npz"


def _to_array(tensor: SparseTensor) -> Any:
    """Convert a tensor to a dense array, of float32 for a type that .npy files cannot hold."""
    array = tensor.to_dense()
    return array.astype(np.float32) if array.dtype.name in OF_ML_DTYPES else array
