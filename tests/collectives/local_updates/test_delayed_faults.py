"""Interrupts and errors around delayed exchanges, fragments that are not trained, and other borders."""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import collectives as co
import wirecodec as wc
from collectives.communicator import Communicator
from tests.collectives.injector import OWN, Injected, Injector
from tests.collectives.local_updates.test_any_request_fails import Requests, connect
from tests.oracles import Array

DENSE = "all | raw-index | raw"


def make_local(comm: Communicator | co.Channel, w: Array, **settings: Any) -> co.LocalUpdates:
    return co.LocalUpdates(None, {"w": w}, wc.Compressor(DENSE), comm, 3, **settings)


def train(local: co.LocalUpdates, w: Array, steps: int) -> list[str]:
    """Take steps of 1; return the names of the errors."""
    seen = []
    for _ in range(steps):
        w += 1
        try:
            local.step()
        except BaseException as error:
            seen.append(type(error).__name__)
    return seen


def fail_once(owner: Any, method: str, error: type[BaseException]) -> None:
    """Let a method of an object raise once."""

    def fail(*_: Any, **__: Any) -> Any:
        delattr(owner, method)
        raise error

    setattr(owner, method, fail)


def test_an_interrupt_before_a_delayed_exchange_skips_it() -> None:
    """The result of such an exchange would never come."""

    def run(comm: Communicator) -> tuple[list[str], int, int]:
        w = np.zeros(2, np.float32)
        local = make_local(comm, w, delay=1)
        if comm.rank == 1:
            fail_once(local._outer, "_measure", KeyboardInterrupt)
        seen = train(local, w, 3)
        assert len(local._delayed.waiting) == 1 - comm.rank
        return seen + train(local, w, 7), local.round, w.tolist()[0]

    first, second = co.simulate(2, run)
    assert first[0][0] == "CollectiveError"
    assert second == (["KeyboardInterrupt", "CollectiveError"], 1, 7.5)


@pytest.mark.parametrize("has_begun", [False, True])
def test_an_interrupt_after_the_exchange_was_submitted(has_begun: bool) -> None:
    """If the thread has begun with it, its result is applied; otherwise it does not run, and is skipped."""

    def run(comm: Communicator) -> tuple[list[str], int, float]:
        w = np.zeros(2, np.float32)
        local = make_local(comm, w, delay=1)
        assert train(local, w, 5) == []
        worker, may_begin = local._link.find().worker, threading.Event()
        submit = worker.submit

        def interrupted(function: Callable[[], object]) -> None:
            del worker.submit
            if has_begun:
                submit(function)
                local._delayed.waiting[0].wait()
            else:
                submit(may_begin.wait)
                submit(function)
            raise KeyboardInterrupt

        if comm.rank == 1:
            worker.submit = interrupted
        seen = train(local, w, 1)
        may_begin.set()
        seen += train(local, w, 4 if has_begun else 4 + 3 * comm.rank)
        return seen, local.round, float(w[0])

    first, second = co.simulate(2, run)
    if has_begun:
        assert first == ([], 3, 7.0)
        assert second == (["KeyboardInterrupt"], 3, 7.0)
    else:  # movements of 5 and 8 since the first result, which was 3
        assert first == (["CollectiveError"], 2, 9.5)
        assert second == (["KeyboardInterrupt", "CollectiveError"], 2, 9.5)


@pytest.mark.parametrize("call", ["exchange", "synchronize"])
def test_an_interrupt_of_a_call_skips_it_after_the_open_exchange(call: str) -> None:
    def run(comm: Communicator) -> tuple[list[str], int]:
        w = np.zeros(2, np.float32)
        local = make_local(comm, w, delay=2)
        train(local, w, 3)
        seen = []
        if comm.rank == 1:
            fail_once(local._delayed.waiting[0], "wait", KeyboardInterrupt)
            with pytest.raises(KeyboardInterrupt):
                getattr(local, call)()
        try:
            getattr(local, call)()
        except co.CollectiveError as error:
            seen.append(str(error.reason))
        local.synchronize()
        local.exchange()
        return seen, local.round

    assert co.simulate(2, run) == [(["sequence"], 2)] * 2


def test_a_result_that_cannot_be_applied_waits_for_the_next_step() -> None:
    def run(comm: Communicator) -> tuple[list[str], int]:
        w = np.zeros(2, np.float32)
        local = make_local(comm, w, delay=1, alpha=0.5)
        train(local, w, 3)
        if comm.rank == 1:
            fail_once(local._outer, "make_step", MemoryError)
        return train(local, w, 6), local.round

    assert co.simulate(2, run) == [([], 2), (["MemoryError"], 2)]


