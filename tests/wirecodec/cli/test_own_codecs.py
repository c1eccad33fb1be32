"""Codecs of one's own on the command line, and containers whose codecs are not known."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import wirecodec as wc
from wirecodec.arrays import Array
from wirecodec.cli.main import main
from wirecodec.container.writer import PREFIX_BYTES, TABLE, header_checksum

ROOT = Path(__file__).parents[3]
MODULE = """
from dataclasses import dataclass
import numpy as np
import wirecodec as wc


@wc.register
@dataclass(frozen=True)
class Halves:
    name = "halves"
    wire_id = 0x85
    carries_nonfinite = False

    def encode(self, values, stream):
        return values.astype(np.float16).view(np.uint8)

    @classmethod
    def decode(cls, section, r, dtype, limits):
        if section.size != 2 * r:
            raise wc.Malformed("halves-length", "length")
        return section.view(np.float16).astype(dtype)
"""
SCHEME = "nonzero | rice | halves"


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from wirecodec.cli.main import run; run()", *words],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "WIRECODEC_QUIET": "1", "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


def test_commands_import_modules_of_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "halves.py").write_text(MODULE)
    np.savez(tmp_path / "x.npz", **{"layer/a": np.arange(5, dtype="f4").reshape(1, 5), "b": np.ones(7, "f4")})
    own = ("--import", "halves")
    done = run(tmp_path, "encode", "x.npz", *own, "--scheme", SCHEME, "-o", "x.wc")
    assert (done.returncode, done.stderr) == (0, "")
    assert run(tmp_path, "decode", "x.wc", *own, "-o", "y.npz").returncode == 0
    with np.load(tmp_path / "y.npz") as arrays:
        assert arrays["layer/a"].tolist() == [[0, 1, 2, 3, 4]]
    assert run(tmp_path, "verify", "x.wc", *own).returncode == 0
    table = run(tmp_path, "compare", "x.npz", SCHEME, "--seconds", "0", *own).stdout
    assert SCHEME in table
    shown = run(tmp_path, "inspect", "x.wc", "--verify")
    assert shown.returncode == 1
    assert "Unsupported value-codec" in shown.stdout
    assert "--import MODULE" in shown.stdout
    rows = [line.split() for line in shown.stdout.splitlines() if line.startswith(("b ", "layer/a "))]
    assert [(row[0], row[1], row[3], row[-3]) for row in rows] == [
        ("b", "7", "7", "0x85"),
        ("layer/a", "1×5", "4", "0x85"),
    ]
    assert "halves" in run(tmp_path, "inspect", "x.wc", *own).stdout
    for name, message in (("missing_module", "ModuleNotFoundError"), ("broken", "ZeroDivisionError")):
        (tmp_path / "broken.py").write_text("1 / 0")
        done = run(tmp_path, "verify", "x.wc", "--import", name)
        assert done.returncode == 2
        assert done.stderr.startswith(f"wirecodec: --import {name}: {message}: ")
        assert done.stderr.count("\n") == 1
    done = run(tmp_path, "verify", "x.wc", "--import", "halves.py")
    assert done.returncode == 2
    assert "not of a file: --import halves, in" in done.stderr


def with_id(blob: Array, field: str, wire_id: int) -> Array:
    """Return a container of one entry with another codec in its table."""
    data = blob.copy()
    stop = PREFIX_BYTES + TABLE.itemsize
    data[PREFIX_BYTES:stop].view(TABLE)[field] = wire_id
    checksum = header_checksum(data[:PREFIX_BYTES].tobytes(), data[PREFIX_BYTES:stop].tobytes(), b"")
    data[12:16] = np.frombuffer(checksum.to_bytes(4, "little"), np.uint8)
    return data


@pytest.mark.parametrize(("field", "code"), [("index", "index-codec"), ("value", "value-codec")])
def test_only_private_ids_are_described(field: str, code: str) -> None:
    """Ids below 0x80 are those of a later standard, whose lengths and maps nothing here can check."""
    blob = wc.encode(np.arange(5, dtype="f4"), "nonzero | rice | raw")
    with pytest.raises(wc.Unsupported) as error:
        wc.inspect(with_id(blob, field, 0x7F), private=True)
    assert error.value.code == code
    private = with_id(blob, field, 0x91)
    with pytest.raises(wc.Unsupported):
        wc.inspect(private)
    (entry,) = wc.inspect(private, private=True).entries
    assert (getattr(entry, field), entry.nnz, entry.value_bytes) == ("0x91", 4, 16)


def test_warnings_are_one_line(tmp_path: Path) -> None:
    """A budget per tensor that small tensors exceed gives a warning."""
    np.savez(tmp_path / "x.npz", **{f"{n}": np.arange(1, 20, dtype="f4") for n in range(9)})
    done = run(
        tmp_path, "encode", "x.npz", "--scheme", "budget(0.1) | rice | error-bounded", "-q", "-o", "x.wc"
    )
    assert done.returncode == 0
    assert done.stderr.startswith("warning: ")
    assert done.stderr.count("\n") == 1
    assert ".py" not in done.stderr


def test_the_command_leaves_the_format_of_warnings(tmp_path: Path) -> None:
    before = warnings.formatwarning
    assert main(["verify", str(tmp_path / "missing")]) == 2
    assert warnings.formatwarning is before
