"""``wirecodec stats``."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from wirecodec.cli import main

DATA = Path(__file__).parents[2] / "data"


def test_stats_of_a_real_gradient(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "picture.png"
    assert main(["stats", str(DATA / "resnet20_raw.npy"), "--png", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    table = capsys.readouterr().out
    assert "resnet20_raw.npy: 269,722 elements" in table
    assert "rank^-" in table
    for heading in ("KS distance", "threshold error at 0.001", "M = 4", "reads"):
        assert heading in table
    default = table[table.index("k̂/k of the default") :].splitlines()[1:]
    assert len(default) == 9
    for line in default:
        assert 0.95 <= float(line.split()[2]) <= 1.05


def test_stats_of_many_tensors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(1)
    np.savez(tmp_path / "m.npz", big=rng.laplace(size=5000) * 1e300, half=rng.normal(size=400).astype("f2"))
    assert main(["stats", str(tmp_path / "m.npz")]) == 0
    table = capsys.readouterr().out
    assert "big: 5,000 elements" in table
    assert "half: 400 elements" in table
    assert "nan" not in table
    assert main(["stats", str(tmp_path / "m.npz"), "--png", str(tmp_path / "x.png")]) == 2
    assert "a picture shows one" in capsys.readouterr().err


def test_stats_without_matplotlib_name_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    grad = tmp_path / "grad.npy"
    np.save(grad, np.arange(1, 99, dtype=np.float32))
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert main(["stats", str(grad), "--png", str(grad.with_suffix(".png"))]) == 2
    assert "wirecodec[bench]" in capsys.readouterr().err
    assert main(["stats", str(grad)]) == 0
