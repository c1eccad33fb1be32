"""``wirecodec inspect``: show what a file of containers holds."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, TypeAlias

from wirecodec.arrays import Bytes
from wirecodec.cli.files import name_file, open_input
from wirecodec.cli.formatting import escape, format_count, format_name, format_table, shorten
from wirecodec.cli.options import add_command, add_file, add_imports
from wirecodec.container.inspect import ContainerInfo, PatchInfo, inspect
from wirecodec.container.stream import Unit, iter_stream
from wirecodec.element_types import element_dtype_named, name_of
from wirecodec.errors import WireError
from wirecodec.files.index import END, INDEX, PADDING
from wirecodec.limits import UNLIMITED
from wirecodec.pipeline import decode_many
from wirecodec.sparse import SparseTensor

VALID = "valid"
_UNITS = {INDEX: "index", END: "end of the stream", PADDING: "padding"}
_TEXT_COLUMNS = ("name", "shape", "dtype", "transform", "index", "value")
_MAX_TAG_WIDTH = 256


def add_to(commands: Any) -> None:
    """Add the subcommand."""
    command = add_command(
        commands,
        "inspect",
        _run,
        "Show what a file of containers holds",
        "Headers are checked. Payloads are not read unless --verify is given. The exit code is 1 if anything "
        "is refused. A codec of one's own that is not imported is shown by its id, such as 0x80.",
    )
    add_imports(command)
    add_file(command, "one container, or several one after the other")
    command.add_argument(
        "--verify",
        action="store_true",
        help="also decode every payload, under the default limits",
    )
    command.add_argument(
        "--json", action="store_true", help="print JSON, with names in full (formats/spec/text.md)"
    )
    command.add_argument(
        "--values", action="store_true", help="with --json: also print all elements; implies --verify"
    )


@dataclass(frozen=True)
class _Refused:
    """Container whose header is refused; or the rest of a stream from ``offset`` on, without ``nbytes``."""

    offset: int
    nbytes: int | None
    refused: str


@dataclass(frozen=True)
class _Shown:
    """Container with the result of decoding it, if that was asked for."""

    info: ContainerInfo
    payload: str | None = None
    tensors: Mapping[str, SparseTensor] | None = None


_Part: TypeAlias = Unit | _Shown | _Refused


def _run(options: argparse.Namespace) -> int:
    if options.values and not options.json:
        raise ValueError("--values needs --json")
    with name_file(options.file), open_input(options.file) as opened:
        decoded = options.verify or options.values
        parts = list(_read_parts(opened, decoded=decoded))
        if not parts and not options.json:
            raise ValueError("the file is empty")
    if options.json:
        print(json.dumps([_to_json(part, values=options.values) for part in parts], indent=2))
    else:
        at = 0
        for part in parts:
            print(_format_part(part, at))
            at += _length_of(part)
        shown = [part for part in parts if isinstance(part, _Shown)]
        if not decoded and any(part.info.patch is None for part in shown):
            print("payloads: not checked; inspect --verify checks them")
        if any(part.info.patch is not None for part in shown):
            print("payloads of patches of weights: not checked; wirecodec apply checks them")
    return int(any(map(_is_refused, parts)))


def _read_parts(opened: BinaryIO, *, decoded: bool) -> Iterator[_Part]:
    """Yield the parts of a stream; the last one tells of the refusal that stops it, if there is one."""
    offset = 0
    try:
        for part in iter_stream(opened, limits=UNLIMITED):
            yield part if isinstance(part, Unit) else _show(part, offset, decoded=decoded)
            offset += part.nbytes
    except WireError as error:
        yield _Refused(offset, None, _describe(error))


def _show(blob: Bytes, offset: int, *, decoded: bool) -> _Shown | _Refused:
    """Read the header of a container, and decode it if asked for."""
    try:
        info = inspect(blob, private=True)
    except WireError as error:
        return _Refused(offset, blob.nbytes, _describe(error))
    if not decoded or info.patch is not None:  # the payload of a patch is read with the base
        return _Shown(info)
    try:
        return _Shown(info, VALID, decode_many(blob))
    except WireError as error:
        return _Shown(info, _describe(error))


def _describe(error: WireError) -> str:
    return f"{type(error).__name__} {error}"


def _is_refused(part: _Part) -> bool:
    return isinstance(part, _Refused) or (isinstance(part, _Shown) and part.payload not in (None, VALID))


def _to_json(part: _Part, *, values: bool) -> Any:
    """Convert a part of a stream to the values of JSON (formats/spec/text.md)."""
    if not isinstance(part, _Shown):
        return to_plain(dataclasses.asdict(part))
    fields = {**dataclasses.asdict(part.info), "payload": part.payload}
    if part.info.patch is None:
        del fields["patch"]
    else:
        fields["patch"] |= dict(zip(("base", "target"), find_states(part.info.patch), strict=True))
    if values:
        fields["tensors"] = (
            part.tensors
            if part.tensors is None
            else [
                {
                    "name": name,
                    "dtype": name_of(tensor.dtype),
                    "shape": tensor.shape,
                    "absent": tensor.absent,
                    "indices": tensor.indices.tolist(),
                    "values": tensor.values.tobytes(),
                }
                for name, tensor in part.tensors.items()
            ]
        )
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


def _length_of(part: _Part) -> int:
    """Return the bytes that a part takes in the stream."""
    return (part.info.nbytes if isinstance(part, _Shown) else part.nbytes) or 0


def _format_part(part: _Part, at: int) -> str:
    """Format a part; the offset of each but the first is shown."""
    offset = f", at byte {at:,}" if at else ""
    if isinstance(part, Unit):
        name = _UNITS.get(part.application, f"unit of application {part.application}")
        return f"{name}, {format_count(len(part.body), 'byte', 'bytes')}{offset}"
    if isinstance(part, _Refused):
        size = "stream" if part.nbytes is None else f"container of {part.nbytes:,} bytes"
        return f"{size} refused at byte {part.offset:,}: {escape(part.refused)}"
    payload = "" if part.payload is None else f"\npayload: {escape(part.payload)}"
    return format_container(part.info, offset) + payload


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


def _format_patch(info: ContainerInfo, patch: PatchInfo) -> list[str]:
    """Format what a patch of weights changes: digests of both states, tensors and elements."""
    base, target = find_states(patch)
    lines = (
        ["patch of weights: touched, so its reader looks at changed elements alone"]
        if patch.touched
        else [
            f"patch of weights: base {base}, target {target},"
            f" {format_count(patch.unchanged, 'tensor', 'tensors')} unchanged"
        ]
    )
    sizes = {name: size for entry in info.entries for name, size in entry.members}
    added = sum(sizes[name] for name in patch.added)
    stored, size = sum(e.nnz for e in info.entries) - added, sum(sizes.values()) - added
    if size:
        lines.append(f"{stored:,} of {size:,} elements of changed tensors ({100 * stored / size:.3g} %)")
    if stored + added:
        lines.append(f"{8 * info.nbytes / (stored + added):.2f} bits per stored element")
    for what, names in (("new", patch.added), ("removed", patch.removed)):
        lines += [f"{what}: {', '.join(map(format_name, names))}"] if names else []
    return lines


def find_states(patch: PatchInfo) -> tuple[str, str]:
    """Return the digests of base and target in hexadecimal; "" if the patch has those of elements.

    Each is the sum over all tensors, with their names. The target of a patch has that of the next one's base.
    """
    from wirecodec.patch.digest import MASK, digest_named  # it imports kernels

    if patch.touched:
        return "", ""
    sides = {**patch.before, **patch.removed}, patch.after
    base, target = (sum(digest_named(name, x) for name, x in side.items()) for side in sides)
    return f"{(patch.rest + base) & MASK:016x}", f"{(patch.rest + target) & MASK:016x}"


def format_container(info: ContainerInfo, offset: str = "") -> str:
    """Format one container: a line about it and its offset, and a table with a row per entry.

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
    draft = " (draft)" if info.is_draft else ""
    lines = [
        f"wirecodec {info.version}{draft}, {info.nbytes:,} bytes, {count}{tag}{offset}",
        *format_table(header, rows, left),
    ]
    lines += _format_annotations(info)
    lines += [] if info.patch is None else _format_patch(info, info.patch)
    dense = sum(e.size * element_dtype_named(e.dtype).itemsize for e in info.entries)
    if dense:
        ratio = dense / info.nbytes
        comparison = f"{ratio:.1f}× smaller" if ratio >= 1 else f"{1 / ratio:.1f}× larger"
        lines.append(f"{comparison} than the dense tensors")
    return "\n".join(lines)
