"""``wirecodec stats``."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wirecodec.cli import main
from wirecodec.cli.gradient_stats import compute_stats
from wirecodec.cli.sidco_stats import compute_sidco_stats

DATA = Path(__file__).parents[2] / "data"


def test_stats_of_a_real_gradient(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "picture.png"
    assert main(["stats", str(DATA / "resnet20_raw.npy"), "--sidco", "--png", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    table = capsys.readouterr().out
    assert "resnet20_raw.npy: 269,722 elements" in table
    assert "rank^-" in table
    for heading in ("KS distance", "threshold error at 0.001", "M = 4", "reads"):
        assert heading in table
    default = table[table.index("k̂/k of the default") :].partition("\n\n")[0].splitlines()[1:]
    assert len(default) == 9
    for line in default:
        assert 0.95 <= float(line.split()[2]) <= 1.05


def test_stats_tell_what_top_k_loses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.random.default_rng(1).laplace(size=1000).astype(np.float32)
    x[:900] = 0
    np.save(tmp_path / "x.npy", x)
    assert main(["stats", str(tmp_path / "x.npy"), "--png", str(tmp_path / "x.png")]) == 0
    page = capsys.readouterr().out
    assert "SIDCo" not in page
    assert "M = 4" not in page
    rows = [line.split() for line in page.splitlines()[4:7]]
    order = np.sort(np.abs(x.astype(float)))[::-1]
    for (density, k, threshold, error), count in zip(rows, (100, 10, 1), strict=True):
        assert (float(density), k) == (count / 1000, str(count))
        assert float(threshold) == pytest.approx(order[count - 1], rel=1e-2)
        lost = np.linalg.norm(order[count:]) / np.linalg.norm(order)
        assert float(error) == pytest.approx(lost, abs=1e-3)
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


def test_stats_of_many_tensors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(1)
    np.savez(tmp_path / "m.npz", big=rng.laplace(size=5000) * 1e300, half=rng.normal(size=400).astype("f2"))
    assert main(["stats", str(tmp_path / "m.npz"), "--sidco"]) == 0
    table = capsys.readouterr().out
    assert "big: 5,000 elements" in table
    assert "half: 400 elements" in table
    legend = table.rpartition("\n\n")[2]
    for meaning in ("threshold: ", "error: ", "threshold error: ", "reads: ", "ended exactly: "):
        assert meaning in legend
        assert table.count(meaning) == legend.count(meaning)
    assert "nan" not in table
    assert main(["stats", str(tmp_path / "m.npz"), "--png", str(tmp_path / "x.png")]) == 2
    assert "a picture shows one: --tensor NAME" in capsys.readouterr().err


def test_a_model_has_a_summary_and_a_choice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(1)
    big, half = rng.laplace(size=5000).astype(np.float32), np.repeat(np.float32([0, 1, 2, 4]), 100)
    np.savez(tmp_path / "m.npz", **{"out/big": big, "half": half})
    assert main(["stats", str(tmp_path / "m.npz")]) == 0
    first, header, *rows = capsys.readouterr().out.splitlines()[:4]
    assert first == "m.npz: 2 tensors, 5,400 elements, 5,300 not 0 (98.1%)"
    assert header.split()[:4] == ["tensor", "elements", "not", "0"]
    assert rows[0].split()[:3] == ["out/big", "5,000", "100.0%"]
    assert rows[1].split()[:3] == ["half", "400", "75.0%"]
    kept = np.linalg.norm(np.sort(np.abs(big))[:-500]) / np.linalg.norm(big)
    assert float(rows[0].split()[4]) == pytest.approx(kept, abs=1e-3)
    chosen = ["stats", str(tmp_path / "m.npz"), "--tensor", "out/big", "--png", str(tmp_path / "x.png")]
    assert main(chosen) == 0
    page = capsys.readouterr().out
    assert page.startswith("out/big: 5,000 elements")
    assert "half" not in page
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
    assert main(["stats", str(tmp_path / "m.npz"), "--tensor", "halve"]) == 2
    assert "holds no tensor 'halve'; did you mean 'half'?" in capsys.readouterr().err


def test_stats_without_matplotlib_name_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    grad = tmp_path / "grad.npy"
    np.save(grad, np.arange(1, 99, dtype=np.float32))
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert main(["stats", str(grad), "--png", str(grad.with_suffix(".png"))]) == 2
    assert "pip install matplotlib\n" in capsys.readouterr().err
    assert main(["stats", str(grad)]) == 0


def test_picture_explains_its_band_and_has_plain_ticks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures: list[Any] = []
    monkeypatch.setattr("wirecodec.cli.stats_picture.save_png", lambda figure, _: figures.append(figure))
    np.save(tmp_path / "x.npy", np.random.default_rng(1).laplace(size=5000).astype(np.float32))
    for options, panels in (([], 2), (["--sidco"], 6)):
        assert main(["stats", str(tmp_path / "x.npy"), "--png", "x.png", *options]) == 0
        assert len(figures[-1].axes) == panels
    figures[-1].canvas.draw()
    last = figures[-1].axes[-1]
    assert "within 12% of k" in [text.get_text() for text in last.get_legend().get_texts()]
    labels = [label.get_text() for label in last.get_yticklabels(which="both") if label.get_text()]
    assert labels
    assert all(re.fullmatch(r"[\d.]+", label) for label in labels)


def test_constants_of_the_definition_are_bounds() -> None:
    """Both bounds hold for every rank, and one of them with equality somewhere."""
    x = np.random.default_rng(2).standard_t(3, 5000)
    stats = compute_stats(x)
    order = np.sort(np.abs(x))[::-1]
    ranks = np.arange(1, 5001)
    errors = np.sqrt(np.cumsum(order[::-1] ** 2)[::-1][1:])  # of the elements after rank 1, 2, ...
    for measured, factor, power in (
        (order, stats.magnitude_factor, -stats.decay),
        (errors, stats.error_factor, 0.5 - stats.decay),
    ):
        bound = factor * ranks[: measured.size] ** power
        assert (measured <= bound * (1 + 1e-9)).all()
        assert (measured / bound).max() == pytest.approx(1)


def test_densities_integrate_to_the_distribution() -> None:
    x = np.random.default_rng(3).laplace(size=100_000)
    stats = compute_sidco_stats(x, np.array([1, 2]))
    width = np.diff(stats.edges)
    assert np.sum(stats.density * width) == pytest.approx(0.995, abs=1e-3)
    exponential = stats.quality[0]
    assert np.sum(exponential.density * width) == pytest.approx(0.995, abs=2e-3)
    assert exponential.density[:20] == pytest.approx(np.exp(-stats.edges[:20] - width[0] / 2), rel=0.02)
