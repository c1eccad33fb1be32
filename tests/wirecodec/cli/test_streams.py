"""The command line on standard input and output, and on files that are named like them."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest

import wirecodec as wc
from wirecodec.cli import main

X = np.where(np.arange(1000) % 9 == 0, np.arange(1000) - 500.0, 0).astype(np.float32).reshape(10, 100)
SCHEME = "topk(0.05) | rice | raw"


def npy(**arrays: np.ndarray) -> bytes:
    out = io.BytesIO()
    if arrays:
        np.savez(out, **arrays)
    else:
        np.save(out, X)
    return out.getvalue()


Run: TypeAlias = Callable[..., tuple[int, bytes, str]]


class Pipe(io.BytesIO):
    """Bytes that cannot be read twice."""

    def seekable(self) -> bool:
        return False

    def seek(self, *_: object) -> int:
        raise io.UnsupportedOperation("seek")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Run a subcommand on bytes; return its exit code, standard output, and standard error."""

    def run(data: bytes, *arguments: str) -> tuple[int, bytes, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(Pipe(data)))
        with open(os.dup(1), "w") as stdout:  # the real one, which pytest replaced
            monkeypatch.setattr(sys, "stdout", stdout)
            status = main(arguments)
        captured = capfdbinary.readouterr()
        return status, captured.out, captured.err.decode()

    return run


def test_encode_and_decode_are_filters(run: Run, tmp_path: Path) -> None:
    blob = wc.encode(X, SCHEME).tobytes()
    assert run(npy(), "encode", "-", "--quiet", "--scheme", SCHEME, "-o", "-") == (0, blob, "")
    sizes = f"4,000 bytes; container: {len(blob)} bytes, ratio {4000 / len(blob):.4g}\n"
    status, out, error = run(npy(), "encode", "-", "--scheme", SCHEME, "-o", "-")
    assert (status, out, error) == (0, blob, f"standard input: 1,000 elements, {sizes}")
    status, out, _ = run(blob, "decode", "-", "-o", "-")
    assert status == 0
    assert np.array_equal(np.load(io.BytesIO(out)), wc.decode(blob).to_dense())
    status, out, _ = run(npy(a=X, b=X[0]), "encode", "-", "-o", "-")
    assert (status, out) == (0, wc.encode_many({"a": X, "b": X[0]}).tobytes())
    status, out, _ = run(out, "decode", "-", "-o", "-")  # several tensors: an .npz
    with np.load(io.BytesIO(out)) as arrays:
        assert {name: arrays[name].tolist() for name in arrays} == {"a": X.tolist(), "b": X[0].tolist()}
    assert run(blob, "decode", "-", "-o", str(tmp_path / "x.npy"))[0] == 0


def test_pages_of_standard_input(run: Run) -> None:
    blob = wc.encode(X, SCHEME).tobytes()
    assert run(blob, "inspect", "-")[1].startswith(b"wirecodec 1.0")
    assert run(blob * 2, "verify", "-")[1].startswith(b"standard input: valid, 2 containers")
    assert run(blob, "verify", "--json", "-")[1].startswith(b'{"file": "-", "containers": 1')
    assert run(npy(), "stats", "-")[1].startswith(b"standard input: 1,000 elements")
    assert run(npy(), "bench", "-", "--scheme", SCHEME)[1].startswith(b"standard input: 1,000 elements")
    advise = ["advise", "-", "--bandwidth", "1Gbit", "--ranks", "2", "--scheme", SCHEME]
    assert run(npy(), *advise)[1].startswith(b"standard input: 1,000 elements")


def test_errors_of_standard_input_name_it(run: Run) -> None:
    assert run(b"", "inspect", "-") == (2, b"", "wirecodec: standard input: the file is empty\n")
    assert run(b"x" * 99, "stats", "-")[2] == (
        "wirecodec: standard input: the file is no .npy, .npz or .safetensors\n"
    )
    assert run(b"x" * 99, "verify", "-")[:2][0] == 1


@pytest.mark.parametrize("command", [["stats"], ["advise", "--bandwidth", "1Gbit", "--scheme", SCHEME]])
def test_a_picture_on_standard_output_moves_the_page_to_standard_error(run: Run, command: list[str]) -> None:
    status, out, error = run(npy(), command[0], "-", *command[1:], "--png", "-")
    assert status == 0
    assert out.startswith(b"\x89PNG")
    assert error.startswith("standard input: 1,000 elements")


def test_bytes_do_not_go_to_a_terminal(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wirecodec.cli.output.find_stream", lambda _: Terminal())
    status, out, error = run(npy(), "encode", "-", "-o", "-")
    assert (status, out) == (2, b"")
    assert "standard output is a terminal" in error


class Terminal(io.BytesIO):
    def isatty(self) -> bool:
        return True


def test_a_file_may_be_called_minus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", X)
    assert main(["encode", "x.npy", "-o", "./-"]) == 0
    assert main(["verify", "./-"]) == 0
    assert Path("-").read_bytes() == wc.encode(X).tobytes()


def test_a_fifo_is_read_once(tmp_path: Path) -> None:
    """Such as ``<(command)`` in a shell."""
    (tmp_path / "x.npy").write_bytes(npy())
    os.mkfifo(tmp_path / "fifo")
    with subprocess.Popen(["cp", tmp_path / "x.npy", tmp_path / "fifo"]) as writer:
        assert main(["encode", str(tmp_path / "fifo"), "-o", str(tmp_path / "x.wc")]) == 0
    assert writer.returncode == 0
    assert (tmp_path / "x.wc").read_bytes() == wc.encode(X).tobytes()


def test_closed_streams_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in ``wirecodec … <&- >&-``."""
    monkeypatch.setattr(sys, "stdin", None)
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["inspect", "-"]) == 2
    np.save(tmp_path / "x.npy", X)
    assert main(["encode", str(tmp_path / "x.npy"), "-o", "-"]) == 2


def test_inspect_tells_whether_payloads_were_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    blob = bytearray(wc.encode(X, SCHEME).tobytes())
    sound, damaged = tmp_path / "sound.wc", tmp_path / "damaged.wc"
    sound.write_bytes(blob)
    blob[-1] ^= 1
    damaged.write_bytes(blob)
    for path in (sound, damaged):
        assert main(["inspect", str(path)]) == 0
        assert capsys.readouterr().out.endswith("payloads: not checked; inspect --verify checks them\n")
    assert main(["inspect", "--verify", str(sound)]) == 0
    assert capsys.readouterr().out.endswith("payload: valid\n")
    assert main(["inspect", "--verify", str(damaged)]) == 1
    page = capsys.readouterr().out
    assert page.startswith("wirecodec 1.0")
    assert "payload: ChecksumMismatch entry-checksum: " in page
    cut = tmp_path / "cut.wc"
    cut.write_bytes(blob + bytes(30))
    assert main(["inspect", str(cut)]) == 1
    *page, stop, hint = capsys.readouterr().out.splitlines()
    assert page[0].startswith("wirecodec 1.0")
    assert stop.startswith(f"stream refused at byte {len(blob)}: Malformed magic: these bytes are no ")
    assert hint.startswith("payloads: not checked")
    assert main(["inspect", "--json", "--verify", str(damaged)]) == 1
    assert '"payload": "ChecksumMismatch' in capsys.readouterr().out
