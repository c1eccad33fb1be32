"""Tests of the schedules of the ratio."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from wirecodec.settings.schedule import parse_schedule, schedule_string


def test_a_warm_up_ends_at_each_tensors_own_ratio() -> None:
    ramp = wc.WarmUp(4)
    assert [round(ramp(t, 0.001), 6) for t in (0, 1, 2, 3, 4, 100)] == [
        *(1.0, 0.177828, 0.031623, 0.005623),
        *(0.001, 0.001),
    ]
    assert ramp(4, 0.1) == 0.1
    quarter = wc.WarmUp(4, start=0.25)  # DGC, section 3.3: sparsities of 75, 93.75, 98.4375, 99.6 and 99.9 %
    assert [round(quarter(t, 0.25**5), 10) for t in range(5)] == [0.25 ** (t + 1) for t in range(5)]
    assert quarter(0, 0.5) == 0.5
    hold = wc.WarmUp(3, hold=True)
    assert [hold(t, 0.01) for t in range(5)] == [1.0, 1.0, 1.0, 0.01, 0.01]


def test_steps_and_learning_rates() -> None:
    steps = wc.Steps({3000: 0.0, 10: 0.1})
    assert [steps(t, 0.02) for t in (0, 9, 10, 2999, 3000)] == [0.02, 0.02, 0.1, 0.1, 1.0]
    factors = wc.Steps({0: 10, 5: 0.5}, factor=True)
    assert [factors(t, r) for t, r in ((0, 0.02), (0, 0.2), (5, 0.02))] == [0.2, 1.0, 0.01]
    falling = wc.Diminishing(theta=0.9)
    ratios = [falling(t, 0.5) for t in range(50)]
    assert ratios[0] == pytest.approx(0.1)
    assert all(a <= b for a, b in pairwise(ratios))
    assert falling(10**6, 0.5) > 0.95
    assert wc.Diminishing()(0, 0.02) == pytest.approx(0.02)
    assert 0.5 < wc.Diminishing().decay <= 1, "Theorem 3.5"
    rate = {"lr": 0.25}
    follow = wc.Follow(lambda: rate["lr"])
    assert follow(0, 0.1) == 0.5
    rate["lr"] = 0.01
    assert follow(1, 0.1) == pytest.approx(0.9)


def test_strings_and_faults() -> None:
    for schedule in (
        wc.WarmUp(3, start=0.5, hold=True),
        wc.Steps({0: 0.1, 30: 1e-3}),
        wc.Steps({5: 2.0}, factor=True),
        wc.Diminishing(0.5, 2.0),
        wc.Follow(0.1, theta=0.8),
    ):
        assert parse_schedule(schedule_string(schedule)) == schedule
    wrong: list[Any] = [
        *(lambda: wc.WarmUp(0), lambda: wc.WarmUp(2, start=0), lambda: wc.Diminishing(1.0)),
        *(lambda: wc.Steps({0: 1.5}), lambda: wc.Steps({-1: 0.5}), lambda: wc.Steps("x")),
        *(lambda: wc.Follow(0.1, theta=1), lambda: wc.Follow(lambda: -1.0)(0, 0.1)),
    ]
    for call in wrong:
        with pytest.raises(wc.EncodeError):
            call()
    with pytest.raises(wc.EncodeError, match="a warm-up ends at each tensor's own ratio"):
        wc.WarmUp(0.01, 20)


def test_schedules_set_the_ratio(rng: np.random.Generator) -> None:
    names = ("a", "b", "fixed")
    g = {name: rng.normal(size=1000).astype(np.float32) for name in names}
    schemes = {
        "a": "topk(0.01) | rice | qsgd",
        "b": "topk(0.1) | rice | qsgd",
        "*": "topk(k=7) | rice | raw",
    }
    c = wc.Compressor(schemes, schedule=wc.WarmUp(2, start=0.25))
    counts = [{n: t.nnz for n, t in c.decompress(c.compress(g)).items()} for _ in range(3)]
    assert counts == [{"a": a, "b": b, "fixed": 7} for a, b in ((250, 250), (50, 158), (10, 100))]
    own = wc.Compressor("topk(0.5) | rice | raw", schedule=lambda step, ratio: 2.0)
    with pytest.raises(wc.EncodeError, match=r"tensor 'w': ratio is 2\.0 at step 0"):
        own.compress({"w": g["a"]})


def test_a_warm_up_that_holds_sends_raw(rng: np.random.Generator) -> None:
    """No value codec, transform or selector touches a tensor while nothing is compressed."""
    g = {"w": rng.normal(size=1000).astype(np.float32)}
    for scheme in (
        "topk(0.01) | rice | qsgd",
        "rfft | topk(0.1) | rice | offset-float",
        "all | raw-index | 3lc",
    ):
        c = wc.Compressor(scheme, schedule=wc.WarmUp(2, hold=True))
        for _ in range(2):
            assert c.decompress(c.compress(g))["w"].to_dense().tobytes() == g["w"].tobytes()
        assert c.decompress(c.compress(g))["w"].to_dense().tobytes() != g["w"].tobytes()


def test_adacomp_and_sidco_take_schedules(rng: np.random.Generator) -> None:
    g = {"w": rng.laplace(size=20_000).astype(np.float32)}
    c = wc.Compressor("adacomp(50) | rice | raw", schedule=wc.Steps({1: 1.5, 2: 1.0}, factor=True))
    assert [str(c.scheme("w", step=step).select) for step in range(3)] == [
        *("AdaComp(bin=50, factor=2.0)", "AdaComp(bin=50, factor=3.0)", "AdaComp(bin=50, factor=2.0)")
    ]
    counts = [wc.decode_many(c.compress(g))["w"].nnz for _ in range(3)]
    assert counts[1] > counts[2]
    for mode in ("faithful", "retargeted"):
        c = wc.Compressor(f"sidco(0.01, mode={mode}) | rice | raw", schedule=wc.WarmUp(4))
        counts = [wc.decode_many(c.compress(g))["w"].nnz for _ in range(6)]
        assert counts[0] == 20_000
        assert all(a > b for a, b in pairwise(counts[:5]))


def test_a_schedule_is_saved(rng: np.random.Generator) -> None:
    rate = {"lr": 0.25}
    c = wc.Compressor("topk(0.1) | rice | raw", schedule=wc.Follow(lambda: rate["lr"]))
    state = c.state_dict()
    other = wc.Compressor("topk(0.1) | rice | raw", schedule=wc.Follow(lambda: rate["lr"] / 4, theta=0.1))
    other.load_state_dict(state)
    assert other.schedule(0, 0.1) == 0.75
    plain = wc.Compressor("topk(0.1) | rice | raw")
    plain.load_state_dict(state)
    assert plain.schedule == wc.Follow(0.25)


def test_bad_combinations_say_what_to_do() -> None:
    with pytest.raises(wc.EncodeError, match=r"no scheme has a ratio .* use a selector with a ratio"):
        wc.Compressor("threshold(0.1) | rice | raw", schedule=wc.WarmUp(3))
    with pytest.raises(wc.EncodeError, match="it must take the step and the tensor's own ratio"):
        wc.Compressor("topk(0.1) | rice | raw", schedule=lambda step: 0.1)
    with pytest.raises(wc.EncodeError, match=r"schedule is 0\.1; it must be"):
        wc.Compressor("topk(0.1) | rice | raw", schedule=0.1)
