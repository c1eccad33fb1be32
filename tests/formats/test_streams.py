"""Streams: the reference and the library split the vectors alike, as formats/spec/stream.md says."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import wirecodec as wc
from formats import make_vectors, reference
from formats.reference import stream
from tests.formats.test_vectors import FORMATS, documented

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
    skipped = [part for part in vector["parts"] if "container" in part]
    for source in (data, io.BytesIO(data)):
        found = parts_of(lambda source=source: wc.iter_blobs(source, limits=allowed))  # type: ignore[misc]
        if wanted[2] in ("unit-checksum", "unit-padding"):  # a reader that skips does not check the content
            assert found[1:] == ("ok", None)
        else:
            assert found == (skipped, *wanted[1:])


def test_every_check_of_the_page_has_a_vector() -> None:
    assert documented(PAGE) <= {(v["result"], v.get("code")) for v in VECTORS}


def test_the_example_of_the_page() -> None:
    rows = re.findall(r"^    (\d+)  ((?:[0-9A-F]{2} )*[0-9A-F]{2})  ", PAGE.read_text(), re.MULTILINE)
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


def test_verify_counts_units(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from wirecodec.cli.main import main

    unit = wc.Unit(7, b"abc").to_bytes()
    (tmp_path / "stream.wc").write_bytes(unit + reference.write([])[:-1])
    assert main(["verify", "--json", str(tmp_path / "stream.wc")]) == 1
    assert json.loads(capsys.readouterr().out)["bytes"] == len(unit) == 32
