"""The command line, run as a user runs it."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import wirecodec as wc
from wirecodec.cli import main

X = np.where(np.arange(1000) % 9 == 0, np.arange(1000) - 500.0, 0).astype(np.float32).reshape(10, 100)

AT_1_GBIT = ("--bandwidth", "1Gbit", "--ranks", "4")


def npy(shape: str) -> bytes:
    """A .npy of float32 without elements, whose header says this shape."""
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}\n".replace("10**30", str(10**30))
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()


@pytest.fixture
def grad(tmp_path: Path) -> Path:
    np.save(tmp_path / "grad.npy", X)
    return tmp_path / "grad.npy"


def test_encode_inspect_decode(grad: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "g.wc"
    assert main(["encode", str(grad), "--scheme", "topk(0.05) | rice | raw", "-o", str(out)]) == 0
    assert out.read_bytes() == wc.encode(X, "topk(0.05) | rice | raw").tobytes()
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
        (["inspect", "grad.npy"], ": grad.npy: magic: "),
        (["inspect", "empty"], ": empty: the file is empty"),
        (["decode", "short.wc", "-o", "x.npy"], ": short.wc: container: "),
        (["encode", "grad.npy", "--scheme", "topk(0.1) | rcie | raw", "-o", "x.wc"], "did you mean 'rice'"),
        (["encode", "int.npy", "-o", "x.wc"], ": int.npy: dtype int64 is not carried"),
        (["encode", "object.npy", "-o", "x.wc"], ": object.npy: the array holds Python objects; save it as"),
        (["encode", "object.npz", "-o", "x.wc"], ": object.npz: the array holds Python objects"),
        (["stats", "short.wc"], ": short.wc: this is a container; wirecodec decode converts it"),
        (
            ["encode", "nan.npy", "--scheme", "topk(0.1) | rice | raw", "-o", "x.wc"],
            ": nan.npy: element 3: topk cannot carry nan",
        ),
        (["encode", "empty", "-o", "x.wc"], ": empty: the file is no .npy, .npz or .safetensors"),
        (["encode", "grad.npy", "-o", "grad.npy"], "'grad.npy' ends in .npy, but encode writes a container"),
        (["decode", "good.wc", "-o", "g.txt"], "'g.txt' must end in .npy or .npz"),
        (["decode", "good.wc", "-o", "g"], "'g' must end in .npy or .npz"),
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


def test_bench(grad: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scheme = "topk(0.05) | rice | raw"
    assert main(["bench", str(grad), "--scheme", scheme]) == 0
    page = capsys.readouterr().out
    assert page.startswith(f"grad.npy: 1,000 elements, 4,000 bytes; {scheme}\n")
    stages = [line.split()[0] for line in page.splitlines()[1:6]]
    assert stages == ["stage", "select", "encode", "decode", "np.copyto"]
    assert f"{wc.encode(X, scheme).nbytes} bytes, ratio" in page
    assert "; 50 elements stored" in page
    for words in (["--preset", "dgc(ratio=0.02)"], ["--scheme", "dgc(ratio=0.02)"]):
        assert main(["bench", str(grad), *words]) == 0
        assert f"; {wc.preset('dgc', ratio=0.02)}\n" in capsys.readouterr().out
    np.savez(tmp_path / "model.npz", a=X, b=X[0])
    assert main(["bench", str(tmp_path / "model.npz")]) == 0
    page = capsys.readouterr().out
    assert page.startswith("model.npz: 2 tensors, 1,100 elements, 4,400 bytes; nonzero | auto-index | raw\n")


def test_bench_of_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = {"a": X, "b": X[0], "h": X.astype(np.float16)}
    np.savez(tmp_path / "model.npz", **model)
    scheme = "topk(0.05) | rice | raw"
    monitored = ["bench", str(tmp_path / "model.npz"), "--scheme", scheme]
    assert main(monitored) == 0
    page = capsys.readouterr().out.splitlines()
    rows = [line[:15].strip() for line in page[2:-1]]
    assert set(rows) == {"encode_many", "decode_add", "Compressor step", "np.copyto", "np.add"}
    assert main([*monitored, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["file"], found["tensors"], found["elements"]) == ("model.npz", 3, 2100)
    assert found["bytes"] == wc.encode_many(model, scheme).nbytes
    vectors = {"0": np.append(X, X[0]), "1": X.astype(np.float16).reshape(-1)}
    assert found["flat_bytes"] == wc.encode_many(vectors, scheme).nbytes
    assert {stage["threads"] for stage in found["stages"]} <= {1, 2}
    assert all(stage["model"] > 0 and stage["flat"] > 0 for stage in found["stages"])


def test_bench_prints_json_of_one_tensor(grad: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", str(grad), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["tensors"], found["elements"], found["bytes"]) == (1, 1000, wc.encode(X).nbytes)
    assert [stage["stage"] for stage in found["stages"]] == ["select", "encode", "decode_add"]


def test_safetensors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "model.safetensors"
    try:
        from safetensors.numpy import save_file
    except ImportError:
        header = b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
        file.write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
        assert main(["bench", str(file)]) == 2
        assert "pip install safetensors" in capsys.readouterr().err
    else:
        save_file({"a": X, "b": X[0].copy()}, file)
        assert main(["bench", str(file)]) == 0
        assert "model.safetensors: 2 tensors, 1,100 elements" in capsys.readouterr().out


class Terminal(io.StringIO):
    """A stream that somebody watches."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("bar", [True, False])
