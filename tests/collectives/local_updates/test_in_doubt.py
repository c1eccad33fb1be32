"""An exchange that some ranks complete and others do not: no movement is lost, and none is sent twice.

All movements are multiples of 6, so that the means over 3 and over 2 ranks, and all sums, are exact.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest

import collectives as co
import wirecodec as wc
from collectives.agreement.header import Algorithm
from collectives.communicator import TransportError
from collectives.oktopk import summing
from collectives.tuning import choice
from tests.collectives.numbered_requests import NumberedRequests
from tests.oracles import Array

EVERY, NAMES = 4, ("a", "b")
DENSE = "all | raw-index | raw"


class Breaking(NumberedRequests):
    """A communicator of which one request fails when it is complete: the other ranks have all bytes."""

    def __init__(self, comm: Any, number: int | None) -> None:
        super().__init__(comm, number, Broken)

    def block(self, requests: list[Any]) -> bool:
        """As the simulated communicator's, whose requests these are."""
        return bool(self._comm.block([getattr(one, "inner", one) for one in requests]))


@dataclass
class Broken:
    """A request that fails when it is complete."""

    inner: Any

    def Test(self) -> bool:
        """Raise as soon as the other ranks have what they need."""
        if self.inner.Test():
            raise TransportError("closed by peer")
        return False


@dataclass
class Worker:
    """A worker, and the sum of what it has moved."""

    number: int
    compressor: Any
    repeats: int = 1
    local: Any = None
    requests: int = 0
    error: str = ""

    def __post_init__(self) -> None:
        self.w, self.moved = ({name: np.zeros(4 * self.repeats) for name in NAMES} for _ in range(2))

    def step(self, *, moves: bool = True) -> None:
        for name in NAMES:
            step = np.tile([48.0, 24, 12, 6], self.repeats) * (1 + self.number + (name == "b")) * moves
            self.w[name] += step
            self.moved[name] += step
        self.local.step()

    def left(self, name: str) -> Array:
        """What the others do not have: the residual, and the movement since the last exchange."""
        residual = self.compressor.residual(name)
        movement: Array = self.local._anchor.measure_all([name])[name]
        return movement if residual is None else movement + residual


