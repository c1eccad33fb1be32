"""Tests of the schedules of the density."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import wirecodec as wc


def test_schedules() -> None:
    ramp = wc.WarmUp(0.001, steps=4)
    assert [round(ramp(t), 6) for t in (0, 1, 2, 3, 4, 100)] == [
        1.0,
        0.177828,
        0.031623,
        0.005623,
        0.001,
        0.001,
    ]
    hold = wc.WarmUp(0.01, steps=3, hold=True)
    assert [hold(t) for t in range(5)] == [1.0, 1.0, 1.0, 0.01, 0.01]
    falling = wc.Diminishing(theta=0.9, rate=1.0)
    densities = [falling(t) for t in range(50)]
    assert densities[0] == pytest.approx(0.1)
    assert all(a <= b for a, b in pairwise(densities))
    assert falling(10**6) > 0.95
    for wrong in (lambda: wc.WarmUp(0, 1), lambda: wc.WarmUp(0.1, 0), lambda: wc.Diminishing(1.0, 1.0)):
        with pytest.raises(wc.EncodeError):
            wrong()


def test_schedules_set_the_density(rng: np.random.Generator) -> None:
    g = {"w": rng.normal(size=1000).astype(np.float32), "fixed": rng.normal(size=1000).astype(np.float32)}
    c = wc.Compressor(
        {"w": "topk(0.5) | rice | raw", "fixed": "topk(k=7) | rice | raw"},
        schedule=wc.WarmUp(0.01, 2, start=0.25),
    )
    counts = [{n: t.nnz for n, t in c.decompress(c.compress(g)).items()} for _ in range(4)]
    assert counts == [{"fixed": 7, "w": k} for k in (250, 50, 10, 10)]
    own = wc.Compressor("topk(0.5) | rice | raw", schedule=lambda step: 2.0)
    with pytest.raises(wc.EncodeError, match=r"density is 2\.0 at step 0"):
        own.compress(g)
