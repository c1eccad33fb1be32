"""SIDCo: sweeps compared with NumPy, stages and controller with the paper's text, k̂ with k."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wirecodec as wc
from tests import oracles
from wirecodec.select.papers.sidco import controller as sidco_controller
from wirecodec.select.papers.sidco.magnitudes import Magnitudes

SIDS = ("exponential", "gamma-gp", "gp")
DENSITIES = (0.1, 0.01, 0.001)


def test_sweeps_are_the_moments(rng: np.random.Generator, dtype: np.dtype[Any]) -> None:
    for size in (0, 1, 63, 64, 65, 4095, 4096, 4097, 9000):
        for scale in (1.0, 2.0**-17, 2.0**-24):
            x = (rng.laplace(size=size) * scale * (rng.random(size) < 0.8)).astype(dtype)
            g = np.abs(x.astype(np.float64))
            found = Magnitudes(x, "test", with_logs=True)
            assert found.total.count == np.count_nonzero(g)
            present = g[g > 0] * found.scale
            if present.size == 0:
                continue
            total = found.total
            assert total.mean == pytest.approx(present.mean(), rel=1e-5)
            assert total.variance == pytest.approx(present.var(), rel=1e-4, abs=1e-5 * present.mean() ** 2)
            assert total.log_mean == pytest.approx(np.log(present).mean(), rel=1e-6, abs=1e-5)
            at = found.round_up(float(np.median(present)) * 1.01)
            beyond, below = found.moments_above(at), found.moments_between(0.0, at)
            y = present[present >= at] - at
            assert beyond.count == y.size
            assert below.count == present.size - y.size
            if y.size:
                assert beyond.mean == pytest.approx(y.mean(), rel=1e-4, abs=1e-6 * at)
            assert found.find_reaching(at, size).tolist() == np.flatnonzero(g * found.scale >= at).tolist()
            assert found.narrow(at, expected=0) == y.size
            if y.size:
                higher = found.round_up(at * 1.5)
                assert (
                    found.find_reaching(higher, size).tolist()
                    == np.flatnonzero(g * found.scale >= higher).tolist()
                )


def test_sums_have_one_order(rng: np.random.Generator) -> None:
    x = rng.standard_t(2, 300_001).astype(np.float32)
    first = wc.selectors.SIDCo(0.01, "gamma-gp").search(x)
    again = wc.selectors.SIDCo(0.01, "gamma-gp").search(
        np.concatenate([np.ones(3, np.float32), x])[3:].copy()
    )
    assert first.measured == again.measured


# Faithful mode.


@pytest.mark.parametrize("sid", SIDS)
def test_faithful_stages_are_the_papers(sid: str, rng: np.random.Generator, dtype: np.dtype[Any]) -> None:
    gradients = {
        "laplace": rng.laplace(size=60_000),
        "heavy": rng.standard_t(3, 60_000) * 1e-3,
        "sparse": rng.laplace(size=60_000) * (rng.random(60_000) < 0.15),
        "layers": rng.laplace(size=60_000) * np.repeat([1, 0.01, 0.1], 20_000),
    }
    for name, x in gradients.items():
        y = x.astype(dtype)
        for ratio in (0.3, *DENSITIES):
            for stages in (1, 2, 4):
                if stages > sidco_controller.max_stages(ratio):
                    continue
                found = wc.selectors.SIDCo(ratio, sid, mode="faithful", stages=stages).search(y)
                expected = oracles.sidco_threshold(y, ratio, sid, stages)
                step = {"float16": 2**-8, "bfloat16": 2**-5}.get(dtype.name, 2e-4)
                assert found.threshold == pytest.approx(expected, rel=step, abs=1e-7), (name, ratio, stages)
                keep = np.abs(y.astype(np.float64)) >= found.threshold
                assert found.threshold > 0
                assert found.selection.indices.tolist() == np.flatnonzero(keep).tolist()


@settings(max_examples=100)
@given(
    st.lists(st.floats(0, 5).map(lambda r: round(r, 2)), min_size=1, max_size=60),
    st.sampled_from([0.5, 0.1, 0.01, 0.001]),
    st.integers(1, 6),
    st.integers(1, 12),
    st.sampled_from([(0.2, 0.2), (0.5, 0.1)]),
)
def test_controller_is_the_papers(
    ratios: list[float], ratio: float, window: int, begin: int, tolerances: tuple[float, float]
) -> None:
    most, (high, low) = sidco_controller.max_stages(ratio), tolerances
    assert most == math.ceil(math.log2(1 / ratio))
    begin = min(begin, most)
    control, taken = sidco_controller.restore(None, begin), []
    for kept in ratios:
        taken.append(control.stages)
        control = sidco_controller.restore(sidco_controller.save(control), 99)
        control = sidco_controller.update(control, kept, most=most, window=window, bounds=(1 - low, 1 + high))
    assert taken == oracles.sidco_stages(ratios, most, begin=begin, window=window, high=high, low=low)


def test_the_printed_controller_stays_at_one_stage_that_keeps_too_much(rng: np.random.Generator) -> None:
    """With one stage, an exponential fit keeps far too much of a heavy tail; adaptive leaves it."""
    kept: dict[str, list[float]] = {"faithful": [], "adaptive": []}
    for mode, counts in kept.items():
        state: Any = None
        for _ in range(40):
            x = rng.standard_t(3, 100_000).astype(np.float32)
            selection = wc.selectors.SIDCo(0.001, mode=mode).select(x, state=state)
            assert state is None or state is not selection.state
            state = selection.state
            counts.append(selection.indices.size / 100)
        if mode == "faithful":
            assert state[0] == 1
    assert min(kept["faithful"]) > 2
    assert abs(np.mean(kept["adaptive"][-10:]) - 1) < 0.2


def test_a_state_of_an_older_version_is_read() -> None:
    old = np.array([3, -1, 2, 1.75, np.inf])
    assert sidco_controller.restore(old, 1) == sidco_controller.Controller(3, 2, 1.75)


def test_faithful_state_is_a_compressors(rng: np.random.Generator) -> None:
    scheme = "sidco(0.01, mode=faithful, window=3) | rice | raw"
    one = wc.Compressor(scheme)
    gradients = [{"w": rng.standard_t(3, 20_000).astype(np.float32)} for _ in range(20)]
    for g in gradients[:10]:
        one.compress(g)
    saved = one.state_dict()
    assert saved["selector/w"].shape == (3,)
    two = wc.Compressor(scheme)
    two.load_state_dict(saved)
    for g in gradients[10:]:
        assert one.compress(g).tobytes() == two.compress(g).tobytes()
    assert all(np.array_equal(one.state_dict()[key], x) for key, x in two.state_dict().items())
    assert not np.array_equal(one.state_dict()["selector/w"], saved["selector/w"])
    prepared = two.prepare(gradients[0])
    before = two.state_dict()["selector/w"]
    prepared.rollback()
    assert np.array_equal(two.state_dict()["selector/w"], before)


@pytest.mark.parametrize(
    "state",
    [np.zeros(3), np.ones(4), np.ones(3, np.float32), np.array([1, -1, 0.0]), [1, np.nan, 0], "x"],
)
def test_invalid_states_raise(state: Any) -> None:
    with pytest.raises(wc.EncodeError, match="state"):
        wc.selectors.SIDCo(0.1, mode="faithful").select(np.ones(10, np.float32), state=state)
    with pytest.raises(wc.EncodeError, match="state"):
        wc.selectors.SIDCo(0.1, mode="adaptive").select(np.ones(10, np.float32), state=state)


@pytest.mark.parametrize("name", ["tolerance_high", "tolerance_low", "max_stages"])
def test_each_bound_is_its_own(name: str, rng: np.random.Generator) -> None:
    """Two stages keep several times k of a heavy tail, and half of k of a light one."""
    heavy, normal = rng.standard_t(3, 50_000), rng.normal(size=50_000)
    light = np.sign(normal) * np.abs(normal) ** 1.4

    def stages_after_a_window(x: Any, **given: Any) -> int:
        selector = wc.selectors.SIDCo(0.001, mode="faithful", window=1, stages=2, **given)
        return int(selector.select(x.astype("f4")).state[0])

    assert (stages_after_a_window(heavy), stages_after_a_window(light)) == (1, 3)
    value, expected = {
        "tolerance_high": (100, (2, 3)),
        "tolerance_low": (0.999, (1, 2)),
        "max_stages": (2, (1, 2)),
    }[name]
    found = stages_after_a_window(heavy, **{name: value}), stages_after_a_window(light, **{name: value})
    assert found == expected


# Adaptive mode.


@pytest.mark.sampled
@pytest.mark.parametrize("ratio", DENSITIES)
@pytest.mark.parametrize("sid", SIDS)
def test_adaptive_settles(gradient: Any, sid: str, ratio: float) -> None:
    """Each window of the last 20 is within the tolerance, under feedback, and so is the first call."""
    rng, selector = np.random.default_rng(6), wc.selectors.SIDCo(ratio, sid, mode="adaptive")
    residual, state, kept = np.zeros_like(gradient), None, []
    for step in range(150):
        noise = rng.laplace(size=gradient.size) if step % 2 else rng.normal(size=gradient.size)
        x = (residual + gradient * (0.7**step + 0.3 * noise)).astype(np.float32)
        selection = selector.select(x, state=state)
        state, residual = selection.state, x
        kept.append(selection.indices.size / oracles.selected_count(repr(ratio), x.size))
        residual[selection.indices] = 0
    assert abs(kept[0] - 1) <= 0.2
    assert np.abs(np.reshape(kept, (-1, 5)).mean(1)[-20:] - 1).max() <= 0.2


def test_the_adaptive_mode_is_near_k_without_a_compressor(rng: np.random.Generator) -> None:
    for x in (rng.standard_t(3, 100_000), rng.normal(size=100_000), rng.laplace(size=100_000)):
        stored = wc.decode(wc.encode(x.astype(np.float32), wc.preset("sidco(mode=adaptive)"))).nnz
        assert abs(stored / 100 - 1) <= 0.2


# Retargeted mode.


def near(x: Any, ratio: float, found: Any, off: float = 0.05) -> None:
    """Check that k̂ is within ``off`` of k, and that the largest are selected."""
    k = oracles.selected_count(repr(ratio), x.size)
    g = np.abs(x.astype(np.float64))
    indices = found.selection.indices
    assert (np.diff(indices) > 0).all()
    assert abs(indices.size - min(k, np.count_nonzero(g))) <= off * k
    out = np.ones(x.size, bool)
    out[indices] = False
    if indices.size and out.any():
        assert 0 < g[indices].min() >= g[out].max()
        assert (
            found.threshold == pytest.approx(g[indices].min(), rel=1e-6)
            if found.exact
            else (g[indices].min() >= found.threshold > g[out].max())
        )


@pytest.mark.parametrize("sid", SIDS)
def test_real_gradients_stay_near_k(gradient: Any, sid: str) -> None:
    for ratio in (0.5, *DENSITIES):
        found = wc.selectors.SIDCo(ratio, sid).search(gradient)
        near(gradient, ratio, found)
        assert found.reads <= 5


@pytest.mark.sampled
@pytest.mark.parametrize("ratio", DENSITIES)
@pytest.mark.parametrize("sid", SIDS)
def test_feedback_stays_near_k(gradient: Any, sid: str, ratio: float) -> None:
    """This holds at every one of 60 iterations, although the residual has an edge at the last threshold."""
    rng = np.random.default_rng(6)
    gradient = gradient[:100_000]
    residual = np.zeros_like(gradient)
    for step in range(60):
        noise = rng.laplace(size=gradient.size) if step % 2 else rng.normal(size=gradient.size)
        x = (residual + gradient * (0.7**step + 0.3 * noise)).astype(np.float32)
        found = wc.selectors.SIDCo(ratio, sid).search(x)
        near(x, ratio, found)
        residual = x.copy()
        residual[found.selection.indices] = 0


def shapes(rng: np.random.Generator) -> dict[str, Any]:
    n = 50_000
    return {
        "laplace": rng.laplace(size=n),
        "cauchy": rng.standard_cauchy(n).clip(-6e4, 6e4),
        "log-uniform": np.exp(rng.uniform(-14, 11, n)),
        "uniform": rng.random(n),
        "constant": np.full(n, -0.25),
        "two values": np.where(rng.random(n) < 0.03, 2.0, 1.0),
        "one spike": np.where(np.arange(n) == 300, 6e4, 1e-4 * rng.normal(size=n)),
        "few spikes": np.where(np.arange(n) % 5000 == 0, 6e4, rng.laplace(size=n) * 1e-4),
        "mostly zeros": rng.normal(size=n) * (rng.random(n) < 0.03),
        "integers": rng.integers(-9, 10, n),
        "bimodal": np.where(rng.random(n) < 0.002, 1000.0, 0) + rng.laplace(size=n),
        "ascending": np.arange(n) / n,
        "alternating tiny": np.where(np.arange(n) % 2, 1e-7, 1.0) * rng.laplace(size=n),
    }


@pytest.mark.parametrize("sid", SIDS)
def test_any_shape_stays_near_k(sid: str, rng: np.random.Generator, dtype: np.dtype[Any]) -> None:
    for name, x in shapes(rng).items():
        y = x.astype(dtype)
        for ratio in (0.6, *DENSITIES, 1 / y.size):
            try:
                near_or_ties(y, ratio, wc.selectors.SIDCo(ratio, sid).search(y))
            except AssertionError as error:
                raise AssertionError(f"{name}, {ratio}") from error


def near_or_ties(y: Any, ratio: float, found: Any) -> None:
    if found.exact:
        assert found.selection.indices.tolist() == oracles_top(y, ratio)
    else:
        near(y, ratio, found)


def oracles_top(y: Any, ratio: float) -> list[int]:
    order = np.lexsort((np.arange(y.size), -np.abs(y.astype(np.float64))))
    return np.sort(order[: oracles.selected_count(repr(ratio), y.size)]).tolist()


@pytest.mark.sampled
@pytest.mark.parametrize("sid", SIDS)
@pytest.mark.parametrize("mode", ["retargeted", "faithful"])
@pytest.mark.parametrize(
    ("dtype", "scale"),
    [
        (np.float32, 2.0**126),
        (np.float32, 2.0**-140),
        (np.float32, 2.0**-149),
        (np.float64, 2.0**1021),
        (np.float64, 2.0**1022),
        (np.float64, 2.0**-1060),
        (np.float16, 2.0**14),
        (np.float16, 2.0**-22),
    ],
)
def test_extreme_magnitudes(sid: str, mode: str, dtype: Any, scale: float, rng: np.random.Generator) -> None:
    x = (np.clip(rng.laplace(size=30_000), -1.9, 1.9) * 1.0).astype(dtype) * dtype(scale)
    assert np.isfinite(x).all()
    with np.errstate(all="raise"):
        found = wc.selectors.SIDCo(0.01, sid, mode=mode).search(x)
    g = np.abs(x.astype(np.float64))
    if mode == "faithful":
        expected = oracles.sidco_threshold(x / dtype(scale), 0.01, sid, 1) * scale
        least = float(np.finfo(dtype).smallest_subnormal)
        if expected < float(np.finfo(dtype).max):
            assert found.threshold == pytest.approx(expected, rel=1e-3, abs=2 * least)
        else:
            assert found.selection.indices.size == 0
    elif found.exact:
        assert found.selection.indices.tolist() == oracles_top(x, 0.01)
    else:
        assert abs(found.selection.indices.size / 300 - 1) <= 0.05
        assert found.selection.indices.tolist() == np.flatnonzero(g >= found.threshold).tolist()


@pytest.mark.parametrize("mode", ["retargeted", "faithful"])
def test_few_elements(mode: str, dtype: np.dtype[Any]) -> None:
    selector = wc.selectors.SIDCo(0.5, mode=mode)
    assert selector.select(np.empty(0, dtype)).indices.size == 0
    assert selector.select(np.zeros(9, dtype)).indices.size == 0
    assert selector.select(np.array([0, -0.0, 3, 0, -1, 0], dtype)).indices.tolist() == [2, 4]
    assert selector.select(np.array([0, -0.0, 3, 0, 0, 0], dtype)).indices.tolist() == [2]
    assert wc.selectors.SIDCo(0.1, mode=mode).select(np.array([5.0], dtype)).indices is None
    assert wc.selectors.SIDCo(1.0, mode=mode).select(np.arange(4).astype(dtype)).indices is None
    for size in (1, 2, 3, 10, 64, 1000, 1025):
        x = np.random.default_rng(size).normal(size=size).astype(dtype)
        indices = wc.selectors.SIDCo(0.1).select(x).indices
        expected = oracles_top(x, 0.1)
        assert (list(range(size)) if indices is None else indices.tolist()) == expected or size > 1024


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("mode", ["retargeted", "faithful"])
def test_the_first_nonfinite_is_reported(mode: str, dtype: np.dtype[Any], bad: float) -> None:
    x = np.ones(10_000).astype(dtype)
    for at in ([5000, 7000], [9999], [0]):
        y = x.copy()
        y[at] = bad
        with pytest.raises(wc.EncodeError, match=f"element {at[0]}: sidco cannot carry") as caught:
            wc.selectors.SIDCo(0.01, mode=mode).select(y)
        assert caught.value.position == at[0]


@pytest.mark.parametrize("settings", ["sid=gp", "mode=adaptive, tolerance=0.12"])
def test_a_schedule_sets_the_ratio(rng: np.random.Generator, settings: str) -> None:
    compressor = wc.Compressor(f"sidco(0.01, {settings}) | rice | raw", schedule=wc.WarmUp(2, start=0.25))
    sizes = []
    for _ in range(3):
        g = {"w": rng.standard_t(3, 20_000).astype(np.float32)}
        sizes.append(wc.decode_many(compressor.compress(g))["w"].nnz)
    assert sizes == [pytest.approx(k, rel=0.06) for k in (5000, 1000, 200)]


def test_parameters_are_checked_and_printed() -> None:
    for wrong in (
        {"ratio": 0},
        {"ratio": 1.1},
        {"ratio": float("nan")},
        {"sid": "laplace"},
        {"mode": "paper"},
        {"stages": 0},
        {"stages": 1.5},
        {"stages": 65},
        {"first": 0},
        {"first": 1},
        {"window": 0},
        {"tolerance": -0.1},
        {"tolerance": 1},
        {"tolerance": "x"},
        {"tolerance_high": -0.1},
        {"tolerance_high": math.inf},
        {"tolerance_low": 1},
        {"max_stages": 0},
        {"max_stages": 65},
    ):
        with pytest.raises(wc.EncodeError, match="sidco"):
            wc.selectors.SIDCo(**{"ratio": 0.1, **wrong})
    scheme = wc.Scheme.parse("sidco(0.01, sid=gamma-gp, stages=4) | rice | raw")
    assert scheme.select == wc.selectors.SIDCo(0.01, "gamma-gp", stages=4)
    assert str(scheme) == "sidco(0.01, sid=gamma-gp, stages=4) | rice | raw"
    assert isinstance(wc.selectors.SIDCo(0.1), wc.Selector)
    tight = wc.selectors.SIDCo(0.01, tolerance=0).search(
        np.random.default_rng(0).laplace(size=100_000).astype("f4")
    )
    assert tight.selection.indices.size == 1000
