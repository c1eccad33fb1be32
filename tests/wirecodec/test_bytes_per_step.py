"""Tests of ``Compressor(bytes_per_step=)``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wirecodec as wc


def model() -> dict[str, Any]:
    """Return gradients of a model with large and small tensors."""
    rng = np.random.default_rng(4)
    shapes = {"embedding": (300, 64), "linear": (128, 400), "bias": (400,)}
    return {name: rng.laplace(size=shape).astype(np.float32) for name, shape in shapes.items()}


def test_a_step_takes_its_bytes() -> None:
    compressor = wc.Compressor(
        {"bias": "all | raw-index | raw", "*": "budget(1) | rice | error-bounded"}, bytes_per_step=9000
    )
    for _ in range(4):
        assert 0.95 * 9000 <= compressor.compress(model()).nbytes <= 9000


def test_budgets_keep_their_ratio() -> None:
    """The bits of two schemes are scaled by one factor."""
    schemes = {"embedding": "budget(0.5) | rice | error-bounded", "*": "budget(2) | rice | error-bounded"}
    tensors = {name: x for name, x in model().items() if name != "bias"}
    found = wc.inspect(wc.Compressor(schemes, bytes_per_step=20_000).compress(tensors))
    bits = [(entry.index_bytes + entry.value_bytes) / entry.size for entry in found.entries]
    assert bits[1] / bits[0] == pytest.approx(4, rel=0.1)


def test_the_scheme_is_a_budget_by_default() -> None:
    x = {"w": np.random.default_rng(1).normal(size=50_000).astype(np.float32)}
    compressor = wc.Compressor(bytes_per_step=1500)
    assert 0.95 * 1500 <= compressor.compress(x).nbytes <= 1500
    assert "bytes per step 1500" in compressor.signature


def test_refusals() -> None:
    with pytest.raises(wc.EncodeError, match="bytes_per_step needs a scheme with a budget"):
        wc.Compressor("topk(0.01) | rice | raw", bytes_per_step=1000)
    compressor = wc.Compressor(
        {"bias": "all | raw-index | raw", "*": "budget(1) | rice | error-bounded"}, bytes_per_step=1000
    )
    with pytest.raises(wc.EncodeError, match="tensors without a budget may take"):
        compressor.compress(model())


def test_a_group_spends_the_bytes_where_they_help_most() -> None:
    """One threshold and one step for all tensors leave less error than a budget for each."""
    rng = np.random.default_rng(9)
    tensors = {f"t{i}": (rng.laplace(size=20_000) * 4.0**i).astype(np.float32) for i in range(3)}
    tensors["bias"] = rng.laplace(size=10).astype(np.float32)
    group = wc.Compressor(bytes_per_step=6000, feedback=None)
    each = wc.Compressor(
        {"bias": "all | raw-index | raw", "*": "budget(1) | rice | error-bounded"},
        bytes_per_step=6000,
        feedback=None,
    )
    errors = []
    for compressor in (group, each):
        blob = compressor.compress(tensors)
        assert 0.95 * 6000 <= blob.nbytes <= 6000
        found = wc.decode_many(blob)
        errors.append(sum(np.square(found[name].to_dense() - x).sum() for name, x in tensors.items()))
    assert errors[0] < 0.5 * errors[1]
