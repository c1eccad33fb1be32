"""Closed streams: the reference and the library read their indexes alike, as formats/spec/stream.md says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import wirecodec as wc
from formats import indexes, make_vectors
from formats.reference import stream_index
from tests.formats.test_isolated import Fault, break_function
from tests.formats.test_streams import PAGE
from tests.formats.test_streams import VECTORS as STREAMS
from tests.formats.test_vectors import documented
from wirecodec.element_types import name_of
from wirecodec.files import index

VECTORS = list(indexes.load_indexes())


def read_in_library(data: bytes, limits: dict[str, int], tail: int = 0) -> list[indexes.Row]:
    """Read with the library, as ``indexes.reference`` does."""
    import numpy as np

    bytes_of = np.frombuffer(data, np.uint8)
    found = index.read_index(len(data), lambda a, b: bytes_of[a:b], wc.DecodeLimits(**limits), tail)
    return [
        {
            "offset": part.offset,
            "length": part.length,
            "digest": part.digest.hex(),
            "tensors": [{"name": n, "dtype": name_of(t), "shape": list(s)} for n, s, t in part.tensors],
        }
        for part in found.to_parts()
    ]


@pytest.mark.parametrize("tail", [0, 2**16])
def test_both_pass_the_vectors(tail: int) -> None:
    assert VECTORS
    assert indexes.run_indexes(indexes.reference) == []
    assert indexes.run_indexes(lambda data, limits: read_in_library(data, limits, tail)) == []


def test_both_write_the_same_bytes() -> None:
    for vector in VECTORS:
        if vector.index is None or vector.id == "closed-unlisted":
            continue
        parts = stream_index.read_index(vector.data)
        written = stream_index.write_index(parts)
        offset = len(vector.data) - stream_index.END_BYTES - len(written)
        assert vector.data[offset:] == written + stream_index.write_end(written, offset)
        own = read_parts(vector.data)
        assert index.write_index(own, offset) == vector.data[offset:]


def read_parts(data: bytes) -> list[index.Part]:
    import numpy as np

    bytes_of = np.frombuffer(data, np.uint8)
    return index.read_index(len(data), lambda a, b: bytes_of[a:b], wc.DecodeLimits()).to_parts()


def test_every_check_of_the_page_has_a_vector() -> None:
    found = {(v.result, v.code) for v in VECTORS} | {(v["result"], v.get("code")) for v in STREAMS}
    assert documented(PAGE) <= found


INDEX, BODY, UNIT = "stream_index: read_index", "stream_index: _read_body", "stream_index: _read_unit"
FAULTS: tuple[Fault, ...] = (
    (INDEX, "len(end) < END_BYTES or", "", "end-short no-bytes"),
    (INDEX, "(UNIT_MAGIC, END, 64)", "(UNIT_MAGIC, END, end[8])", "end-body"),
    (INDEX, "form != 1 or any(body[1:8])", "form != 1", "end-reserved"),
    (INDEX, "form != 1 or any(body[1:8])", "any(body[1:8])", "end-form"),
    (INDEX, "or total != len(data)", "", "end-before end-length-more"),
    (INDEX, "or total != len(data)", "or total > len(data)", "end-before"),
    (INDEX, "offset % 8 or", "", "end-offset"),
    (INDEX, "length % 8 or", "", "end-index-odd"),
    (INDEX, "length < 40", "length < 24", "end-index-short"),
    (INDEX, "offset + length > total - END_BYTES", "offset + length > total", "end-offset-far"),
    (INDEX, "offset + length >", "(offset + length) % 2**64 >", "end-offset-wrapping"),
    (INDEX, "length > limits.max_bytes", "length >= limits.max_bytes", "max-bytes-met"),
    (INDEX, "length > limits.max_bytes", "False", "max-bytes"),
    (INDEX, "hashlib.sha256(unit).digest() != digest", "False", "index-digest"),
    (INDEX, "(UNIT_MAGIC, INDEX, length)", "(magic, INDEX, length)", "index-is-container"),
    (INDEX, "(UNIT_MAGIC, INDEX, length)", "(UNIT_MAGIC, application, length)", "index-application"),
    (INDEX, "(UNIT_MAGIC, INDEX, length)", "(UNIT_MAGIC, INDEX, total_len)", "index-cut"),
    (UNIT, "total_len != PREFIX_BYTES + body_len + pad8(body_len)", "False", "end-total index-unit-length"),
    (UNIT, "zlib.crc32(unit[16:], zlib.crc32(unit[:12])) != crc", "False", "end-checksum index-checksum"),
    (UNIT, "any(unit[PREFIX_BYTES + body_len :])", "False", "index-padding"),
    (BODY, "len(body) < _HEAD.size", "False", "index-short"),
    (BODY, "form != 1 or", "", "index-form"),
    (BODY, "any(body[1:8]) or", "", "index-reserved"),
    (BODY, "shapes_at > len(body)", "False", "index-tensors"),
    (BODY, "!= len(body)", "> len(body)", "index-name-short"),
    (BODY, "!= len(body)", "< len(body)", "index-name-long index-ndim"),
    (BODY, "offset % 8 or", "", "index-part-offset"),
    (BODY, "length % 8 or", "", "index-part-length"),
    (BODY, "length < PREFIX_BYTES or", "", "index-part-small"),
    (BODY, "offset < at or", "", "index-part-overlap"),
    (BODY, "or offset + length > stop", "", "index-part-far"),
    (BODY, "offset + length > stop", "(offset + length) % 2**64 > stop", "index-part-wrapping"),
    (BODY, "part >= n_parts or", "part > n_parts or", "index-tensor-part"),
    (BODY, "part < last or", "", "index-tensor-order"),
    (BODY, "or reserved", "", "index-tensor-reserved"),
    (BODY, "row[2] not in _TYPES", "row[2] > 30", "index-dtype index-dtype-0"),
    (BODY, "name.decode()", "name.decode('latin-1')", "index-name-bytes"),
    (BODY, "shapes_at + 8 * ndim, names_at", "shapes_at + 8, names_at", "types"),
)
"""Faults of a reader, and the vectors that notice them."""


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_reader_fails(monkeypatch: pytest.MonkeyPatch, fault: Fault) -> None:
    *change, ids = fault
    break_function(monkeypatch, *change)
    assert {f"closed-{id}" for id in ids.split()} <= {f.id for f in indexes.run_indexes(indexes.reference)}


def test_the_example_of_the_page() -> None:
    import re

    (vector,) = (json.loads(p.read_text()) for p in [make_vectors.VECTORS / "indexes" / "closed-one.json"])
    section = PAGE.read_text().partition("`closed-one`")[2]
    rows: list[Any] = re.findall(
        r"^    +(\d+)  ((?:[0-9A-F]{2} )*[0-9A-F]{2})(?:  |$)", section, re.MULTILINE
    )
    body = bytes.fromhex("".join(digits for _, digits in rows))
    assert len(body) == 85
    assert body in bytes.fromhex("".join(vector["hex"]))
    assert next(int(at) for at, _ in rows) == 0
    assert Path(PAGE).name == "stream.md"
