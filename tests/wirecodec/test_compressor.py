"""State from step to step: residuals, schedules, commit and rollback, saving."""

from __future__ import annotations

import contextlib
import copy
import io
import sys
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pytest

import wirecodec as wc
from wirecodec.arrays import bits_of

SCHEMES = {"*.bias": "all | raw-index | raw", "*": "topk(0.1) | rice | qsgd(bits=4)"}


def gradients(rng: np.random.Generator, dtype: Any = np.float32) -> dict[str, Any]:
    return {
        "fc.weight": rng.normal(size=(20, 30)).astype(dtype),
        "fc.bias": rng.normal(size=20).astype(dtype),
        "scale": np.asarray(rng.normal()).astype(dtype),
    }


def test_what_is_not_sent_is_kept_bit_for_bit(rng: np.random.Generator) -> None:
    c = wc.Compressor("topk(0.1) | rice | raw")
    residual = np.zeros(600, np.float32)
    for _ in range(5):
        g = rng.normal(size=600).astype(np.float32)
        x = residual + g
        sent = c.decompress(c.compress({"w": g}))["w"].to_dense()
        residual = c.residual("w")
        assert np.array_equal(residual + sent, x)
        assert np.array_equal(residual[sent != 0], np.zeros((sent != 0).sum()))


def test_sixteen_bit_gradients_do_not_overflow_with_their_residual() -> None:
    """What is beyond the type's range stays behind; a real infinity is still refused."""
    g = {"w": np.full(4, 60_000, np.float16)}
    c = wc.Compressor("topk(k=1) | rice | raw")
    sent = [c.decompress(c.compress(g))["w"] for _ in range(3)]
    assert [t.values.tolist() for t in sent] == [[60_000.0], [65_504.0], [65_504.0]]
    got = sum(t.to_dense().astype(float) for t in sent)
    assert np.array_equal(got + c.residual("w"), np.full(4, 180_000.0))
    with pytest.raises(wc.EncodeError, match="element 2: topk cannot carry inf"):
        c.compress({"w": np.array([1, 2, np.inf, 3], np.float16)})


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_residual_is_what_receivers_did_not_get(rng: np.random.Generator, dtype: Any) -> None:
    c = wc.Compressor(SCHEMES, seed=4)
    total = {n: np.zeros(np.shape(g)) for n, g in gradients(rng, dtype).items()}
    got = {n: np.zeros(np.shape(g)) for n, g in gradients(rng, dtype).items()}
    for _ in range(10):
        g = gradients(rng, dtype)
        for name, tensor in c.decompress(c.compress(g)).items():
            assert tensor.dtype == dtype
            total[name] += g[name]
            got[name] += tensor.to_dense()
    assert c.residual("fc.bias") is None
    for name in ("fc.weight", "scale"):
        held = c.residual(name).reshape(total[name].shape)
        assert np.allclose(got[name] + held, total[name], atol=1e-4)


def test_low_pass_filter(rng: np.random.Generator) -> None:
    c = wc.Compressor("topk(0.1) | rice | raw", feedback=wc.ErrorFeedback(beta=0.3))
    m = np.zeros(500, np.float32)
    for _ in range(4):
        g = rng.normal(size=500).astype(np.float32)
        sent = c.decompress(c.compress({"w": g}))["w"].to_dense()
        kept = np.argsort(-np.abs(m + g), kind="stable")[:50]
        assert np.array_equal(np.flatnonzero(sent), np.sort(kept))
        beta, x = np.float32(0.3), m + g
        filtered = (1 - beta) * m + beta * (x - sent)
        m = np.where(sent != 0, filtered, m + beta * g)
        assert np.array_equal(c.residual("w"), m)
    for wrong in (0, -1, 1.5, float("nan")):
        with pytest.raises(wc.EncodeError):
            wc.ErrorFeedback(beta=wrong)


def test_without_feedback_nothing_is_remembered(rng: np.random.Generator) -> None:
    c = wc.Compressor("topk(0.1) | rice | raw", feedback=None)
    g = {"w": rng.normal(size=100).astype(np.float32)}
    assert np.array_equal(c.compress(g), c.compress(g))
    assert c.residual("w") is None


def test_commit_and_rollback(rng: np.random.Generator) -> None:
    c = wc.Compressor(SCHEMES)
    c.compress(gradients(rng))
    g = gradients(rng)
    before = c.state_dict()
    first = c.prepare(g)
    assert all(np.array_equal(before[k], v) for k, v in c.state_dict().items())
    first.rollback()
    second = c.prepare(g)
    assert np.array_equal(first.blob, second.blob)
    second.commit()
    assert c.step == 2
    assert not np.array_equal(before["residual/fc.weight"], c.state_dict()["residual/fc.weight"])
    for settled in (first, second):
        with pytest.raises(RuntimeError):
            settled.commit()
    rolled_back, late = c.prepare(g), c.prepare(g)
    rolled_back.rollback()
    with pytest.raises(RuntimeError):
        rolled_back.commit()
    c.compress(g)
    with pytest.raises(RuntimeError):
        late.commit()
    sent = wc.decode_many(second.blob)
    assert all(np.array_equal(sent[n].to_dense(), second.sent[n].to_dense()) for n in g)


