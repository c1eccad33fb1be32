"""The text form of a stream (spec/text.md), as a program.

    python -m formats.reference.text_form [--verify] [--values] < STREAM

Headers are read without limits, and payloads under the default ones. The exit status is that of the page.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Set
from typing import Any

from formats.reference.container import Header, decode, read_header
from formats.reference.errors import WireError
from formats.reference.extension import BASE, SCHEMA, TAG, read_unknown_records
from formats.reference.limits import DEFAULT_LIMITS, Limits
from formats.reference.patch import WRAP, BaseRecord, add_name, read_base
from formats.reference.stream import Unit, split
from formats.reference.table import Entry
from formats.reference.tensors import Tensor, TensorLocation
from formats.reference.transform.coefficients import DCT, RFFT
from formats.reference.value.codecs import VALUE_CODECS
from formats.zstd import find_decompressor

NO_LIMITS = Limits(*(6 * [2**63 - 1]))
PRIVATE = frozenset(range(0x80, 0x100))
"""Ids of index and value codecs that a header may have, although nothing here decodes them."""
VALID = "valid"
EXACT_INTEGERS = 2**53
TRANSFORMS = {RFFT: "rfft", DCT: "dct"}
INDEX_NAMES = {
    1: "raw-index",
    2: "bitmap",
    3: "rice",
    4: "rle",
    5: "delta",
    6: "huffman",
    7: "elias-fano",
    8: "binned",
    9: "bloom",
    10: "structured",
    11: "context",
    12: "by-class",
}
VALUE_NAMES = {
    1: "raw",
    2: "raw-float16",
    3: "raw-bfloat16",
    4: "qsgd",
    5: "sign-scale",
    6: "deflate",
    7: "zstd",
    8: "offset-float",
    9: "polyfit",
    10: "dexpfit",
    11: "terngrad",
    12: "3lc",
    13: "sketchml",
    14: "error-bounded",
    15: "mean",
    16: "steps",
    17: "steps-zstd",
}

Part = dict[str, Any]
"""Object of the array, with bytes and large integers that ``to_plain`` converts."""


def describe_stream(data: bytes, *, decoded: bool = False, values: bool = False) -> Iterator[Part]:
    """Yield the objects of the text form of a stream.

    Args:
        data: the stream.
        decoded: whether payloads are decoded.
        values: whether the elements are shown; payloads are decoded then.

    Examples:
        >>> list(describe_stream(b"short"))
        [{'offset': 0, 'nbytes': None, 'refused': 'Truncated prefix: 5 bytes are left at byte 0'}]
    """
    at = 0
    try:
        for part in split(data, NO_LIMITS):
            if isinstance(part, Unit):
                yield {"application": part.application, "body": part.body}
                at += 24 + len(part.body) + -len(part.body) % 8
            else:
                yield _describe_container(part, at, decoded=decoded or values, values=values)
                at += len(part)
    except WireError as error:
        yield {"offset": at, "nbytes": None, "refused": _describe_refusal(error)}


def is_refused(part: Part) -> bool:
    """Return whether an object tells of a refusal, so that the exit status is 1."""
    return "refused" in part or part.get("payload") not in (None, VALID)


def to_plain(value: Any) -> Any:
    """Convert a value to those of JSON: bytes to hexadecimal, large integers to decimal strings."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Mapping):
        return {key: to_plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple | range):
        return [to_plain(one) for one in value]
    return str(value) if isinstance(value, int) and value > EXACT_INTEGERS else value


def _describe_refusal(error: WireError) -> str:
    return f"{error.kind} {error}"


def _describe_container(data: bytes, at: int, *, decoded: bool, values: bool) -> Part:
    try:
        header = _read_header(data, based=True)
        is_patch = BASE in header.records
        if not is_patch:
            header = _read_header(data, based=False)  # rows 17 and 18 refuse codecs of patches
        found = _describe_header(header, len(data))
    except WireError as error:
        return {"offset": at, "nbytes": len(data), "refused": _describe_refusal(error)}
    found["payload"] = tensors = None
    if decoded and not is_patch:
        try:
            tensors = decode(data, DEFAULT_LIMITS, zstd=find_decompressor()).tensors
            found["payload"] = VALID
        except WireError as error:
            found["payload"] = _describe_refusal(error)
    if values:
        found["tensors"] = tensors and [_describe_tensor(tensor) for tensor in tensors]
    return found


