"""Tests of error feedback: what is not sent is kept, also for gradients that overflow or are not finite."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

import wirecodec as wc
from tests.wirecodec.named_gradients import SCHEMES, gradients
from wirecodec.arrays import bits_of


def test_what_is_not_sent_is_kept_bit_for_bit(rng: np.random.Generator) -> None:
    c = wc.Compressor("topk(0.1) | rice | raw")
    residual = np.zeros(600, np.float32)
    for _ in range(5):
        g = rng.normal(size=600).astype(np.float32)
        x = residual + g
        sent = c.decompress(c.compress({"w": g}))["w"].to_dense()
        residual = c.residual("w")
        assert np.array_equal(residual + sent, x)
        assert np.array_equal(residual[sent != 0], np.zeros((sent != 0).sum()))


def test_sixteen_bit_gradients_do_not_overflow_with_their_residual() -> None:
    """Excess over the type's range stays in the residual; an infinite gradient is still rejected."""
    g = {"w": np.full(4, 60_000, np.float16)}
    c = wc.Compressor("topk(k=1) | rice | raw")
    sent = [c.decompress(c.compress(g))["w"] for _ in range(3)]
    assert [t.values.tolist() for t in sent] == [[60_000.0], [65_504.0], [65_504.0]]
    got = sum(t.to_dense().astype(float) for t in sent)
    assert np.array_equal(got + c.residual("w"), np.full(4, 180_000.0))
    with pytest.raises(wc.EncodeError, match="element 2: topk cannot carry inf"):
        c.compress({"w": np.array([1, 2, np.inf, 3], np.float16)})


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_residual_is_what_receivers_did_not_get(rng: np.random.Generator, dtype: Any) -> None:
    c = wc.Compressor(SCHEMES, seed=4)
    total = {n: np.zeros(np.shape(g)) for n, g in gradients(rng, dtype).items()}
    got = {n: np.zeros(np.shape(g)) for n, g in gradients(rng, dtype).items()}
    for _ in range(10):
        g = gradients(rng, dtype)
        for name, tensor in c.decompress(c.compress(g)).items():
            assert tensor.dtype == dtype
            total[name] += g[name]
            got[name] += tensor.to_dense()
    assert c.residual("fc.bias") is None
    for name in ("fc.weight", "scale"):
        held = c.residual(name).reshape(total[name].shape)
        assert np.allclose(got[name] + held, total[name], atol=1e-4)


def test_low_pass_filter(rng: np.random.Generator) -> None:
    c = wc.Compressor("topk(0.1) | rice | raw", feedback=wc.ErrorFeedback(beta=0.3))
    m = np.zeros(500, np.float32)
    for _ in range(4):
        g = rng.normal(size=500).astype(np.float32)
        sent = c.decompress(c.compress({"w": g}))["w"].to_dense()
        kept = np.argsort(-np.abs(m + g), kind="stable")[:50]
        assert np.array_equal(np.flatnonzero(sent), np.sort(kept))
        beta, x = np.float32(0.3), m + g
        filtered = (1 - beta) * m + beta * (x - sent)
        m = np.where(sent != 0, filtered, m + beta * g)
        assert np.array_equal(c.residual("w"), m)
    for wrong in (0, -1, 1.5, float("nan")):
        with pytest.raises(wc.EncodeError):
            wc.ErrorFeedback(beta=wrong)


def test_without_feedback_nothing_is_remembered(rng: np.random.Generator) -> None:
    c = wc.Compressor("topk(0.1) | rice | raw", feedback=None)
    g = {"w": rng.normal(size=100).astype(np.float32)}
    assert np.array_equal(c.compress(g), c.compress(g))
    assert c.residual("w") is None