def test_a_failed_step_changes_nothing(rng: np.random.Generator) -> None:
    c = wc.Compressor(SCHEMES)
    c.compress(gradients(rng))
    before = c.state_dict()
    broken = gradients(rng)
    broken["fc.weight"][3, 4] = np.nan
    with pytest.raises(wc.EncodeError) as caught:
        c.compress(broken)
    assert (caught.value.tensor, caught.value.position) == ("fc.weight", 94)
    with pytest.raises(wc.EncodeError, match=r"tensor 'fc.weight': .* its residual has 600"):
        c.compress({"fc.weight": np.ones(5, np.float32)})
    assert before.keys() == c.state_dict().keys()
    assert all(np.array_equal(before[k], v) for k, v in c.state_dict().items())


def test_step_and_rank_change_the_draws(rng: np.random.Generator) -> None:
    g = {"w": rng.normal(size=1000).astype(np.float32)}
    blobs = {
        wc.Compressor("all | raw-index | qsgd", feedback=None, seed=seed).prepare(g, rank=rank).blob.tobytes()
        for seed in (0, 1)
        for rank in (0, 1)
    }
    c = wc.Compressor("all | raw-index | qsgd", feedback=None)
    c.compress(g)
    blobs.add(c.compress(g).tobytes())
    assert len(blobs) == 5


def test_saved_and_loaded_it_goes_on_the_same(rng: np.random.Generator) -> None:
    steps = [gradients(rng) for _ in range(6)]
    schedule = wc.WarmUp(0.05, 4, start=0.5)
    c = wc.Compressor(SCHEMES, schedule=schedule, seed=9)
    for g in steps[:3]:
        c.compress(g)
    file = io.BytesIO()
    np.savez(file, **c.state_dict())
    file.seek(0)
    fresh = wc.Compressor(SCHEMES)
    with np.load(file, allow_pickle=False) as saved:
        fresh.load_state_dict(dict(saved))
    for g in steps[3:]:
        assert np.array_equal(c.compress(g), fresh.compress(g))
    assert fresh.signature == c.signature
    state = c.state_dict()
    state["residual/fc.weight"][:] = 0
    assert c.residual("fc.weight").any()
    for wrong in ({}, {**state, "other": np.zeros(1)}, {"step": np.array(0)}):
        with pytest.raises(ValueError, match="not the state"):
            c.load_state_dict(wrong)


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


def test_names_and_fusing_pass_through(rng: np.random.Generator) -> None:
    g = gradients(rng)
    small = wc.Compressor(SCHEMES, names=False, fuse=100).compress(g)
    assert small.size < wc.Compressor(SCHEMES).compress(g).size
    schema = {n: (np.shape(x), np.float32) for n, x in g.items()}
    assert wc.decode_many(small, schema=schema).keys() == g.keys()


def test_error_feedback_converges_where_none_does_not() -> None:
    """A noisy quadratic, 1000 steps of top 2 %: feedback takes the error far below what it is without."""
    rng = np.random.default_rng(5)
    target = rng.normal(size=400)
    curvature = 10.0 ** rng.uniform(-1, 0, 400)

    def distance(feedback: wc.ErrorFeedback | None) -> float:
        c = wc.Compressor("topk(0.02) | rice | qsgd(bits=4)", feedback=feedback)
        w = np.zeros(400)
        noise = np.random.default_rng(6)
        for _ in range(1000):
            g = curvature * (w - target) + 0.3 * noise.normal(size=400)
            w -= 0.02 * c.decompress(c.compress({"w": g}))["w"].to_dense()
        return float(np.linalg.norm(w - target) / np.linalg.norm(target))

    assert distance(wc.ErrorFeedback()) < 0.1
    assert distance(None) > 0.5


def test_a_gradient_with_infinities_does_not_poison_the_residual() -> None:
    for scheme, beta in ((None, 1.0), ("nonzero | rice | raw(bfloat16)", 1.0), (None, 0.5)):
        c = wc.Compressor(scheme, feedback=wc.ErrorFeedback(beta))
        first = c.decompress(c.compress({"w": np.array([1, np.inf, np.nan], np.float32)}))["w"].values
        assert np.array_equal(first, [1, np.inf, np.nan], equal_nan=True)
        for _ in range(2):
            assert np.isfinite(c.decompress(c.compress({"w": np.ones(3, np.float32)}))["w"].values).all()
            assert np.isfinite(c.residual("w")).all()


