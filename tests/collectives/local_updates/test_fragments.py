"""Fragments, delay and alpha against a dense NumPy reference, written from Streaming DiLoCo's section 2."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest

import collectives as co
import wirecodec as wc
from collectives.communicator import Communicator
from collectives.local_updates.fragments import divide_parameters, make_schedule
from tests.collectives.local_updates.test_any_request_fails import Requests, connect
from tests.oracles import Array

WORKERS, EVERY, STEPS = 3, 6, 29
SIZES = {"a": 7, "b": 20, "c": 3, "d": 11, "e": 9}
DENSE = "all | raw-index | raw"


class Descent:
    """Inner optimizer: gradient descent with momentum on the worker's own quadratic."""

    def __init__(self, parameters: dict[str, Array], worker: int) -> None:
        rng = np.random.default_rng(worker)
        self.parameters = parameters
        self.targets = {name: rng.normal(size=x.size) for name, x in parameters.items()}
        self.velocities = {name: np.zeros(x.size) for name, x in parameters.items()}

    def step(self) -> None:
        for name, x in self.parameters.items():
            self.velocities[name] = 0.5 * self.velocities[name] + 0.3 * (x - self.targets[name])
            x[:] = x - 0.1 * self.velocities[name]


def zeros() -> dict[str, Array]:
    return {name: np.zeros(size) for name, size in SIZES.items()}


def reference(
    fragments: list[list[str]],
    delay: int,
    alpha: float,
    rate: float,
    momentum: float,
    nesterov: bool,
    weights: tuple[float, ...] = (1,) * WORKERS,
) -> list[dict[str, Array]]:
    """Train without the library; return each worker's parameters."""
    workers = [Descent(zeros(), worker) for worker in range(len(weights))]
    last, velocities = zeros(), zeros()
    started: list[tuple[int, list[str], dict[str, Array]]] = []
    for t in range(1, STEPS + 1):
        for worker in workers:
            worker.step()
        for number, names in enumerate(fragments):
            if t % EVERY == number * EVERY // len(fragments):
                moved = {
                    name: np.average(
                        [last[name] - worker.parameters[name] for worker in workers], axis=0, weights=weights
                    )
                    for name in names
                }
                started.append((t + delay, names, moved))
        for end, names, moved in started:
            if end != t:
                continue
            for name in names:
                velocities[name] = momentum * velocities[name] + moved[name]
                step = moved[name] + momentum * velocities[name] if nesterov else velocities[name]
                last[name] = last[name] - rate * step
                for worker, weight in zip(workers, weights, strict=True):
                    own, stays = worker.parameters[name], alpha if weight else 0  # see co.LocalUpdates
                    own[:] = stays * own + (1 - stays) * last[name]
    return [worker.parameters for worker in workers]


def train(
    comm: Communicator, steps: int = STEPS, **settings: Any
) -> tuple[dict[str, Array], co.LocalUpdates]:
    parameters = zeros()
    inner = Descent(parameters, comm.rank)
    settings.setdefault("compressor", wc.Compressor(DENSE))
    local = co.LocalUpdates(inner, parameters, comm=comm, every=EVERY, **settings)
    for _ in range(steps):
        local.step()
    return parameters, local


