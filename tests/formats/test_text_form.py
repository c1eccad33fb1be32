"""formats/spec/text.md against ``inspect --json`` and the reference: fields, order, numbers, refusals."""

from __future__ import annotations

import io
import json
import re
import struct
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from formats.conformance import Vector
from formats.reference import Record, Row, assemble, text_form
from formats.reference.writing.assembly import write_extension_block
from formats.reference.writing.records import write_shape
from formats.streams import load_streams
from formats.texts import find_difference, parse
from tests.formats.test_patches import mutants, states
from tests.formats.test_registry import REGISTRY
from tests.formats.test_vectors import FORMATS
from tests.golden import vectors
from wirecodec.cli.main import main

PAGE = (FORMATS / "spec" / "text.md").read_text(encoding="utf-8")
OF_PATCHES, ENTRY, PATCH, TENSOR, UNIT, REFUSAL = (
    re.findall(r"^\| (\w+) \| ", part.split("\n\n")[0], re.MULTILINE)
    for part in PAGE.split("| field | type | content |")[1:]
)
CONTAINER = [field for field in OF_PATCHES if field != "patch"]


REFUSED, ACCEPTED = re.findall(r"^```json\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def show(
    data: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str], *options: str, status: int = 0
) -> str:
    """Return the output of ``inspect --json``, which must end with this status."""
    (tmp_path / "stream.wc").write_bytes(data)
    assert main(["inspect", "--json", *options, str(tmp_path / "stream.wc")]) == status
    return capsys.readouterr().out


def both(
    data: bytes,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    *options: str,
) -> Any:
    """Return the status and the text form of a stream, which both programs print alike."""
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
    status = text_form.main(list(options))
    wanted = parse(capsys.readouterr().out)
    assert find_difference(parse(show(data, tmp_path, capsys, *options, status=status)), wanted) is None
    return status, wanted


def vector(name: str) -> Vector:
    return next(v for v in vectors() if v.id == name)


def test_the_examples(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = wc.Unit(0, b"abc").to_bytes() + vector("records-later").data
    assert show(data, tmp_path, capsys, "--values") == ACCEPTED
    assert both(data, monkeypatch, tmp_path, capsys, "--values") == (0, json.loads(ACCEPTED))
    tag = vector("tag").data
    data = vector("names-order").data + tag[:-1] + bytes([tag[-1] ^ 1]) + wc.Unit(7, b"abc").to_bytes()[:30]
    assert both(data, monkeypatch, tmp_path, capsys, "--verify") == (1, parse(REFUSED))
    first, damaged, last = parse(REFUSED)
    assert list(first) == list(last) == REFUSAL
    assert both(data, monkeypatch, tmp_path, capsys) == (1, [first, {**damaged, "payload": None}, last])
    assert both(data, monkeypatch, tmp_path, capsys, "--values")[1][1]["tensors"] is None


@pytest.mark.sampled(2)
@pytest.mark.parametrize("number", range(8))
def test_both_programs_print_all_vectors_alike(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], number: int
) -> None:
    """Each as a stream of its own. Elements with a tolerance differ in their last bits."""
    for one in vectors()[number::8]:
        exact = one.result == "ok" and not any(one.within) and sum(len(t[3]) for t in one.tensors) < 10_000
        options = "--values" if exact else "--verify"
        status, parts = both(one.data, monkeypatch, tmp_path, capsys, options)
        if one.limits or one.expected is not None or one.result == "LimitExceeded":
            continue
        if one.result == "ok":
            assert [part["payload"] for part in parts] == ["valid"], one.id
            assert status == 0
        elif one.data and one.code != "trailing":
            (part,) = parts
            assert f"{one.result} {one.code}: " in (part.get("refused"), part.get("payload")), one.id
            assert status == 1


def test_both_programs_print_all_streams_alike(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for stream in load_streams():
        status, parts = both(stream.data, monkeypatch, tmp_path, capsys)
        if stream.limits:
            continue
        outcome = stream.outcome
        if outcome.result != "ok":
            assert status == 1
            assert parts.pop()["refused"] == f"{outcome.result} {outcome.code}: ", stream.id
        sizes = [
            one["nbytes"] if "nbytes" in one else (one["application"], bytes.fromhex(one["body"]))
            for one in parts
        ]
        assert sizes == outcome.parts, stream.id
    assert both(b"", monkeypatch, tmp_path, capsys) == (0, [])


@pytest.mark.parametrize("number", [0x7F, 0x80, 0xFF])
@pytest.mark.parametrize("map", [0, 1, 2])
def test_private_codecs_are_refused_with_the_payload(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], number: int, map: int
) -> None:
    for row in (
        Row(0, 0, 9, 4, 1, number, 1, b"index", b"value", bytes(map), map),
        Row(0, 0, 9, 4, 1, 1, number, b"index", b"value", bytes(map), map),
    ):
        data = assemble([row])
        _, (found,) = both(data, monkeypatch, tmp_path, capsys, "--verify")
        private = row.value >= 0x80
        if number < 0x80:
            assert found["refused"].startswith("Unsupported "), found
        elif map == 0 or (private and map == 1):
            assert f"{number:#x}" in (found["entries"][0]["index"], found["entries"][0]["value"])
            assert found["payload"].startswith("Unsupported ")
        else:
            assert found["refused"] == "Unsupported map-codec: "


