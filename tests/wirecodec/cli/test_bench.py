"""The subcommand bench."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import wirecodec as wc
from tests.wirecodec.cli.inputs import X
from wirecodec.cli import main
from wirecodec.cli.bench import format_bench
from wirecodec.comparison.measurement import EncodedGradient


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
    rows = [line[:15].strip() for line in page[2:-2]]
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
    header = (
        b'{"a":{"dtype":"F32","shape":[1,1000],"data_offsets":[0,4000]},'
        b'"b":{"dtype":"F32","shape":[100],"data_offsets":[4000,4400]}}'
    )
    file.write_bytes(len(header).to_bytes(8, "little") + header + X.tobytes() + X.reshape(-1)[:100].tobytes())
    assert main(["bench", str(file)]) == 0
    assert "model.safetensors: 2 tensors, 1,100 elements" in capsys.readouterr().out


def test_bench_page() -> None:
    calls = (int, int, int)
    encoded = EncodedGradient("quick", 250_000, 1_000_000, 100_000, 0, 100, 100, 0.5, {}, calls)
    page = format_bench(encoded, (1e-4, 0.0, 1e-3, 0.0, 0.0), "grad.npy").splitlines()
    assert page[0] == "grad.npy: 250,000 elements, 1,000,000 bytes; quick"
    assert page[2].split() == ["select", "1", "ms", "1", "10"]
    assert page[3].split()[-1] == "0"
    assert page[-2].startswith("100,000 bytes, ratio 10.0; 100 elements stored")
