"""CLT-k and its definition: leaders, sent values, residuals, and equality of all ranks."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import numpy as np
import pytest

import collectives as co
import wirecodec as wc
from collectives.cltk.selection import LeaderSelectors
from collectives.cltk.step import LocalStep
from collectives.communicator import Communicator
from collectives.exchange.encoding import Inputs
from collectives.simulation.communicator import SimulatedComm
from tests.collectives.conftest import World
from tests.collectives.inputs import bits, smooth, top
from tests.conftest import DTYPES
from tests.oracles import Array, rank_ordered_sum
from wirecodec.interop import Memory

RATIO = 0.1


def definition(grads: list[list[Array]], beta: float, k: int) -> tuple[list[Array], list[Array]]:
    """Compute Algorithm 1 in float32: the mean of each step, and the residuals after the last one.

    Args:
        grads: by step, by rank.
        beta: of the filter.
        k: elements sent.
    """
    n, d = len(grads[0]), grads[0][0].size
    m = [np.zeros(d, np.float32) for _ in range(n)]
    means = []
    for t, step in enumerate(grads):
        x = [m[i] + step[i] for i in range(n)]
        where = top(x[t % n], k)
        sent = [np.zeros(d, np.float32) for _ in range(n)]
        for i in range(n):
            sent[i][where] = x[i][where]
            m[i] = np.float32(1 - beta) * m[i] + np.float32(beta) * (x[i] - sent[i])
        means.append((rank_ordered_sum(sent) / np.float32(n)).astype(np.float32))
    return means, m


@pytest.mark.parametrize("beta", [1.0, 0.1])
def test_the_steps_are_those_of_the_definition(world: World, beta: float) -> None:
    grads = [[smooth(10 * t + rank) for rank in range(world.n)] for t in range(2 * world.n + 1)]
    expected, residuals = definition(grads, beta, 100)

    def train(comm: Communicator) -> tuple[list[Array], Array]:
        cltk = co.CLTk(RATIO, feedback=wc.ErrorFeedback(beta))
        means = [cltk.allreduce(comm, step[comm.rank]) for step in grads]
        left = cltk.residual()
        assert left is not None
        return means, left

    results = world.run(train)
    assert len({b"".join(map(bits, means)) for means, _ in results}) == 1
    for mean, want in zip(results[0][0], expected, strict=True):
        if beta == 1:
            assert bits(mean) == bits(want)
        assert np.allclose(mean, want, rtol=1e-5, atol=1e-6)
    for (_, left), want in zip(results, residuals, strict=True):
        assert np.allclose(left, want, rtol=1e-5, atol=1e-6)


def test_what_is_kept_and_what_is_sent_are_all_there_is(several: World) -> None:
    """With beta 1, m' + sent == m + g, bit for bit."""

    def check(comm: Communicator) -> bool:
        cltk = co.CLTk(RATIO)
        ok = True
        for t in range(4):
            g = smooth(10 * t + comm.rank)
            before = cltk.residual()
            x = g if before is None else before + g
            mean = cltk.allreduce(comm, g)
            after = cltk.residual()
            assert after is not None
            where = np.flatnonzero(after == 0) if t == 0 else np.flatnonzero(mean)
            sent = np.zeros_like(x)
            sent[where] = x[where]
            ok &= bits(after + sent) == bits(x)
        return bool(ok)

    assert all(several.run(check))


def test_a_sent_coordinate_keeps_its_share(several: World) -> None:
    """With beta below 1, the residual is (1 - beta) m at sent elements and m + beta g at others."""

    def check(comm: Communicator) -> bool:
        beta = np.float32(0.25)
        cltk = co.CLTk(RATIO, feedback=wc.ErrorFeedback(float(beta)))
        cltk.allreduce(comm, smooth(comm.rank))
        m, g = cltk.residual(), smooth(50 + comm.rank)
        assert m is not None
        sent = cltk.allreduce(comm, g) != 0
        after = cltk.residual()
        assert after is not None
        kept = np.allclose(after[sent], (1 - beta) * m[sent], rtol=1e-6, atol=0)
        return kept and np.allclose(after[~sent], (m + beta * g)[~sent], rtol=1e-6, atol=1e-7)

    assert all(several.run(check))


