"""AdaComp compared with Algorithm 2 of its paper: one step, and a long feedback."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from tests import oracles
from wirecodec.cpu.select import gather
from wirecodec.tensors import Flat

ADACOMP = "adacomp | rice | sign-scale"


def cases(rng: np.random.Generator) -> dict[str, tuple[Any, Any]]:
    """Return (G, gradient) for every corner case of the algorithm."""
    n = 730
    gradient = rng.normal(size=n)
    residual = 10 * rng.normal(size=n)
    some = rng.random(n) < 0.02
    return {
        "no residual": (gradient, gradient),
        "long feedback": (residual + gradient, gradient),
        "pulls back": (residual + gradient, -residual),
        "no gradient": (residual, np.zeros(n)),
        "no G": (np.zeros(n), gradient),
        "zero bins": (np.where(np.arange(n) // 100 % 2, residual, 0.0), gradient),
        "few": (np.where(some, residual, 0.0), np.where(some, gradient, 1.0)),
        "ties": (rng.integers(-2, 3, n).astype(float), rng.integers(-1, 2, n).astype(float)),
        "constant": (np.full(n, -3.0), np.full(n, -1.0)),
        "denormals": (residual * 1e-41, gradient * 1e-41),
        "spike": (np.where(np.arange(n) == 299, 6e4, 1e-3), np.full(n, 1e-3)),
    }


@pytest.mark.sampled
@pytest.mark.parametrize("bin", [1, 2, 7, 50, 63, 64, 65, 128, 500, 729, 730, 5000])
@pytest.mark.parametrize("factor", [1.0, 2.0, 2.7])
def test_selection_is_the_algorithm(
    rng: np.random.Generator, dtype: np.dtype[Any], bin: int, factor: float
) -> None:
    for name, pair in cases(rng).items():
        x, gradient = (one.astype(dtype) for one in pair)
        selection = wc.selectors.AdaComp(bin, factor).select(x, gradient=gradient)
        indices, scale = oracles.adacomp(x, gradient, bin, factor)
        found = range(x.size) if selection.indices is None else selection.indices.tolist()
        assert list(found) == indices, name
        assert selection.scale == scale, name


def test_every_length_of_the_last_bin(rng: np.random.Generator) -> None:
    for size in (*range(1, 200), 2**18 - 1, 2**18, 2**18 + 1, 2**18 + 150_000):
        x, gradient = (rng.normal(size=size).astype(np.float32) for _ in range(2))
        for bin in (50, 100) if size < 200 else (50,):
            found = wc.selectors.AdaComp(bin).select(x, gradient=gradient)
            if size < 200:
                indices, scale = oracles.adacomp(x, gradient, bin, 2.0)
            else:
                padded = np.zeros((-(-size // bin), bin), np.float32)
                padded.ravel()[:size] = np.abs(x)
                tops = padded.max(axis=1)
                reach = np.abs(x + gradient) >= np.repeat(tops, bin)[:size]
                indices = np.flatnonzero(reach).tolist()
                scale = oracles.lane_sum(tops.tolist(), 16) / tops.size
            assert list(range(size) if found.indices is None else found.indices) == indices
            assert found.scale == scale


def test_empty_tensor() -> None:
    empty = wc.selectors.AdaComp().select(np.empty(0, np.float32))
    assert empty.indices is None
    assert empty.scale == 0
    zeros = wc.selectors.AdaComp().select(np.zeros(1000, np.float32), gradient=np.ones(1000, np.float32))
    assert zeros.indices.size == 0
    assert wc.decode(wc.encode(np.zeros((3, 5), np.float32), ADACOMP)).nnz == 0
    assert wc.decode(wc.encode(np.empty(0), ADACOMP)).nnz == 0


def test_without_a_gradient_half_the_maximum_is_sent(rng: np.random.Generator) -> None:
    """Without a gradient, every element of at least half its bin's maximum magnitude is sent."""
    x = rng.normal(size=1000).astype(np.float32)
    decoded = wc.decode(wc.encode(x, ADACOMP))
    tops = np.repeat(np.abs(x).reshape(-1, 50).max(axis=1), 50)
    assert decoded.indices.tolist() == np.flatnonzero(2 * np.abs(x) >= tops).tolist()
    magnitude = np.float32(oracles.lane_sum(tops[::50].tolist(), 16) / 20)
    assert np.array_equal(decoded.values, np.copysign(magnitude, x[decoded.indices]))


