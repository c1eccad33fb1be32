"""Page of the papers' tables and figures: a run of few steps, and what its numbers are computed from."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="benchmarks need the extra [bench]")
pytest.importorskip("rich", reason="benchmarks need the extra [bench]")
pytest.importorskip("sklearn", reason="benchmarks need the extra [bench]")

from benchmarks.papers.plot import draw_all

import wirecodec as wc
from benchmarks.papers import adacomp, fft, scalecom
from benchmarks.papers.__main__ import format_page, measure
from benchmarks.papers.training import flatten, run_training, unflatten


@pytest.mark.nightly
def test_page_and_pictures(tmp_path: Path) -> None:
    results = measure((8, 2, 10, 8), lambda name: None)
    text = format_page(results)
    for paper in ("SIDCo", "DeepReduce", "FFT", "ScaleCom", "AdaComp"):
        assert f"\n## {paper}" in text
    assert "nan" not in text
    draw_all(tmp_path, *results)
    pictures = re.findall(r"\((papers_\w+\.png)\)", text)
    assert pictures
    assert sorted(pictures) == sorted(path.name for path in tmp_path.iterdir())


def test_training_loses_nothing() -> None:
    """What a step sends and what it keeps is residual + gradient."""
    before = 0.0
    for step in run_training(wc.TopK(0.01), 3):
        sent = step.x.copy()
        assert step.sent is not None
        sent[step.sent] = 0
        assert np.array_equal(sent, step.residual)
        assert np.array_equal(step.x, before + step.gradient)
        before = step.residual
    assert flatten(unflatten(step.x, step.params)).tobytes() == step.x.tobytes()


def test_model_of_scalecom_has_its_shape() -> None:
    """Top-k's communication grows with the workers, ScaleCom's does not; both are below dense."""
    times = {m: [scalecom.compute_shares(n, 8, 100, m)[1] for n in (8, 64, 128)] for m in scalecom.METHODS}
    assert len(set(times["dense"])) == len(set(times["ScaleCom"])) == 1
    assert (
        times["ScaleCom"][0] < times["top-k"][0] < times["top-k"][1] < times["top-k"][2] < times["dense"][0]
    )


def test_representable_numbers_are_all_found() -> None:
    """The uniform format has 255 numbers at equal distances; offset floats have no more than 256."""
    for name, (codec, largest) in fft.FORMATS.items():
        numbers = fft._list_numbers(codec, largest)
        assert 250 <= numbers.size <= 256, name
        assert np.abs(numbers).max() == largest
    uniform = fft._list_numbers(*fft.FORMATS["uniform"])
    assert np.diff(uniform) == pytest.approx(2 / 254, rel=1e-4)


def test_dryden_sends_one_magnitude() -> None:
    x = np.random.default_rng(0).laplace(size=1000)
    found = adacomp.Dryden(0.1).select(x)
    assert found.indices is not None
    assert found.indices.size == 100
    assert found.scale == pytest.approx(np.sort(np.abs(x))[-100:].mean())
