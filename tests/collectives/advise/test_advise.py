"""Comparison of schemes with made-up times, its page and its picture, and budgets."""

from __future__ import annotations

import dataclasses
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from collectives.advise import budget as budget_module
from collectives.advise.budget import find_budget, format_budget
from collectives.advise.candidates import COMMON, MORE, parse_candidate
from collectives.advise.cost_model import Network, Step
from collectives.advise.measurement import Gradient, Measurement, Stages, measure
from collectives.advise.page import format_advice
from collectives.advise.picture import draw_advice, make_title, merge_curves
from collectives.advise.prediction import Advice, advise, compare, leave_out_alike, predict

M = 1_000_000
X = np.random.default_rng(3).laplace(size=5000).astype(np.float32)


def make_measurement(name: str, nbytes: int, select: float, decode: float) -> Measurement:
    return Measurement(name, M // 4, M, 100, Stages(nbytes, select, 0.0, decode), 0.5)


def advice(bandwidth: float, *schemes: Measurement) -> Advice:
    network, gradient = Network(2, bandwidth), Gradient(M)
    return compare(gradient, network, schemes)


QUICK = make_measurement("quick", M // 10, 1e-3, 0.0)
"""Saves 0.9 M bytes for 1 ms: pays below 0.9 GB/s."""
SLOW = make_measurement("slow", M // 100, 9e-3, 0.0)
"""Saves 0.99 M bytes for 9 ms: pays below 110 MB/s."""


def test_predictions() -> None:
    both = advice(0.5e9, QUICK, SLOW)
    assert [v.measurement.scheme for v in both.predictions] == ["quick", "slow"]
    assert [v.pays for v in both.predictions] == [True, False]
    assert both.predictions[0].speed_up == pytest.approx(2e-3 / 1.2e-3)
    assert both.predictions[0].min_ratio == pytest.approx(2)
    assert both.predictions[1].min_ratio == math.inf
    assert both.max_bandwidth == pytest.approx(0.9e9)
    assert [v.measurement.scheme for v in advice(1e6, QUICK, SLOW).predictions] == ["slow", "quick"]


def test_page_where_some_pay() -> None:
    page = format_advice(advice(0.5e9, QUICK, SLOW), "grad.npy")
    assert page.startswith(
        "grad.npy: 250,000 elements; 2 ranks at 4 Gbit/s, 0 µs per message; exchanges alone, "
    )
    assert "* is the fastest: quick, 1.67 times as fast as the dense all-reduce, error 0.5." in page
    assert "1 of 2 schemes pays. From 7.2 Gbit/s on none pays." in page
    assert "dense all-reduce of 1,000,000 bytes: 2 ms, 2 ms of it sending" in page
    lines = [" ".join(line.split()) for line in page.splitlines()]
    assert lines[1].startswith("* is the fastest: ")
    assert [lines[4].strip(), *lines[5:7]] == [
        "scheme error ratio exchange speed-up algorithm pays",
        "* quick 0.5 10.0 1.2 ms 1.67 allgather below 7.2 Gbit/s",
        lines[6],
    ]
    assert "below 880 Mbit/s" in lines[6]
    assert lines[8:10] == [
        "scheme bytes select encode decode rest sending least ratio",
        "quick 100,000 1 ms 0 µs 0 µs 0 µs 200 µs 2.00",
    ]
    assert lines[10].endswith(" none")


def test_page_where_none_pays() -> None:
    near = format_advice(advice(0.9e9, dataclasses.replace(QUICK, stages=Stages(M // 5, 1e-3, 0, 0))), "x")
    assert (
        "The scheme does not pay. The nearest is quick: with its times a ratio above 10.0 would pay" in near
    )
    assert "and its ratio is 5.0." in near
    far = format_advice(advice(1e12, QUICK, SLOW), "x")
    assert "None of 2 schemes pays." in far
    assert "None would at any ratio: computing alone takes longer" in far
    never = format_advice(advice(1e9, make_measurement("large", M, 1e-3, 0.0)), "x")
    assert "nowhere" in never
    assert "None pays at any bandwidth." in never


def test_page_where_one_pays_everywhere() -> None:
    gradient, network = Gradient(M, add=1.0), Network(2, 1e9)
    prediction = predict(make_measurement("all", 100, 0.0, 1e-3), gradient, network)
    page = format_advice(Advice(gradient, network, Step(), (prediction,), excluded=(("that", "why"),)), "x")
    assert "everywhere" in page
    assert "However fast the network, 1 pays: it computes less than the dense all-reduce." in page
    assert "excluded: that: why" in page


def test_page_says_what_to_try_next() -> None:
    """Another scheme than the default only if there is one, and local updates only if the steps wait long."""
    gradient, network = Gradient(M, add=1.0), Network(2, 1e9)
    default = "budget(0.25) | rice | error-bounded"

    def last_line(scheme: str, compute: float) -> str:
        step = Step(compute)
        prediction = predict(make_measurement(scheme, M // 10, 0.0, 1e-3), gradient, network, step)
        return format_advice(Advice(gradient, network, step, (prediction,)), "x").splitlines()[-1]

    begin = f'To train, begin with {default} and scope="group", as the README does.'
    assert last_line(default, 0.0) == begin
    assert last_line(default, 10.0) == begin
    assert (
        last_line("other", 10.0) == f"{begin} Take *, the pick for the time of one step, if steps still wait."
    )
    assert re.search(
        r"\. Steps with \* wait for \d\d% of their time: try local updates as well\.$",
        last_line(default, 1e-3),
    )


def test_default_schemes_are_different_schemes() -> None:
    defaults = COMMON + MORE
    assert len({parse_candidate(text).name for text in defaults}) == len(defaults)


def test_default_schemes_that_cannot_carry_a_gradient_are_told() -> None:
    x = np.append(X.astype(np.float64), 1e300)
    advice = advise({"x": x}, Network(2, 1e9), budget=1e-3)
    assert {s for s, _ in advice.excluded} >= {"all | raw-index | raw(bfloat16)"}
    assert "too large for bfloat16" in dict(advice.excluded)["all | raw-index | raw(bfloat16)"]
    assert len(advice.predictions) + len(advice.excluded) + len(advice.alike) == len(COMMON)
    with pytest.raises(wc.EncodeError, match="too large"):
        advise({"x": x}, Network(2, 1e9), [parse_candidate("all | raw-index | raw(bfloat16)")])


EXACT = dataclasses.replace(make_measurement("exact", M // 2, 1e-3, 0.0), error=0.01)
"""Slower than QUICK, with a smaller error."""


def test_schemes_within_the_bound_come_first_and_the_fastest_is_the_pick() -> None:
    gradient, network = Gradient(M), Network(2, 0.5e9)

    def pick(max_error: float) -> str | None:
        found = compare(gradient, network, [SLOW, EXACT, QUICK], max_error=max_error).pick
        return None if found is None else found.measurement.scheme

    assert [pick(bound) for bound in (math.inf, 0.5, 0.4, 0.001)] == ["quick", "quick", "exact", None]
    bounded = compare(gradient, network, [SLOW, EXACT, QUICK], max_error=0.4)
    assert [p.measurement.scheme for p in bounded.predictions] == ["exact", "quick", "slow"]
    page = format_advice(bounded, "x", other_ranks=[2])
    assert [line[:1] for line in page.splitlines()[5:8]] == ["*", ">", ">"]
    assert "* is the fastest with an error of at most 0.4: exact" in page
    assert "> has an error above 0.4." in page
    assert "begin with budget(0.25)" in page.splitlines()[-1]
    assert page.count("exact") == 4  # both tables, the pick, and the pick for 2 ranks
    none = format_advice(compare(gradient, network, [QUICK], max_error=0.1), "x")
    assert "No scheme has an error of at most 0.1; --max-error sets the bound." in none
    assert "begin with" not in none  # there is no other scheme to take
    unknown = dataclasses.replace(QUICK, error=math.nan)
    assert compare(gradient, network, [unknown], max_error=0.9).pick is None


def test_of_steps_that_take_nearly_as_long_the_least_error_is_the_pick() -> None:
    """QUICK takes 1.2 ms, EXACT 2 ms, SLOW 9.02 ms: with 20 ms of computing, EXACT is 4 % slower."""
    gradient, network = Gradient(M), Network(2, 0.5e9)
    slow = dataclasses.replace(SLOW, error=0.001)

    def pick(compute: float, max_error: float = math.inf) -> str:
        found = compare(gradient, network, [slow, EXACT, QUICK], step=Step(compute), max_error=max_error)
        assert found.pick is not None
        assert found.predictions[0].measurement.scheme == "quick"
        return found.pick.measurement.scheme

    assert [pick(compute) for compute in (0.0, 0.01, 0.02, 0.2)] == ["quick", "quick", "exact", "slow"]
    page = format_advice(compare(gradient, network, [slow, EXACT, QUICK], step=Step(0.02)), "x")
    first, step, verdict = page.splitlines()[:3]
    assert "exchanges alone" not in first
    assert step.startswith("forward and backward take 20 ms")
    assert verdict.startswith(
        "* has the least error of the steps that take at most 5% longer than the fastest: ex"
    )
    assert [line[:8].strip() for line in page.splitlines()[6:9]] == ["quick", "*  exact", "slow"]


def test_schemes_alike_in_time_and_error_are_left_out() -> None:
    twin = dataclasses.replace(QUICK, scheme="twin", error=0.501)
    other = dataclasses.replace(QUICK, scheme="other error", error=0.6)
    both = leave_out_alike(advice(0.5e9, QUICK, twin, other, SLOW))
    assert [p.measurement.scheme for p in both.predictions] == ["quick", "other error", "slow"]
    assert both.alike == ("twin",)
    assert "left out, like one of the above: twin" in format_advice(both, "x")


def test_curves_that_coincide_are_one_curve() -> None:
    twin = dataclasses.replace(QUICK, scheme="twin", error=0.9)
    curves = merge_curves(advice(0.5e9, QUICK, twin, SLOW), np.geomspace(1e6, 1e10, 20))
    assert [[p.measurement.scheme for p in c.predictions] for c in curves] == [["quick", "twin"], ["slow"]]


def test_title_of_the_picture_is_complete() -> None:
    assert make_title(advice(0.5e9, QUICK), "x") == "x: 250,000 elements; 2 ranks, 0 µs per message"


def test_without_a_scheme_there_is_nothing_to_measure() -> None:
    with pytest.raises(wc.EncodeError, match="no scheme to measure"):
        advise({"x": X}, Network(2, 1e9), [])


def test_picture(tmp_path: Path) -> None:
    draw_advice(
        advice(0.5e9, QUICK, SLOW, make_measurement("large", 2 * M, 0.0, 0.0)), "x", tmp_path / "x.png"
    )
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


def test_budget_of_a_time() -> None:
    """A slow network carries bandwidth · time / (ranks - 1) bytes per rank, less what computing takes."""
    tensors = {
        "a": X.astype(np.float32),
        "b": np.random.default_rng(0).laplace(size=60_000).astype(np.float32),
    }
    network = Network(3, 20_000.0)
    found = find_budget(tensors, network, 1.0)
    assert 0.7 * 10_000 <= found.nbytes <= 10_000
    assert 0.7 <= found.predicted <= 1.0
    assert 0 < found.error < 1
    assert f"budget(bits={found.bits:.3g})" in format_budget(found)[0]


def test_a_budget_never_takes_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Computing that takes most of the time with many bits, and little with few, leaves a smaller budget."""

    def slow_per_byte(*arguments: Any, **options: Any) -> tuple[Gradient, list[Measurement]]:
        gradient, (one,) = measure(*arguments, **options)
        stages = dataclasses.replace(one.stages, select=0.0, encode=one.stages.nbytes / 10_000)
        return gradient, [dataclasses.replace(one, stages=stages)]

    monkeypatch.setattr(budget_module, "measure", slow_per_byte)
    x = np.random.default_rng(0).laplace(size=60_000).astype(np.float32)
    found = find_budget({"a": x}, Network(3, 20_000.0), 1.0)
    assert 0.75 <= found.predicted <= 1.0


def test_no_budget_is_short_enough() -> None:
    found = find_budget({"a": X.astype(np.float32)}, Network(3, 1e9, 1.0), 0.5)
    assert found.bits == 0
    assert format_budget(found) == ["No budget is exchanged in 500 ms: computing alone takes longer."]


def test_clt_k_and_local_updates_are_compared_by_the_same_model() -> None:
    """At 10 Mbit/s and many ranks the bytes decide: CLT-k's stay constant, local updates send a fifth."""
    texts = ["topk(0.02) | rice | raw", "clt-k(0.02)", "local-updates(5) | topk(0.02) | rice | raw"]
    network = Network(64, 1.25e6)
    found = advise({"x": X}, network, [parse_candidate(text) for text in texts], budget=1e-3)
    assert [p.measurement.scheme for p in found.predictions] == ["clt-k(0.02)", texts[0], texts[2]]
    assert found.pick is found.predictions[0]
    plain, local = found.predictions[1:]
    (gathered,) = (cost for cost in plain.costs if cost.algorithm == "allgather")
    (spread,) = (cost for cost in local.costs if cost.algorithm == "allgather, every 5")
    assert spread.nbytes == gathered.nbytes / 5
    assert {cost.algorithm for cost in plain.costs} == {"allgather", "split", "decoded"}
    page = format_advice(found, "x")
    assert [line[:1] for line in page.splitlines()[5:8]] == ["*", " ", "~"]
    assert "~ changes the training" in page
    assert local.speed_up == pytest.approx(found.dense.seconds(network) / local.seconds)
    for text, says in (
        ("local-updates(1) | dgc", "must be 2 or more"),
        ("local-updates(1.5) | dgc", "must be an integer"),
        ("clt-k(x)", "must be a number"),
        ("clt-k(2)", "at most 1"),
    ):
        with pytest.raises(wc.EncodeError, match=says):
            parse_candidate(text)


def test_whole_steps_of_every_method() -> None:
    """Ok-Topk, a budget over one vector and PowerSGD take part; the page has steps and what of them waits."""
    rng = np.random.default_rng(0)
    low = (rng.normal(size=(300, 2)) @ rng.normal(size=(2, 200))).astype(np.float32)
    texts = ["powersgd(2)", "ok-topk | topk(0.01) | rice | qsgd", "budget(0.5) | rice | error-bounded"]
    tensors = {"a": low, "b": rng.normal(size=50).astype(np.float32)}
    step = Step(0.3, overlap=False)
    found = advise(tensors, Network(4, 1e6), list(map(parse_candidate, texts)), step=step, budget=1e-3)
    by_name = {p.measurement.scheme: p for p in found.predictions}
    assert by_name["powersgd(2)"].measurement.error < 1e-3
    assert by_name["powersgd(2)"].measurement.stages.nbytes == 4 * (2 * 500 + 50)
    assert {p.cost.algorithm for p in found.predictions} == {"factors", "ok-topk", "allgather"}
    dense = 0.3 + found.dense.seconds(found.network)
    for prediction in found.predictions:
        assert prediction.step_seconds == pytest.approx(0.3 + prediction.seconds)
        assert prediction.speed_up == pytest.approx(dense / prediction.step_seconds)
    page = format_advice(found, "x")
    assert "forward and backward take 300 ms; gradients are exchanged after them" in page
    assert "waits" in page
    assert "times as fast as a step with the dense all-reduce" in page
    with pytest.raises(wc.EncodeError, match="no tensor is a matrix"):
        advise({"b": tensors["b"]}, Network(4, 1e6), [parse_candidate("powersgd(2)")])
    for wrong in ("powersgd(0)", "powersgd(x)", "ok-topk | rfft | topk(0.1) | rice | raw"):
        with pytest.raises(wc.EncodeError):
            parse_candidate(wrong)
