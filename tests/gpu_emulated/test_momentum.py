"""Momentum correction, decay and clipping on the device: the bits of the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from tests.gpu_emulated.compressor_pair import SIZE, make_pair, step_both
from tests.gpu_emulated.standin import StandInDevice, standin
from wirecodec.arrays import BFLOAT16

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


def test_nonfinite_gradients(standin: StandInDevice) -> None:
    rng = np.random.default_rng(9)
    for rule in RULES:
        there, here = make_pair("nonzero | rice | raw", feedback=rule)
        for _ in range(3):
            x = rng.standard_normal(300).astype(np.float32)
            x[[3, 7, 11]] = np.nan, np.inf, -np.inf
            step_both(there, here, {"w": x})
