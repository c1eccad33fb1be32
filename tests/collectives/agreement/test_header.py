"""Header as on its page (formats/spec/agreement.md), and errors from a table of headers."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any

import pytest

from collectives.agreement.agree import _compose_text
from collectives.agreement.errors_from_headers import error_for, protocol_error
from collectives.agreement.header import (
    MAGIC,
    Algorithm,
    Header,
    Operand,
    Operation,
    Reduction,
    Status,
    headers_match,
    short_hash,
)

PAGE = Path(__file__).parents[3] / "formats" / "spec" / "agreement.md"


# ---- the page ----


def example() -> bytes:
    """Read the 72 bytes at the end of the page."""
    lines = re.findall(r"^    ((?:[0-9a-f]{8} )+[0-9a-f]{8})$", PAGE.read_text(), re.MULTILINE)
    return bytes.fromhex("".join(lines))


def test_golden_header() -> None:
    operand = Operand.of({"0": ((1000,), "float32")}, bare=True, scheme="topk(0.01) | rice | raw")
    text = _compose_text(operand, None)
    header = Header(
        operation=Operation.ALLREDUCE,
        reduction=Reduction.MEAN,
        sequence=7,
        dtype=operand.dtype,
        text_len=len(text),
        elements=operand.elements,
        payload_len=4096,
        signature=operand.signature,
        scheme=operand.scheme,
    )
    assert text == b"topk(0.01) | rice | raw\nfloat32 (1000,)"
    assert len(example()) == 72
    assert header.pack() == example()
    assert Header.unpack(example()) == header


def test_fields_lie_where_the_page_says() -> None:
    """A field with its largest value fills exactly the bytes of its row."""
    rows = re.findall(
        r"^\| (\d+) \| (\w+) \| (u8|u16|u32|u64|f64|4 bytes) \|", PAGE.read_text(), re.MULTILINE
    )
    widths = {"u8": 1, "u16": 2, "u32": 4, "u64": 8, "f64": 8, "4 bytes": 4}
    assert [name for _, name, _ in rows] == list(Header._fields)
    at = 0
    blank = Header(magic=bytes(4), version=0, detail=0, weight=0.0)
    for offset, name, kind in rows:
        width = widths[kind]
        assert int(offset) == at
        full: Any = b"\xff" * width if name == "magic" else 2 ** (8 * width) - 1
        full = struct.unpack("<d", b"\xff" * 8)[0] if kind == "f64" else full
        field: dict[str, Any] = {name: full}
        packed = blank._replace(**field).pack()
        assert packed == bytes(at) + b"\xff" * width + bytes(72 - at - width)
        at += width
    assert at == 72


def test_the_codes_are_those_of_the_page() -> None:
    page = PAGE.read_text()
    operations = (
        "1 allgather of bytes, 2 allgather of tensors, 3 allreduce, 4 CLT-k, 5 gTop-k, 6 the part of an"
        " allreduce within a site, 7 Ok-Topk"
    )
    assert f"| 6 | operation | u8 | {operations} |" in page
    assert [int(one) for one in Operation] == [1, 2, 3, 4, 5, 6, 7]
    assert "0 none, 1 sum, 2 mean" in page
    assert [one.name for one in Reduction] == ["NONE", "SUM", "MEAN"]
    assert [int(one) for one in Algorithm] == [0, 1, 2, 3, 4, 5]
    assert [int(status) for status in Status] == [
        int(row) for row in re.findall(r"^\| (\d) \| [^|]+ \|$", page, re.MULTILINE)
    ]


def test_hashes_are_those_of_the_page() -> None:
    """The expected bytes follow section 2 by hand."""
    import hashlib

    def first8(data: bytes) -> int:
        return int.from_bytes(hashlib.sha256(data).digest()[:8], "little")

    def u32(n: int) -> bytes:
        return n.to_bytes(4, "little")

    def u64(n: int) -> bytes:
        return n.to_bytes(8, "little")

    named = Operand.of({"w": ((2, 3), "float64"), "b": ((), "bfloat16")}, bare=False, scheme="s")
    expected = b"\1" + u32(2) + u32(1) + b"b" + b"\3\0" + u32(1) + b"w" + b"\4\2" + u64(2) + u64(3)
    assert named.signature == first8(expected)
    assert named.scheme == first8(b"s") == short_hash(b"s")
    assert (named.dtype, named.elements) == (255, 7)
    bare = Operand.of({"0": ((5,), "float16")}, bare=True, scheme="s")
    assert bare.signature == first8(b"\0" + u32(1) + u32(0) + b"\2\1" + u64(5))


# ---- the verdict ----


def test_most_ranks_are_right() -> None:
    table = [Header(operation=2, dtype=code) for code in (4, 1, 1, 2, 1)]
    error = error_for(table, [""] * 5)
    assert error.ranks == (0, 3)
    assert str(error) == (
        "rank 0: dtype float64, but ranks 1, 2, 4: dtype float32; "
        "rank 3: dtype float16, but ranks 1, 2, 4: dtype float32; "
        "all ranks must pass tensors of the same dtype"
    )


def test_of_equally_many_the_lowest_rank_is_right() -> None:
    assert error_for([Header(operation=2, dtype=code) for code in (4, 1, 1, 4)], [""] * 4).ranks == (1, 2)


def test_earlier_fields_are_reported_first() -> None:
    table = [Header(sequence=3, dtype=1), Header(sequence=4, dtype=4, operation=3)]
    assert error_for(table, ["", ""]).reason == "sequence"


@pytest.mark.parametrize("foreign", [{"magic": b"abcd"}, {"version": 1}, {"text_len": 1 << 20}], ids=str)
def test_foreign_headers(foreign: dict[str, Any]) -> None:
    table = [Header(operation=2), Header(operation=2)._replace(**foreign)]
    assert not headers_match(table)
    error = protocol_error(table)
    assert error is not None
    assert (error.ranks, error.reason) == ((1,), "protocol")
    assert "install the same version of wirecodec" in str(error)
    assert protocol_error(table[:1]) is None
    assert example()[:4] == MAGIC
