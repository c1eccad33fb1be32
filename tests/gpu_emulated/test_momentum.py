"""Momentum correction, decay and clipping on the device: the bits of the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from tests.gpu_emulated.compressor_pair import SIZE, make_pair, step_both
from tests.gpu_emulated.standin import StandInDevice, marked, standin
from wirecodec.element_types import BFLOAT16

__all__ = ["standin"]

RULES = [
    wc.MomentumCorrection(),
    wc.MomentumCorrection(0.5, nesterov=True),
    wc.MomentumCorrection(masking=False),
    wc.ErrorFeedback(beta=0.5, decay=0.9),
    None,
]
SCHEMES = [
    "topk(0.02) | rice | raw",
    "topk(0.02) | rice | qsgd(bits=4)",
    "adacomp | rice | sign-scale",
    "topk(1.0) | rice | qsgd",
    "all | raw-index | raw",
    "rfft | topk(0.1) | bitmap | offset-float(bits=10)",
]


@pytest.mark.sampled
@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("kind", [np.float32, np.float16, BFLOAT16, np.float64])
@pytest.mark.parametrize("clip", [None, 3.0])
def test_same_bits(standin: StandInDevice, scheme: str, rule: Any, kind: Any, clip: float | None) -> None:
    rng = np.random.default_rng(8)
    there, here = make_pair(scheme, feedback=rule, clip=clip)
    for _ in range(4):
        step_both(there, here, {"w": rng.standard_normal(SIZE).astype(kind), "v": rng.standard_normal(40)})


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_clipping_if_squares_overflow_or_underflow(standin: StandInDevice, scale: float) -> None:
    rng = np.random.default_rng(8)
    there, here = make_pair("topk(0.02) | rice | raw", clip=scale)
    x = rng.standard_normal(40).astype(np.float32) * (scale > 1)
    step_both(there, here, {"w": rng.standard_normal(SIZE) * scale, "v": x})
    residual = here.residual("w")
    assert residual is not None
    assert np.linalg.norm(residual / scale) < 1


def test_nonfinite_gradients(standin: StandInDevice) -> None:
    rng = np.random.default_rng(9)
    for rule in RULES:
        there, here = make_pair("nonzero | rice | raw", feedback=rule)
        for _ in range(3):
            x = rng.standard_normal(300).astype(np.float32)
            x[[3, 7, 11]] = np.nan, np.inf, -np.inf
            step_both(there, here, {"w": x})


@pytest.mark.sampled
@pytest.mark.parametrize("clip", [None, 2.0])
@pytest.mark.parametrize(
    "scheme", [SCHEMES[1], SCHEMES[2], SCHEMES[5], "topk(0.02) | bloom(p0, 0.1) | raw", "budget(1)"]
)
def test_groups(standin: StandInDevice, scheme: str, clip: float | None) -> None:
    """Tensors of two types, one that is sent whole, and one with zeros in a step; then NaN."""
    rng = np.random.default_rng(10)
    rule = wc.MomentumCorrection() if clip else wc.ErrorFeedback(decay=0.9)
    scheme = f"{scheme} | rice | error-bounded" if scheme.startswith("budget") else scheme
    schemes = {"whole": "all | raw-index | raw", "*": scheme}
    there, here = make_pair(schemes, feedback=rule, clip=clip, scope="group")
    for turn in range(4):
        x = {name: rng.standard_normal(20_000 // (i + 1)).astype("f4") for i, name in enumerate("abc")}
        x |= {"half": rng.standard_normal(900).astype("f2"), "whole": rng.standard_normal(30)}
        x["matrix"] = rng.standard_normal((30, 40)).astype("f4") * (turn != 2)
        for compressor in (there, here):
            compressor._names = turn < 3
        step_both(there, here, x)
    x["b"][9] = np.nan
    errors = []
    for compressor, given in ((here, x), (there, {name: marked(each) for name, each in x.items()})):
        with pytest.raises(wc.EncodeError, match="tensor 'b', element 9") as caught:
            compressor.prepare(given)
        errors.append(str(caught.value))
    assert errors[0] == errors[1]