@pytest.mark.parametrize(
    "outer", [{}, {"rate": 0.7, "momentum": 0.9, "nesterov": True}], ids=["plain", "DiLoCo"]
)
@pytest.mark.parametrize(
    ("fragments", "delay", "alpha"),
    [(1, 0, 0.0), (1, 0, 0.25), (1, 5, 0.0), (1, 3, 0.5), (3, 0, 0.0), (3, 1, 0.5), (2, 4, 0.5), (5, 5, 0.0)],
)
def test_dense_reference(fragments: int, delay: int, alpha: float, outer: dict[str, Any]) -> None:
    settings = {"fragments": fragments, "delay": delay, "alpha": alpha, **outer}
    results = co.simulate(WORKERS, lambda comm: train(comm, **settings)[0])
    rule = {"rate": 1.0, "momentum": 0.0, "nesterov": False} | outer
    expected = reference(divide_parameters(SIZES, fragments), delay, alpha, **rule)
    for own, theirs in zip(results, expected, strict=True):
        for name in SIZES:
            np.testing.assert_allclose(own[name], theirs[name], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("sites", [False, True], ids=["ranks", "sites"])
@pytest.mark.parametrize("delay", [0, 1])
def test_weights(delay: int, sites: bool) -> None:
    """Also over Sites, with a rank that only listens."""
    weights = 1.0, 0.0, 3.0, 0.5
    outer: Any = {"alpha": 0.5, "rate": 0.7, "momentum": 0.9, "nesterov": True}

    def run(comm: Communicator) -> dict[str, Array]:
        whole = connect(comm, Requests(), sites=sites)
        return train(whole, fragments=3, delay=delay, weight=weights[comm.rank], **outer)[0]

    expected = reference(divide_parameters(SIZES, 3), delay, 0.5, 0.7, 0.9, True, weights)
    for own, theirs in zip(co.simulate(4, run), expected, strict=True):
        for name in SIZES:
            np.testing.assert_allclose(own[name], theirs[name], rtol=1e-11, atol=1e-12)


def test_globs() -> None:
    globs = ["[bd]", "*"]
    results = co.simulate(WORKERS, lambda comm: train(comm, fragments=globs)[0])
    expected = reference([["b", "d"], ["a", "c", "e"]], 0, 0.0, 1.0, 0.0, nesterov=False)
    for own, theirs in zip(results, expected, strict=True):
        assert all(np.allclose(own[name], theirs[name], rtol=1e-12) for name in SIZES)


def test_lists_of_globs_name_every_eighth_block() -> None:
    """The strided pattern of Streaming DiLoCo, 3.2.2: block i belongs to fragment i mod P."""
    names = [f"blocks.{i}.{kind}" for i in range(24) for kind in ("w", "b")]
    sizes = dict.fromkeys(["embedding", *names, "head[0]"], 5)
    groups = [[f"blocks.{i}.*" for i in range(f, 24, 8)] for f in range(8)]
    groups[2].append("head[0]")  # a name, which does not match itself as a glob
    groups[-1].append("*")
    found = divide_parameters(sizes, groups)
    assert sorted(name for members in found for name in members) == sorted(sizes)
    assert {name: f for f, members in enumerate(found) for name in members} == {
        "embedding": 7,
        **{f"blocks.{i}.{kind}": i % 8 for i in range(24) for kind in ("w", "b")},
        "head[0]": 2,
    }


def test_lists_train_as_the_reference_does() -> None:
    groups: list[Any] = [["a", "d"], ("c", "[e]"), "*"]
    results = co.simulate(WORKERS, lambda comm: train(comm, fragments=groups)[0])
    expected = reference([["a", "d"], ["c", "e"], ["b"]], 0, 0.0, 1.0, 0.0, nesterov=False)
    for own, theirs in zip(results, expected, strict=True):
        assert all(np.allclose(own[name], theirs[name], rtol=1e-12) for name in SIZES)


def test_ranks_need_equal_lists() -> None:
    """A list equals a tuple; with other members, all ranks raise the same error."""

    def attempt(comm: Communicator, others: Any) -> str:
        fragments = [["a", "b"], "*"] if comm.rank else others
        try:
            train(comm, fragments=fragments)
        except co.CollectiveError as error:
            return f"{error.reason}: {error}"
        return ""

    assert co.simulate(2, lambda comm: attempt(comm, (("a", "b"), "*"))) == ["", ""]
    errors = co.simulate(2, lambda comm: attempt(comm, [["a", "c"], "*"]))
    assert errors[0] == errors[1]
    assert errors[0] == (
        "parameters: rank 1: settings differ from those of rank 0; fragments=(('a', 'b'), '*') on rank 1, and"
        " fragments=(('a', 'c'), '*') on rank 0"
    )


@pytest.mark.parametrize("call", ["synchronize", "exchange"])
def test_ranks_need_parameters_in_the_same_order(call: str) -> None:
    """Otherwise, a number of fragments would divide them in other ways."""

    def attempt(comm: Communicator, count: int) -> str:
        named = dict(sorted(zeros().items(), reverse=comm.rank > 0))
        local = co.LocalUpdates(None, named, wc.Compressor(DENSE), comm, every=4, fragments=count)
        try:
            getattr(local, call)()
        except co.CollectiveError as error:
            return str(error)
        return ""

    assert co.simulate(2, lambda comm: attempt(comm, 1)) == ["", ""]
    errors = co.simulate(2, lambda comm: attempt(comm, 2))
    assert (
        errors
        == [
            "rank 1: settings differ from those of rank 0; each fragment must have the same parameters, which"
            " depends on their order"
        ]
        * 2
    )


def test_fragments_have_about_equally_many_elements() -> None:
    sizes = {str(number): size for number, size in enumerate([5, 5, 40, 5, 5, 30, 30])}
    assert divide_parameters(sizes, 3) == [["0", "1", "2"], ["3", "4", "5"], ["6"]]
    assert divide_parameters({"huge": 10**6, "a": 1, "b": 1}, 3) == [["huge"], ["a"], ["b"]]
    assert make_schedule(7, 3) == {7: 0, 2: 1, 4: 2}
    for every in (1, 4, 9):
        for count in range(1, every + 1):
            schedule = make_schedule(every, count)
            assert sorted(schedule.values()) == list(range(count))
            assert all(1 <= t <= every and t % every == f * every // count for t, f in schedule.items())


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"fragments": 0}, "1 to 5, the number of parameters"),
        ({"fragments": 6}, "1 to 5"),
        ({"fragments": ["a"]}, "'b' belongs to no fragment"),
        ({"fragments": ["*", "a"]}, "no parameter belongs to the fragment 'a'"),
        ({"fragments": "a*"}, "a list of globs"),
        ({"fragments": [["a"], ["b", "c"]]}, "'d' belongs to no fragment"),
        ({"fragments": [["a"], [], "*"]}, r"no parameter belongs to the fragment \(\)"),
        ({"fragments": [["a"], ["a"], "*"]}, r"no parameter belongs to the fragment \('a',\)"),
        ({"fragments": [["a", "typo"], "*"]}, "fragments has 'typo', which matches no parameter"),
        ({"fragments": [["a", 2], "*"]}, r"fragments\[0\] is \['a', 2\]; it must be a glob"),
        ({"fragments": [3, "*"]}, r"fragments\[0\] is 3"),
        ({"fragments": []}, "fragments is empty"),
        ({"delay": 6}, "0 to every - 1"),
        ({"alpha": 1.0}, "below 1"),
        ({"divide": "all"}, "'ranks' or 'senders'"),
        ({"weight": -1}, "weight"),
    ],
)
def test_bad_settings(settings: dict[str, Any], error: str) -> None:
    with pytest.raises((TypeError, ValueError), match=error):
        co.simulate(1, lambda comm: train(comm, steps=0, **settings))


