"""The pages of the standard: worked examples equal their vectors' bytes, and pages hold no measurements."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.formats.test_registry import REGISTRY
from tests.formats.test_vectors import FORMATS, PAGES
from tests.golden import vectors

ALL = [FORMATS / "SPEC.md", *sorted((FORMATS / "spec").rglob("*.md"))]
EXAMPLES = {"SPEC.md": 2, "records.md": 3}
"""Least numbers of worked examples of pages; all others of `PAGES` and `coefficients.md` have one."""
WITH_EXAMPLES = [*PAGES, *(FORMATS / "spec" / f"{name}.md" for name in ("coefficients", "records"))]
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


def profiles_of(page: Path) -> list[str]:
    """Return the profiles that a page names below its title."""
    title, blank, line = page.read_text(encoding="utf-8").splitlines()[:3]
    assert (title[:2], blank, line[:9]) == ("# ", "", "Profile: "), page
    return re.findall(r"\*\*([^*]+)\*\*", line)


def test_each_page_names_its_profile() -> None:
    """A codec's is that of the registry; others are in the table of section 1.3, or have own versions."""
    table = re.findall(
        r"^\| ([a-z ]+ 1\.\d|maintenance) \|", ALL[0].read_text(encoding="utf-8"), re.MULTILINE
    )
    rows = {row["page"]: row for kind in ("index", "value", "map", "domain") for row in REGISTRY[kind]}
    for page in ALL:
        profiles = profiles_of(page)
        assert profiles, page
        if page in PAGES[1:]:
            row = rows[page.relative_to(FORMATS).as_posix()]
            assert profiles == [f"{row['profile']} {row['since']}"], page
        own = {"agreement", "feeds", "rounds", "scheme"} & {page.stem}
        title = page.read_text(encoding="utf-8").splitlines()[0]
        expected = [f"{name} {title.rpartition(' ')[2]}" for name in own] or table
        assert set(profiles) <= set(expected), (page, profiles)


def test_a_reader_of_the_core_reads_few_words() -> None:
    pages = [page for page in ALL if profiles_of(page) == ["core 1.0"]]
    assert [page.stem for page in pages] == ["SPEC", "bitmap", "raw-index", "rice", "qsgd", "raw"]
    records = (FORMATS / "spec" / "records.md").read_text(encoding="utf-8")
    later = re.findall(r"^## (?:3.7|3.8) .*?(?=^## )", records, re.MULTILINE | re.DOTALL)
    assert len(later) == 2
    texts = [page.read_text(encoding="utf-8") for page in pages] + later
    assert sum(len(text.split()) for text in texts) <= 10_000  # with the sections that version 1.1 adds


def test_sections_of_the_standard_that_are_cited_exist() -> None:
    """Code and pages cite numbers; a part that moves to another page keeps its number in SPEC.md."""
    number = r"\d+(?:\.\d+)?"
    spec = ALL[0].read_text(encoding="utf-8")
    rows = re.findall(rf"^(?:#+ ({number})|\| (\d+\.\d+) \|)", spec, re.MULTILINE)
    sections = {heading or row for heading, row in rows}
    root, kinds = FORMATS.parent, {".py", ".md", ".h", ".c", ".cu", ".cuh", ".toml", ".ksy"}
    cited: dict[str, str] = {}
    for folder in ("formats", "wirecodec", "collectives", "tests", "docs"):
        for path in (root / folder).rglob("*"):
            if path.suffix in kinds:
                text = path.read_text(encoding="utf-8")
                for found in re.findall(rf"SPEC(?:\.md)?,? (?:sections? )?({number})", text):
                    cited[found] = str(path)
    assert len(cited) > 20
    assert {found: path for found, path in cited.items() if found not in sections} == {}


@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=lambda page: page.stem)
def test_examples_are_bytes_of_vectors(page: Path) -> None:
    found = list(examples(page))
    assert len(found) >= EXAMPLES.get(page.name, 1)
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
