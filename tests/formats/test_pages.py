"""The pages of the standard: worked examples equal their vectors' bytes, and pages hold no measurements."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.formats.test_vectors import FORMATS, PAGES
from tests.golden import vectors

PARTS = {"index": 0, "value": 1, "map": 2}
VECTORS = {v.id: v.data for v in vectors()}
TITLE = re.compile(
    r"(?:Vector `(?P<id>[^`]+)`(?:, (?:(?P<part>index|value|map) section(?: of entry (?P<entry>\d+))?"
    r"|record (?P<record>\d+)))?|^(?P<same>Value) section:$)"
)
LINE = re.compile(r"^    (\d+)  ((?:[0-9A-F]{2} )*[0-9A-F]{2})(?:  .*)?$")


def sections_of(data: bytes) -> list[list[bytes]]:
    """Return the index, value and map section of each entry of a container."""
    flags, n = struct.unpack_from("<HI", data, 6)
    at = 24 + 40 * n
    at += struct.unpack_from("<I", data, at)[0] if flags & 1 else 0
    found = []
    for entry in range(n):
        parts = []
        for length in struct.unpack_from("<3I", data, 24 + 40 * entry + 24):
            parts.append(data[at : at + length])
            at += length + -length % 8
        found.append(parts)
    return found


def record_of(data: bytes, wanted: int) -> bytes:
    """Return the body of an extension record."""
    (n,) = struct.unpack_from("<I", data, 8)
    at = 24 + 40 * n + 8
    while True:
        kind, _, length = struct.unpack_from("<HHI", data, at)
        if kind == wanted:
            return data[at + 8 : at + 8 + length]
        at += 8 + length + -length % 8


def examples(page: Path) -> Iterator[tuple[str, str, bytes, bytes]]:
    """Yield (vector, part, bytes of the page, bytes of the vector) of each worked example of a page."""
    id, part, wanted, shown = "", "", b"", b""
    for line in [*page.read_text(encoding="utf-8").splitlines(), "Vector `end`"]:
        row = LINE.match(line)
        if row:
            if wanted:
                assert int(row[1]) == len(shown), line
                shown += bytes.fromhex(row[2])
        elif title := TITLE.search(line):
            if shown:
                yield id, part, shown, wanted
            id, part, wanted, shown = title["id"] or id, title[0], b"", b""
            if title["record"]:
                wanted = record_of(VECTORS[id], int(title["record"]))
            elif title["part"] or title["same"]:
                entry = sections_of(VECTORS[id])[int(title["entry"] or 0)]
                wanted = entry[PARTS[title["part"] or "value"]]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples_are_bytes_of_vectors(page: Path) -> None:
    found = list(examples(page))
    assert len(found) >= (5 if page.name == "SPEC.md" else 1)
    for id, part, shown, wanted in found:
        assert shown == wanted, (id, part)


def test_the_example_of_a_container() -> None:
    """Section 8 of SPEC.md shows every byte of a container."""
    text = (
        (FORMATS / "SPEC.md").read_text(encoding="utf-8").split("## 8. An example")[1].split("### Records")[0]
    )
    rows = re.findall(r"^ {4,}(\d+)  ((?:[0-9A-F]{2} )*[0-9A-F]{2})(?:  .*)?$", text, re.MULTILINE)
    data = b""
    for offset, digits in rows:
        assert int(offset) == len(data)
        data += bytes.fromhex(digits)
    from formats.reference import decode

    (t,) = decode(data).tensors
    assert (list(t.indices), struct.unpack("<3f", t.values)) == ([1, 3, 6], (1.5, -2.0, 0.25))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pages_hold_no_measurements(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"^## Cost|\bns per\b|tests/data|ResNet|LSTM|Xeon", text, re.MULTILINE)
    assert text.count("\n## Example\n") == (page.name != "SPEC.md")
