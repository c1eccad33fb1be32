"""Residuals on the device: clamped sums, NaN and infinities, and residuals of a wider type."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from tests.gpu_emulated.compressor_pair import SIZE, make_pair, same_bits, step_both
from tests.gpu_emulated.standin import StandInDevice, marked, standin
from wirecodec.element_types import BFLOAT16

__all__ = ["standin"]


def test_without_feedback(standin: StandInDevice) -> None:
    rng = np.random.default_rng(4)
    there, here = make_pair("topk(0.02) | rice | qsgd", feedback=None)
    for _ in range(3):
        step_both(there, here, {"w": rng.standard_normal(SIZE).astype(np.float32)})
    assert there.residual("w") is None


@pytest.mark.parametrize(
    "scheme", ["topk(0.02) | rice | raw", "adacomp | rice | raw", "topk(1.0) | rice | qsgd"]
)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_nonfinite_raises(standin: StandInDevice, scheme: str, bad: float, dtype: Any) -> None:
    rng = np.random.default_rng(9)
    there, here = make_pair(scheme)
    for steps in range(3):
        broken = {"v": np.ones(5, dtype), "w": rng.standard_normal(SIZE).astype(dtype)}
        broken["w"][[4000, 4500]] = bad
        before = there.state_dict()
        with pytest.raises(wc.EncodeError) as expected:
            here.prepare(broken)
        with pytest.raises(wc.EncodeError) as found:
            there.prepare({name: marked(x) for name, x in broken.items()})
        assert str(found.value) == str(expected.value)
        assert (found.value.tensor, found.value.position) == ("w", 4000)
        assert all(same_bits(x, before[key]) for key, x in there.state_dict().items())
        assert there.step == steps
        step_both(
            there, here, {name: rng.standard_normal(x.size).astype(dtype) for name, x in broken.items()}
        )


@pytest.mark.sampled
@pytest.mark.parametrize(
    "scheme", ["nonzero | rice | raw", "nonzero | rice | raw(bfloat16)", "all | rice | raw"]
)
@pytest.mark.parametrize("beta", [1.0, 0.5])
def test_raw_carries_nonfinite(standin: StandInDevice, scheme: str, beta: float, dtype: Any) -> None:
    rng = np.random.default_rng(10)
    there, here = make_pair(scheme, feedback=wc.ErrorFeedback(beta))
    for _ in range(3):
        x = rng.standard_normal(300).astype(dtype)
        x[[3, 7, 11]] = np.nan, np.inf, -np.inf
        step_both(there, here, {"w": x})


@pytest.mark.parametrize(
    "scheme", ["topk(k=1) | rice | raw", "threshold(1) | rice | raw", "adacomp | rice | raw"]
)
def test_sums_are_clamped(standin: StandInDevice, scheme: str) -> None:
    for dtype in (np.float32, np.float64, np.float16, BFLOAT16):
        largest = {2: 60_000.0, 4: 3e38, 8: 1.7e308}[np.dtype(dtype).itemsize]
        there, here = make_pair(scheme)
        for _ in range(4):
            step_both(there, here, {"w": np.array([largest, 0.9 * largest, -largest, 1]).astype(dtype)})
        if "topk" in scheme:
            assert there.state_dict()["residual/w"].any()


def test_a_residual_of_a_wider_type(standin: StandInDevice) -> None:
    """Load a state of float64 gradients, then compress narrower ones."""
    rng = np.random.default_rng(13)
    for scheme in ("topk(0.05) | rice | raw", "adacomp | rice | qsgd"):
        for dtype in (np.float32, np.float16, BFLOAT16):
            there, here = make_pair(scheme)
            step_both(there, here, {"w": rng.standard_normal(SIZE)})
            step_both(there, here, {"w": rng.standard_normal(SIZE).astype(dtype)})
            assert there.state_dict()["residual/w"].dtype == np.float64