def test_finite_gradients_never_add_up_to_infinity() -> None:
    c = wc.Compressor("topk(k=1) | rice | raw")
    for _ in range(4):
        c.compress({"w": np.array([3e38, 2.9e38], np.float32)})
    assert np.isfinite(c.residual("w")).all()


def test_seeds_are_any_integers() -> None:
    x = np.linspace(-1, 1, 100, dtype=np.float32)
    blobs = {
        wc.encode(x, "all | rice | qsgd", seed=s).tobytes() for s in (5, np.int64(5), np.uint64(5), 2**64 + 5)
    }
    assert len(blobs) == 1
    c = wc.Compressor("all | rice | qsgd", seed=-1)
    fresh = wc.Compressor("all | rice | qsgd")
    fresh.load_state_dict(c.state_dict())
    assert np.array_equal(c.compress({"w": x}), fresh.compress({"w": x}, rank=np.int32(0)))
    for wrong in (1.5, "1", None, True):
        with pytest.raises(wc.EncodeError, match="seed is"):
            wc.encode(x, seed=wrong)
        with pytest.raises(wc.EncodeError, match="seed is"):
            wc.Compressor(seed=wrong)


def test_a_bad_state_changes_nothing() -> None:
    c = wc.Compressor("topk(0.5) | rice | raw", seed=3)
    c.compress({"w": np.arange(4, dtype=np.float32)})
    before, text = c.state_dict(), np.frombuffer(b"warm-up(0.5, steps=2)", np.uint8)
    for wrong in (
        {"seed": np.array("x")},
        {"residual/w": np.array(["a"])},
        {"residual/w": np.zeros(4, np.complex64)},
    ):
        with pytest.raises(ValueError, match=r"seed|residual"):
            c.load_state_dict({**before, "schedule": text, **wrong})
        assert all(np.array_equal(before[k], v) for k, v in c.state_dict().items())


def test_sparse_gradients_are_taken_too() -> None:
    sparse = wc.SparseTensor([1, 3], np.array([2.0, -1.0], np.float32), (5,))
    c, d = (wc.Compressor("topk(k=1) | rice | raw") for _ in range(2))
    assert np.array_equal(c.compress({"w": sparse}), d.compress({"w": sparse.to_dense()}))


def test_a_nan_that_signals_passes_without_a_warning(dtype: np.dtype[Any]) -> None:
    x = np.ones(100, dtype)
    bits = bits_of(x)
    bits[::2] = bits_of(np.array([np.inf], dtype)) + bits.dtype.type(1)
    c = wc.Compressor("nonzero | rice | raw")
    for _ in range(2):
        got = c.decompress(c.compress({"w": x}))["w"].to_dense()
        with np.errstate(invalid="ignore"):  # it may signal still
            assert np.array_equal(np.isnan(got), np.arange(100) % 2 == 0)


def test_what_is_printed() -> None:
    c = wc.Compressor({"b": "all | raw-index | raw", "*": "topk(0.1) | rice | raw"})
    assert repr(c) == "Compressor({'b': 'all | raw-index | raw', '*': 'topk(0.1) | rice | raw'}, step=0)"
    step = c.prepare({"w": np.ones(20, np.float32)})
    assert repr(step) == f"Prepared({step.blob.nbytes} bytes, 1 tensors, open)"
    step.commit()
    assert repr(step).endswith("closed)")
    assert repr(c).endswith("step=1)")
    assert repr(wc.Compressor("topk(0.1) | rice | raw")) == "Compressor('topk(0.1) | rice | raw', step=0)"


@pytest.mark.parametrize("beta", [1.0, 0.5])
def test_an_empty_tensor(beta: float) -> None:
    """Beside others: nothing of it is sent, and nothing is kept."""
    c = wc.Compressor("topk(0.5) | rice | qsgd", feedback=wc.ErrorFeedback(beta))
    for _ in range(2):
        g = {"none": np.empty((0, 3), np.float32), "w": np.arange(4, dtype=np.float32)}
        sent = c.decompress(c.compress(g))
        assert (sent["none"].shape, sent["none"].nnz) == ((0, 3), 0)
        assert c.residual("none").shape == (0,)


class Interrupt(BaseException):
    """Raised between two lines, as a signal handler may."""


def interrupted_at(line: int, call: Any) -> bool:
    """Call a method of Prepared, raising before its ``line``-th traced line; whether it was raised."""
    left = [line]

    def trace(frame: Any, event: str, _: Any) -> Any:
        if frame.f_code.co_filename.endswith("compressor.py") and event == "line":
            left[0] -= 1
            if left[0] == 0:
                raise Interrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except Interrupt:
        return True
    finally:
        sys.settrace(before)
    return False


