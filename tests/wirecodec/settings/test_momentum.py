"""Tests of momentum correction, clipping and decay against references written from the papers."""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import collectives as co
import wirecodec as wc
from tests.inputs import Array
from wirecodec.cpu import fast
from wirecodec.element_types import BFLOAT16


@dataclass
class Reference:
    """DGC (Lin et al., 2018): section 3, and appendix B for Nesterov's form; one float32 tensor."""

    rule: wc.MomentumCorrection
    u: Array
    v: Array

    def step(self, gradient: Array, k: int) -> Array:
        """Return what is sent, dense."""
        m = np.float32(self.rule.momentum)
        self.u = m * self.u + gradient
        self.v = self.v + (m * self.u + gradient if self.rule.nesterov else self.u)
        largest = np.argsort(-np.abs(self.v), kind="stable")[:k]
        mask = np.zeros(gradient.size, bool)
        mask[largest] = True
        sent = np.where(mask, self.v, np.float32(0))
        self.v = np.where(mask, np.float32(0), self.v)
        if self.rule.masking:
            self.u = np.where(mask, np.float32(0), self.u)
        return sent


RULES = [
    wc.MomentumCorrection(0.9, nesterov, masking) for nesterov in (False, True) for masking in (True, False)
]


@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("size", [300, 70_003])
def test_momentum_correction_is_that_of_the_paper(rule: wc.MomentumCorrection, size: int) -> None:
    """A rolled-back step changes nothing; a saved state continues. Large tensors take the fused kernels."""
    rng = np.random.default_rng(size)
    c = wc.Compressor("topk(0.01) | rice | raw", feedback=rule)
    expected = Reference(rule, *np.zeros((2, size), np.float32))
    for turn in range(6):
        g = rng.standard_normal(size).astype(np.float32)
        if turn % 2:
            c.prepare({"w": g}).rollback()
        if turn == 4:
            state = c.state_dict()
            c.compress({"w": g})
            c = wc.Compressor("topk(0.01) | rice | raw", feedback=rule)
            c.load_state_dict(state)
        prepared = c.prepare({"w": g})
        sent = expected.step(g, size // 100)
        assert prepared.sent["w"].to_dense().tobytes() == sent.tobytes()
        prepared.commit()
        assert np.array_equal(c.residual("w"), expected.v)
        assert np.array_equal(c.momentum("w"), expected.u)


SCHEMES = [
    "topk(0.05) | rice | raw",
    "topk(0.05) | rice | qsgd(bits=4)",
    "topk(0.05) | bloom(p0, 0.1) | raw",
    "adacomp | rice | sign-scale",
    "all | raw-index | terngrad",
    "all | raw-index | raw",
    "rfft | topk(0.1) | bitmap | raw",
]


@pytest.mark.parametrize("feedback", [*RULES[:3], wc.ErrorFeedback(decay=0.5)], ids=str)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_what_is_sent_and_kept_is_what_came_in(scheme: str, feedback: Any) -> None:
    rng = np.random.default_rng(3)
    for dtype in (np.float32, np.float16, BFLOAT16, np.float64):
        c = wc.Compressor(scheme, feedback=feedback, seed=1)
        wide = np.result_type(dtype, np.float32)
        u = v = np.zeros(600, wide)
        for _ in range(4):
            g = (rng.standard_normal((20, 30)) * 0.1).astype(dtype)
            sent = c.decompress(c.compress({"w": g}))["w"]
            flat = g.reshape(-1).astype(wide)
            if isinstance(feedback, wc.ErrorFeedback):
                came = wide.type(0.5) * v + flat
            else:
                u = wide.type(0.9) * u + flat
                came = v + (wide.type(0.9) * u + flat if feedback.nesterov else u)
            left = c.residual("w")
            v = np.zeros(600, wide) if left is None else left
            assert np.allclose(v + sent.to_dense().reshape(-1).astype(wide), came, rtol=1e-6, atol=1e-6)
            if not isinstance(feedback, wc.ErrorFeedback):
                masks = feedback.masking and scheme != "all | raw-index | raw" and "rfft" not in scheme
                if masks:
                    u[... if sent.is_full else sent.indices] = 0
                assert np.array_equal(c.momentum("w"), u)
                u = c.momentum("w")


def test_clipping_limits_the_whole_model_on_each_rank() -> None:
    """Clip to bound / √ranks before accumulation (DGC, section 3.2), for each kind of feedback."""
    rng = np.random.default_rng(5)
    g = {"a": rng.standard_normal(400).astype(np.float32), "b": rng.standard_normal(100).astype(np.float32)}
    norm = np.sqrt(sum(np.sum(x.astype(np.float64) ** 2) for x in g.values()))
    for feedback in (wc.MomentumCorrection(), wc.ErrorFeedback(), None):
        for clip, ranks in ((2.0, 1), (2.0, 4), (1e3, 4)):
            scale = np.float32(min(1, clip / np.sqrt(ranks) / norm))
            c, plain = (
                wc.Compressor("topk(0.1) | rice | raw", feedback=feedback, clip=x) for x in (clip, None)
            )
            for _ in range(3):
                c.compress(g, ranks=ranks)
                plain.compress({name: scale * x for name, x in g.items()})
            for key, x in plain.state_dict().items():
                assert np.allclose(x, c.state_dict()[key], rtol=1e-5, atol=1e-7), key

    def run(comm: Any) -> tuple[Array, Array]:
        c, mine = wc.Compressor("all | raw-index | raw", clip=1.0), g["a"] * (comm.rank + 1)
        return co.allreduce(comm, {"a": mine}, c)["a"], mine

    results = co.simulate(4, run)
    parts = [x * np.float32(0.5 / np.linalg.norm(x.astype(np.float64))) for _, x in results]
    assert np.allclose(results[0][0], sum(parts) / 4, rtol=1e-5)
    for wrong in (0, -1.0, "1", float("nan")):
        with pytest.raises(wc.EncodeError, match="clip is"):
            wc.Compressor(clip=wrong)


@pytest.mark.parametrize("feedback", [wc.MomentumCorrection(), wc.ErrorFeedback(), None], ids=str)
def test_clipping_is_right_over_the_whole_range(feedback: Any) -> None:
    """Gradients and a bound that are multiplied by a power of two give the same elements times it."""
    rng = np.random.default_rng(6)
    gradients = {"a": rng.standard_normal(70_000), "b": rng.standard_normal(5)}

    def clip(exponent: int) -> dict[str, Array]:
        c = wc.Compressor("all | raw-index | raw", feedback=feedback, clip=math.ldexp(3, exponent))
        sent = c.decompress(c.compress({name: np.ldexp(x, exponent) for name, x in gradients.items()}))
        return {name: np.ldexp(each.to_dense(), -exponent) for name, each in sent.items()}

    expected = clip(0)
    assert math.sqrt(sum(np.sum(x * x) for x in expected.values())) == pytest.approx(3)
    for exponent in (-900, -537, -500, 500, 520, 900, 1000):
        found = clip(exponent)
        assert all(np.array_equal(found[name], x) for name, x in expected.items()), exponent


@pytest.mark.parametrize("bound", [1.0, 1e300])
def test_a_norm_beyond_the_range_is_clipped(bound: float) -> None:
    """NaN and Inf are not: they are reported, or sent as they are."""
    c = wc.Compressor("all | raw-index | raw", clip=bound)
    x = {"a": np.full(2, np.finfo(np.float64).max), "b": np.ones(2, np.float32)}
    sent = c.decompress(c.compress(x))["a"].to_dense()
    assert np.allclose(sent / bound, math.sqrt(0.5), rtol=1e-6)
    for bad in (np.nan, np.inf):
        sent = c.decompress(c.compress({"a": np.array([1.0, 1e300]), "b": np.array([bad, 1], np.float32)}))
        assert np.array_equal(sent["b"].to_dense(), [np.float32(bad), 1], equal_nan=True)


def test_a_tensor_that_is_sent_whole_has_ordinary_momentum() -> None:
    c = wc.Compressor("all | raw-index | raw", feedback=wc.MomentumCorrection(0.5))
    sent = [c.decompress(c.compress({"b": np.ones(3, np.float32)}))["b"].to_dense()[0] for _ in range(3)]
    assert sent == [1, 1.5, 1.75]
    assert c.residual("b") is None


def test_nonfinite_gradients_do_not_stay_in_the_momentum() -> None:
    c = wc.Compressor("nonzero | rice | raw", feedback=wc.MomentumCorrection(0.5, masking=False))
    c.compress({"w": np.array([1, np.inf, np.nan, 2], np.float32)})
    assert c.momentum("w").tolist() == [1, 0, 0, 2]
    largest = float(np.finfo(np.float32).max)
    c = wc.Compressor("topk(k=1) | rice | raw", feedback=wc.MomentumCorrection(0.9, masking=False))
    for _ in range(3):
        c.compress({"w": np.array([largest, 1], np.float32)})
    assert c.momentum("w")[0] == largest
    with pytest.raises(wc.EncodeError, match="element 1: topk cannot carry nan"):
        c.compress({"w": np.array([1, np.nan], np.float32)})


def test_feedback_by_key() -> None:
    rules = {"conv*": wc.MomentumCorrection(), wc.Rule(ndim=2): None, "*": wc.ErrorFeedback(decay=0.9)}
    c = wc.Compressor("topk(0.1) | rice | raw", feedback=rules)
    g = {name: np.ones((4, 10), np.float32) for name in ("conv", "fc")} | {"v": np.ones(40, np.float32)}
    c.compress(g)
    assert c.momentum("conv") is not None
    assert c.residual("fc") is None
    assert c.residual("v") is not None
    assert c.momentum("v") is None
    with pytest.raises(wc.EncodeError, match="tensor 'w': no feedback matches; the globs are 'conv"):
        wc.Compressor(feedback={"conv*": None}).compress({"w": np.ones(2, np.float32)})
    with pytest.raises(wc.EncodeError, match="feedback is 'momentum'; it must be"):
        wc.Compressor(feedback="momentum")


def test_a_state_with_momentum_is_checked() -> None:
    c = wc.Compressor("topk(0.1) | rice | raw", feedback=wc.MomentumCorrection())
    c.compress({"w": np.ones(40, np.float32)})
    state = c.state_dict()
    with pytest.raises(ValueError, match="momentum/w: this Compressor keeps no momentum"):
        wc.Compressor("topk(0.1) | rice | raw").load_state_dict(state)
    with pytest.raises(ValueError, match="momentum/w: element 3"):
        c.load_state_dict({**state, "momentum/w": np.where(np.arange(40) == 3, np.nan, 0)})
    c.load_state_dict({**state, "momentum/w": np.ones(3, np.float32)})
    with pytest.raises(wc.EncodeError, match="tensor 'w': the gradient has 40 elements; its momentum has 3"):
        c.compress({"w": np.ones(40, np.float32)})


def test_fused_kernels_have_the_bits_of_separate_ones() -> None:
    """Decay, clipping and both momenta of large tensors, also if a sum overflows."""
    rng = np.random.default_rng(6)
    gradients = [rng.standard_normal(70_001) * 10.0 ** (i % 3) for i in range(4)]
    gradients[3][5] = 3e38
    for rule in (wc.ErrorFeedback(decay=0.9), wc.MomentumCorrection(), wc.MomentumCorrection(nesterov=True)):
        for dtype in (np.float32, np.float64):
            states = []
            for way in (nullcontext(), fast.off()):
                c = wc.Compressor("topk(0.001) | rice | qsgd", feedback=rule, clip=1e3)
                with way:
                    for g in gradients:
                        c.compress({"w": g.astype(dtype)})
                states.append(c.state_dict())
            assert all(x.tobytes() == states[1][key].tobytes() for key, x in states[0].items())
