"""Saved gradients: reproducibility, layers.json, error feedback, and the message without torch."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rich", reason="benchmarks need the extra [bench]")

from benchmarks.gradients import __main__ as gradients


def test_missing_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    for name in ("recipes", "models", "batches"):
        monkeypatch.delitem(sys.modules, f"benchmarks.training.{name}", raising=False)
    with pytest.raises(SystemExit, match="pip install torch"):
        gradients.main(["--output", str(tmp_path)])


def test_two_steps(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="training needs the extra [gradients]")
    pytest.importorskip("sklearn", reason="the digits need the extra [bench]")
    for folder in ("a", "b"):
        gradients.main(["--only", "resnet20", "--steps", "2", "--output", str(tmp_path / folder)])
    raw, feedback = (np.load(tmp_path / "a" / f"resnet20_{kind}.npy") for kind in ("raw", "feedback"))
    layers = json.loads((tmp_path / "a" / "layers.json").read_text())["resnet20"]["layers"]
    last = layers[-1]
    assert raw.dtype == feedback.dtype == np.float32
    assert raw.size == feedback.size == 269_722 == last["offset"] + np.prod(last["shape"])
    assert (last["name"], last["shape"]) == ("out.bias", [10])
    assert np.isfinite(raw).all()
    for name in ("resnet20_raw.npy", "resnet20_feedback.npy"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_feedback_keeps_the_unapplied_elements() -> None:
    """Two steps with a constant gradient: applied elements count once, the others twice."""
    torch = pytest.importorskip("torch", reason="training needs the extra [gradients]")
    from benchmarks.training.models import Net
    from benchmarks.training.recipes import Recipe, train

    slopes = torch.tensor([1.0, -8.0, 3.0, 0.5])

    def net() -> Net:
        weights = torch.zeros(4, requires_grad=True)
        return Net({"w": weights}, lambda inputs, _: (weights * inputs).sum(), lambda inputs: inputs)

    losses: list[float] = []
    recipe = Recipe("", net, lambda: iter([(slopes, None)] * 2), steps=2, rate=0.5)
    found, trained = train(recipe, 2, 0.25, losses.append)
    assert found.tolist() == [2, -8, 6, 1]
    assert trained.parameters["w"].tolist() == [0, 8, 0, 0]
    assert losses == [0, -32]
    found, trained = train(recipe, 2, None, losses.append)
    assert found.tolist() == [1, -8, 3, 0.5]
    assert trained.parameters["w"].tolist() == [-1, 8, -3, -0.5]