@pytest.mark.parametrize("second", ["rollback", "commit"])
@pytest.mark.parametrize("first", ["commit", "rollback"])
def test_an_interrupt_at_any_line_loses_no_mass(first: str, second: str) -> None:
    """After it the step is taken or not, and what follows cannot overwrite the live residual."""
    rng = np.random.default_rng(6)
    for line in range(1, 40):
        c = wc.Compressor("topk(0.1) | rice | raw")
        given, got = np.zeros(500), np.zeros(500)

        def take(end: str, c: Any = c, given: Any = given, got: Any = got, line: int = line) -> bool:
            g = rng.normal(size=500).astype(np.float32)
            prepared = c.prepare({"w": g})
            step = c.step
            raised = False
            if end == "interrupt":
                raised = interrupted_at(line, getattr(prepared, first))
                with contextlib.suppress(RuntimeError):
                    getattr(prepared, second)()
            else:
                getattr(prepared, end)()
            if c.step > step:
                given += g
                got += prepared.sent["w"].to_dense()
            return raised

        take("commit")
        take("commit")
        raised = take("interrupt")
        for end in ("rollback", "rollback", "commit", "rollback", "commit"):
            take(end)
            assert np.allclose(given, got + c.residual("w"), atol=1e-4), line
        if not raised:
            break
    assert not raised
    assert line > 4


def test_a_copy_goes_its_own_way(rng: np.random.Generator) -> None:
    c = wc.Compressor("topk(0.1) | rice | raw")
    steps = [{"w": rng.normal(size=500).astype(np.float32)} for _ in range(6)]
    for g in steps[:3]:
        c.compress(g)
    copied = copy.copy(c)
    before = copied.state_dict()
    for g in steps:
        c.compress(g)
    assert all(np.array_equal(before[key], x) for key, x in copied.state_dict().items())


@pytest.mark.parametrize(
    ("key", "wrong"),
    [
        ("step", np.uint64(2**63)),
        ("step", 10**30),
        ("step", -5),
        ("step", np.ma.masked_array(3, mask=True)),
        ("residual/w", np.array([0, np.nan, 0, 0], np.float32)),
        ("residual/w", np.array([0, 0, 0, -np.inf])),
        ("residual/w", np.ma.masked_array(np.zeros(4, np.float32), mask=True)),
        ("selector/w", np.ma.masked_array(np.zeros(4), mask=True)),
        ("schedule", np.frombuffer(b"warm-up(" + b"-" * 100_000 + b"1)", np.uint8)),
        ("schedule", np.frombuffer(b"warm-up(" + b"-" * 4_000 + b"1)", np.uint8)),
        ("schedule", np.array([255, 254], np.uint8)),
        ("schedule", [-1, 300]),
    ],
)
def test_a_state_that_could_not_be_used_or_saved_is_refused(key: str, wrong: Any) -> None:
    c = wc.Compressor("topk(0.5) | rice | raw", seed=3)
    c.compress({"w": np.arange(4, dtype=np.float32)})
    before = c.state_dict()
    with pytest.raises(ValueError, match=key):
        c.load_state_dict({**before, "seed": np.uint64(9), key: wrong})
    assert all(np.array_equal(before[k], v) for k, v in c.state_dict().items())


def test_the_largest_step_can_be_loaded_used_and_saved() -> None:
    c = wc.Compressor("topk(0.5) | rice | raw")
    c.load_state_dict({**c.state_dict(), "step": np.int64(2**62)})
    c.compress({"w": np.ones(4, np.float32)})
    assert c.state_dict()["step"] == 2**62 + 1


@dataclass(frozen=True)
class FirstHalf:
    """A selector that looks at nothing."""

    name: ClassVar[str] = "first-half"

    def select(self, x: Any, **_: Any) -> wc.Selection:
        return wc.Selection(np.arange(x.size // 2, dtype=np.int32))


@pytest.mark.parametrize("beta", [1.0, 0.5])
def test_nan_that_is_not_selected_is_refused(beta: float) -> None:
    scheme = wc.Scheme(FirstHalf(), wc.Rice(), wc.Raw())
    c = wc.Compressor(scheme, feedback=wc.ErrorFeedback(beta))
    g = np.ones(10, np.float32)
    c.compress({"w": g})
    before = c.state_dict()
    g[2] = np.nan  # sent as it is
    c.prepare({"w": g}).rollback()
    g[7] = np.inf
    with pytest.raises(wc.EncodeError, match="tensor 'w', element 7: inf is not sent"):
        c.compress({"w": g})
    assert all(np.array_equal(before[k], v) for k, v in c.state_dict().items())