def test_the_first_row_that_fails_is_the_refusal_of_a_private_codec(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The private value codec may have any element type, and the index codec of a later entry comes first."""
    block = write_extension_block([Record(6, 1, struct.pack("<IHH", 0, 16, 0))])
    value, index = Row(0, 0, 9, 4, 14, 1, 0x80, b"index", b"value"), Row(1, 0, 9, 4, 1, 0x80, 1, b"i", b"v")
    for rows, code in (([value], "value-codec"), ([value, index], "index-codec")):
        data = bytearray(assemble(rows, block))
        data[-8] ^= 1  # row 45 would fail, too
        _, (found,) = both(bytes(data), monkeypatch, tmp_path, capsys, "--verify")
        assert found["payload"] == f"Unsupported {code}: "


def test_names_of_codecs_are_those_of_the_registry() -> None:
    tables = {"index": text_form.INDEX_NAMES, "value": text_form.VALUE_NAMES, "domain": text_form.TRANSFORMS}
    assert tables == {kind: {row["id"]: row["name"] for row in REGISTRY[kind]} for kind in tables}


def test_status_of_what_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "--json", str(tmp_path / "missing.wc")]) == 2
    assert capsys.readouterr().out == ""
    with pytest.raises(SystemExit) as ended:
        text_form.main(["--vales"])
    assert ended.value.code == 2


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


@pytest.mark.parametrize("options", [(), ("--verify",), ("--values",)])
@pytest.mark.parametrize("base", ["read", "unread"])
def test_fields_of_patches_are_those_of_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], base: str, options: tuple[str, ...]
) -> None:
    old = {"w": np.zeros(9, "f4"), "gone": np.ones(2, "f4"), "kept": np.ones(3, "f4")}
    new = {"w": np.arange(9, dtype="f4"), "added": np.ones(2, "f4"), "kept": old["kept"]}
    data = wc.diff(old, new, base=base).tobytes() + wc.diff(new, old, base=base).tobytes()
    first, second = json.loads(show(data, tmp_path, capsys, *options))
    for part in (first, second):
        assert list(part) == (OF_PATCHES if options == ("--values",) else OF_PATCHES[:-1])
        assert list(part["patch"]) == PATCH
        assert (part["payload"], part.get("tensors")) == (None, None)
    assert first["patch"]["target"] == second["patch"]["base"]
    assert len(first["patch"]["target"]) == (16 if base == "read" else 0)
    assert first["patch"]["after"] == second["patch"]["before"] | second["patch"]["removed"]


@pytest.mark.parametrize("number", range(12))
def test_both_programs_print_patches_alike(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], number: int
) -> None:
    """Valid ones, damaged ones, and the types and ids of patches in containers that are none."""
    old, new = states(number)
    valid = wc.diff(old, new, base=("read", "unread")[number % 2]).tobytes()
    status, (part,) = both(valid, monkeypatch, tmp_path, capsys, "--values")
    assert (status, part["payload"], part["patch"]["touched"]) == (0, None, bool(number % 2))
    record = write_extension_block([Record(11, 0, bytes(24))])
    rows = [
        Row(0, 0, 2, 1, 1, index, value, bytes(2), bytes(4)) for index, value in ((12, 1), (1, 16), (1, 1))
    ]
    false = [assemble([row], record) for row in rows]
    stream = b"".join([*false, *(one for one in mutants(number, 60)[1] if cut(one) == [one])])
    status, parts = both(stream, monkeypatch, tmp_path, capsys)
    refusals = [str(part.get("refused", "shown")).split(":")[0] for part in parts]
    assert refusals[:3] == ["Unsupported index-codec", "Unsupported value-codec", "shown"]
    assert parts[2]["records"] == [{"type": 11, "body": bytes(24).hex()}]
    assert len({*refusals}) > 5


def cut(data: bytes) -> list[bytes]:
    """Return the containers of a stream, or nothing if it is refused."""
    try:
        return [bytes(part) for part in wc.iter_blobs(data)]
    except wc.WireError:
        return []


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
