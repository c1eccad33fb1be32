"""Streams: the reference and the library split the vectors alike, as formats/spec/stream.md says."""

from __future__ import annotations

import io
import json
import re
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import wirecodec as wc
from formats import conformance, make_vectors, program, reference, streams
from formats.reference import stream
from tests.formats.test_isolated import Fault, break_function
from tests.formats.test_vectors import FORMATS

VECTORS = [json.loads(path.read_text()) for path in sorted((make_vectors.VECTORS / "streams").glob("*.json"))]
PAGE = FORMATS / "spec" / "stream.md"


def parts_of(split: Callable[[], Any]) -> tuple[list[Any], str, str | None]:
    """Return the parts of a stream, and the kind and the code of the refusal."""
    parts: list[Any] = []
    try:
        for part in split():
            if isinstance(part, wc.Unit | stream.Unit):
                parts.append({"application": part.application, "body": part.body.hex()})
            else:
                parts.append({"container": len(part)})
    except (wc.WireError, reference.WireError) as error:
        return parts, type(error).__name__, error.code
    return parts, "ok", None


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: v["id"])
def test_both_split_the_vectors(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"] if isinstance(vector["hex"], str) else "".join(vector["hex"]))
    limits = vector.get("limits", {})
    allowed = wc.DecodeLimits(**limits)
    wanted = vector["parts"], vector["result"], vector.get("code")
    assert parts_of(lambda: stream.split(data, reference.Limits(**limits))) == wanted
    assert parts_of(lambda: wc.iter_stream(data, limits=allowed)) == wanted
    assert parts_of(lambda: wc.iter_stream(io.BytesIO(data), limits=allowed)) == wanted
    split = streams.reference_of(streams.CONTAINERS)
    (loaded,) = (each for each in streams.load_streams() if each.id == vector["id"])
    assert streams.check_stream(split, loaded, streams.CONTAINERS) is None
    skipped = [part for part in vector["parts"] if "container" in part]
    for source in (data, io.BytesIO(data)):
        found = parts_of(lambda source=source: wc.iter_blobs(source, limits=allowed))  # type: ignore[misc]
        if wanted[2] in ("unit-checksum", "unit-padding"):  # a reader that skips does not check the content
            assert found[1:] == ("ok", None)
        else:
            assert found == (skipped, *wanted[1:])


SPLIT, UNIT, BODY = "stream: split", "stream: _check_unit", "stream: _read_body"
FAULTS: tuple[Fault, ...] = (
    (SPLIT, "len(rest) < PREFIX_BYTES", "len(rest) < 4", "prefix-unit"),
    (SPLIT, "magic not in (MAGIC, UNIT_MAGIC)", "magic[:3] != MAGIC[:3]", "magic magic-unit"),
    (SPLIT, "_check_container(rest, limits)", "pass", "major flags truncated max-bytes-container"),
    (SPLIT, "if units_read:", "if False:", "unit unit-empty parts unit-checksum unit-padding"),
    (SPLIT, "at += total_len", "return", "containers parts magic truncated max-bytes"),
    (UNIT, "total_len > limits.max_bytes", "total_len >= limits.max_bytes", "max-bytes-met"),
    (UNIT, "total_len > limits.max_bytes", "False", "max-bytes max-bytes-first"),
    (UNIT, "total_len != PREFIX", "total_len < PREFIX", "unit-length-more"),
    (UNIT, "pad8(body_len)", "-body_len % 4", "unit parts"),
    (UNIT, "len(rest) < total_len", "len(rest) < PREFIX_BYTES", "unit-truncated unit-truncated-body"),
    (BODY, "zlib.crc32(unit[:12])", "zlib.crc32(unit[:4])", "unit unit-8 unit-padding"),
    (BODY, "if any(unit[end:])", "if unit[-1]", "unit-padding-first"),
)
"""Faults of a splitter that returns units, and the vectors that the conformance program then reports."""


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_splitter_fails(monkeypatch: pytest.MonkeyPatch, fault: Fault) -> None:
    *change, ids = fault
    break_function(monkeypatch, *change)
    failures = {failure.id for failure in streams.run_streams(streams.reference_of(streams.UNITS))}
    assert {f"stream-{id}" for id in ids.split()} <= failures


def test_a_splitter_that_skips_is_not_one_that_returns_units() -> None:
    kinds = streams.UNITS, streams.CONTAINERS
    for kind, other in (kinds, kinds[::-1]):
        failures = {f.id for f in streams.run_streams(streams.reference_of(kind), kind=other)}
        assert {"stream-unit", "stream-parts", "stream-unit-checksum"} <= failures
        assert "stream-containers" not in failures


def test_skipped_rows_end_their_vectors() -> None:
    """``expected_of`` relies on it: a splitter that skips the damaged unit finds nothing after it."""
    for each in streams.load_streams():
        if each.outcome.code in streams.NOT_SKIPPED:
            sizes = [part if isinstance(part, int) else 0 for part in each.outcome.parts]
            assert all(sizes)
            (total,) = struct.unpack_from("<Q", each.data, sum(sizes) + 16)
            assert sum(sizes) + total == len(each.data)


@pytest.mark.parametrize("kind", [streams.UNITS, streams.CONTAINERS])
def test_the_conformance_program_runs_streams(
    kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert conformance.main(["--streams", kind]) == 0
    assert f"{len(VECTORS)} of {len(VECTORS)} vectors pass" in capsys.readouterr().out
    (tmp_path / f"mine_{kind}.py").write_text(
        "from formats.streams import reference_of\ndef split(data, limits):\n    yield from "
        f"reference_of({kind!r})(data, limits)\ndef deaf(data, limits):\n    return iter(())\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert conformance.main(["--streams", kind, f"mine_{kind}:split"]) == 0
    assert conformance.main(["--streams", kind, f"mine_{kind}:deaf"]) == 1
    for id in ("parts", "unit-checksum", "max-bytes"):
        target = tmp_path / "streams" / f"stream-{id}.json"
        target.parent.mkdir(exist_ok=True)
        target.write_text((make_vectors.VECTORS / "streams" / target.name).read_text())
    arguments = ["--streams", kind, "--vectors", str(tmp_path), "--program"]
    assert conformance.main([*arguments, f"{sys.executable} -m formats.reference"]) == 0
    wrong = json.dumps(json.dumps({"result": "ok", "parts": []}))
    assert conformance.main([*arguments, f"{sys.executable} -c 'print({wrong})'"]) == 1
    assert conformance.main([*arguments, f"{sys.executable} -c 'raise SystemExit(3)'"]) == 1


def test_a_program_answers_as_the_page_says() -> None:
    unit = stream.write_unit(7, b"abc")
    split = streams.reference_of(streams.UNITS)
    found = program.answer_stream(split, unit + b"\0", '{"stream": "units"}')
    parts = [{"application": 7, "body": "616263"}]
    assert found == {"result": "Truncated", "code": "prefix", "parts": parts}
    assert program.answer_stream(split, unit, '{"limits": {"max_bytes": 31}}') == {
        "result": "LimitExceeded",
        "code": "max-bytes",
        "parts": [],
    }


def test_the_example_of_the_page() -> None:
    rows = re.findall(r"^    (\d+)  ((?:[0-9A-F]{2} )*[0-9A-F]{2})  ", PAGE.read_text(), re.MULTILINE)[:6]
    data = bytes.fromhex("".join(digits for _, digits in rows))
    assert wc.Unit(0, b"abc").to_bytes() == data
    (vector,) = (v for v in VECTORS if v["id"] == "stream-unit")
    assert bytes.fromhex(vector["hex"]) == data


def test_a_skipped_unit_is_not_held_in_memory() -> None:
    class Endless(io.RawIOBase):
        left = 2**32 + 24
        largest = 0

        def read(self, count: int = -1) -> bytes:
            self.largest = max(self.largest, count)
            taken, self.left = min(count, self.left), self.left - min(count, self.left)
            if self.left + taken == 2**32 + 24:
                head = b"\xf7WCU" + bytes(4) + (2**32 - 8).to_bytes(4, "little") + bytes(4)
                return head + (2**32 + 16).to_bytes(8, "little")
            return bytes(taken)

    source = Endless()
    with pytest.raises(wc.Truncated, match="prefix"):
        list(wc.iter_blobs(source, limits=wc.DecodeLimits(max_bytes=2**33)))  # 8 bytes after the unit
    assert source.largest <= 2**20


@pytest.mark.parametrize("arguments", [(-1, b""), (2**32, b"")])
def test_units_that_no_stream_can_hold(arguments: tuple[int, bytes]) -> None:
    with pytest.raises(ValueError, match="application"):
        wc.Unit(*arguments)


def test_a_body_has_fewer_bytes_than_its_length_can_say() -> None:
    class Long(bytes):
        length = 2**32 - 1

        def __len__(self) -> int:
            return self.length

    assert wc.Unit(1, Long()).nbytes == 2**32 + 24
    Long.length += 1
    with pytest.raises(ValueError, match="4294967296 bytes"):
        wc.Unit(1, Long())


def test_verify_counts_units(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from wirecodec.cli.main import main

    unit = wc.Unit(7, b"abc").to_bytes()
    (tmp_path / "stream.wc").write_bytes(unit + reference.write([])[:-1])
    assert main(["verify", "--json", str(tmp_path / "stream.wc")]) == 1
    assert json.loads(capsys.readouterr().out)["bytes"] == len(unit) == 32