def test_a_state_with_a_late_result() -> None:
    """Two interrupts of the wait; the state can be loaded."""

    def run(comm: Communicator) -> tuple[bool, list[float]]:
        w = np.zeros(2, np.float32)
        local = make_local(comm, w, delay=1)
        train(local, w, 3)
        for _ in range(2):
            fail_once(local._delayed.waiting[0], "wait", KeyboardInterrupt)
            assert train(local, w, 1) == ["KeyboardInterrupt"]
        local.load_state_dict(local.state_dict())
        return local.step(), w.tolist()

    assert co.simulate(2, run) == [(True, [3, 3])] * 2


@pytest.mark.parametrize("delay", [0, 1])
@pytest.mark.parametrize(
    "make", [lambda: wc.Compressor("topk(0.5) | rice | raw"), lambda: co.CLTk(0.5)], ids=["topk", "clt-k"]
)
def test_a_fragment_without_a_trained_parameter(make: Callable[[], Any], delay: int) -> None:
    torch = pytest.importorskip("torch")

    def run(comm: Communicator) -> tuple[int, list[float], list[float]]:
        frozen = torch.nn.Parameter(torch.zeros(3), requires_grad=False)
        trained = torch.nn.Parameter(torch.zeros(2))
        named = {"frozen": frozen, "trained": trained}
        local = co.LocalUpdates(None, named, make(), comm, 4, fragments=2, delay=delay)
        for step in range(11):
            if step == 5:
                frozen.requires_grad_(True)
                local.admit()
            with torch.no_grad():
                for parameter in (frozen, trained):
                    parameter.add_(parameter.requires_grad * (1 + comm.rank))
            local.step()
        local.exchange()
        return local.round, frozen.tolist(), trained.tolist()

    first, second = co.simulate(2, run)
    assert first == second
    assert first[0] == 6
    assert any(first[1])


def test_alpha_of_parameters_without_dimensions() -> None:
    torch = pytest.importorskip("torch")

    def run(comm: Communicator) -> float:
        w = torch.nn.Parameter(torch.zeros(()))
        local = co.LocalUpdates(None, {"w": w}, wc.Compressor(DENSE), comm, 1, alpha=0.5)
        with torch.no_grad():
            w.add_(1 + comm.rank)
        local.step()
        return float(w.item())

    assert co.simulate(2, run) == [1.25, 1.75]


@pytest.mark.parametrize("weight", [-1.0, np.nan, "much"])
def test_senders_with_a_bad_weight(weight: Any) -> None:
    """An error of all ranks, which names the weight; a later exchange works."""

    def run(comm: Communicator) -> Any:
        w = np.zeros(2, np.float32)
        local = make_local(comm, w, divide="senders")
        w += 1 + comm.rank
        with pytest.raises(co.CollectiveError, match="rank 1: wrong argument: ValueError"):
            local.exchange(weight=weight if comm.rank else 1.0)
        local.exchange(weight=1.0 + 2 * comm.rank)
        return w.tolist()

    assert co.simulate(2, run) == [[1.75, 1.75]] * 2


def test_senders_cannot_go_on_over_sites() -> None:
    def run(comm: Communicator) -> None:
        w = np.zeros(2, np.float32)
        local = make_local(comm, w, divide="senders")
        single = co.simulate(1, lambda other: other)[0]
        with pytest.raises(ValueError, match="no meaning over Sites"):
            local.rebind(co.Sites(single, comm))

    co.simulate(2, run)


def test_no_state_is_loaded_while_a_step_waits() -> None:
    """The step would not fit the loaded state, and no other could be taken."""

    def run(comm: Communicator) -> float:
        w = np.zeros(2, np.float32)
        local = make_local(comm, w)
        state = local.state_dict()
        w += 1
        with local.exchange(commit=False), pytest.raises(RuntimeError, match="commit=False is open"):
            local.load_state_dict(state)
        return float(w[0])

    assert co.simulate(2, run) == [1.0, 1.0]


@pytest.mark.parametrize("key", ["delayed_left/1", "delayed_left/x", "delayed_mean/1/w"])
def test_delayed_results_of_a_state_are_numbered(key: str) -> None:
    def run(comm: Communicator) -> None:
        w = np.zeros(2, np.float32)
        local = make_local(comm, w, delay=2)
        train(local, w, 3)
        state = local.state_dict()
        if key == "delayed_left/1":
            state[key] = state.pop("delayed_left/0")
        else:
            state[key] = np.zeros(2, np.float32)
        with pytest.raises(ValueError, match="must be numbered from 0"):
            local.load_state_dict(state)

    co.simulate(2, run)


