"""LocalUpdates: settings and calls that meet each other, such as fragments with CLT-k, or alpha with weights.

All movements are whole numbers, and the schemes are exact, so that nothing may be lost or counted twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import collectives as co
import wirecodec as wc
from collectives.communicator import Communicator
from tests.oracles import Array

DENSE = "all | raw-index | raw"
NAMES = "abcd"


def make_local(
    comm: Any, parameters: dict[str, Any], make: Callable[[], Any] | None = None, **settings: Any
) -> co.LocalUpdates:
    compressor = wc.Compressor(DENSE) if make is None else make()
    return co.LocalUpdates(None, parameters, compressor, comm, **settings)


@pytest.mark.parametrize("over_sites", [False, True])
@pytest.mark.parametrize(
    "make", [lambda: co.CLTk(0.25), lambda: co.OkTopK("topk(0.25) | rice | raw")], ids=["clt-k", "ok-topk"]
)
@pytest.mark.parametrize(("ranks", "fragments"), [(2, 2), (4, 2), (2, 4), (3, 3), (3, 2)])
def test_every_rank_has_its_turn_for_every_fragment(
    ranks: int, fragments: int, make: Callable[[], Any], over_sites: bool
) -> None:
    """Each rank alone has moved an element of each parameter: all of it arrives."""

    def train(comm: Communicator) -> dict[str, Array]:
        w = {name: np.zeros(4) for name in NAMES}
        ends: Any = co.Sites(co.simulate(1, lambda alone: alone)[0], comm) if over_sites else comm
        local = make_local(ends, w, make, every=4, fragments=fragments)
        for x in w.values():
            x[comm.rank] += 24
        for _ in range(80):
            local.step()
        return w

    for name, x in co.simulate(ranks, train)[0].items():
        assert x.tolist() == [24 / ranks] * ranks + [0] * (4 - ranks), name


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"every": 2, "fragments": 2, "delay": 1}, {"every": 2, "fragments": 2}),
        ({"every": 2, "fragments": 2, "delay": 1}, {"every": 4, "fragments": 2, "delay": 3}),
        ({"every": 2, "fragments": 2, "delay": 1}, {"every": 2, "delay": 1}),
        ({"every": 2, "delay": 1}, {"every": 1}),
        ({"every": 2, "delay": 1}, {"every": 4, "fragments": 4, "delay": 3}),
        ({"every": 6, "delay": 5}, {"every": 2}),
        ({"every": 6, "delay": 5}, {"every": 3, "fragments": [["b", "d"], "*"], "delay": 2}),
    ],
)
def test_a_result_in_flight_is_applied_under_other_settings(old: dict[str, Any], new: dict[str, Any]) -> None:
    """Each movement counts once: a result is applied before the next exchange of its parameters."""

    def train(comm: Communicator) -> dict[str, list[float]]:
        w = {name: np.zeros(2) for name in NAMES}
        local = make_local(comm, w, **old)
        for x in w.values():
            x[:] = 4
        for _ in range(old["every"]):
            local.step()
        assert local._delayed.waiting
        state, resumed = local.state_dict(), make_local(comm, w, **new)
        resumed.load_state_dict(state)
        for _ in range(8):
            resumed.step()
        resumed.exchange()
        return {name: x.tolist() for name, x in w.items()}

    assert co.simulate(2, train) == [{name: [4.0, 4.0] for name in NAMES}] * 2


def exchange_now(local: co.LocalUpdates, weight: float) -> None:
    local.exchange(weight=weight)


def exchange_open(local: co.LocalUpdates, weight: float) -> None:
    with local.exchange(weight=weight, commit=False):
        pass


@pytest.mark.parametrize("exchange", [exchange_now, exchange_open])
def test_a_rank_that_listens_does_not_pull_the_others_back(
    exchange: Callable[[co.LocalUpdates, float], None],
) -> None:
    """With alpha, a share of its own parameters would stay, and be a movement against the others'."""

    def train(comm: Communicator) -> list[float]:
        w = np.zeros(1)
        local = make_local(comm, {"w": w}, every=1, alpha=0.5)
        w += [4.0, 2.0][comm.rank]
        exchange(local, 1.0 - comm.rank)
        for _ in range(9):
            local.exchange()
        return [float(x) for x in local.state_dict()["parameter/w"]]

    assert co.simulate(2, train) == [[4.0]] * 2