def _read_header(data: bytes, *, based: bool) -> Header:
    return read_header(data, NO_LIMITS, supported=VALUE_CODECS.keys(), private=PRIVATE, based=based)


def _describe_header(header: Header, nbytes: int) -> Part:
    names = [p.name for p in header.places]
    entries: dict[int, list[Entry]] = {}
    for entry in header.entries:
        entries.setdefault(entry.key, []).append(entry)
    members: dict[int, list[TensorLocation]] = {}
    for p in header.places:
        members.setdefault(p.entry_key, []).append(p)
    found = {
        "version": f"1.{header.minor}",
        "nbytes": nbytes,
        "tag": header.records.get(TAG, b""),
        "entries": [_describe_entries(chunks, members[key]) for key, chunks in entries.items()],
        "meta": header.meta.container,
        "tensor_meta": {names[key]: texts for key, texts in header.meta.tensors.items()},
        "patches": [p.name for p in header.places if p.absent == "unchanged"],
        "digest": header.records.get(SCHEMA, b""),
        "records": [
            {"type": kind, "body": body}
            for kind, body in (read_unknown_records(header.block) if header.block else [])
        ],
    }
    if BASE in header.records:
        found["patch"] = _describe_patch(read_base(header.records[BASE], names), names)
    return found


def _describe_patch(record: BaseRecord, names: list[str]) -> Part:
    """Describe the base and the target of a patch with tensors of these names."""
    before = {name: digest for name, (digest, _) in zip(names, record.digests, strict=True) if digest}
    after = {name: digest for name, (_, digest) in zip(names, record.digests, strict=True)}
    base, target = (
        (record.rest + sum(add_name(digest, name) for name, digest in side.items())) % WRAP
        for side in (before | record.removed, after)
    )
    return {
        "before": before,
        "after": after,
        "removed": record.removed,
        "unchanged": record.unchanged,
        "rest": record.rest,
        "touched": record.touched,
        "base": b"" if record.touched else base.to_bytes(8, "big"),
        "target": b"" if record.touched else target.to_bytes(8, "big"),
    }


def _describe_entries(chunks: list[Entry], members: list[TensorLocation]) -> Part:
    """Describe the entries of one key, which hold these tensors."""
    size = sum(p.size for p in members)
    first = members[0]
    return {
        "name": ", ".join(p.name for p in members),
        "size": size,
        "nnz": sum(entry.r * entry.width for entry in chunks),
        "dtype": first.dtype.name,
        "shape": first.shape if len(members) == 1 else (size,),
        "transform": TRANSFORMS.get(chunks[0].domain, ""),
        "index": _join_names(INDEX_NAMES, {entry.index for entry in chunks}),
        "value": _join_names(VALUE_NAMES, {entry.value for entry in chunks}),
        "index_bytes": sum(entry.index_len for entry in chunks),
        "value_bytes": sum(entry.value_len for entry in chunks),
        "chunks": len(chunks),
        "members": [(p.name, p.size) for p in members],
        "map_bytes": sum(entry.map_len for entry in chunks),
    }


def _join_names(names: Mapping[int, str], ids: Set[int]) -> str:
    return "+".join(names.get(one, f"{one:#04x}") for one in sorted(ids))


def _describe_tensor(tensor: Tensor) -> Part:
    return {
        "name": tensor.name,
        "dtype": tensor.dtype,
        "shape": tensor.shape,
        "absent": tensor.absent,
        "indices": tensor.indices,
        "values": tensor.values,
    }


def main(arguments: list[str] | None = None) -> int:
    """Print the text form of the stream on standard input; return the exit status."""
    parser = argparse.ArgumentParser(description="Print the text form of a stream.")
    parser.add_argument("--verify", action="store_true", help="also decode every payload")
    parser.add_argument("--values", action="store_true", help="also print all elements; implies --verify")
    options = parser.parse_args(arguments)
    data = sys.stdin.buffer.read()
    parts = list(describe_stream(data, decoded=options.verify, values=options.values))
    print(json.dumps(to_plain(parts), indent=2))
    return int(any(is_refused(part) for part in parts))


if __name__ == "__main__":
    sys.exit(main())
