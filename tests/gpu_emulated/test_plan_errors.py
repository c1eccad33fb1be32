"""Errors of a plan: NaN, overflow, too little capacity, and what has no kernels."""

from __future__ import annotations

import numpy as np
import pytest

import wirecodec as wc
from tests.gpu_emulated.planned import Planned
from tests.gpu_emulated.test_gpu_encode import tensor
from wirecodec.errors import EncodeError
from wirecodec.gpu.plan.encoder import check
from wirecodec.settings.scheme import as_scheme


@pytest.mark.parametrize("index", ["bloom(p0, 0.3)", "bloom(p1, 0.3)"])
def test_a_filter_that_exceeds_the_capacity(index: str) -> None:
    x = tensor(np.float32)
    planned = Planned(x, f"topk(k=20) | {index} | raw", capacity=100)
    assert planned.plan._blob.nbytes < 2000
    made = planned.encode(x, 7)
    assert made.tobytes() == wc.encode(x, planned.scheme, seed=7).tobytes()
    assert not np.shares_memory(made, planned.plan._blob)


def test_a_mean_that_is_too_large() -> None:
    planned = Planned(np.full(100, 1e308), "adacomp(bin=5) | rice | raw")
    planned.check(np.full(100, 1e306))
    planned.check_error(np.full(100, 1e308))
    planned.check(np.full(100, 1e306))


@pytest.mark.sampled(5)
@pytest.mark.parametrize("bad", [np.nan, -np.inf])
@pytest.mark.parametrize(
    "scheme",
    [
        "topk(0.01) | rice | raw",
        "topk(1.0) | rice | raw",
        "threshold(1) | rice | raw",
        "all | rice | qsgd",
        "all | rice | offset-float",
        "topk(0.1) | rice | offset-float(bits=6, rounding=stochastic)",
        "threshold(0.1) | rice | qsgd(bits=7, bucket=48, norm=l2)",
        "nonzero | bitmap | sign-scale",
        "topk(0.01) | bloom(p0, 0.1) | raw",
        "dgc(0.01) | rice | raw",
        "dgc(0.7, sample=1) | rice | raw",
        "dgc(1.0) | rice | raw",
        "adacomp | rice | raw",
        "adacomp(bin=9001) | bitmap | sign-scale",
    ],
)
def test_errors_equal_the_cpu(scheme: str, bad: float) -> None:
    """An error does not affect the next run."""
    x = tensor(np.float32)
    planned = Planned(x, scheme)
    planned.check(x)
    x[[4000, 8000]] = bad
    planned.check_error(x)
    planned.check(tensor(np.float32))
    if "all" not in scheme and "nonzero" not in scheme:
        planned.check_error(np.full_like(x, bad))
        planned.check(tensor(np.float32))


@pytest.mark.parametrize("value", ["qsgd", "raw(float16)", "raw(bfloat16)", "offset-float"])
def test_overflow_of_a_narrower_type(value: str) -> None:
    x = tensor(np.float64)
    planned = Planned(x, f"topk(0.01) | rice | {value}")
    planned.check(x)
    x[1234] = 1e300
    planned.check_error(x)
    planned.check(tensor(np.float64))


def test_raw_carries_nan() -> None:
    x = tensor(np.float32)
    x[7] = np.nan
    for scheme in ("all | rice | raw", "nonzero | rice | raw(float16)"):
        Planned(x, scheme).check(x)


def test_a_selection_that_exceeds_the_capacity() -> None:
    """Encode again without the plan, from the same seed."""
    x = tensor(np.float32)
    for select in ("nonzero", "threshold(0.5)", "adacomp"):
        scheme = f"{select} | rice | qsgd"
        planned = Planned(x, scheme, capacity=1000)
        assert planned.plan._blob.nbytes < 8000
        made = planned.encode(x, 7)
        assert made.tobytes() == wc.encode(x, scheme, seed=7).tobytes()
        assert not np.shares_memory(made, planned.plan._blob)
        planned.check(np.where(np.arange(9001) < 900, x, 0).astype(np.float32))


@pytest.mark.parametrize(
    ("scheme", "said"),
    [
        (
            "randomk(0.1) | rice | raw",
            "no randomk; it has all, nonzero, threshold, topk, dgc, adacomp; raw-index",
        ),
        ("topk(0.1) | auto-index | deflate", "no auto-index, deflate"),
        (
            "topk(0.1) | bloom(p2, 0.1) | raw",
            "bloom only with policy p0 or p1, after topk, for at most 16777216",
        ),
        ("dgc(0.1) | bloom(p0, 0.1) | raw", "after topk"),
        ("all | bloom(p1, 0.1) | raw", "after topk"),
        ("dct | topk(0.1) | rice | raw", "no dct"),
    ],
)
def test_unsupported_schemes(scheme: str, said: str) -> None:
    with pytest.raises(EncodeError, match=said):
        check(100, as_scheme(scheme))


@pytest.mark.parametrize("size", [0, 2**31])
def test_unsupported_sizes(size: int) -> None:
    with pytest.raises(EncodeError, match=f"1 to 2.31 - 1 elements, not {size}"):
        check(size, as_scheme("topk(0.1) | rice | raw"))


def test_bloom_needs_one_chunk() -> None:
    scheme = as_scheme("topk(k=9) | bloom(p0, 0.1) | raw")
    check(2**24, scheme)
    with pytest.raises(EncodeError, match="for at most 16777216 elements"):
        check(2**24 + 1, scheme)
