"""``wirecodec inspect``: show what a file of containers holds."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wirecodec.arrays import Bytes, element_dtype_named
from wirecodec.cli.files import name_file, open_input
from wirecodec.cli.formatting import escape, format_count, format_name, format_table, shorten
from wirecodec.cli.options import add_command, add_file, add_imports
from wirecodec.container.inspect import ContainerInfo, inspect
from wirecodec.container.stream import Unit, iter_stream
from wirecodec.errors import WireError
from wirecodec.limits import UNLIMITED
from wirecodec.pipeline import decode_many
from wirecodec.sparse import SparseTensor

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
        "Headers are checked. Payloads are not read unless --verify is given. A codec of one's own that is "
        "not imported is shown by its id, such as 0x80.",
    )
    add_imports(command)
    add_file(command, "one container, or several one after the other")
    command.add_argument(
        "--verify",
        action="store_true",
        help="also decode every payload, under the default limits; the exit code is 1 if one is not valid",
    )
    command.add_argument(
        "--json", action="store_true", help="print JSON, with names in full (formats/spec/text.md)"
    )
    command.add_argument(
        "--values", action="store_true", help="with --json: also print all elements; implies --verify"
    )


@dataclass(frozen=True)
class _Shown:
    """Part of a stream: a unit, or a container with the result of decoding it, if that was asked for."""

    info: ContainerInfo | Unit
    payload: str | None = None
    tensors: Mapping[str, SparseTensor] | None = None


def _run(options: argparse.Namespace) -> int:
    if options.values and not options.json:
        raise ValueError("--values needs --json")
    with name_file(options.file), open_input(options.file) as opened:
        decoded = options.verify or options.values
        parts = [_show(part, decoded=decoded) for part in iter_stream(opened, limits=UNLIMITED)]
        if not parts:
            raise ValueError("the file is empty")
    if options.json:
        print(json.dumps([_to_json(part, values=options.values) for part in parts], indent=2))
    else:
        for part in parts:
            print(
                format_container(part.info)
                if isinstance(part.info, ContainerInfo)
                else _format_unit(part.info)
            )
            if part.payload is not None:
                print(f"payload: {escape(part.payload)}")
        if not decoded:
            print("payloads: not checked; inspect --verify checks them")
    return int(any(part.payload not in (None, VALID) for part in parts))


def _show(part: Bytes | Unit, *, decoded: bool) -> _Shown:
    """Read the header of a container, and decode it if asked for."""
    if isinstance(part, Unit):
        return _Shown(part)
    info = inspect(part, private=True)
    if not decoded:
        return _Shown(info)
    try:
        return _Shown(info, VALID, decode_many(part))
    except WireError as error:
        return _Shown(info, f"{type(error).__name__} {error}")


def _to_json(part: _Shown, *, values: bool) -> Any:
    """Convert a part of a stream to the values of JSON (formats/spec/text.md)."""
    if isinstance(part.info, Unit):
        return to_plain(dataclasses.asdict(part.info))
    fields = {**dataclasses.asdict(part.info), "payload": part.payload}
    if values:
        fields["tensors"] = part.tensors and [
            {
                "name": name,
                "dtype": tensor.dtype.name,
                "shape": tensor.shape,
                "absent": tensor.absent,
                "indices": tensor.indices.tolist(),
                "values": tensor.values.tobytes(),
            }
            for name, tensor in part.tensors.items()
        ]
    return to_plain(fields)


def to_plain(value: Any) -> Any:
    """Convert a value to those of JSON: bytes to hexadecimal, integers above 2^53 to decimal strings."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Mapping):
        return {key: to_plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(one) for one in value]
    return str(value) if isinstance(value, int) and value > 2**53 else value


def _format_unit(unit: Unit) -> str:
    return f"unit of application {unit.application}, {format_count(len(unit.body), 'byte', 'bytes')}"


def _format_annotations(info: ContainerInfo) -> list[str]:
    """Format the metadata, the patches and the unknown records, a line each."""
    texts = [("", info.meta), *((f" of {format_name(name)}", own) for name, own in info.tensor_meta.items())]
    lines = [
        f"{shorten(escape(name), _MAX_TAG_WIDTH)}{owner}: {shorten(escape(text), _MAX_TAG_WIDTH)}"
        for owner, named in texts
        for name, text in named.items()
    ]
    lines += [f"{format_name(name)} is a patch: absent elements are unchanged" for name in info.patches]
    lines += [f"digest of names, shapes and types: {info.digest.hex()}"] if info.digest else []
    lines += [f"record of type {r.type:#06x}: {len(r.body):,} bytes" for r in info.records]
    return lines


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
        f"wirecodec {info.version}{' (draft)' if info.is_draft else ''}, {info.nbytes:,} bytes, {count}{tag}",
        *format_table(header, rows, left),
    ]
    lines += _format_annotations(info)
    dense = sum(e.size * element_dtype_named(e.dtype).itemsize for e in info.entries)
    if dense:
        ratio = dense / info.nbytes
        comparison = f"{ratio:.1f}× smaller" if ratio >= 1 else f"{1 / ratio:.1f}× larger"
        lines.append(f"{comparison} than the dense tensors")
    return "\n".join(lines)
