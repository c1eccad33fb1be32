"""registry.toml against the pages and against the three decoders: ids, profiles, and codes of refusals."""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from formats.patches import load_patches
from tests.formats.test_vectors import FORMATS, KINDS, PAGES, documented
from tests.golden import vectors
from wirecodec.container.inspect import DRAFT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

REGISTRY: dict[str, list[dict[str, Any]]] = tomllib.loads(
    (FORMATS / "registry.toml").read_text(encoding="utf-8")
)
ERRORS = {error["code"]: error["kind"] for error in REGISTRY["error"]}
LOCAL = {
    "wirecodec": {"buffer", "codec-failed", "max-norm", "nonfinite", "patch"},
    "formats/reference": set(),
    "formats/c": {"describe-buffer", "read-buffer", "apply-buffer"},
}
"""Codes about a caller's arguments, memory or own codecs, which the standard leaves to implementations."""
ROOT = FORMATS.parent
STATUS = {"1.0": "stable", "1.1": "stable"}
"""Status of the numbers of each version."""
STREAM, PATCH = FORMATS / "spec" / "stream.md", FORMATS / "spec" / "patch.md"
STREAMS = sorted(
    path for folder in ("streams", "indexes") for path in (FORMATS / "vectors" / folder).glob("*.json")
)


def test_every_page_and_code() -> None:
    pages: dict[str, set[str]] = {}
    for page in (*PAGES, STREAM, PATCH):
        for kind, code in documented(page):
            assert ERRORS.get(code) == kind, (page, code)
            pages.setdefault(code, set()).add(page.relative_to(FORMATS).as_posix())
    assert {error["code"]: set(error["pages"]) for error in REGISTRY["error"]} == pages
    assert len(ERRORS) == len(REGISTRY["error"])
    assert set(ERRORS.values()) == KINDS


def test_ids_and_pages() -> None:
    for kind, rows in REGISTRY.items():
        if kind == "error":
            continue
        for row in rows:
            assert (FORMATS / row["page"]).is_file(), row
            assert row["status"] == STATUS[row["since"]]
            assert row["profile"] in ("core", "extended")
        keys = [row["bit" if kind == "flag" else "id"] for row in rows]
        assert keys == sorted(set(keys))
        assert len({row["name"] for row in rows}) == len(rows)


def test_status_of_codes_is_that_of_their_vectors() -> None:
    """A code is stable if a vector of a released version shows it; listed files never change."""
    folder = FORMATS / "vectors"
    released = [version for version, status in STATUS.items() if status == "stable"]
    lists = [path.read_text().split() for each in released for path in folder.glob(f"{each}*.sha256")]
    stable = {json.loads((folder / name).read_text()).get("code") for words in lists for name in words[1::2]}
    status = {error["code"]: error.get("status", "stable") for error in REGISTRY["error"]}
    assert status == {code: "stable" if code in stable else "draft" for code in ERRORS}


def test_the_text_and_the_library_show_what_is_a_draft() -> None:
    """A released version has neither the word at the head of the text, nor drafts."""
    text = (FORMATS / "SPEC.md").read_text(encoding="utf-8")
    drafts = re.findall(r"^.*Version (\d\.\d), draft of \d{4}-\d\d-\d\d\.", text, re.MULTILINE)
    assert drafts == [DRAFT] * (DRAFT is not None)
    assert [version for version, status in STATUS.items() if status == "draft"] == drafts
    rows = re.findall(r"^\| (\d+) \| (\w+) \| [01] \| 3\.\d+ \| (\w+) \|$", text, re.MULTILINE)
    assert rows == [(str(row["id"]), row["name"], row["status"]) for row in REGISTRY["record"]]
    for kind in ("index", "value", "map", "domain"):  # wirecodec codecs prints no status
        assert {row["status"] for row in REGISTRY[kind] if "needs" not in row} == {"stable"}


def test_what_needs_a_base_is_of_patches_alone() -> None:
    """Codes that only a reader with the old tensors reports have vectors of their own."""
    for rows in REGISTRY.values():
        for row in rows:
            is_of_patch = row.get("pages", [row.get("page")]) == ["spec/patch.md"]
            assert (row.get("needs") == "base") == is_of_patch, row


def raised(path: Path) -> Iterator[tuple[str, str]]:
    """Yield (kind, pattern of the code) of each refusal that a Python module can raise."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        name = getattr(getattr(node, "func", None), "id", None)
        if isinstance(node, ast.Call) and name in KINDS and node.args:
            code = node.args[0]
            if isinstance(code, ast.Constant) and isinstance(code.value, str):
                yield name, re.escape(code.value)
            elif isinstance(code, ast.JoinedStr):
                parts = [
                    re.escape(str(p.value)) if isinstance(p, ast.Constant) else "[a-z0-9-]+"
                    for p in code.values
                ]
                yield name, "".join(parts)


@pytest.mark.parametrize("package", ["wirecodec", "formats/reference"])
def test_python_decoders_raise_registered_codes(package: str) -> None:
    found = [pair for path in sorted((ROOT / package).rglob("*.py")) for pair in raised(path)]
    assert len(found) > 100
    for kind, pattern in found:
        if pattern.replace("\\-", "-") in LOCAL[package]:
            continue
        known = [code for code, its in ERRORS.items() if its == kind and re.fullmatch(pattern, code)]
        assert known, (kind, pattern)


def test_the_c_decoder_raises_registered_codes() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in sorted((FORMATS / "c").glob("*.h")))
    short = {"malformed": "Malformed", "invalid": "Invalid"}
    found = {
        (short[kind], code) for kind, code in re.findall(r'wc_(malformed|invalid)\("([a-z0-9-]+)"\)', text)
    }
    names = {kind.upper(): kind for kind in KINDS}
    for kind, code in re.findall(r'wc_refuse\(WC_([A-Z_]+), "([a-z0-9-]+)"\)', text):
        if code not in LOCAL["formats/c"]:
            found.add((names[kind.replace("_", "")], code))
    assert len(found) > 100
    assert {(kind, code) for kind, code in found if ERRORS.get(code) != kind} == set()


def test_every_code_has_a_vector() -> None:
    shown = {v.code for v in vectors() if v.code}
    shown |= {stream.get("code") for stream in map(json.loads, map(Path.read_text, STREAMS))} - {None}
    assert shown == {error["code"] for error in REGISTRY["error"] if "needs" not in error}
    of_patches = {patch.code for patch in load_patches()}
    assert {error["code"] for error in REGISTRY["error"] if "needs" in error} <= of_patches <= {None, *ERRORS}