SPARSE = "topk(0.3) | rice | qsgd(bits=4)"


@pytest.mark.parametrize("delay", [0, 4])
@pytest.mark.parametrize("stop", range(5, 13))
def test_a_checkpoint_resumes_bit_for_bit(stop: int, delay: int) -> None:
    """Between two exchanges, and during delayed ones."""
    settings: dict[str, Any] = {"fragments": 3, "delay": delay, "alpha": 0.5, "momentum": 0.5}

    def whole(comm: Communicator) -> dict[str, Array]:
        return train(comm, compressor=wc.Compressor(SPARSE, seed=1), **settings)[0]

    def halves(comm: Communicator) -> dict[str, Array]:
        parameters, local = train(comm, stop, compressor=wc.Compressor(SPARSE, seed=1), **settings)
        state, first = local.state_dict(), local._optimizer
        assert first is not None
        velocities = first._optimizer.velocities
        inner = Descent({name: x.copy() for name, x in parameters.items()}, comm.rank)
        inner.velocities = velocities
        other = co.LocalUpdates(
            inner, inner.parameters, wc.Compressor(SPARSE, seed=1), comm, EVERY, **settings
        )
        other.load_state_dict(wc.rename_state(wc.rename_state(state, add="x."), prefix="x."))
        for _ in range(STEPS - stop):
            other.step()
        return inner.parameters

    for one, other in zip(co.simulate(2, whole), co.simulate(2, halves), strict=True):
        assert all(one[name].tobytes() == other[name].tobytes() for name in SIZES)


def test_the_mean_of_the_senders() -> None:
    """An element counts for the ranks that sent it; others do not pull it towards the old value."""

    def run(comm: Communicator) -> tuple[Array, Array | None]:
        w = np.zeros(4, np.float32)
        compressor = wc.Compressor("topk(0.5) | rice | raw")
        weight = [1.0, 3.0][comm.rank]
        local = co.LocalUpdates(None, {"w": w}, compressor, comm, 1, divide="senders", weight=weight)
        w += [8, 4, 1, 0] if comm.rank == 0 else [16, 0, 2, 6]
        local.step()
        return w, compressor.residual("w")

    (first, left), (second, right) = co.simulate(2, run)
    assert first.tolist() == second.tolist() == [14, 4, 0, 6]
    assert [x.tolist() for x in (left, right) if x is not None] == [[0, 0, -1, 0], [0, 0, -2, 0]]


def test_one_fragment_without_delay_has_the_bits_of_the_time_before_fragments() -> None:
    """Parameters and residuals after 5 exchanges; the hash is of commit dc751a93, which had no fragments.

    Movements are small integers, and selections, scales and random numbers are the same on all machines.
    """

    def train(comm: Communicator) -> bytes:
        named = {"a": np.zeros((4, 50), np.float32), "b": np.zeros(333, np.float32)}
        compressor = wc.Compressor("topk(0.25) | rice | qsgd(bits=4)", seed=7)
        settings: dict[str, Any] = {"rate": 0.5, "momentum": 0.5, "nesterov": True}
        local = co.LocalUpdates(None, named, compressor, comm, 2, **settings, fragments=1, delay=0)
        for step in range(10):
            for number, (name, x) in enumerate(named.items()):
                counts = np.arange(x.size) * (7 + 2 * number) + 31 * step + 17 * comm.rank
                named[name] += (counts % 23 - 11).reshape(x.shape).astype(x.dtype)
            local.step()
        residuals = [compressor.residual(name) for name in named]
        assert all(x is not None and x.any() for x in residuals)
        return b"".join(np.asarray(x).astype("<f4").tobytes() for x in [*named.values(), *residuals])

    digest = hashlib.sha256(b"".join(co.simulate(2, train))).hexdigest()
    assert digest == "6a2bd872481c87e96aa584d8a558ee90e276e7da43618a32c9d39c0b9e3b9708"
