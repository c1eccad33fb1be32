"""``wirecodec encode``: encode a .npy, .npz or .safetensors as a container."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from wirecodec.arrays import Bytes
from wirecodec.cli.array_files import NAME_RULE, load_arrays
from wirecodec.cli.files import FileArgument, name_file, name_of, parse_file
from wirecodec.cli.formatting import escape
from wirecodec.cli.options import (
    add_command,
    add_file,
    add_imports,
    add_scheme_options,
    get_scheme,
    parse_scheme,
)
from wirecodec.cli.output import is_stream, open_output
from wirecodec.cli.units import parse_bytes
from wirecodec.compressor import Compressor
from wirecodec.container.inspect import inspect
from wirecodec.element_types import element_dtype_named
from wirecodec.errors import EncodeError
from wirecodec.pipeline import encode, encode_many
from wirecodec.select.budget.selector import Budget, HardBudget
from wirecodec.select.nonzero import NonZero
from wirecodec.settings.scheme import Scheme

_DETAILS = f"The sizes are printed, on standard error if standard output gets the container. {NAME_RULE}"


def add_to(commands: Any) -> None:
    """Add the subcommand."""
    command = add_command(
        commands, "encode", _run, "Encode a .npy, .npz or .safetensors as a container", _DETAILS
    )
    add_file(command, ".npy, or .npz or .safetensors, whose arrays all have the same scheme")
    add_scheme_options(command)
    add_imports(command)
    command.add_argument(
        "--bytes",
        metavar="N",
        help="largest size of the container, such as 400kB or 1.5MB; all arrays share it. The scheme is "
        "budget(1) | rice | error-bounded, unless --scheme gives another budget",
    )
    command.add_argument(
        "--seed", type=int, default=0, help="seed of random codecs and selectors (default: 0)"
    )
    command.add_argument(
        "--meta",
        metavar="NAME=TEXT",
        type=_parse_meta,
        action="append",
        default=[],
        help="a text that inspect prints, such as step=12; may be repeated",
    )
    command.add_argument("-q", "--quiet", action="store_true", help="do not print the sizes and their ratio")
    command.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=parse_container,
        required=True,
        help="the container to write; any name that does not end in .npy, .npz or .safetensors; - is "
        "standard output",
    )


def parse_container(text: str) -> FileArgument:
    """Parse the name of a container to write; refuse names of arrays, such as that of the input."""
    file = parse_file(text)
    if isinstance(file, Path) and file.suffix in (".npy", ".npz", ".safetensors"):
        raise argparse.ArgumentTypeError(
            f"{text!r} ends in {file.suffix}, but the output is a container; write {file.stem}.wc"
        )
    return file


def _parse_meta(text: str) -> tuple[str, str]:
    """Parse ``NAME=TEXT``."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=TEXT, such as step=12")
    return name, value


def _run(options: argparse.Namespace) -> int:
    scheme = get_scheme(options)
    arrays = load_arrays(options.file)
    most = None if options.bytes is None else parse_bytes(options.bytes)
    meta = dict(options.meta)
    if meta and most is not None:
        raise ValueError("--bytes does not count metadata; use one of --bytes and --meta")
    with name_file(options.file):
        if most is not None:
            blob = _encode_within(arrays, options, most)
        elif isinstance(arrays, np.ndarray):
            blob = encode(arrays, scheme, seed=options.seed, meta=meta)
        else:
            blob = encode_many(arrays, scheme, seed=options.seed, meta=meta)
    with open_output(options.output) as file:
        file.write(blob.data)
    if not options.quiet:
        if note := describe_negative_zeros(arrays, scheme):
            print(note, file=sys.stderr)
        page = sys.stderr if is_stream(options.output) else sys.stdout
        print(_format_sizes(options.file, options.output, blob), file=page)
    return 0


def describe_negative_zeros(arrays: Any, scheme: Scheme) -> str:
    """Return a note if a quarter or more of the elements that ``nonzero`` selects are -0.0, or nothing."""
    if not isinstance(scheme.select, NonZero):
        return ""
    given = arrays.values() if isinstance(arrays, Mapping) else [arrays]
    floats = [x for x in given if x.dtype.kind == "f"]
    count = sum(int(np.count_nonzero((x == 0) & np.signbit(x))) for x in floats)
    sent = count + sum(int(np.count_nonzero(x)) for x in given)
    if 4 * count < max(sent, 1):
        return ""
    return f"note: {count:,} of {sent:,} sent elements are -0.0, as of x * mask; x * mask + 0.0 has none"


def _format_sizes(file: FileArgument, output: FileArgument, blob: Bytes) -> str:
    """Format the sizes of the arrays and of their container as one line."""
    entries = inspect(blob).entries
    elements = sum(entry.size for entry in entries)
    dense = sum(entry.size * element_dtype_named(entry.dtype).itemsize for entry in entries)
    target = name_of(output) if isinstance(output, Path) else "container"
    return (
        f"{escape(name_of(file))}: {elements:,} elements, {dense:,} bytes; "
        f"{escape(target)}: {blob.nbytes:,} bytes, ratio {dense / blob.nbytes:.4g}"
    )


def _encode_within(arrays: Any, options: argparse.Namespace, most: int) -> Bytes:
    """Encode arrays as a container of at most ``most`` bytes. Raises EncodeError."""
    given = options.scheme is not None or options.preset is not None
    scheme = get_scheme(options) if given else parse_scheme("budget(1) | rice | error-bounded")
    if not isinstance(arrays, np.ndarray):
        compressor = Compressor(scheme, feedback=None, scope="group", bytes_per_step=most, seed=options.seed)
        return compressor.compress(arrays)
    if not isinstance(scheme.select, Budget):
        raise EncodeError("--bytes needs a scheme with a budget, such as budget(1) | rice | error-bounded")
    bits = min(8 * most / max(arrays.size, 1), 64.0)
    blob = encode(arrays, dataclasses.replace(scheme, select=HardBudget(bits)), seed=options.seed)
    if blob.nbytes > most:
        raise EncodeError(f"--bytes is {most}; the container takes {blob.nbytes} without any element")
    return blob
