"""LocalUpdates after a restart: a worker that dies at once, other settings, a model that was forgotten."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import collectives as co
import wirecodec as wc
from collectives.communicator import Communicator
from tests.collectives.local_updates.test_state import DENSE, Worker
from tests.oracles import Array


@pytest.mark.parametrize(
    "method",
    [lambda: wc.Compressor("topk(0.25) | rice | raw"), lambda: co.CLTk(0.25), lambda: co.OkTopK(0.25)],
)
def test_a_worker_that_dies_before_the_first_exchange_after_a_restart(method: Callable[[], Any]) -> None:
    """Those that are left go on with the states that they loaded, and save them under their new ranks."""

    def make(comm: Communicator) -> Worker:
        return Worker(comm, method(), momentum=0.0, rate=1.0)

    states = co.simulate(3, lambda comm: make(comm).train(7).local.state_dict())

    def resume(comm: Communicator) -> Worker:
        worker = make(comm)
        worker.local.load_state_dict(states[comm.rank])
        worker.local.revert()
        return worker.train(1)

    left = co.simulate(3, resume)[1:]
    start = states[0]["parameter/w"]

    def go_on(comm: Communicator) -> tuple[Array, Array, dict[str, Array]]:
        worker = left[comm.rank]
        worker.local.rebind(comm)
        before = worker.compressor.residual("w")
        assert before is not None
        assert not worker.local.synchronize()
        saved = worker.local.state_dict()
        worker.train(1)
        after = worker.compressor.residual("w")
        assert after is not None
        assert worker.local.round == 3
        return worker.w, after - before + sum(worker.move(step) for step in range(2)), saved

    (one, first, _), (other, second, _) = results = co.simulate(2, go_on)
    np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(2 * (one - start), first + second, atol=1e-9)  # nothing is lost

    def restart(comm: Communicator) -> int:
        worker = make(comm)
        worker.local.load_state_dict(results[comm.rank][2])
        worker.local.revert()
        return worker.train(3).local.round

    assert co.simulate(2, restart) == [3, 3]


def test_a_shorter_period_than_that_of_the_saved_state() -> None:
    def train(comm: Communicator) -> list[int]:
        old, worker = Worker(comm, every=30).train(20), Worker(comm, every=8)
        worker.local.load_state_dict(old.local.state_dict())
        worker.w[:] = old.w
        return [step for step in range(1, 17) if worker.local.step()]

    assert co.simulate(2, train) == [[4, 12]] * 2


CALLS: dict[str, Callable[[Worker], Any]] = {
    "step": lambda worker: worker.local.step(),
    "exchange": lambda worker: worker.local.exchange(),
    "synchronize": lambda worker: worker.local.synchronize(),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("delay", [0, 1])
def test_a_state_without_its_model_is_told_once(delay: int, call: str) -> None:
    """The difference would be a movement, larger than all others."""

    def resume(comm: Communicator, model: str) -> list[float]:
        old = Worker(comm, every=2, delay=delay).train(5)
        state, worker = old.local.state_dict(), Worker(comm, every=2, delay=delay)
        worker.local.load_state_dict(state)
        if model == "loaded":
            worker.w[:] = old.w
        if model == "reverted":
            worker.local.revert()
        for _ in range(2):
            CALLS[call](worker)
        return [float(x) for x in worker.w]

    for model in ("loaded", "reverted"):
        assert len(co.simulate(1, partial(resume, model=model))[0]) == 32  # warnings are errors here
    with pytest.warns(UserWarning, match="load the model, too") as seen:
        co.simulate(1, partial(resume, model="forgotten"))
    assert len(seen) == 1


def test_a_program_that_takes_the_steps_too_is_told_once() -> None:
    torch = pytest.importorskip("torch")

    def train(comm: Communicator, takes: bool) -> float:
        w = torch.nn.Parameter(torch.zeros(1))
        optimizer = torch.optim.SGD([w], lr=1.0)
        optimizer.step()  # before LocalUpdates
        local = co.LocalUpdates(optimizer, {"w": w}, wc.Compressor(DENSE), comm, every=2)
        optimizer.step()
        for _ in range(4):
            w.grad = torch.ones(1)
            if takes:
                optimizer.step()
            local.step()
        return float(w.item())

    assert co.simulate(1, partial(train, takes=False)) == [-4]
    with pytest.warns(UserWarning, match="remove optimizer.step") as seen:
        assert co.simulate(1, partial(train, takes=True)) == [-8]
    assert len(seen) == 1