def test_choosing_and_averaging_commute(several: World) -> None:
    """CLT-k of the mean equals the mean of CLT-k, bit for bit (ScaleCom, eq. 4)."""
    n = several.n
    grads = [smooth(rank) for rank in range(n)]
    mean = (rank_ordered_sum(grads) / np.float32(n)).astype(np.float32)
    where = top(grads[0], 100)

    def train(comm: Communicator) -> bytes:
        return bits(co.CLTk(RATIO).allreduce(comm, grads[comm.rank]))

    commuted = np.zeros_like(mean)
    commuted[where] = mean[where]
    assert several.run(train) == [bits(commuted)] * n


def test_it_contracts_in_expectation() -> None:
    """For similar ranks, E‖x - sent‖² <= γ ‖x‖² with γ = d/k + (1 - d/k) γ₀ (ScaleCom, eq. 7)."""
    n, k = 8, 100
    base = smooth(0)
    grads = [base + 0.3 * smooth(rank + 1) for rank in range(n)]
    mean = (rank_ordered_sum(grads) / np.float32(n)).astype(np.float32)
    best = top(mean, k)
    gamma0 = 1 - float((mean[best] ** 2).sum() / (mean**2).sum())
    errors, gammas = [], []
    for leader in range(n):
        where = top(grads[leader], k)
        errors.append(1 - float((mean[where] ** 2).sum() / (mean**2).sum()))
        share = np.setdiff1d(where, best).size / k
        gammas.append(share + (1 - share) * gamma0)
    assert np.mean(errors) <= np.mean(gammas)


@pytest.mark.sampled
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_named_tensors_of_every_type(several: World, dtype: np.dtype[Any]) -> None:
    """One exchange uses a ratio per glob, sends ratio 1 whole, and loses nothing in narrow types."""
    shapes: dict[str, tuple[int, ...]] = {"conv": (20, 30), "bias": (7,), "norm": (0,), "scalar": ()}

    def train(comm: Communicator) -> tuple[dict[str, bytes], bool, int]:
        cltk = co.CLTk({"bias": 1.0, "*": RATIO})
        grads = {name: smooth(comm.rank, shape, dtype) for name, shape in shapes.items()}
        means = cltk.allreduce(comm, grads)
        kept = True
        for name, g in grads.items():
            left = cltk.residual(name)
            assert left is not None
            kept &= left.size == g.size and bool(np.isfinite(left).all())
        assert {name: x.shape for name, x in means.items()} == shapes
        assert {x.dtype for x in means.values()} == {dtype}
        assert np.count_nonzero(means["conv"]) <= 60
        return {name: bits(x) for name, x in means.items()}, kept, cltk.step

    results = several.run(train)
    assert all(result == results[0] for result in results)
    assert results[0][1:] == (True, 1)
    total = [smooth(rank, (7,), dtype) for rank in range(several.n)]
    wide = np.result_type(dtype, np.float32)
    mean = rank_ordered_sum([x.astype(wide) for x in total]) / wide.type(several.n)
    assert results[0][0]["bias"] == bits(mean.astype(dtype))


def test_warm_up_sends_everything(several: World) -> None:
    def train(comm: Communicator) -> list[int]:
        cltk = co.CLTk(RATIO, schedule=wc.WarmUp(2, hold=True))
        return [int(np.count_nonzero(cltk.allreduce(comm, smooth(comm.rank + 9 * t)))) for t in range(3)]

    counts = several.run(train)
    assert counts == [[1000, 1000, 100]] * several.n


def test_the_last_leader_is_followed_by_the_first() -> None:
    """In step t, rank t mod n selects."""

    def train(comm: SimulatedComm) -> list[list[int]]:
        cltk = co.CLTk(1 / 1000)
        found = []
        for _ in range(4):
            g = np.full(1000, 1e-3, np.float32)
            g[100 * (comm.rank + 1)] = 1
            found.append(np.flatnonzero(cltk.allreduce(comm, g)).tolist())
        return found

    assert co.simulate(3, train)[0] == [[100], [200], [300], [100]]


def test_the_bytes_do_not_grow_with_the_ranks() -> None:
    """They are nearly constant from 4 to 32 ranks, while an all-gather's grow as n - 1."""
    grads = [smooth(rank, 100_000) for rank in range(32)]

    def cltk(comm: SimulatedComm) -> int:
        co.CLTk(0.01).allreduce(comm, grads[comm.rank])
        return comm.bytes_sent

    def gathered(comm: SimulatedComm) -> int:
        co.allreduce(comm, grads[comm.rank], "topk(0.01) | rice | raw", algorithm="allgather")
        return comm.bytes_sent

    most = {n: (max(co.simulate(n, cltk)), max(co.simulate(n, gathered))) for n in (4, 32)}
    assert most[32][0] <= 1.6 * most[4][0]  # (n-1)/n of the values twice, the indices once, 72 bytes per rank
    assert most[32][1] >= 8 * most[4][1]


