"""The command line, run as a user runs it."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import wirecodec as wc
from tests.wirecodec.cli.inputs import AT_1_GBIT, X
from wirecodec.cli import main


def npy(shape: str) -> bytes:
    """A .npy of float32 without elements, whose header says this shape."""
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}\n".replace("10**30", str(10**30))
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()


def test_encode_inspect_decode(grad: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "g.wc"
    assert main(["encode", str(grad), "--scheme", "topk(0.05) | rice | raw", "-o", str(out)]) == 0
    assert out.read_bytes() == wc.encode(X, "topk(0.05) | rice | raw").tobytes()
    size = out.stat().st_size
    assert capsys.readouterr().out == (
        f"grad.npy: 1,000 elements, 4,000 bytes; g.wc: {size} bytes, ratio {4000 / size:.4g}\n"
    )
    assert main(["encode", str(grad), "-q", "-o", str(tmp_path / "quiet.wc")]) == 0
    assert capsys.readouterr().out == ""
    assert main(["inspect", str(out)]) == 0
    table = capsys.readouterr().out
    assert "1 entry" in table
    assert "10×100" in table
    assert "rice" in table
    assert main(["inspect", "--json", str(out)]) == 0
    (info,) = json.loads(capsys.readouterr().out)
    assert info["entries"][0]["nnz"] == 50
    assert main(["decode", str(out), "-o", str(tmp_path / "back.npy")]) == 0
    assert np.array_equal(np.load(tmp_path / "back.npy"), wc.decode(out.read_bytes()).to_dense())


def test_encode_within_a_number_of_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    arrays = {
        "w": rng.laplace(size=(300, 200)).astype(np.float32),
        "b": rng.laplace(size=200).astype(np.float32),
    }
    np.save(tmp_path / "one.npy", arrays["w"])
    np.savez(tmp_path / "many.npz", **arrays)
    for name in ("one.npy", "many.npz"):
        assert main(["encode", str(tmp_path / name), "--bytes", "4kB", "-o", str(tmp_path / "x.wc")]) == 0
        assert 3800 <= (tmp_path / "x.wc").stat().st_size <= 4000
    wrong = ["encode", str(tmp_path / "one.npy"), "--bytes", "4kB", "--scheme", "topk(0.1) | rice | raw"]
    assert main([*wrong, "-o", str(tmp_path / "x.wc")]) == 2
    assert "--bytes needs a scheme with a budget" in capsys.readouterr().err


def test_many_tensors_and_streams(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "model.npz", a=X, b=X[0].astype(np.float16))
    out = tmp_path / "m.wc"
    assert main(["encode", str(tmp_path / "model.npz"), "-o", str(out)]) == 0
    assert main(["decode", str(out), "-o", str(tmp_path / "back.npy")]) == 2
    assert "holds 2 tensors" in capsys.readouterr().err
    assert main(["decode", str(out), "-o", str(tmp_path / "back.npz")]) == 0
    with np.load(tmp_path / "back.npz") as back:
        assert np.array_equal(back["a"], X)
        assert back["b"].dtype == np.float16
    out.write_bytes(out.read_bytes() * 2)
    assert main(["inspect", str(out)]) == 0
    assert capsys.readouterr().out.count("2 entries") == 2
    assert main(["decode", str(out), "-o", str(tmp_path / "back.npz")]) == 2
    assert "holds 2 containers" in capsys.readouterr().err


def test_names_from_strangers_do_not_reach_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m.wc").write_bytes(wc.encode_many({"\x1b[31mred\nFAKE": X}).tobytes())
    assert main(["inspect", str(tmp_path / "m.wc")]) == 0
    printed = capsys.readouterr().out
    assert "\\x1b[31mred\\nFAKE" in printed
    assert "\x1b" not in printed


def test_any_name_is_a_name(tmp_path: Path) -> None:
    tensors = {name: X[i] for i, name in enumerate(["file", "allow_pickle", "a/b", "ü", "arr_0"])}
    (tmp_path / "m.wc").write_bytes(wc.encode_many(tensors).tobytes())
    assert main(["decode", str(tmp_path / "m.wc"), "-o", str(tmp_path / "m.npz")]) == 0
    with np.load(tmp_path / "m.npz") as back:
        assert sorted(back) == sorted(tensors)
        assert all(np.array_equal(back[name], x) for name, x in tensors.items())


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["inspect", "missing.wc"], ": missing.wc: No such file"),
        (["inspect", "empty"], ": empty: the file is empty"),
        (["decode", "short.wc", "-o", "x.npy"], ": short.wc: container: "),
        (
            ["decode", "grad.npy", "-o", "x.npy"],
            ": grad.npy: magic: these bytes are no wirecodec container: ",
        ),
        (["decode", "junk.bin", "-o", "x.npy"], "prefix: 5 bytes are no wirecodec container; the prefix"),
        (["encode", "grad.npy", "--scheme", "topk(0.1) | rcie | raw", "-o", "x.wc"], "did you mean 'rice'"),
        (
            ["encode", "int.npy", "--scheme", "topk(0.1) | rice | raw", "-o", "x.wc"],
            ": int.npy: topk does not carry int64",
        ),
        (["encode", "object.npy", "-o", "x.wc"], ": object.npy: the array holds Python objects; save it as"),
        (["encode", "object.npz", "-o", "x.wc"], ": object.npz: tensor 'a': the array holds Python objects"),
        (["stats", "short.wc"], ": short.wc: this is a container; wirecodec decode converts it"),
        (
            ["encode", "nan.npy", "--scheme", "topk(0.1) | rice | raw", "-o", "x.wc"],
            ": nan.npy: element 3: topk cannot carry nan",
        ),
        (["encode", "empty", "-o", "x.wc"], ": empty: the file is no .npy, .npz or .safetensors"),
        (["encode", "grad.npy", "-o", "grad.npy"], "'grad.npy' ends in .npy, but the output is a container"),
        (["decode", "good.wc", "-o", "g.txt"], "'g.txt' must end in .npy, .npz or .safetensors"),
        (["decode", "good.wc", "-o", "g"], "'g' must end in .npy, .npz or .safetensors"),
        (["encode", "grad.npy", "--scheme", "topk(0.01)", "-o", "x.wc"], "as in 'topk(0.01) | rice | qsgd'"),
        (["encode", "grad.npy", "--scheme", "dcg(ratio=0.1)", "-o", "x.wc"], "did you mean 'dgc'?"),
        (["encode", "grad.npy", "--scheme", "dcg", "-o", "x.wc"], "'dcg' is neither a preset nor a scheme"),
        (["stats", "nan.npy"], ": nan.npy: element 3: stats cannot carry nan"),
        (["stats", "zeros.npy"], ": zeros.npy: 0 elements are not 0; stats needs 2"),
        (["bench", "int.npy"], ": int.npy: dtype int64 is not carried"),
        (
            ["bench", "nan.npy", "--scheme", "topk(0.1) | rice | raw"],
            ": nan.npy: element 3: topk cannot",
        ),
        (["bench", "none.npy"], "holds no elements"),
        (["bench", "grad.npy", "--scheme", "topk(0.1) | rcie | raw"], "did you mean 'rice'"),
        (["advise", "grad.npy", "--bandwidth", "10", "--ranks", "4"], "cannot read bandwidth '10'; write"),
        (["advise", "grad.npy", "--bandwidth", "1Gbit", "--ranks", "1"], "2 ranks or more"),
        (["advise", "grad.npy", *AT_1_GBIT, "--latency", "5"], "cannot read time '5'; write"),
        (["advise", "grad.npy", *AT_1_GBIT, "--scheme", "topk | rice | raw"], "either ratio or k"),
        (
            ["advise", "grad.npy", *AT_1_GBIT, "--scheme", "all | bitmap | raw", "--png", "no/x.png"],
            "No such file",
        ),
        (["advise", "missing.npy", *AT_1_GBIT], "No such file"),
        (["advise", *AT_1_GBIT], "either a file or --elements"),
        (["advise", "grad.npy", "--elements", "3", *AT_1_GBIT], "either a file or --elements"),
        (["advise", "--elements", "many", *AT_1_GBIT], "cannot read number 'many'; write 25M"),
        (["advise", "grad.npy", "--max-error", "nan", *AT_1_GBIT], "'nan' is not a number from 0 on"),
        (["codecs", "rcie"], "unknown codec 'rcie'; did you mean 'rice'?"),
        (["codecs", "deepreduce-both"], "is a preset: topk(0.01) | bloom(policy=p2) | polyfit"),
        (["advise", "none.npy", *AT_1_GBIT], "holds no elements"),
        (["stats", "grad.npy", "--png", "missing/x.png"], "No such file"),
        (["encode", "grad.npy", "-o", "missing/x.wc"], "No such file"),
    ],
)
def test_errors_are_one_line_and_exit_code_2(
    arguments: list[str],
    says: str,
    grad: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(grad.parent)
    np.save("int.npy", np.arange(3))
    np.save("nan.npy", np.array([1, 2, 3, np.nan]))
    np.save("zeros.npy", np.zeros(9))
    np.save("none.npy", np.zeros((0, 3)))
    np.save("object.npy", np.array([1.5, None]), allow_pickle=True)
    np.savez("object.npz", a=np.array([1.5, None]), allow_pickle=True)
    Path("good.wc").write_bytes(wc.encode(X).tobytes())
    Path("empty").write_bytes(b"")
    Path("junk.bin").write_bytes(b"junk\n")
    Path("short.wc").write_bytes(wc.encode(X).tobytes()[:-1])
    files = sorted(os.listdir())
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert says in captured.err
    assert captured.err.startswith("wirecodec: ")
    assert captured.err.count("\n") == 1
    assert sorted(os.listdir()) == files


def damaged_npz(*at: tuple[int, int, int]) -> bytes:
    """An .npz of one array, with a byte changed at (offset in the local head, in the directory, to what)."""
    out = io.BytesIO()
    np.savez(out, a=X)
    data = bytearray(out.getvalue())
    directory = data.rindex(b"PK\x01\x02")
    for local, central, byte in at:
        data[local] = data[directory + central] = byte
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"\x93NUMPY\x01\x00\x0c\x00{[]: 1}     \n", "unhashable"),
        (npy("(10**30,)"), "too large"),
        (npy("((((("), "EOF"),
        (npy("(9,)"), "could only read|cannot reshape"),  # newer NumPy; NumPy 2.2
        (damaged_npz((8, 10, 77)), "compression method is not supported"),
        (damaged_npz((6, 8, 1)), "encrypted"),
    ],
    ids=["header", "shape", "open", "short", "method", "encrypted"],
)
def test_damaged_arrays_are_one_line(
    data: bytes, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "grad.npz").write_bytes(data)
    for command in (["encode", "-o", str(tmp_path / "x.wc")], ["stats"], ["bench"]):
        assert main([command[0], str(tmp_path / "grad.npz"), *command[1:]]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.startswith("wirecodec: ")
        assert captured.err.count("\n") == 1
        assert re.search(says, captured.err)
    assert not (tmp_path / "x.wc").exists()


def test_installed_command_answers() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "wirecodec", "--help"], capture_output=True, text=True, check=True
    )
    assert "inspect" in done.stdout
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