@pytest.mark.parametrize("delay", [0, 1])
def test_a_result_that_cannot_be_written_leaves_other_fragments(delay: int) -> None:
    """Their parameters keep the movement since their own last exchange."""

    def run(comm: Communicator) -> tuple[int, list[float]]:
        named = {"a": np.zeros(2), "b": np.zeros(2)}
        local = co.LocalUpdates(None, named, wc.Compressor(DENSE), comm, 4, fragments=2, delay=delay)
        for step in range(1, 9 + delay):
            for name in named:
                named[name] += 1
            if step == 2 + delay:
                named["b"].flags.writeable = False
                with pytest.raises(ValueError, match="read-only"):
                    local.step()
                named["b"].flags.writeable = True
            else:
                local.step()
        return local.round, local.state_dict()["parameter/a"].tolist()

    assert co.simulate(2, run) == [(3, [8.0 - delay] * 2)] * 2


@pytest.mark.parametrize("call", ["exchange", "synchronize"])
def test_an_interrupt_between_two_results(call: str) -> None:
    """The first is complete before the second is applied."""

    def run(comm: Communicator) -> tuple[int, list[float]]:
        named = {"a": np.zeros(2), "b": np.zeros(2)}
        local = co.LocalUpdates(None, named, wc.Compressor(DENSE), comm, 4, fragments=2, delay=3)
        for _ in range(4):
            for name in named:
                named[name] += 1
            local.step()
        assert len(local._delayed.waiting) == 2
        begin = local._anchor.begin

        def interrupted(step: Any) -> None:
            local._anchor.begin = begin  # type: ignore[method-assign]
            begin(step)
            raise KeyboardInterrupt

        local._anchor.begin = interrupted  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            getattr(local, call)()
        getattr(local, call)()
        local.exchange()
        return local.round, [*named["a"].tolist(), *named["b"].tolist()]

    rounds = 4 if call == "exchange" else 3
    assert co.simulate(2, run) == [(rounds, [4, 4, 2, 2])] * 2


def call_others(channel: Any) -> list[float]:
    """Make other calls of a channel; return their results."""
    w, dense = np.ones(2), wc.Compressor(DENSE)
    other = co.LocalUpdates(None, {"w": w}, dense, channel, 3)
    other.synchronize()
    other.exchange()
    with co.allreduce(channel, {"w": w}, dense, commit=False) as pending:
        ones = pending.means["w"]
    if not isinstance(channel, co.Sites):
        co.allgather_bytes(channel, b"x")
    results = w, ones, co.allreduce(channel, w, DENSE), co.CLTk(1.0).allreduce(channel, {"w": w})["w"]
    return [float(x) for result in results for x in result]


@pytest.mark.parametrize("sites", [False, True])
@pytest.mark.parametrize("first", range(4))
def test_other_calls_of_the_channel_come_after_a_delayed_exchange(first: int, sites: bool) -> None:
    """On all ranks, however long it takes on one of them, and if its LocalUpdates was deleted."""

    def run(comm: Any) -> list[float]:
        channel = connect(comm, Requests(), sites=sites)
        w = np.zeros(2)
        local = make_local(channel, w, delay=1)
        for _ in range(2):
            train(local, w, 3)
            if comm.rank == first:
                local._delayed.wait()
            assert call_others(channel) == [1] * 8
            assert train(local, w, 1) == []
            local.exchange()
        result = [float(x) for x in w]
        train(local, w, 3)
        del local
        gc.collect()
        assert call_others(channel) == [1] * 8
        return result

    assert co.simulate(4, run) == [[6, 6]] * 4


def test_an_interrupt_of_a_call_that_waits_for_a_delayed_exchange() -> None:
    """The call counts after the delayed exchange, whose result is right."""

    def run(comm: Communicator) -> tuple[list[str], list[float]]:
        channel, w, seen = co.Channel(comm), np.zeros(2), []
        local = make_local(channel, w, delay=1)
        train(local, w, 3)
        if comm.rank == 0:
            fail_once(channel.worker, "drain", KeyboardInterrupt)
        for _ in range(2 - comm.rank):
            try:
                co.allreduce(channel, w, DENSE)
            except BaseException as error:
                seen.append(getattr(error, "reason", type(error).__name__))
        local.exchange()
        return seen, w.tolist()

    assert co.simulate(2, run) == [
        (["KeyboardInterrupt", "sequence"], [3, 3]),
        (["sequence"], [3, 3]),
    ]