def test_state_is_saved_and_restored(several: World) -> None:
    def train(comm: Communicator) -> bool:
        one = co.CLTk(RATIO, feedback=wc.ErrorFeedback(0.5))
        for t in range(3):
            one.allreduce(comm, {"w": smooth(comm.rank + 9 * t)})
        saved = one.state_dict()
        other = co.CLTk(RATIO, feedback=wc.ErrorFeedback(0.5))
        other.load_state_dict({key: x.copy() for key, x in saved.items()})
        g = {"w": smooth(comm.rank + 77)}
        return bits(one.allreduce(comm, g)["w"]) == bits(other.allreduce(comm, g)["w"])

    assert all(several.run(train))


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"step": 1, "odd": 2},
        {"step": -1},
        {"step": 2**63},
        {"step": 0, "residual/w": np.zeros(3, int)},
        {"step": 0, "residual/w": np.array([0, np.nan])},
        {"step": 0, "residual/w": np.ma.masked_array(np.zeros(3), mask=True)},
    ],
)
def test_other_states_are_refused(state: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"state|residual|step"):
        co.CLTk(RATIO).load_state_dict(state)


# ---- failures ----


def test_ranks_at_different_steps_are_found(several: World) -> None:
    """A restore on only one rank is an error on all; the other residuals are unchanged."""

    def fn(comm: Communicator) -> object:
        cltk = co.CLTk(RATIO)
        cltk.allreduce(comm, smooth(comm.rank))
        if comm.rank == several.n - 1:
            cltk.load_state_dict({"step": 7})
        before = cltk.residual()
        try:
            return cltk.allreduce(comm, smooth(comm.rank))
        finally:
            after = cltk.residual()
            assert (before is None and after is None) or bits(before) == bits(after)  # type: ignore[arg-type]

    assert {error.reason for error in several.errors(fn)} == {"scheme"}


@pytest.mark.parametrize("at_leader", [True, False])
def test_nan_on_one_rank_is_an_error_on_all(several: World, at_leader: bool) -> None:
    bad = 0 if at_leader else several.n - 1

    def fn(comm: Communicator) -> object:
        g = smooth(comm.rank)
        if comm.rank == bad:
            g[17] = np.inf
        return co.CLTk(RATIO).allreduce(comm, {"w": g})

    errors = several.errors(fn)
    assert {(error.ranks, error.reason) for error in errors} == {((bad,), "value")}
    assert "at element 17" in str(errors[0])


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("wrong", "reason"), [("shape", "shape"), ("dtype", "dtype"), ("ratio", "scheme"), ("none", "argument")]
)
def test_ranks_that_differ(several: World, wrong: str, reason: str) -> None:
    def fn(comm: Communicator) -> object:
        odd = comm.rank == several.n - 1
        g: Any = smooth(comm.rank, 999 if odd and wrong == "shape" else 1000)
        if odd and wrong == "dtype":
            g = g.astype(np.float64)
        if odd and wrong == "none":
            g = {"w": None}
        cltk = co.CLTk(0.2 if odd and wrong == "ratio" else RATIO)
        return cltk.allreduce(comm, g if isinstance(g, dict) else {"w": g})

    found = {error.reason for error in several.errors(fn)}
    assert len(found) == 1
    assert found <= {reason, "encode"}


def test_a_broken_choice_is_an_error_on_all(monkeypatch: Any) -> None:
    whole = LocalStep.encode_indices

    def broken(self: LocalStep, selectors: Any) -> None:
        whole(self, selectors)
        self.blob = self.blob.copy()
        self.blob[-12] ^= 1

    monkeypatch.setattr(LocalStep, "encode_indices", broken)

    def fn(comm: SimulatedComm) -> tuple[str, int]:
        cltk = co.CLTk(RATIO)
        with pytest.raises(co.CollectiveError) as info:
            cltk.allreduce(comm, smooth(comm.rank))
        assert info.value.reason == "decode"
        return str(info.value), cltk.step

    results = co.simulate(4, fn)
    assert len(set(results)) == 1
    assert results[0][1] == 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (0, "ratio is 0"),
        ({"*": None}, "has no ratio; use one that has"),
        ("nonzero | rice | raw", "has no ratio; use one that has"),
        ("topk(k=5) | rice | raw", "has no ratio; use one that has"),
        ("topk(0.1) | rice | qsgd", "the last stage must be raw"),
        ("topk(0.1) | rice | raw(float16)", "the last stage must be raw"),
        ("topk(0.1) | bloom | raw", "the index codec lossless"),
        ({"w": 1, "*": "dct | topk(0.1) | rice | raw"}, "no transform may come first"),
        ("topk(0.1)", "which is one stage"),
    ],
    ids=str,
)
def test_odd_schemes_are_refused(given: Any, message: str) -> None:
    with pytest.raises(wc.EncodeError, match=message):
        co.CLTk(given)


