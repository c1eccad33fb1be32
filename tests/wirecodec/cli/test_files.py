"""The command line: names in .npz files, complete output or none, limits, and interrupted runs."""

from __future__ import annotations

import io
import os
import resource
import signal
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import wirecodec as wc
from formats.reference import Row, assemble
from wirecodec.cli import main
from wirecodec.cli.output import open_output

X = np.arange(1, 5, dtype=np.float32)
OLD = b"the result of yesterday"


def container(path: Path, *names: str) -> Path:
    path.write_bytes(wc.encode_many({name: X * i for i, name in enumerate(names, 1)}).tobytes())
    return path


def archive(path: Path, *members: str) -> Path:
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w") as file:
        warnings.simplefilter("ignore")  # of zipfile, about duplicates
        for member in members:
            data = io.BytesIO()
            np.save(data, X)
            file.writestr(member, data.getvalue())
    return path


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["a\0b", "a\0c"], r"tensor 'a\x00b' cannot be a member of an .npz: its name contains NUL"),
        (["n" * 65_532, "b"], "…nnn"),
        (["../../x"], "contains '..'"),
        (["a/../../x"], "contains '..'"),
        (["/etc/passwd"], "absolute path"),
        (["C:\\x"], "backslash"),
        (["C:/x"], "absolute path"),
        (["a", "a.npy"], "'a' and 'a.npy' cannot be in one .npz"),
    ],
)
def test_names_that_an_npz_cannot_keep_are_refused(
    names: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.npz"
    assert main(["decode", str(container(tmp_path / "m.wc", *names)), "-o", str(out)]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1
    assert len(error) < 300
    assert not out.exists()


def test_other_names_come_back(tmp_path: Path) -> None:
    names = ["a/b", "w:0", "..x", "x..", "a.npy", "", "n" * 65_531, "ü\n"]
    source, npz, again = (tmp_path / name for name in ("m.wc", "m.npz", "again.wc"))
    container(source, *names)
    assert main(["decode", str(source), "-o", str(npz)]) == 0
    with np.load(npz) as arrays:
        assert {name: arrays[name].tolist() for name in arrays} == {
            name: (X * i).tolist() for i, name in enumerate(names, 1)
        }
    assert main(["encode", str(npz), "-o", str(again)]) == 0
    assert again.read_bytes() == source.read_bytes()


@pytest.mark.parametrize(
    ("members", "says"),
    [
        (["a.npy", "a.npy"], "two arrays of the .npz are called 'a'"),
        (["a", "a.npy"], "two arrays of the .npz are called 'a'"),
        (["a.npy", "a.npy.npy"], "'a' and 'a.npy' cannot be in one .npz"),
        (["../x.npy"], "contains '..'"),
    ],
)
def test_an_npz_with_such_names_is_not_encoded(
    members: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = archive(tmp_path / "g.npz", *members)
    assert main(["encode", str(path), "-o", str(tmp_path / "g.wc")]) == 2
    assert says in capsys.readouterr().err
    assert not (tmp_path / "g.wc").exists()


@contextmanager
def full_disk() -> Iterator[None]:
    """No file grows beyond 4,096 bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    writes_bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # Python would keep a cut file
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
        sys.dont_write_bytecode = writes_bytecode


@pytest.mark.parametrize(
    "command",
    [
        ["encode", "grad.npy", "-o", "old.wc"],
        ["decode", "grad.wc", "-o", "old.npy"],
        ["decode", "grad.wc", "-o", "old.npz"],
        ["stats", "grad.npy", "--png", "old.png"],
        ["advise", "grad.npy", "--bandwidth", "1Gbit", "--scheme", "all | bitmap | raw", "--png", "old.png"],
    ],
    ids=["wc", "npy", "npz", "stats", "advise"],
)
def test_a_failed_write_keeps_the_old_file(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    grad = np.random.default_rng(0).laplace(size=3000).astype(np.float32)
    np.save("grad.npy", grad)
    Path("grad.wc").write_bytes(wc.encode(grad).tobytes())
    old = Path(command[-1])
    assert main(command) == 0  # its kernels are compiled and stored while there is space
    capsys.readouterr()
    old.write_bytes(OLD)
    before = sorted(os.listdir())
    with full_disk():
        assert main(command) == 2
    assert old.read_bytes() == OLD
    assert sorted(os.listdir()) == before
    error = capsys.readouterr().err
    assert old.name in error
    assert error.count("\n") == 1


def test_an_interrupted_write_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(OLD)

    def write() -> None:
        with open_output(path) as file:
            file.write(b"new")
            file.flush()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write()
    assert path.read_bytes() == OLD
    assert os.listdir(tmp_path) == ["out"]


def test_a_replaced_file_keeps_its_mode_and_its_links(tmp_path: Path) -> None:
    path, link, new = (tmp_path / name for name in ("out", "link", "new"))
    path.write_bytes(OLD)
    path.chmod(0o640)
    link.symlink_to(path)
    umask = os.umask(0o027)
    try:
        for target in (link, new):
            with open_output(target) as file:
                file.write(b"new")
    finally:
        os.umask(umask)
    assert link.is_symlink()
    assert path.read_bytes() == b"new"
    assert [p.stat().st_mode & 0o777 for p in (path, new)] == [0o640, 0o640]


def test_pipes_and_devices_are_written_directly(tmp_path: Path) -> None:
    source = container(tmp_path / "m.wc", "a", "b")
    fifo = tmp_path / "fifo.npz"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    assert main(["decode", str(source), "-o", str(fifo)]) == 0
    with np.load(io.BytesIO(os.read(reader, 65_536))) as arrays:
        assert sorted(arrays) == ["a", "b"]
    os.close(reader)
    assert fifo.is_fifo()
    assert main(["decode", str(container(source, "a")), "-o", "/dev/null"]) == 0
    assert Path("/dev/null").is_char_device()


def test_long_names_are_cut_in_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ["n" * 20_000, *(f"layer{i}" for i in range(100))]
    source = container(tmp_path / "m.wc", *names)
    assert main(["inspect", str(source)]) == 0
    table = capsys.readouterr().out
    assert len(table) < source.stat().st_size
    assert "nnn…nnn" in table
    assert main(["inspect", "--json", str(source)]) == 0
    assert names[0] in capsys.readouterr().out


def test_limits_have_options_that_errors_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """10 KB that decode to 2^32 elements; then a limit that is lower than a small tensor."""
    rows = [Row(0, i << 24, 1 << 24, 0, 4, 1, 1, b"", b"") for i in range(256)]
    bomb, small, out = (tmp_path / name for name in ("bomb.wc", "small.wc", "out.npy"))
    bomb.write_bytes(assemble(rows))
    assert main(["decode", str(bomb), "-o", str(out)]) == 2
    error = capsys.readouterr().err
    assert "max-dense: 4294967296 elements; the limit is 1073741824" in error
    assert "; --max-dense sets this limit" in error
    small.write_bytes(wc.encode(X).tobytes())
    assert main(["decode", str(small), "-o", str(out), "--max-dense", "3"]) == 2
    assert main(["verify", str(small), "--max-dense", "3"]) == 1
    assert main(["decode", str(small), "-o", str(out), "--max-dense", "none"]) == 0
    assert out.exists()


@pytest.mark.parametrize("error", [MemoryError(), MemoryError("Unable to allocate 32 GiB")])
def test_too_little_memory_is_one_line(
    error: MemoryError, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("wirecodec.cli.decode.decode_many", fail)
    assert main(["decode", str(container(tmp_path / "m.wc", "a")), "-o", str(tmp_path / "x.npy")]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith("wirecodec: not enough memory")
    assert "--max-dense" in printed
    assert printed.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [[], ["decoed"], ["inspect"], ["encode", "x.npy", "-o", "x.wc", "--seed", "one"]]
    + [["decode", "x.wc", "-o", "x.npy", "--max-dense", text] for text in ("-1", "many")],
)
def test_wrong_words_are_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("wirecodec: ")
    assert error.count("\n") == 1


@pytest.mark.parametrize("ranks", ["2147483648", "1" + "0" * 400])
def test_more_ranks_than_mpi_counts(ranks: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "x.npy", X)
    assert main(["advise", str(tmp_path / "x.npy"), "--bandwidth", "1Gbit", "--ranks", ranks]) == 2
    assert "2^31" in capsys.readouterr().err


def test_ctrl_c_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("wirecodec.cli.inspect.inspect", interrupt)
    assert main(["inspect", str(container(tmp_path / "m.wc", "a"))]) == 130
    assert capsys.readouterr().err == "wirecodec: interrupted\n"


@pytest.mark.parametrize(("arguments", "statuses"), [(["presets"], {141}), (["--help"], {0, 141})])
def test_a_closed_pipe_is_silent(arguments: list[str], statuses: set[int]) -> None:
    """argparse ignores a closed pipe from Python 3.11 on, so --help returns 0 there."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "wirecodec", *arguments], stdout=writer, stderr=subprocess.PIPE, check=False
    )
    os.close(writer)
    assert done.stderr == b""
    assert done.returncode in statuses


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_standard_output_that_is_full_is_one_line() -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "wirecodec", "presets"], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1
    assert b"No space left" in done.stderr


@pytest.mark.parametrize("command", ["advise", "bench", "compare", "encode", "stats"])
def test_files_of_torch_are_named_as_such(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new, old = tmp_path / "new.pt", tmp_path / "old.pt"
    with zipfile.ZipFile(new, "w") as file:  # the members that torch.save writes
        for member in ("new/data.pkl", "new/byteorder", "new/data/0", "new/version"):
            file.writestr(member, b"\x80\x02}q\x00.")
    old.write_bytes(b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.")  # before version 1.6
    more = {"encode": ["-o", str(tmp_path / "out.wc")], "advise": ["--bandwidth", "1Gbit", "--ranks", "2"]}
    for path in (new, old):
        assert main([command, str(path), *more.get(command, [])]) == 2
        error = capsys.readouterr().err
        assert "a file of torch.save" in error
        assert "save the tensors as an .npz: numpy.savez(" in error


def test_torch_saves_what_is_named_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch = pytest.importorskip("torch", reason="the files are those of torch")
    for zipped in (True, False):
        torch.save({"w": torch.ones(3)}, tmp_path / "w.pt", _use_new_zipfile_serialization=zipped)
        assert main(["stats", str(tmp_path / "w.pt")]) == 2
        assert "a file of torch.save" in capsys.readouterr().err


def test_a_tensor_may_have_the_name_of_a_member_of_torch(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, **{"data.pkl": X})
    assert main(["encode", str(path), "-o", str(tmp_path / "out.wc"), "--quiet"]) == 0


def test_the_length_of_a_safetensors_header_may_begin_as_a_pickle(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.safetensors"
    header = b'{"w":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}'.ljust(0x80)
    path.write_bytes(len(header).to_bytes(8, "little") + header + X.tobytes())
    main(["stats", str(path)])
    assert "torch" not in capsys.readouterr().err