def test_long_work_shows_how_far_it_got(
    grad: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], bar: bool
) -> None:
    if bar:
        pytest.importorskip("rich")
    else:
        monkeypatch.setitem(sys.modules, "rich.console", None)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert main(["bench", str(grad)]) == 0
    assert "measuring" in terminal.getvalue()
    if not bar:
        line, end = terminal.getvalue().rsplit("\r", 2)[::2]
        assert line.startswith("\rmeasuring …   0 %\rmeasuring … ")
        assert end == ""  # the line was erased
    assert "measuring" not in capsys.readouterr().out


@pytest.mark.parametrize("bar", [True, False])
def test_ctrl_c_during_progress_is_one_line(grad: Path, monkeypatch: pytest.MonkeyPatch, bar: bool) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    if bar:
        pytest.importorskip("rich")
    else:
        monkeypatch.setitem(sys.modules, "rich.console", None)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr("wirecodec.cli.bench.measure", interrupt)
    assert main(["bench", str(grad)]) == 130
    assert terminal.getvalue().endswith("wirecodec: interrupted\n")
    assert "Traceback" not in terminal.getvalue()


def test_ctrl_c_ends_the_process_by_its_signal() -> None:
    """A shell then reports 130, and stops its own loop; the interpreter does not wait for its threads."""
    code = (
        "import importlib, threading\n"
        "m = importlib.import_module('wirecodec.cli.main')\n"
        "threading.Thread(target=threading.Event().wait).start()\n"
        "m.main = lambda: 130\n"
        "m.run()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, b"", b"")


def test_advise(grad: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Over a slow network the smaller of two encodings is the faster, whatever this machine is doing."""
    picture = tmp_path / "picture.png"
    schemes = ["--scheme", "all | raw-index | raw", "--scheme", "topk(0.05) | rice | raw"]
    network = ["--bandwidth", "1kbit", "--ranks", "4", "--latency", "0"]
    assert main(["advise", str(grad), *network, *schemes, "--png", str(picture)]) == 0
    page = capsys.readouterr().out
    assert page.startswith("grad.npy: 1,000 elements; 4 ranks at 1 kbit/s, 0 µs per message\n")
    header, first, second = page.splitlines()[1:4]
    dense, pick, pays = page.splitlines()[9:12]
    assert header.split()[:3] == ["scheme", "error", "ratio"]
    assert first.startswith("*  topk(0.05) | rice | raw ")
    assert " allgather " in first
    assert second.startswith("   all | raw-index | raw ")
    assert " narrow " in second
    assert dense.startswith("dense all-reduce of 4,000 bytes: 48 s, 48 s of it sending")
    assert pick.startswith("* is the fastest with an error of at most 0.95: topk(0.05) | rice | raw, ")
    assert pays.startswith("1 of 2 schemes pays.")
    assert "\nallgather: all-gather of the encodings; every rank decodes and sums them\nnarrow: " in page
    assert "\ndecoded: " not in page
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert main(["advise", str(grad), *network, *schemes, "--max-error", "0"]) == 0
    assert capsys.readouterr().out.splitlines()[2].startswith("*  all | raw-index | raw ")


def test_advise_without_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    scheme = ["--scheme", "topk(0.05) | rice | raw"]
    assert main(["advise", "--elements", "2k", *AT_1_GBIT, *scheme]) == 0
    page = capsys.readouterr().out
    assert page.startswith("synthetic gradient (Laplace, float32): 2,000 elements; 4 ranks")
    assert main(["advise", "--elements", "25M", *AT_1_GBIT, *scheme]) == 0
    page = capsys.readouterr().out
    assert page.startswith(
        "synthetic gradient (Laplace, float32, scaled from 4,194,304): 25,000,000 elements"
    )
    assert "dense all-reduce of 100,000,000 bytes" in page


def test_advise_knows_of_other_numbers_of_ranks(grad: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """So slow a network that 1 % of the elements, gathered from 128 ranks, takes as long as all summed up."""
    assert main(["advise", "--bandwidth", "1kbit", str(grad), "--scheme", "topk(0.01) | rice | raw"]) == 0
    page = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert page[0][2:6] == ["elements;", "8", "ranks", "at"]
    at = page.index(["ranks", "schemes", "that", "pay", "speed-up", "fastest", "within", "the", "bound"])
    rows = page[at + 1 : at + 8]
    assert [row[0] for row in rows] == ["2", "4", "8", "16", "32", "64", "128"]
    assert [row[1] for row in rows] == ["1", "1", "1", "1", "1", "0", "0"]
    gains = [float(row[2]) for row in rows]
    assert gains == sorted(gains, reverse=True)


def test_advise_tries_schemes_of_its_own(
    grad: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        "wirecodec.cli.advise_prediction.COMMON", ("topk(0.1) | bitmap | raw", "dgc(index=rice)")
    )
    assert main(["advise", str(grad), *AT_1_GBIT]) == 0
    page = capsys.readouterr().out
    assert "topk(0.1) | bitmap | raw" in page
    assert "dgc(0.001) | rice | raw" in page


def test_installed_command_answers() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "wirecodec", "--help"], capture_output=True, text=True, check=True
    )
    assert "inspect" in done.stdout
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