@pytest.mark.parametrize("scope", ["tensor", "group"])
def test_a_scheme_is_that_of_a_compressor(scope: Any) -> None:
    """A Scheme, its text and a ratio select the same; the leader's container has the index codec."""
    text = "topk(0.1) | bitmap | raw"
    ways: list[Any] = [0.1, text, wc.Scheme.parse(text), {"v": "all | rice | raw", "*": text}]
    grads = [{"w": smooth(rank), "v": smooth(rank + 9)} for rank in range(2)]

    def train(comm: SimulatedComm, way: Any) -> list[bytes]:
        cltk, seen = co.CLTk(way, scope=scope), []
        for _ in range(3):
            seen += [bits(x) for x in cltk.allreduce(comm, grads[comm.rank]).values()]
        return seen

    found = [co.simulate(2, partial(train, way=way))[0] for way in ways]
    assert found[0] == found[1] == found[2]
    assert found[3] != found[0]
    blobs = []
    for way in ways:
        local = LocalStep()
        local.inputs = Inputs(grads[0])
        selectors = LeaderSelectors(way, scope=scope)
        local.describe("")
        local.choose(selectors, leads=True, holds=False)
        local.accumulate(Memory(), wc.ErrorFeedback(), on_gpu=False, selects=scope == "tensor")
        local.encode_indices(selectors)
        blobs.append({str(entry.index) for entry in wc.inspect(local.blob).entries})
    assert blobs[1] == blobs[2] == blobs[3] == {"bitmap"} != blobs[0]


def test_older_arguments_warn_and_mean_the_same() -> None:
    """They go with 0.3.0. The warning is at the caller's line."""
    chunks = "chunk-topk(0.1, 50) | auto-index | raw"
    half = wc.ErrorFeedback(0.5)
    cases: list[tuple[Any, dict[str, Any], str, co.CLTk]] = [
        ((), {"ratio": 0.1}, "ratio", co.CLTk(0.1)),
        ((0.1, 0.5), {}, "beta", co.CLTk(0.1, feedback=half)),
        ((0.1,), {"beta": 0.5}, "beta", co.CLTk(0.1, feedback=half)),
        ((0.1,), {"feedback": None}, "feedback=None", co.CLTk(0.1)),
        ((0.1,), {"selector": "chunk-topk(0.7, 50)"}, "selector", co.CLTk(chunks)),
        (
            ({"b": 1, "*": 0.1},),
            {"selector": wc.selectors.TopK(0.3)},
            "selector",
            co.CLTk({"b": 1, "*": 0.1}),
        ),
    ]
    for positional, named, name, same in cases:
        with pytest.warns(DeprecationWarning, match=f"the argument {name} goes with 0.3.0; pass") as caught:
            older = co.CLTk(*positional, **named)
        assert {(one.filename, len(caught)) for one in caught} == {(__file__, 1)}
        assert older.signature == same.signature
    with pytest.warns(DeprecationWarning, match="the argument warmup goes with 0.3.0; pass schedule="):
        warm = [co.CLTk(RATIO, warmup=2) for _ in range(2)]
    held = [co.CLTk(RATIO, schedule=wc.WarmUp(2, hold=True)) for _ in range(2)]

    def train(comm: SimulatedComm, ways: list[co.CLTk]) -> list[bytes]:
        return [bits(ways[comm.rank].allreduce(comm, smooth(comm.rank + t))) for t in range(3)]

    assert co.simulate(2, lambda comm: train(comm, warm)) == co.simulate(2, lambda comm: train(comm, held))
    for wrong in ({"warmup": -1}, {"beta": 0}, {"selector": "nonzero"}):
        with pytest.warns(DeprecationWarning, match="0.3.0"), pytest.raises(wc.EncodeError):
            co.CLTk(0.1, **wrong)
    with pytest.raises(TypeError, match="needs a scheme"):
        co.CLTk()