@pytest.mark.parametrize("value", ["sign-scale", "raw"])
def test_receivers_get_signs_times_one_scale(
    rng: np.random.Generator, dtype: np.dtype[Any], value: str
) -> None:
    x = rng.normal(size=(40, 30)).astype(dtype)
    scheme = wc.Scheme.parse(f"adacomp | rice | {value}")
    decoded = wc.decode(wc.encode(x, scheme))
    scale = wc.selectors.AdaComp().select(x.ravel()).scale
    magnitude = np.array([oracles.round_to(scale, dtype)]).astype(dtype)
    assert np.array_equal(decoded.values, np.copysign(magnitude, x.ravel()[decoded.indices]))


def test_gradients_of_another_type_raise() -> None:
    x = np.ones(10, np.float32)
    for wrong in (np.ones(9, np.float32), np.ones(10), np.ones((2, 5), np.float32)):
        with pytest.raises(wc.EncodeError, match="adacomp: gradient is"):
            wc.selectors.AdaComp().select(x, gradient=wrong)


@pytest.mark.parametrize("bin", [50, 500])
def test_residual_plus_sent_is_the_input(rng: np.random.Generator, bin: int) -> None:
    """Sixty steps select the same elements and keep the same residual as the algorithm written out."""
    c = wc.Compressor(f"adacomp(bin={bin}) | rice | sign-scale")
    residual = np.zeros(3001, np.float32)
    counts = []
    for _ in range(60):
        dw = (rng.normal(size=3001) * np.repeat([1.0, 0.01], [1500, 1501])).astype(np.float32)
        g = residual + dw
        indices, scale = oracles.adacomp(g, dw, bin, 2.0)
        prepared = c.prepare({"w": dw})
        sent = prepared.sent["w"]
        prepared.commit()
        assert sent.indices.tolist() == indices
        assert np.array_equal(sent.values, np.copysign(np.float32(scale), g[indices]))
        residual = c.residual("w")
        expected = g.copy()
        expected[indices] = g[indices] - sent.values
        assert np.array_equal(residual, expected)
        counts.append(len(indices))
    assert counts[-1] < counts[0]  # G outgrows one gradient, and fewer come within reach


def test_sixteen_bit_feedback_loses_nothing(rng: np.random.Generator) -> None:
    c = wc.Compressor(ADACOMP)
    total, got = np.zeros(600), np.zeros(600)
    for _ in range(30):
        g = rng.normal(size=600).astype(np.float16)
        total += g
        got += c.decompress(c.compress({"w": g}))["w"].to_dense()
    assert np.allclose(got + c.residual("w"), total, atol=1e-4)


def test_scales_that_are_not_finite(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user-defined selector may return any scale; one that the type cannot hold raises EncodeError."""
    x = np.ones(4, np.float32)
    for wrong in (float("nan"), float("inf"), -1.0, 1e39):
        selection = wc.Selection(np.array([1, 2]), scale=wrong)
        monkeypatch.setattr(wc.selectors.AdaComp, "select", lambda *a, s=selection, **k: s)
        with pytest.raises(wc.EncodeError, match="the selection's scale is"):
            wc.encode(x, ADACOMP)


def test_values_of_a_selector_take_its_scale(rng: np.random.Generator) -> None:
    x = Flat(rng.normal(size=100).astype(np.float32), (100,))
    where = np.array([3, 50, 99], np.int32)
    for values in (None, x.data[where]):
        support = gather(x, wc.Selection(where, scale=2.0, values=values))
        assert np.array_equal(support.values, np.copysign(np.float32(2), x.data[where]))
