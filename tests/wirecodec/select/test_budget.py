"""budget: bytes within the band, errors at most those of a grid, and the elements of a top k."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from tests import oracles

DATA = Path(__file__).parents[2] / "data"
BAND = 0.95, 1.0
"""Bytes of a container in budgets."""
SCHEME = "budget(bits={}) | rice | error-bounded"


def gradients() -> dict[str, Any]:
    """Return {name: (n,) float32}: real gradients, and values of which nothing was tuned."""
    rng = np.random.default_rng(7)
    real = {path.stem: np.load(path).astype(np.float32).ravel() for path in sorted(DATA.glob("*.npy"))}
    layers = np.repeat([1e-6, 1.0, 1e-3, 30.0], 25_000)
    return real | {
        "student": rng.standard_t(2, 100_000).astype(np.float32),
        "layers": (rng.normal(size=100_000) * layers).astype(np.float32),
        "rows": np.repeat(rng.random(2000) < 0.1, 64).astype(np.float32)
        * rng.normal(size=128_000).astype("f4"),
    }


GRADIENTS = gradients()


def square_error(x: Any, blob: Any) -> float:
    """Return the squared error of a container in units of Σx²."""
    wide = x.astype(np.float64)
    return float(((wide - wc.decode(blob).to_dense().astype(np.float64)) ** 2).sum() / (wide**2).sum())


@pytest.mark.parametrize("name", GRADIENTS)
def test_bytes_are_within_the_band(name: str) -> None:
    x = GRADIENTS[name]
    for bits in (0.03, 0.1, 0.25, 0.64):
        spent = 8 * wc.encode(x, SCHEME.format(bits)).nbytes / (bits * x.size)
        assert BAND[0] <= spent <= BAND[1], bits


@pytest.mark.parametrize("name", ["resnet20_raw", "resnet20_residual", "lstm_raw_slice"])
def test_error_is_at_most_that_of_a_grid(name: str) -> None:
    """No density and error bound, and no density and number of bits, has less error at no more bytes."""
    x = GRADIENTS[name]
    schemes = [
        f"topk({density}) | rice | {value}"
        for density in (0.003, 0.01, 0.03, 0.1)
        for value in (
            "error-bounded(error=0.05)",
            "error-bounded(error=0.2)",
            "error-bounded(error=0.4)",
            "qsgd",
        )
    ]
    grid = [(blob.nbytes, square_error(x, blob)) for blob in (wc.encode(x, scheme) for scheme in schemes)]
    for bits in (0.1, 0.25, 0.64):
        blob = wc.encode(x, SCHEME.format(bits))
        best = min(error for size, error in grid if size <= blob.nbytes)
        assert square_error(x, blob) <= best, bits


def test_elements_are_a_top_k(dtype: np.dtype[Any]) -> None:
    x = np.random.default_rng(2).integers(-50, 50, 20_000).astype(dtype)  # many ties
    for bits in (0.05, 0.5):
        found = wc.decode(wc.encode(x, SCHEME.format(bits)))
        assert found.indices.tolist() == oracles.top_k(x, found.nnz)


@pytest.mark.parametrize(
    ("index", "value"),
    [
        ("auto-index", "error-bounded"),
        ("huffman", "qsgd(bits=4)"),
        ("bitmap", "raw"),
        ("rice", "polyfit"),
        ("context", "error-bounded(error=0.2)"),
    ],
)
def test_any_codecs(index: str, value: str) -> None:
    x = GRADIENTS["resnet20_raw"]
    bits = 2.0 if index == "bitmap" else 0.3
    blob = wc.encode(x, f"budget({bits}) | {index} | {value}")
    assert BAND[0] <= 8 * blob.nbytes / (bits * x.size) <= BAND[1]


def test_forms_of_auto_index_count() -> None:
    """Whole rows take few index bits, so that more bits are left for values."""
    x = GRADIENTS["rows"]
    rice, structured = (
        square_error(x, wc.encode(x, f"budget(0.5) | {index} | error-bounded"))
        for index in ("rice", "auto-index")
    )
    assert structured < 0.5 * rice


def test_header_counts() -> None:
    """The container's own bytes are part of the budget: shape, tag, names, transform."""
    x = GRADIENTS["resnet20_raw"][:65_536].reshape(4, 4, 64, 64)
    most = 0.03 * x.size / 8
    assert 0.93 * most <= wc.encode(x, SCHEME.format(0.03), tag=bytes(60)).nbytes <= most
    assert wc.encode(x, "dct | budget(0.03) | rice | error-bounded").nbytes <= most
    tensors = {"a rather long name of a tensor": x, "b": x[0].copy(), "c": x[1:].copy()}
    assert wc.encode_many(tensors, SCHEME.format(0.05)).nbytes <= 0.05 * 2 * x.size / 8


@pytest.mark.parametrize("bits", [0.05, 0.6, 3.0, 40.0])
def test_odd_tensors(bits: float, dtype: np.dtype[Any]) -> None:
    """Nothing is above its budget; what can be exact is exact."""
    rng = np.random.default_rng(3)
    n = 20_000
    cases = {
        "zeros": np.zeros(n),
        "constant": np.full(n, -2.5),
        "one": np.where(np.arange(n) == 77, 3.0, 0.0),
        "range": rng.normal(size=n) * np.exp(rng.normal(0, 3, n)).clip(0, 6e3),
        "tiny": rng.normal(size=n) * 1e-42,
    }
    for name, values in cases.items():
        x = values.astype(dtype)
        blob = wc.encode(x, SCHEME.format(bits))
        assert blob.nbytes <= bits * n / 8, name
        if name in ("zeros", "one") or bits > 8 * dtype.itemsize:
            assert np.array_equal(wc.decode(blob).to_dense(), x), name


def test_refusals() -> None:
    x = np.ones(100, np.float32)
    with pytest.raises(wc.EncodeError, match=r"may take 1 bytes.*header takes 64"):
        wc.encode(x, SCHEME.format(0.1))
    with pytest.raises(wc.EncodeError, match="exact index codec, not bloom"):
        wc.encode(np.ones(10_000, np.float32), "budget(1) | bloom | raw")
    with pytest.raises(wc.EncodeError, match="cannot follow rfft; use dct"):
        wc.encode(np.ones(10_000, np.float32), "rfft | budget(1) | rice | raw")


@pytest.mark.sweep
def test_feedback_over_many_steps() -> None:
    """Bytes stay within the band, and the residual does not grow more than that of top-k at equal bytes."""
    rng = np.random.default_rng(5)
    budget = wc.Compressor(SCHEME.format(0.2))
    n, sizes = 65_536, []
    scales = np.exp(rng.normal(size=n))
    for _ in range(1000):
        gradient = (rng.laplace(size=n) * scales).astype(np.float32)
        sizes.append(8 * budget.compress({"w": gradient}).nbytes / (0.2 * n))
    assert BAND[0] <= min(sizes) <= max(sizes) <= BAND[1]
    topk = wc.Compressor("topk(0.005) | rice | raw")
    spent = [
        topk.compress({"w": (rng.laplace(size=n) * scales).astype(np.float32)}).nbytes for _ in range(1000)
    ]
    assert math.isclose(np.mean(spent) * 8 / (0.2 * n), 1.0, abs_tol=0.1)
    assert np.linalg.norm(budget.residual("w")) < np.linalg.norm(topk.residual("w"))
