"""Measurement of schemes, with a fake clock."""

from __future__ import annotations

import math

import numpy as np
import pytest

import wirecodec as wc
from wirecodec.comparison import measurement
from wirecodec.comparison.measurement import EncodedGradient, allocate_sums, measure_medians
from wirecodec.element_types import BFLOAT16

X = np.random.default_rng(3).laplace(size=5000).astype(np.float32)
TENSORS = {"a": X[:4000].reshape(40, 100), "b": X[4000:]}


def encode(tensors: dict[str, np.ndarray], scheme: wc.Scheme) -> EncodedGradient:
    return EncodedGradient.of(tensors, scheme, allocate_sums(tensors))


class Clock:
    """Time that passes only where it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now

    def taking(self, *seconds: float) -> measurement.Call:
        """A call that takes so long the first time, the second …, and from then on the last of them."""
        left = list(seconds)

        def call() -> None:
            self.now += left.pop(0) if len(left) > 1 else left[0]

        return call


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(measurement, "time", found)
    return found


def test_medians_are_of_warm_calls_over_several_rounds(clock: Clock) -> None:
    calls = [clock.taking(1e3, 3.0), clock.taking(9.0, 100.0, 2.0), clock.taking(7.0)]
    assert measure_medians(calls, budget=0.1) == [3.0, 2.0, 7.0]


def test_short_calls_are_repeated_within_the_budget(clock: Clock) -> None:
    calls = 0

    def call() -> None:
        nonlocal calls
        calls += 1
        clock.now += 2.0**-10

    assert measure_medians([call], budget=1.0) == [2.0**-10]
    assert 1024 <= calls <= 1024 + 2 * measurement.ROUNDS


def test_those_who_watch_hear_how_far_it_got() -> None:
    shares: list[float] = []
    measure_medians([int, str], budget=0, progress=shares.append)
    assert shares == sorted(set(shares))
    assert shares[0] == 0
    assert 0.9 < shares[-1] < 1


def test_what_is_measured_is_what_encode_gives() -> None:
    scheme = wc.Scheme.parse("topk(0.1) | rice | qsgd")
    one = encode({"grad.npy": X}, scheme)
    assert one.nbytes == wc.encode(X, scheme).nbytes
    assert (one.elements, one.dense_bytes, one.stored) == (5000, 20_000, 500)
    assert one.error == pytest.approx(
        np.linalg.norm(wc.decode(wc.encode(X, scheme)).to_dense() - X) / np.linalg.norm(X), rel=1e-5
    )
    assert (one.ratio, 0 < one.index_bytes < one.nbytes) == (20_000 / one.nbytes, True)
    several = encode(TENSORS, scheme)
    assert several.nbytes == wc.encode_many(TENSORS, scheme).nbytes


@pytest.mark.parametrize(
    ("x", "error"),
    [(np.zeros(9), 0.0), (np.array([3e200, 4e200, 0, 0]), 0.6), (np.array([3e-200, 4e-200]), 0.6)],
)
def test_errors_of_any_magnitude(x: np.ndarray, error: float) -> None:
    assert encode({"x": x}, wc.Scheme.parse("topk(k=1) | rice | raw")).error == pytest.approx(error)


def test_what_is_not_finite_has_no_error_to_tell() -> None:
    plain = wc.Scheme.parse("all | raw-index | raw")
    x = np.array([1, np.nan, np.inf], np.float32)
    assert math.isnan(encode({"x": x}, plain).error)
    signals = np.full(9, 0x7F81, np.uint16).view(BFLOAT16)
    assert math.isnan(encode({"x": signals}, plain).error)
