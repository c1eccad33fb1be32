"""Files of every element type: read and written exactly, or refused with tensor, type and remedy."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import wirecodec as wc
from wirecodec.cli.array_files import load_arrays
from wirecodec.cli.main import main
from wirecodec.cli.safetensors_files import _TYPES, save_safetensors
from wirecodec.element_types import ELEMENT_DTYPES

NUMBERS = np.array([[0, 1, -0.0], [3, 1, 0.5]])


def array_of(dtype: Any) -> Any:
    with np.errstate(all="ignore"):
        return NUMBERS.astype(dtype)


def write(path: Path, rows: dict[str, Any], payload: bytes) -> Path:
    header = json.dumps(rows).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + payload)
    return path


def row(dtype: str, shape: list[int], *offsets: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": list(offsets)}


@pytest.mark.parametrize("name", _TYPES)
def test_safetensors_are_exact_there_and_back(name: str, tmp_path: Path, capsys: Any) -> None:
    x = array_of(_TYPES[name])
    rows = {
        "__metadata__": {"format": "pt"},
        "w": row(name, [2, 6 if name == "F4" else 3], 1, 1 + x.nbytes),
        "a": row("U8", [1], 0, 1),
    }
    source, middle = (
        write(tmp_path / "in.safetensors", rows, b"\7" + x.tobytes()),
        tmp_path / "x.wc",
    )
    assert main(["encode", str(source), "-o", str(middle), "-q"]) == 0
    found = wc.decode_many(middle.read_bytes())["w"]
    assert (found.dtype, found.to_dense().tobytes()) == (x.dtype, x.tobytes())
    assert main(["verify", str(middle)]) == 0
    target = tmp_path / "out.safetensors"
    assert main(["decode", str(middle), "-o", str(target)]) == 0
    assert capsys.readouterr().err == ""
    again: Any = load_arrays(target)
    assert (again["w"].dtype, again["w"].tobytes(), again["a"].tolist()) == (x.dtype, x.tobytes(), [7])


def test_the_package_safetensors_reads_what_is_written(tmp_path: Path) -> None:
    package = pytest.importorskip("safetensors.numpy")
    file = io.BytesIO()
    save_safetensors(
        file,
        {"é": ((2, 3), np.dtype("f4")), "b": ((0,), np.dtype("i8"))},
        [NUMBERS.astype("f4"), NUMBERS[:0]],
    )
    found = package.load(file.getvalue())
    assert found["é"].tolist() == NUMBERS.tolist()
    assert found["b"].shape == (0,)


@pytest.mark.parametrize("command", ["stats", "compare", "bench"])
def test_bfloat16_is_measured(command: str, tmp_path: Path, capsys: Any) -> None:
    x = np.random.default_rng(0).normal(size=64).astype(ml_dtypes.bfloat16)
    file = write(tmp_path / "in.safetensors", {"w": row("BF16", [64], 0, 128)}, x.tobytes())
    more = ["topk(0.1) | rice | raw", "--seconds", "0"] if command == "compare" else []
    assert main([command, str(file), *more]) == 0
    capsys.readouterr()


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
@pytest.mark.parametrize("dtype", ELEMENT_DTYPES, ids=str)
def test_files_of_numpy(dtype: np.dtype[Any], suffix: str, tmp_path: Path, capsys: Any) -> None:
    x, source, middle, target = (
        array_of(dtype),
        tmp_path / f"in{suffix}",
        tmp_path / "x.wc",
        tmp_path / f"out{suffix}",
    )
    if suffix == ".npy":
        np.save(source, x)
    else:
        np.savez(source, w=x)
    status = main(["encode", str(source), "-o", str(middle), "-q"])
    error = capsys.readouterr().err
    if dtype.name.startswith("float8"):
        assert status == 2
        assert (
            f"in{suffix}: " + ("tensor 'w': " if suffix == ".npz" else "") + "the elements are one byte"
            in error
        )
        assert "as a .safetensors" in error
        return
    assert status == 0
    (found,) = wc.decode_many(middle.read_bytes()).values()
    assert (found.dtype, found.to_dense().tobytes()) == (dtype, x.tobytes())
    assert main(["decode", str(middle), "-o", str(target)]) == 0
    is_wider = dtype.name == "bfloat16"
    assert ("bfloat16 written as float32 with the same values" in capsys.readouterr().err) == is_wider
    loaded = np.load(target)
    again = loaded if suffix == ".npy" else loaded["w"]
    assert again.dtype == (np.float32 if is_wider else dtype)
    assert again.astype(dtype).tobytes() == x.tobytes()


DAMAGED: dict[str, tuple[dict[str, Any] | bytes, bytes, str]] = {
    "float4": (
        {"w": row("F4", [3], 0, 2)},
        b"12",
        "tensor 'w' of F4 has the shape [3]; its last dimension must be even",
    ),
    "scale": ({"w": row("F8_E5M2FNUZ", [2], 0, 2)}, b"12", "tensor 'w' has type F8_E5M2FNUZ"),
    "cut": ({"w": row("F32", [2], 0, 8)}, bytes(4), "tensor 'w' of 2 F32 is at bytes"),
    "long": ({"w": row("F32", [1], 0, 4)}, bytes(8), "the file is damaged"),
    "size": ({"w": row("F32", [3], 0, 8)}, bytes(8), "tensor 'w' of 3 F32"),
    "hole": ({"a": row("U8", [1], 0, 1), "w": row("U8", [1], 2, 3)}, bytes(3), "tensor 'w' of 1 U8"),
    "overlap": ({"a": row("U8", [2], 0, 2), "w": row("U8", [2], 1, 3)}, bytes(3), "tensor 'w' of 2 U8"),
    "fields": ({"w": {"dtype": "F32"}}, b"", "tensor 'w': its row"),
    "negative": ({"w": row("F32", [-1], 0, 4)}, bytes(4), "tensor 'w': its row"),
    "text": ({"w": row("F32", ["1"], 0, 4)}, bytes(4), "tensor 'w': its row"),  # type: ignore[list-item]
    "list": ({"w": []}, b"", "tensor 'w': its row"),
    "json": (b'{"w": nothing}', b"", "header of the .safetensors is damaged"),
    "twice": (b'{"w": {}, "w": {}}', b"", "a name is in it twice"),
    "deep": (b'{"w":' + b"[" * 20000, b"", "header of the .safetensors is damaged"),
}


@pytest.mark.parametrize("case", DAMAGED)
@pytest.mark.parametrize("command", ["encode", "stats"])
def test_damaged_safetensors(case: str, command: str, tmp_path: Path, capsys: Any) -> None:
    header, payload, message = DAMAGED[case]
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    file = tmp_path / "in.safetensors"
    file.write_bytes(len(text).to_bytes(8, "little") + text + payload)
    assert main([command, str(file), *(["-o", str(tmp_path / "x.wc")] if command == "encode" else [])]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"wirecodec: {file}: ")
    assert message in error


def test_a_header_that_is_cut(tmp_path: Path, capsys: Any) -> None:
    file = tmp_path / "in.safetensors"
    file.write_bytes((1000).to_bytes(8, "little") + b'{"w"')
    assert main(["stats", str(file)]) == 2
    assert (
        "the header of the .safetensors ends at byte 1008 of 12; the file is cut" in capsys.readouterr().err
    )


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr"])
def test_files_of_scipy_say_how_to_encode_them(kind: str, tmp_path: Path, capsys: Any) -> None:
    sparse = pytest.importorskip("scipy.sparse")
    sparse.save_npz(tmp_path / "x.npz", sparse.coo_array(NUMBERS).asformat(kind))
    assert main(["encode", str(tmp_path / "x.npz"), "-o", str(tmp_path / "x.wc")]) == 2
    assert "a file of scipy.sparse.save_npz" in capsys.readouterr().err


def test_what_decode_cannot_write(tmp_path: Path, capsys: Any) -> None:
    blob = tmp_path / "x.wc"
    for tensors, output, message in (
        ({"w": wc.SparseTensor([1], np.float32([1]), 4, absent="unchanged")}, "x.npz", "to_dense(out=array)"),
        ({"w": np.ones(2, "c16")}, "x.safetensors", "cannot have the type complex128 of 'w'; write an .npz"),
        ({"__metadata__": np.ones(2, "f4")}, "x.safetensors", "cannot have the name '__metadata__'"),
        ({"a": np.ones(2, "f4"), "b": np.ones(2, "f4")}, "x.npy", "must end in .npz or .safetensors"),
    ):
        blob.write_bytes(wc.encode_many(tensors, "all | raw-index | raw"))
        assert main(["decode", str(blob), "-o", str(tmp_path / output)]) == 2
        assert message in capsys.readouterr().err
        assert not (tmp_path / output).exists()
