"""Measurement and comparison of schemes, with a fake clock or made-up times."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from wirecodec.arrays import BFLOAT16
from wirecodec.cli import advise_budget, measurement
from wirecodec.cli.advise_budget import find_budget, format_budget
from wirecodec.cli.advise_candidates import COMMON, MORE, Candidate, parse_candidate
from wirecodec.cli.advise_page import format_advice
from wirecodec.cli.advise_picture import draw_advice, make_title, merge_curves
from wirecodec.cli.advise_prediction import (
    Advice,
    advise,
    compare,
    leave_out_alike,
    predict,
)
from wirecodec.cli.bench import format_bench
from wirecodec.cli.cost_model import Gradient, Network, Stages
from wirecodec.cli.measurement import (
    Machine,
    Measurement,
    TimedScheme,
    allocate_sums,
    measure,
    measure_medians,
)
from wirecodec.cli.options import parse_scheme
from wirecodec.cli.progress import ProgressCallback

M = 1_000_000
X = np.random.default_rng(3).laplace(size=5000).astype(np.float32)
TENSORS = {"a": X[:4000].reshape(40, 100), "b": X[4000:]}


def trial(tensors: dict[str, np.ndarray], scheme: wc.Scheme) -> TimedScheme:
    return TimedScheme.prepare(tensors, Candidate.of(scheme), allocate_sums(tensors))


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


def test_what_is_measured_is_what_encode_gives() -> None:
    scheme = wc.Scheme.parse("topk(0.1) | rice | qsgd")
    one = trial({"grad.npy": X}, scheme).untimed
    assert one.stages.nbytes == wc.encode(X, scheme).nbytes
    assert (one.elements, one.dense_bytes, one.stored) == (5000, 20_000, 500)
    assert one.error == pytest.approx(
        np.linalg.norm(wc.decode(wc.encode(X, scheme)).to_dense() - X) / np.linalg.norm(X), rel=1e-5
    )
    several = trial(TENSORS, scheme).untimed
    assert several.stages.nbytes == wc.encode_many(TENSORS, scheme).nbytes


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_times_go_where_they_belong(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = X.astype(dtype)
    schemes = map(wc.Scheme.parse, ("all | raw-index | raw", "nonzero | rice | raw"))
    trials = [trial({"x": x}, scheme) for scheme in schemes]

    def numbered(calls: list[measurement.Call], *, budget: float, progress: ProgressCallback) -> list[float]:
        for call in calls:
            call()
        return [float(number) for number, _ in enumerate(calls)]

    monkeypatch.setattr(measurement, "measure_medians", numbered)
    machine = measure({"x": x}, trials)
    assert machine.copy == 0
    assert machine.gradient == Gradient(x.nbytes, add=1, finish=2)
    assert [(m.stages.select, m.stages.encode, m.stages.decode) for m in machine.measurements] == [
        (3, 4, 5),
        (6, 7, 8),
    ]
    assert [m.stages.summable for m in machine.measurements] == [True, False]
    assert [m.error for m in machine.measurements] == [0, 0]


def test_a_real_clock_measures() -> None:
    machine = measure(TENSORS, [trial(TENSORS, wc.Scheme.parse("topk(0.1) | rice | raw"))], budget=1e-3)
    (one,) = machine.measurements
    for taken in (machine.copy, machine.gradient.add, machine.gradient.finish):
        assert 0 < taken < 1
    assert 0 < one.stages.select < 1
    assert 0 < one.stages.encode < 1
    assert 0 < one.stages.decode < 1


@pytest.mark.parametrize(
    ("x", "error"),
    [(np.zeros(9), 0.0), (np.array([3e200, 4e200, 0, 0]), 0.6), (np.array([3e-200, 4e-200]), 0.6)],
)
def test_errors_of_any_magnitude(x: np.ndarray, error: float) -> None:
    assert trial({"x": x}, wc.Scheme.parse("topk(k=1) | rice | raw")).untimed.error == pytest.approx(error)


def test_what_is_not_finite_has_no_error_to_tell() -> None:
    plain = wc.Scheme.parse("all | raw-index | raw")
    x = np.array([1, np.nan, np.inf], np.float32)
    assert math.isnan(trial({"x": x}, plain).untimed.error)
    signals = np.full(9, 0x7F81, np.uint16).view(BFLOAT16)
    assert math.isnan(trial({"x": signals}, plain).untimed.error)


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
    assert page.startswith("grad.npy: 250,000 elements; 2 ranks at 4 Gbit/s, 0 µs per message\n")
    assert "* is the fastest: quick, 1.67 times as fast as the dense all-reduce, error 0.5." in page
    assert "1 of 2 schemes pays. From 7.2 Gbit/s on none pays." in page
    assert "dense all-reduce of 1,000,000 bytes: 2 ms, 2 ms of it sending" in page
    lines = [" ".join(line.split()) for line in page.splitlines()]
    assert [lines[1].strip(), *lines[2:4]] == [
        "scheme error ratio exchange speed-up algorithm pays",
        "* quick 0.5 10.0 1.2 ms 1.67 allgather below 7.2 Gbit/s",
        lines[3],
    ]
    assert "below 880 Mbit/s" in lines[3]
    assert lines[5:7] == [
        "scheme bytes select encode decode rest sending least ratio",
        "quick 100,000 1 ms 0 µs 0 µs 0 µs 200 µs 2.00",
    ]
    assert lines[7].endswith(" none")


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
    page = format_advice(Advice(gradient, network, (prediction,), excluded=(("that", "why"),)), "x")
    assert "everywhere" in page
    assert "One pays at any bandwidth" in page
    assert "excluded: that: why" in page


def test_those_who_watch_hear_how_far_it_got() -> None:
    shares: list[float] = []
    measurement.measure_medians([int, str], budget=0, progress=shares.append)
    assert shares == sorted(set(shares))
    assert shares[0] == 0
    assert 0.9 < shares[-1] < 1


def test_bench_page() -> None:
    machine = Machine(1e-4, Gradient(M), (QUICK,))
    page = format_bench(machine, "grad.npy").splitlines()
    assert page[0] == "grad.npy: 250,000 elements, 1,000,000 bytes; quick"
    assert page[2].split() == ["select", "1", "ms", "1", "10"]
    assert page[3].split()[-1] == "0"
    assert page[-1].startswith("100,000 bytes, ratio 10.0; 100 elements stored")


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
    assert [line[:1] for line in page.splitlines()[2:5]] == ["*", ">", ">"]
    assert "* is the fastest with an error of at most 0.4: exact" in page
    assert "> has an error above 0.4." in page
    assert page.count("exact") == 4  # both tables, the pick, and the pick for 2 ranks
    none = format_advice(compare(gradient, network, [QUICK], max_error=0.1), "x")
    assert "No scheme has an error of at most 0.1; --max-error sets the bound." in none
    unknown = dataclasses.replace(QUICK, error=math.nan)
    assert compare(gradient, network, [unknown], max_error=0.9).pick is None


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


def test_a_larger_gradient_of_the_same_kind_scales() -> None:
    scaled = Machine(1e-4, Gradient(M, 1.0, 2.0), (QUICK,)).scaled(25)
    assert scaled.gradient == Gradient(25 * M, 25.0, 50.0)
    (one,) = scaled.measurements
    assert (one.elements, one.dense_bytes, one.stored) == (25 * M // 4, 25 * M, 2500)
    assert one.stages == Stages(25 * (M // 10), 25e-3, 0.0, 0.0)
    assert (one.ratio, one.error) == (QUICK.ratio, QUICK.error)


def test_without_a_scheme_there_is_nothing_to_measure() -> None:
    with pytest.raises(wc.EncodeError, match="no scheme to measure"):
        advise({"x": X}, Network(2, 1e9), [])


def test_presets_are_schemes_by_name() -> None:
    assert parse_scheme("dgc") == wc.preset("dgc")
    assert parse_scheme("dgc(ratio=0.02, index=rice)") == wc.preset("dgc", ratio=0.02, index="rice")
    assert str(parse_scheme("all | raw-index | raw")) == "all | raw-index | raw"
    with pytest.raises(wc.EncodeError, match="'dcg' is neither a preset nor a scheme"):
        parse_scheme("dcg")


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

    def slow_per_byte(*arguments: Any, **options: Any) -> Machine:
        found = measure(*arguments, **options)
        one = found.measurements[0]
        stages = dataclasses.replace(one.stages, select=0.0, encode=one.stages.nbytes / 10_000)
        return dataclasses.replace(found, measurements=(dataclasses.replace(one, stages=stages),))

    monkeypatch.setattr(advise_budget, "measure", slow_per_byte)
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
    assert [line[:1] for line in page.splitlines()[2:5]] == ["*", " ", "~"]
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
