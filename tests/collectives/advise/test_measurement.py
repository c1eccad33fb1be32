"""Measurement of candidates."""

from __future__ import annotations

import numpy as np
import pytest

import wirecodec as wc
from collectives.advise import measurement
from collectives.advise.candidates import Candidate, parse_candidate
from collectives.advise.measurement import Gradient, Measurement, Pairs, Stages, measure
from wirecodec.comparison.measurement import Call, ProgressCallback, allocate_sums

X = np.random.default_rng(3).laplace(size=5000).astype(np.float32)
TENSORS = {"a": X[:4000].reshape(40, 100), "b": X[4000:]}


def trial(tensors: dict[str, np.ndarray], scheme: wc.Scheme) -> Measurement:
    return Measurement.prepare(tensors, Candidate(scheme, str(scheme)), allocate_sums(tensors))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_times_go_where_they_belong(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = X.astype(dtype)
    schemes = "all | raw-index | raw", "nonzero | rice | raw", "topk(0.1) | rice | raw"
    trials = [trial({"x": x}, wc.Scheme.parse(scheme)) for scheme in schemes]

    def numbered(calls: list[Call], *, budget: float, progress: ProgressCallback) -> list[float]:
        for call in calls:
            call()
        return [float(number) for number, _ in enumerate(calls)]

    monkeypatch.setattr(measurement, "measure_medians", numbered)
    gradient, (one, other, third) = measure({"x": x}, trials)
    assert gradient == Gradient(x.nbytes, add=0, finish=1)
    assert (one.stages.select, one.stages.encode, one.stages.decode) == (2, 3, 4)
    assert (other.stages.select, other.stages.encode, other.stages.decode) == (5, 6, 7)
    assert [m.stages.summable for m in (one, other, third)] == [True, False, False]
    assert [m.error for m in (one, other)] == [0, 0]
    pairs = third.stages.pairs
    assert pairs is not None
    assert (pairs.encode, pairs.decode, pairs.scan) == (11, 12, 0 + 1)


def test_a_real_clock_measures() -> None:
    candidate = parse_candidate("local-updates(3) | topk(0.1) | rice | raw")
    prepared = Measurement.prepare(TENSORS, candidate, allocate_sums(TENSORS))
    gradient, (one,) = measure(TENSORS, [prepared], budget=1e-3)
    for taken in (gradient.add, gradient.finish, gradient.move):
        assert 0 < taken < 1
    assert 0 < one.stages.select < 1
    assert 0 < one.stages.encode < 1
    assert 0 < one.stages.decode < 1


def test_a_larger_gradient_of_the_same_kind_scales() -> None:
    assert Gradient(1000, 1.0, 2.0).scaled(25) == Gradient(25_000, 25.0, 50.0)
    pairs = Pairs(250, 100, 300, 1.0, 2.0, 3.0)
    stages = Stages(500, 1e-3, 0.0, 0.0, summable=True, index_bytes=40, pairs=pairs, every=5)
    one = Measurement("x", 250, 1000, 100, stages, 0.5)
    scaled = one.scaled(25)
    assert (scaled.elements, scaled.dense_bytes, scaled.stored) == (6250, 25_000, 2500)
    assert scaled.stages == Stages(
        12_500, 25e-3, 0.0, 0.0, summable=True, index_bytes=1000, pairs=pairs.scaled(25), every=5
    )
    assert scaled.stages.pairs == Pairs(6250, 2500, 7500, 25.0, 50.0, 75.0)
    assert (scaled.ratio, scaled.error, scaled.scheme) == (one.ratio, one.error, "x")
