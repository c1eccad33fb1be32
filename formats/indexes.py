"""Run any reader of closed streams over the vectors of vectors/indexes (contract: vectors/README.md)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from formats.conformance import DEFAULT_DIR, Failure, parse_hex, refusal_of

INDEXES = "indexes"
"""Folder of the vectors."""

Row = dict[str, Any]
"""Container of an index: ``offset``, ``length``, ``digest`` in hex, and ``tensors``."""
Read = Callable[[bytes, dict[str, int]], list[Row]]
"""Reader: given a stream and limits, it returns the rows of its index."""


@dataclass(frozen=True)
class Closed:
    """One file of vectors/indexes: a stream, and its index or the refusal."""

    id: str
    data: bytes
    limits: dict[str, int]
    result: str
    code: str | None
    index: list[Row] | None


def load_indexes(vectors: Path = DEFAULT_DIR) -> Iterator[Closed]:
    """Load the streams in the order of their file names."""
    for path in sorted((vectors / INDEXES).glob("*.json")):
        fields = json.loads(path.read_text(encoding="utf-8"))
        limits, code, index = fields.get("limits", {}), fields.get("code"), fields.get("index")
        yield Closed(fields["id"], parse_hex(fields["hex"]), limits, fields["result"], code, index)


def check_index(read: Read, stream: Closed) -> str | None:
    """Run a reader on one stream; return a description of its failure, or None."""
    try:
        found = read(stream.data, dict(stream.limits))
    except Exception as error:
        kind, code = refusal_of(error)
        if (kind, code) != (stream.result, stream.code):
            return f"refused as {kind} {code}, not {stream.result} {stream.code}: {error}"
        return None
    if stream.index is None:
        return f"accepted, not refused as {stream.result} {stream.code}"
    return None if found == stream.index else f"rows {found}, not {stream.index}"


def run_indexes(read: Read, vectors: Path = DEFAULT_DIR) -> list[Failure]:
    """Run a reader over all streams; return its failures."""
    found = ((stream.id, check_index(read, stream)) for stream in load_indexes(vectors))
    return [Failure(id, message) for id, message in found if message is not None]


def reference(data: bytes, limits: dict[str, int]) -> list[Row]:
    """Read with the reference; a model for other adapters. Raises a WireError if the stream is refused."""
    from formats.reference import Limits
    from formats.reference.stream_index import read_index

    return [
        {
            "offset": part.offset,
            "length": part.length,
            "digest": part.digest.hex(),
            "tensors": [{"name": x.name, "dtype": x.dtype, "shape": list(x.shape)} for x in part.tensors],
        }
        for part in read_index(data, Limits(**limits))
    ]
