"""formats/spec/text.md against the output of ``wirecodec inspect --json``: fields, order, numbers, bytes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from formats.reference import Record, Row, assemble
from formats.reference.writing.assembly import write_extension_block
from formats.reference.writing.records import write_shape
from tests.formats.test_vectors import FORMATS
from tests.golden import vectors
from wirecodec.cli.main import main

PAGE = (FORMATS / "spec" / "text.md").read_text(encoding="utf-8")
CONTAINER, ENTRY, TENSOR, UNIT = (
    re.findall(r"^\| (\w+) \| ", part.split("\n\n")[0], re.MULTILINE)
    for part in PAGE.split("| field | type | content |")[1:]
)


def show(data: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    """Return the output of ``inspect --json``."""
    (tmp_path / "stream.wc").write_bytes(data)
    assert main(["inspect", "--json", *options, str(tmp_path / "stream.wc")]) == 0
    return capsys.readouterr().out


def test_the_example(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = wc.Unit(0, b"abc").to_bytes() + next(v.data for v in vectors() if v.id == "records-later")
    (example,) = re.findall(r"^```json\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert show(data, tmp_path, capsys, "--values") == example


@pytest.mark.parametrize("options", [(), ("--verify",), ("--values",)])
def test_fields_are_those_of_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    """Valid vectors with the default limits; a field that is not on the page would be a new one."""
    found = [v.data for v in vectors() if v.result == "ok" and not v.limits and len(v.data) < 300][::40]
    parts: list[dict[str, Any]] = json.loads(show(b"".join(found), tmp_path, capsys, *options))
    assert len(parts) == len(found) > 10
    for part in parts:
        assert list(part) == (CONTAINER if options == ("--values",) else CONTAINER[:-1])
        assert all(list(entry) == ENTRY for entry in part["entries"])
        assert all(list(tensor) == TENSOR for tensor in part.get("tensors", ()))
    (unit,) = json.loads(show(wc.Unit(7, b"").to_bytes(), tmp_path, capsys))
    assert list(unit) == UNIT


def test_numbers_and_texts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shape = write_shape(0, (0, 2**53 + 1)) + write_shape(1, (2**53, 0))
    block = write_extension_block([Record(3, 0, shape)])
    data = assemble([Row(key, 0, 0, 0, 1, 1, 1) for key in (0, 1)], block)
    (part,) = json.loads(show(data, tmp_path, capsys))
    assert [entry["shape"] for entry in part["entries"]] == [[0, "9007199254740993"], [2**53, 0]]
    odd = np.array([np.nan, -0.0, np.inf], "f4").view("u4")
    blob = wc.encode(odd.view("f4"), "all | rice | raw", meta={"é\n": "\U00010000"})
    text = show(blob.tobytes(), tmp_path, capsys, "--values")
    assert text.isascii()
    (part,) = json.loads(text)
    assert part["meta"] == {"é\n": "\U00010000"}
    assert part["tensors"][0]["values"] == odd.astype("<u4").tobytes().hex()


def test_values_need_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.wc").write_bytes(wc.encode(np.ones(3, "f4")).tobytes())
    assert main(["inspect", "--values", str(tmp_path / "x.wc")]) != 0
    assert "--json" in capsys.readouterr().err