def test_a_schedule_and_another_selector() -> None:
    """The leader's selector gets the schedule's ratio; the schedule is saved; a step at ratio 1 is exact."""
    grad = {"w": smooth(0), "b": np.ones(40, np.float32)}
    schemes = {"b": 1, "*": "chunk-topk(0.01, 100) | rice | raw"}

    def fn(comm: SimulatedComm) -> tuple[list[int], co.CLTk]:
        cltk = co.CLTk(schemes, schedule=wc.WarmUp(2, start=1.0))
        sent = [int(np.count_nonzero(cltk.allreduce(comm, grad)["w"])) for _ in range(3)]
        return sent, cltk

    size = grad["w"].size
    (sent, cltk), *_ = co.simulate(2, fn)
    assert sent[0] == size
    assert sent[1] == pytest.approx(0.1 * size, rel=0.05)
    assert sent[2] == pytest.approx(0.01 * size, rel=0.05)
    loaded = co.CLTk(schemes)
    loaded.load_state_dict(cltk.state_dict())
    assert loaded.signature == cltk.signature


def test_bad_settings_say_what_to_do() -> None:
    for feedback in (wc.MomentumCorrection(), wc.ErrorFeedback(decay=0.9), {"*": wc.ErrorFeedback()}):
        with pytest.raises(wc.EncodeError, match="CLT-k keeps residuals itself"):
            co.CLTk(0.1, feedback=feedback)  # type: ignore[arg-type]


def test_a_group_is_one_vector(several: World) -> None:
    """Elements, means and residuals are those of all tensors of a key end to end, also by parts of a step."""
    shapes = {"a": (40, 30), "b": (7,), "c": (5000,), "bias": (9,)}
    ratios = {"bias": 1.0, "*": 0.1}

    def draw(t: int, rank: int) -> dict[str, Array]:
        rng = np.random.default_rng(10 * t + rank)
        return {
            name: (rng.standard_normal(s) * 3.0**i).astype("f4") for i, (name, s) in enumerate(shapes.items())
        }

    def join(named: Any) -> Array:
        return np.concatenate([named[name].reshape(-1) for name in "abc"])

    def train(comm: Communicator) -> int:
        group, flat = co.CLTk(ratios, scope="group"), co.CLTk(0.1)
        for t in range(2 * several.n + 1):
            grads = draw(t, comm.rank)
            if t == 2:
                grads["c"][:] = 0
            means = group.allreduce(comm, grads)
            assert bits(join(means)) == bits(flat.allreduce(comm, join(grads)))
            kept = {name: group.residual(name) for name in "abc"}
            left = flat.residual()
            assert left is not None
            assert bits(join(kept)) == bits(left)
        held = group.allreduce(comm, {name: 0 * x for name, x in grads.items()}, hold_zeros=True)
        return sum(int(np.count_nonzero(x)) for x in held.values())

    assert several.run(train) == [0] * several.n
    with pytest.raises(wc.EncodeError, match="scope is 'model'; it must be"):
        co.CLTk(0.1, scope="model")  # type: ignore[arg-type]

    def disagree(comm: Communicator) -> None:
        co.CLTk(0.1, scope="group" if comm.rank else "tensor").allreduce(comm, draw(0, 0))

    with pytest.raises(co.CollectiveError, match=r"scheme|parameters|settings"):
        co.simulate(2, disagree)


@pytest.mark.parametrize("make", [lambda: co.CLTk(0.01), lambda: co.GTopK(0.01)], ids=["CLTk", "GTopK"])
@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy])
def test_a_copy_takes_its_own_steps(make: Any, duplicate: Any) -> None:
    def fn(comm: SimulatedComm) -> bool:
        whole, fresh = make(), make()
        for _ in range(3):
            whole.allreduce(comm, smooth(comm.rank, 2**17))
        copied = duplicate(whole)
        before = whole.state_dict()
        for _ in range(3):
            whole.allreduce(comm, smooth(comm.rank, 2**17))
        fresh.load_state_dict(before)
        after = whole.state_dict()
        for _ in range(3):
            means = [one.allreduce(comm, smooth(comm.rank, 2**17)) for one in (copied, fresh)]
            assert bits(means[0]) == bits(means[1])
        return all(np.array_equal(after[key], x) for key, x in whole.state_dict().items())

    assert co.simulate(2, fn) == [True, True]