@pytest.mark.parametrize("resumes", [False, True])
@pytest.mark.parametrize("drops", ["weight", "revert"])
def test_a_rank_without_its_own_movement_takes_a_delayed_result_whole(drops: str, resumes: bool) -> None:
    """It has listened, or has reverted while its message was under way; alpha leaves nothing of its own."""

    def train(comm: Communicator) -> list[float]:
        w = np.zeros(1)
        settings: dict[str, Any] = {"every": 4, "delay": 2, "alpha": 0.5}
        local = make_local(comm, {"w": w}, weight=1.0 - comm.rank * (drops == "weight"), **settings)
        w += 4 if comm.rank == 0 else 2
        for _ in range(4):
            local.step()
        if drops == "revert":
            local.revert()
        if resumes:
            state, local = local.state_dict(), make_local(comm, {"w": w}, **settings)
            local.load_state_dict(state)
        for _ in range(2):
            local.step()
        return [float(x) for x in w]

    # If rank 0 alone counts, half of its own parameter is half of the result.
    assert co.simulate(2, train) == [[4.0 if drops == "weight" else 3.0]] * 2


def test_ranks_that_train_different_parameters_raise_alike() -> None:
    """Also if their parameters differ, and the channel stays open."""
    torch = pytest.importorskip("torch")

    def train(comm: Communicator) -> list[str]:
        first = torch.nn.Parameter(torch.full((4,), float(comm.rank)))
        second = torch.nn.Parameter(torch.zeros(4), requires_grad=comm.rank == 1)
        local = make_local(comm, {"a": first, "b": second}, every=2, fragments=["a", "b"])
        reasons = []
        for _ in range(3):
            try:
                local.step()
            except co.CollectiveError as error:
                reasons.append(error.reason)
        return reasons

    first, second = co.simulate(2, train)
    assert first == second
    assert set(first) == {"shape", "parameters"}


class Interrupted(np.ndarray[Any, Any]):
    """A parameter of which one write is interrupted."""

    is_armed = False

    def __setitem__(self, key: Any, value: Any) -> None:
        if Interrupted.is_armed:
            Interrupted.is_armed = False
            raise KeyboardInterrupt
        super().__setitem__(key, value)


def test_a_rank_that_was_interrupted_while_it_wrote_has_the_state_of_the_others() -> None:
    """States from 1 MiB are compared by parts, and a rank that raised digests the whole."""

    def train(comm: Communicator) -> list[str]:
        w = {"a": np.zeros(2**18), "b": np.zeros(2**18)}
        if comm.rank == 0:
            w["b"] = w["b"].view(Interrupted)
        local = make_local(comm, w, every=2, momentum=0.5)
        for x in w.values():
            x.view(np.ndarray)[...] += 1
        local.step()
        if comm.rank == 0:
            Interrupted.is_armed = True
        seen = []
        for _ in range(3):
            try:
                local.exchange()
                seen.append("ok")
            except BaseException as error:
                seen.append(type(error).__name__)
        return seen

    assert co.simulate(2, train) == [["KeyboardInterrupt", "ok", "ok"], ["ok", "ok", "ok"]]


def test_a_state_with_a_parameter_that_was_just_unfrozen() -> None:
    """It is taken over with its state, without a call of admit before."""
    torch = pytest.importorskip("torch")

    def train(comm: Communicator) -> tuple[list[float], list[str]]:
        w = {name: torch.nn.Parameter(torch.zeros(2), requires_grad=name == "a") for name in "ab"}
        local = make_local(comm, w, every=1)
        w["b"].requires_grad_(True)
        local.admit()
        with torch.no_grad():
            w["b"] += 4
        local.exchange()
        state = local.state_dict()
        again = {name: torch.nn.Parameter(torch.full((2,), 4.0 * (name == "b"))) for name in "ab"}
        again["b"].requires_grad_(False)
        resumed = make_local(comm, again, every=1)
        again["b"].requires_grad_(True)
        resumed.load_state_dict(state)
        with torch.no_grad():
            again["b"] += 2
        resumed.exchange()
        return again["b"].tolist(), resumed.admit()

    assert co.simulate(2, train) == [([6.0, 6.0], [])] * 2


def test_a_renamed_state_has_all_that_it_keeps() -> None:
    """Of each kind of array by name: also what the parameters keep, and results in flight."""

    def train(comm: Communicator) -> set[str]:
        def make(name: str) -> tuple[Array, co.LocalUpdates]:
            w = np.zeros(4)
            top = wc.Compressor("topk(0.25) | rice | raw", feedback=wc.ErrorFeedback())
            settings: dict[str, Any] = {"every": 2, "delay": 1, "momentum": 0.5, "keep": 0.5}
            return w, co.LocalUpdates(None, {name: w}, top, comm, **settings)

        w, local = make("w")
        for _ in range(4):
            w += [4, 3, 2, 1]
            local.step()
        state = local.state_dict()
        renamed = wc.rename_state(state, add="x.")
        own, other = make("x.w")
        own[:] = w
        other.load_state_dict(renamed)
        again = wc.rename_state(other.state_dict(), prefix="x.")
        assert {key: x.tobytes() for key, x in again.items()} == {
            key: x.tobytes() for key, x in state.items()
        }
        return {key.removesuffix("/w") for key in state if key.endswith("/w")}

    kinds = {"parameter", "momentum", "carried", "delayed_mean/0", "compressor/residual"}
    assert co.simulate(2, train) == [kinds] * 2
