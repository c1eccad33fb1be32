"""``wirecodec inspect``: show what a file of containers holds."""

from __future__ import annotations

import argparse
import dataclasses
import json
from typing import Any

from wirecodec.arrays import Bytes, element_dtype_named
from wirecodec.cli.files import name_file, open_input
from wirecodec.cli.formatting import escape, format_count, format_name, format_table, shorten
from wirecodec.cli.options import add_command, add_file
from wirecodec.container.inspect import ContainerInfo, inspect
from wirecodec.container.stream import iter_blobs
from wirecodec.errors import WireError
from wirecodec.limits import UNLIMITED
from wirecodec.pipeline import decode_many

VALID = "valid"
_TEXT_COLUMNS = ("name", "shape", "dtype", "transform", "index", "value")
_MAX_TAG_WIDTH = 256


def add_to(commands: Any) -> None:
    """Add the subcommand."""
    command = add_command(
        commands,
        "inspect",
        _run,
        "Show what a file of containers holds",
        "Headers are checked. Payloads are not read unless --verify is given.",
    )
    add_file(command, "one container, or several one after the other")
    command.add_argument(
        "--verify",
        action="store_true",
        help="also decode every payload, under the default limits; the exit code is 1 if one is not valid",
    )
    command.add_argument("--json", action="store_true", help="print JSON, with names in full")


def _run(options: argparse.Namespace) -> int:
    containers: list[tuple[ContainerInfo, str | None]] = []
    with name_file(options.file), open_input(options.file) as opened:
        for blob in iter_blobs(opened, limits=UNLIMITED):
            containers.append((inspect(blob), _check_payload(blob) if options.verify else None))
        if not containers:
            raise ValueError("the file is empty")
    if options.json:
        print(json.dumps([_to_json(info, payload) for info, payload in containers], indent=2))
    else:
        for info, payload in containers:
            print(format_container(info))
            if payload is not None:
                print(f"payload: {escape(payload)}")
        if not options.verify:
            print("payloads: not checked; inspect --verify checks them")
    return int(any(payload not in (None, VALID) for _, payload in containers))


def _check_payload(blob: Bytes) -> str:
    """Decode a container, and return "valid" or the error."""
    try:
        decode_many(blob)
    except WireError as error:
        return f"{type(error).__name__} {error}"
    return VALID


def _to_json(info: ContainerInfo, payload: str | None) -> dict[str, Any]:
    return {**dataclasses.asdict(info), "tag": info.tag.hex(), "payload": payload}


def format_container(info: ContainerInfo) -> str:
    """Format one container: a line about it, and a table with a row per entry.

    Bits are bits per stored element. Long names are shortened: a name is repeated in the padding of every
    row, so one long name could make the table quadratic.
    """
    tag = f", tag {shorten(repr(info.tag), _MAX_TAG_WIDTH)}" if info.tag else ""
    count = format_count(len(info.entries), "entry", "entries")
    sections = ["index", "value", "map"] if any(e.map_bytes for e in info.entries) else ["index", "value"]
    header = [*_TEXT_COLUMNS[:4], "stored", "density", *_TEXT_COLUMNS[4:], *(f"{s} bits" for s in sections)]
    rows = []
    for e in info.entries:
        bits = [f"{8 * getattr(e, f'{s}_bytes') / e.nnz:.2f}" if e.nnz else "-" for s in sections]
        density = f"{100 * e.nnz / e.size:.3g} %" if e.size else "-"
        shape = format_name("×".join(map(str, e.shape))) or "scalar"
        transform, stored = e.transform or "-", f"{e.nnz:,}"
        name = format_name(e.name)
        rows.append([name, shape, e.dtype, transform, stored, density, e.index, e.value, *bits])
    if not any(e.transform for e in info.entries):
        header, *rows = [row[:3] + row[4:] for row in (header, *rows)]
    left = [i for i, title in enumerate(header) if title in _TEXT_COLUMNS]
    lines = [
        f"wirecodec {info.version}, {info.nbytes:,} bytes, {count}{tag}",
        *format_table(header, rows, left),
    ]
    dense = sum(e.size * element_dtype_named(e.dtype).itemsize for e in info.entries)
    if dense:
        ratio = dense / info.nbytes
        comparison = f"{ratio:.1f}× smaller" if ratio >= 1 else f"{1 / ratio:.1f}× larger"
        lines.append(f"{comparison} than the dense tensors")
    return "\n".join(lines)