def train(
    behind: int | None, last: int | None, make: Callable[[], Any], repeats: int = 1, **settings: Any
) -> list[Worker]:
    """Train 3 workers until one of them does not complete an exchange."""
    delay = settings.get("delay", 0)

    def run(comm: Any) -> Worker:
        comm = Breaking(comm, last if comm.rank == behind else None)
        worker = Worker(comm.rank, make(), repeats)
        worker.local = co.LocalUpdates(None, worker.w, worker.compressor, comm, every=EVERY, **settings)
        for t in range(1, 2 * EVERY + delay + 1):
            # With alpha 0, a result replaces what was moved during its delay.
            lost = delay and (t - 1) % (EVERY // settings.get("fragments", 1)) == 0
            try:
                worker.step(moves=not lost or (comm.rank == behind and t > 2 * EVERY))
            except co.CollectiveError as error:
                worker.error = error.reason
        worker.requests = comm.requests
        return worker

    return co.simulate(3, run)


def check(workers: list[Worker], dead: Worker, state: dict[str, Array]) -> None:
    """Compare what all ranks have applied with what they have moved and still have."""
    for name in NAMES:
        everyone = [*workers, dead]
        moved = sum(one.moved[name] for one in everyone)
        left = sum(one.left(name) for one in everyone)
        np.testing.assert_array_equal(len(everyone) * state[name], moved + left)


def join(workers: list[Worker]) -> list[bool]:
    """Let workers go on together; return which have taken over another one's state."""

    def run(comm: Any) -> bool:
        worker = workers[comm.rank]
        worker.local.rebind(comm)
        return bool(worker.local.synchronize())

    return co.simulate(len(workers), run)


def topk() -> Any:
    return wc.Compressor("topk(0.25) | rice | raw", feedback=wc.ErrorFeedback())


def dense() -> Any:
    return wc.Compressor(DENSE, feedback=None)


@pytest.mark.parametrize("behind", [0, 1])
@pytest.mark.parametrize("delay", [0, 1])
@pytest.mark.parametrize("fragments", [1, 2])
@pytest.mark.parametrize(
    ("make", "more"),
    [
        (topk, {}),
        (dense, {}),
        (lambda: co.CLTk(0.25), {}),
        (topk, {"divide": "senders"}),
        (topk, {"keep": 0.5}),
    ],
    ids=["feedback", "dense", "clt-k", "senders", "keep"],
)
def test_the_rank_that_is_behind_has_sent_its_message(
    make: Callable[[], Any], more: dict[str, Any], fragments: int, delay: int, behind: int
) -> None:
    settings = {"fragments": fragments, "delay": delay, **more}
    undisturbed = train(None, None, make, **settings)
    workers = train(behind, undisturbed[behind].requests, make, **settings)
    dead, ahead = workers.pop(), workers[1 - behind]
    late = workers[behind]
    assert (late.error, ahead.error) == ("transport", "")
    assert (late.local.round + 1, ahead.local.round) == (2 * fragments, 2 * fragments)
    before = {name: ahead.left(name) for name in NAMES}

    def go_on(comm: Any) -> tuple[bool, dict[str, Array]]:
        worker = workers[comm.rank]
        worker.local.rebind(comm)
        took_over = worker.local.synchronize()
        assert not worker.local.synchronize()
        return took_over, worker.local._anchor.state.parameters

    results = co.simulate(2, go_on)
    assert [took_over for took_over, _ in results] == [rank == behind for rank in (0, 1)]
    expected = undisturbed[0].local._anchor.state.parameters
    for name in NAMES:
        for _, state in results:
            np.testing.assert_array_equal(state[name], expected[name])
        np.testing.assert_array_equal(ahead.left(name), before[name])
        # The step of the compressor is that of a rank that has lost no connection.
        residual = undisturbed[behind].compressor.residual(name)
        np.testing.assert_array_equal(late.compressor.residual(name), residual)
    if "divide" not in more:
        check(workers, dead, results[0][1])


def test_a_step_of_ok_topk_that_is_behind_is_rolled_back() -> None:
    """Which elements were delivered is not known there: it takes over the state, and keeps its residuals."""
    make = partial(co.OkTopK, 0.25)
    last = train(None, None, make)[0].requests
    workers = train(0, last, make)[:2]
    late = workers[0]
    assert (late.error, late.local.round, workers[1].local.round) == ("transport", 1, 2)
    start = {name: x.copy() for name, x in late.local._anchor.state.parameters.items()}
    before = {name: (late.compressor.residual(name), late.left(name)) for name in NAMES}

    def go_on(comm: Any) -> tuple[bool, dict[str, Array]]:
        worker = workers[comm.rank]
        worker.local.rebind(comm)
        return worker.local.synchronize(), worker.local._anchor.state.parameters

    (took_over, state), (_, expected) = co.simulate(2, go_on)
    assert took_over
    changed = [name for name in NAMES if not np.array_equal(state[name], start[name])]
    assert changed == ["b"]
    for name, (residual, left) in before.items():
        np.testing.assert_array_equal(state[name], expected[name])
        np.testing.assert_array_equal(late.left(name), residual if name in changed else left)


def test_a_step_of_ok_topk_is_committed_by_its_own_payloads(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupt comes before the sums are decoded; later calls have other payloads."""
    find_supports = summing._Arrival.find_supports
    due: list[int] = []  # the thread of the rank that is interrupted next

    def interrupt(self: Any) -> Any:
        if threading.get_ident() in due:
            due.clear()
            raise KeyboardInterrupt
        return find_supports(self)

    monkeypatch.setattr(summing._Arrival, "find_supports", interrupt)

    def run(comm: Any) -> tuple[list[str], list[float]]:
        x, compressor, seen = np.zeros(40, np.float32), co.OkTopK(0.25), list[str]()
        local = co.LocalUpdates(None, {"x": x}, compressor, comm, every=1)
        moved = np.zeros(40)
        for step in range(7):
            due.extend([threading.get_ident()] * (step == 4 and comm.rank == 1))
            x += 12.0 * (np.arange(40) % 7) * (comm.rank + 1)
            moved += 12.0 * (np.arange(40) % 7) * (comm.rank + 1)
            try:
                local.step()
                seen.append("ok")
            except KeyboardInterrupt:
                seen.append("interrupt")
            except co.CollectiveError as error:
                seen.append(error.reason)
                local.synchronize()
        left = local._anchor.measure_all(["x"])["x"] + compressor.residual("x")
        return seen, (moved + left - local._anchor.state.parameters["x"]).tolist()

    (first, x), (second, y) = co.simulate(2, run)
    assert first == [*["ok"] * 5, "parameters", "ok"]
    assert second == [*["ok"] * 4, "interrupt", "parameters", "ok"]
    np.testing.assert_array_equal(np.add(x, y), 0)


@pytest.mark.parametrize("delay", [0, 1])
def test_means_do_not_replace_movements_in_doubt(delay: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A single large vector is summed in the memory of the result, part by part."""
    monkeypatch.setattr(choice, "choose_algorithm", lambda *_, **__: Algorithm.DENSE)
    settings = {"repeats": 500, "fragments": 2, "delay": delay}
    last = train(None, None, topk, **settings)[0].requests
    workers = train(0, last, topk, **settings)
    dead = workers.pop()
    assert workers[0].error == "transport"

    def go_on(comm: Any) -> dict[str, Array]:
        workers[comm.rank].local.rebind(comm)
        workers[comm.rank].local.synchronize()
        state: dict[str, Array] = workers[comm.rank].local._anchor.state.parameters
        return state

    check(workers, dead, co.simulate(2, go_on)[0])


def test_two_more_exchanges_send_everything_once() -> None:
    """Movements of the rank that was behind are carried by one exchange, and by no other."""
    last = train(None, None, dense)[0].requests
    workers = train(0, last, dense)
    workers.pop()
    start = {name: x.copy() for name, x in workers[1].local._anchor.state.parameters.items()}

    def go_on(comm: Any) -> None:
        worker = workers[comm.rank]
        if comm.rank == 0:
            worker.w["a"] += 6  # after the error
        worker.local.rebind(comm)
        worker.local.synchronize()
        worker.w["a"] += 12
        worker.local.exchange()
        worker.w["a"] += 12
        worker.local.exchange()

    co.simulate(2, go_on)
    for worker in workers:
        np.testing.assert_array_equal(worker.w["a"], start["a"] + 3 + 12 + 12)
        np.testing.assert_array_equal(worker.w["b"], start["b"])


def test_an_exchange_that_nobody_has_completed_is_rolled_back() -> None:
    last = train(None, None, topk)[0].requests
    workers = [train(0, last, topk)[0], train(1, last, topk)[1]]
    before = [{name: worker.left(name) for name in NAMES} for worker in workers]
    assert join(workers) == [False, False]
    for worker, left in zip(workers, before, strict=True):
        for name in NAMES:
            np.testing.assert_array_equal(worker.left(name), left[name])


def test_another_exchange_in_the_same_round_does_not_count() -> None:
    """The others go on without a rank, which then has one exchange less, but not the one in doubt."""
    last = train(None, None, topk)[0].requests
    late, others = train(0, last, topk)[0], [train(1, last, topk)[1], train(2, last, topk)[2]]
    before = {name: late.compressor.residual(name) for name in NAMES}

    def alone(comm: Any) -> None:
        others[comm.rank].local.rebind(comm)
        others[comm.rank].local.exchange()

    co.simulate(2, alone)
    assert join([late, *others]) == [True, False, False]
    for name in NAMES:
        np.testing.assert_array_equal(late.compressor.residual(name), before[name])


def test_the_others_have_rolled_back_an_exchange_since() -> None:
    """The exchange in doubt is still their latest one that counts."""
    late, *others = train(0, train(None, None, topk)[0].requests, topk)

    def alone(comm: Any) -> None:
        others[comm.rank].local.rebind(comm)
        others[comm.rank].local.exchange(commit=False).rollback()

    co.simulate(2, alone)
    assert join([late, *others]) == [True, False, False]
    check(others, late, late.local._anchor.state.parameters)


@pytest.mark.parametrize("fragments", [1, 2])
def test_a_rank_without_an_exchange_in_doubt_keeps_fragments_that_did_not_change(fragments: int) -> None:
    def make(comm: Any) -> tuple[dict[str, Array], co.LocalUpdates]:
        w = {name: np.zeros(2) for name in NAMES}
        return w, co.LocalUpdates(None, w, dense(), comm, 4, 0.5, 0.5, fragments=fragments)

    def lead(comm: Any) -> Any:
        w, local = make(comm)
        saved = local.state_dict()
        for _ in range(4 // fragments):
            for name in NAMES:
                w[name] += 6
            local.step()
        return saved, local.state_dict()

    saved, newest = co.simulate(1, lead)[0]

    def join(comm: Any) -> Any:
        w, local = make(comm)
        local.load_state_dict(saved if comm.rank else newest)
        for name, x in w.items():
            x[:] = local._anchor.state.parameters[name] + 6
        local.synchronize()
        return {name: float(x[0]) for name, x in local._anchor.measure_all(list(w)).items()}

    first, second = co.simulate(2, join)
    assert first == {"a": -6, "b": -6}
    changed = "b" if fragments == 2 else "ab"  # after step 2 of 4, the second fragment is exchanged
    assert second == {name: 0 if name in changed else -6 for name in NAMES}


def test_a_rank_that_has_reverted_has_still_sent_its_message() -> None:
    last = train(None, None, topk)[0].requests
    workers = train(0, last, topk)
    dead = workers.pop()

    def go_on(comm: Any) -> dict[str, Array]:
        worker = workers[comm.rank]
        if comm.rank == 0:
            for x in worker.w.values():
                x[:] = np.nan
            worker.local.revert()
        worker.local.rebind(comm)
        worker.local.synchronize()
        state: dict[str, Array] = worker.local._anchor.state.parameters
        return state

    check(workers, dead, co.simulate(2, go_on)[0])


@pytest.mark.parametrize("waits", [False, True])
def test_a_rank_that_reverts_while_its_message_is_under_way_has_sent_it(waits: bool) -> None:
    """The exchange breaks off there after the revert, and counts on the other rank."""

    def run(comm: Any, last: int | None) -> tuple[Breaking, Any, list[str]]:
        seen: list[str] = []
        broken = Breaking(comm, last if comm.rank == 0 else None)
        w = np.zeros(4)
        local = co.LocalUpdates(None, {"w": w}, wc.Compressor(DENSE), broken, every=EVERY, delay=2)
        w += [48, 24, 12, 6]
        for _ in range(EVERY):
            local.step()
        if waits:
            local._delayed.wait()
        local.revert()
        for _ in range(2):
            try:
                local.step()
            except co.CollectiveError as error:
                seen.append(error.reason)
        return broken, local, seen

    last = co.simulate(2, lambda comm: run(comm, None))[0][0].requests
    workers, errors = zip(*((x, y) for _, x, y in co.simulate(2, lambda comm: run(comm, last))), strict=True)
    assert errors == (["transport"], [])

    def go_on(comm: Any) -> tuple[bool, list[float]]:
        local = workers[comm.rank]
        local.rebind(comm)
        was_behind = local.synchronize()
        local.exchange()
        return was_behind, local.state_dict()["parameter/w"].tolist()

    assert co.simulate(2, go_on) == [(True, [48, 24, 12, 6]), (False, [48, 24, 12, 6])]
