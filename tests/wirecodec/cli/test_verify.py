"""``wirecodec verify``."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import wirecodec as wc
from tests.golden import vectors
from wirecodec.cli import main

X = np.where(np.arange(1000) % 9 == 0, np.arange(1000) - 500.0, 0).astype(np.float32).reshape(10, 100)


def verified(capsys: pytest.CaptureFixture[str], *files: Path) -> tuple[int, list[dict[str, object]]]:
    status = main(["verify", "--json", *map(str, files)])
    return status, [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_verify_says_what_is_wrong_and_where(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blob = wc.encode_many({"a": X, "b": X[0]}, "nonzero | rice | raw").tobytes()
    good, bad, cut, empty = (tmp_path / name for name in ("good.wc", "bad.wc", "cut.wc", "empty.wc"))
    good.write_bytes(blob * 3)
    bad.write_bytes(blob + blob[:-9] + b"!" + blob[-8:])
    cut.write_bytes(blob + blob[:-1])
    empty.write_bytes(b"")
    assert verified(capsys, good) == (
        0,
        [{"file": str(good), "containers": 3, "bytes": 3 * len(blob)}],
    )
    status, (said,) = verified(capsys, bad)
    assert status == 1
    assert (said["kind"], said["code"]) == ("ChecksumMismatch", "entry-checksum")
    assert (said["container"], said["entry"]) == (1, 1)
    assert len(blob) < said["offset"] < 2 * len(blob)
    status, verdicts = verified(capsys, good, cut, empty)
    assert status == 1
    assert [v.get("code") for v in verdicts] == [None, "container", "prefix"]
    assert [v["containers"] for v in verdicts] == [3, 1, 0]
    assert main(["verify", str(good), str(bad)]) == 1
    first, second = capsys.readouterr().out.splitlines()
    assert first.endswith(f"good.wc: valid, 3 containers, {3 * len(blob):,} bytes")
    assert (
        "ChecksumMismatch entry-checksum: the entry's checksum does not match (container 1, entry 1" in second
    )


def test_a_missing_file_does_not_hide_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad, missing = (str(tmp_path / name) for name in ("good.wc", "bad.wc", "missing.wc"))
    Path(good).write_bytes(wc.encode(X).tobytes())
    Path(bad).write_bytes(b"bad")
    assert main(["verify", missing, good, bad]) == 2
    captured = capsys.readouterr()
    assert captured.err == f"wirecodec: {missing}: No such file or directory\n"
    assert [line.split(": ")[0] for line in captured.out.splitlines()] == [good, bad]
    status, reports = verified(capsys, *map(Path, (missing, good, bad)))
    assert status == 2
    assert [report.get("kind") for report in reports] == ["FileNotFoundError", None, "Truncated"]
    assert "code" not in reports[0]


@pytest.mark.parametrize("vector", ["names", "index-range"])
def test_verify_agrees_with_the_golden_vectors(
    vector: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = next(v for v in vectors() if vector in (v.id, v.code))
    (tmp_path / "v.wc").write_bytes(found.data)
    status, (said,) = verified(capsys, tmp_path / "v.wc")
    assert status == (found.result != "ok")
    assert said.get("code") == found.code