@pytest.mark.parametrize("ranks", [1, 2])
def test_an_interrupt_anywhere_while_a_result_is_applied(ranks: int) -> None:
    """It is applied once: also by a worker that is alone, to which no other gives its state."""

    def run(comm: Communicator, number: int) -> tuple[int, Array, Array]:
        w, moved = np.zeros(4), np.array([8.0, 4, 2, 1]) * (1 + comm.rank)
        compressor = wc.Compressor("topk(0.25) | rice | raw", feedback=wc.ErrorFeedback())
        local = co.LocalUpdates(None, {"w": w}, compressor, comm, 2, delay=1)
        w += moved
        for _ in range(2):
            local.step()
        local._delayed.wait()
        injector = Injector(OWN, number if comm.rank == 0 else 0, returns=True)
        with contextlib.suppress(Injected, MemoryError), injector.active():
            local.step()
        state = local.state_dict()
        local.load_state_dict(state)
        local.synchronize()
        residual = compressor.residual("w")
        assert residual is not None
        left = residual + local._anchor.measure_all(["w"])["w"]
        return injector.calls, moved + left, local._anchor.state.parameters["w"]

    calls = co.simulate(ranks, partial(run, number=0))[0][0]
    assert calls > 20
    for number in range(1, calls + 1):
        results = co.simulate(ranks, partial(run, number=number))
        for _, _, state in results:
            np.testing.assert_array_equal(ranks * state, sum(sent for _, sent, _ in results))


@pytest.mark.parametrize(
    ("delay", "skipped", "reasons", "expected"),
    [
        (1, [2, 4], ["sequence"], {"a": 14.5, "b": 13.0}),
        (3, [2, 4], ["sequence"], {"a": 14.5, "b": 13.0}),  # the next exchange runs already
        (1, [2], ["sequence"], {"a": 12.5, "b": 14.0}),
        (3, [2], ["sequence"], {"a": 15.5, "b": 14.0}),  # it runs already, with another fragment, and fails
        (1, [2], ["sequence", *["shape, with remedy"] * 2], {"a": 18.5, "b": 20.0}),
    ],
)
def test_a_rank_that_is_exchanges_behind(
    delay: int, skipped: list[int], reasons: list[str], expected: dict[str, float]
) -> None:
    """Rank 1 skips exchanges of "b", which is due after steps 2, 6, …, and of "a", due after 4, 8, ….

    All ranks see the same errors, after which they synchronize. Rank 0 takes steps of 1, and rank 1 of 2. So
    after steps 2 and 4 are skipped, "a" is exchanged with movements of 4 and 8 steps, 4 and 16, and becomes
    10. Next are those of "b", 6 and 20, and of "a" again, 3 and 6 after a delay of 1 or the synchronization.
    """

    def run(comm: Communicator) -> tuple[list[str], dict[str, float]]:
        named = {"a": np.zeros(2), "b": np.zeros(2)}
        taken, seen, is_changed = 0, list[str](), False

        class Inner:
            def step(self) -> None:
                for name in named:
                    named[name] += 1 + comm.rank
                if comm.rank and taken in skipped:
                    raise KeyboardInterrupt

        local = co.LocalUpdates(Inner(), named, wc.Compressor(DENSE), comm, 4, fragments=2, delay=delay)
        while local.round < 3:
            taken += 1
            try:
                local.step()
            except KeyboardInterrupt:
                assert taken in skipped
            except co.CollectiveError as error:
                has_remedy = "call synchronize() on all ranks" in str(error)
                seen.append(f"{error.reason}, with remedy" if has_remedy else str(error.reason))
                if len(seen) == len(reasons):
                    is_changed = is_changed or local.synchronize()
        assert not is_changed
        state = local.state_dict()
        return seen, {name: float(state[f"parameter/{name}"][0]) for name in named}

    assert co.simulate(2, run) == [(reasons, expected)] * 2


def test_a_rank_that_hangs_during_a_delay_is_a_timeout_when_the_result_is_due() -> None:
    """The others go on without it, with all that they have moved."""

    def train(comm: Communicator) -> tuple[co.LocalUpdates, list[int]]:
        w, late = np.zeros(2, np.float32), []
        local = make_local(comm, w, delay=2)
        for step in range(1, 6):
            if comm.rank == 2 and step == 3:
                break
            w += 1 + comm.rank
            try:
                local.step()
            except co.Timeout:
                late.append(step)
        return local, late

    found = co.simulate(3, train)
    assert [late for _, late in found] == [[5], [5], []]

    def go_on(comm: Communicator) -> list[float]:
        local = found[comm.rank][0]
        local.rebind(comm)
        local.synchronize()
        local.exchange()
        state: list[float] = local.state_dict()["parameter/w"].tolist()
        return state

    assert co.simulate(2, go_on) == [[7.5, 7.5]] * 2