def test_error_feedback_converges_where_none_does_not() -> None:
    """Minimize a noisy quadratic in 1000 steps of top 2 %: feedback reduces the error by a large factor."""
    rng = np.random.default_rng(5)
    target = rng.normal(size=400)
    curvature = 10.0 ** rng.uniform(-1, 0, 400)

    def distance(feedback: wc.ErrorFeedback | None) -> float:
        c = wc.Compressor("topk(0.02) | rice | qsgd(bits=4)", feedback=feedback)
        w = np.zeros(400)
        noise = np.random.default_rng(6)
        for _ in range(1000):
            g = curvature * (w - target) + 0.3 * noise.normal(size=400)
            w -= 0.02 * c.decompress(c.compress({"w": g}))["w"].to_dense()
        return float(np.linalg.norm(w - target) / np.linalg.norm(target))

    assert distance(wc.ErrorFeedback()) < 0.1
    assert distance(None) > 0.5


def test_a_gradient_with_infinities_does_not_poison_the_residual() -> None:
    for scheme, beta in ((None, 1.0), ("nonzero | rice | raw(bfloat16)", 1.0), (None, 0.5)):
        c = wc.Compressor(scheme, feedback=wc.ErrorFeedback(beta))
        first = c.decompress(c.compress({"w": np.array([1, np.inf, np.nan], np.float32)}))["w"].values
        assert np.array_equal(first, [1, np.inf, np.nan], equal_nan=True)
        for _ in range(2):
            assert np.isfinite(c.decompress(c.compress({"w": np.ones(3, np.float32)}))["w"].values).all()
            assert np.isfinite(c.residual("w")).all()


def test_finite_gradients_never_add_up_to_infinity() -> None:
    c = wc.Compressor("topk(k=1) | rice | raw")
    for _ in range(4):
        c.compress({"w": np.array([3e38, 2.9e38], np.float32)})
    assert np.isfinite(c.residual("w")).all()


def test_a_nan_that_signals_passes_without_a_warning(dtype: np.dtype[Any]) -> None:
    x = np.ones(100, dtype)
    bits = bits_of(x)
    bits[::2] = bits_of(np.array([np.inf], dtype)) + bits.dtype.type(1)
    c = wc.Compressor("nonzero | rice | raw")
    for _ in range(2):
        got = c.decompress(c.compress({"w": x}))["w"].to_dense()
        with np.errstate(invalid="ignore"):  # it may signal still
            assert np.array_equal(np.isnan(got), np.arange(100) % 2 == 0)


@pytest.mark.parametrize("beta", [1.0, 0.5])
def test_an_empty_tensor(beta: float) -> None:
    """An empty tensor beside others sends nothing and keeps no residual."""
    c = wc.Compressor("topk(0.5) | rice | qsgd", feedback=wc.ErrorFeedback(beta))
    for _ in range(2):
        g = {"none": np.empty((0, 3), np.float32), "w": np.arange(4, dtype=np.float32)}
        sent = c.decompress(c.compress(g))
        assert (sent["none"].shape, sent["none"].nnz) == ((0, 3), 0)
        assert c.residual("none").shape == (0,)


@dataclass(frozen=True)
class FirstHalf:
    """Selector that ignores the values."""

    name: ClassVar[str] = "first-half"

    def select(self, x: Any, **_: Any) -> wc.Selection:
        return wc.Selection(np.arange(x.size // 2, dtype=np.int32))


@pytest.mark.parametrize("beta", [1.0, 0.5])
def test_nan_that_is_not_selected_is_refused(beta: float) -> None:
    scheme = wc.Scheme(FirstHalf(), wc.codecs.Rice(), wc.codecs.Raw())
    c = wc.Compressor(scheme, feedback=wc.ErrorFeedback(beta))
    g = np.ones(10, np.float32)
    c.compress({"w": g})
    before = c.state_dict()
    g[2] = np.nan  # sent as it is
    c.prepare({"w": g}).rollback()
    g[7] = np.inf
    with pytest.raises(wc.EncodeError, match="tensor 'w', element 7: inf is not sent"):
        c.compress({"w": g})
    assert all(np.array_equal(before[k], v) for k, v in c.state_dict().items())
