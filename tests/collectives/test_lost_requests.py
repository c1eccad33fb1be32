"""A communicator that raises after it has sent: nothing tells this from one that has not sent.

The rank that raises has no request to wait for. Other ranks may have all that they need, and take the step.
No result is wrong after that: ranks whose steps differ all raise, and LocalUpdates settle the exchange.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import collectives as co
import wirecodec as wc
from tests.collectives.numbered_requests import NumberedRequests
from tests.oracles import Array

BEFORE, FAULTY = 2, 1


def losing_at(comm: Any, number: int) -> NumberedRequests:
    """Return a communicator that raises after a request has begun, on one rank: the request is lost."""

    def lose(request: Any) -> Any:
        raise KeyboardInterrupt

    return NumberedRequests(comm, number if comm.rank == FAULTY else None, lose)


METHODS: dict[str, Callable[[], Any]] = {
    "topk": lambda: wc.Compressor("topk(0.25) | rice | raw"),
    "group": lambda: wc.Compressor("topk(0.25) | rice | raw", scope="group"),
    "clt-k": lambda: co.CLTk(0.25),
    "ok-topk": lambda: co.OkTopK(0.25),
}


def gradient(rank: int, step: int) -> dict[str, Array]:
    return {"w": 12.0 * ((np.arange(40) * (rank + 2) + step) % 7)}


def average(comm: Any, one: Any, tensors: dict[str, Array]) -> Array:
    is_plain = isinstance(one, wc.Compressor)
    means = co.allreduce(comm, tensors, one) if is_plain else one.allreduce(comm, tensors)
    return np.array(means["w"])


def train(ones: list[Any], last: int) -> tuple[list[list[str]], list[dict[str, Any]], int]:
    """Take steps until a request is lost; return the outcomes, the states before, and the requests."""
    requests = 0

    def run(comm: Any) -> tuple[list[str], dict[str, Any]]:
        nonlocal requests
        losing, seen, state = (
            losing_at(comm, last),
            list[str](),
            {},
        )
        for step in range(BEFORE + 2):
            if step == BEFORE:
                state = ones[comm.rank].state_dict()
            try:
                average(losing, ones[comm.rank], gradient(comm.rank, step))
                seen.append("ok")
            except KeyboardInterrupt:
                seen.append("interrupt")
            except co.CollectiveError as error:
                seen.append(error.reason)
            if step == BEFORE and comm.rank == FAULTY:
                requests = losing.requests
        return seen, state

    results = co.simulate(2, run)
    return [seen for seen, _ in results], [state for _, state in results], requests


@pytest.mark.parametrize("name", METHODS)
def test_ranks_that_have_taken_other_steps_do_not_go_on(name: str) -> None:
    """All raise the same error on a new communicator, whatever they call; a saved state settles it."""
    make = METHODS[name]
    last = train([make(), make()], 0)[2]
    ones = [make(), make()]
    seen, states, _ = train(ones, last)
    assert seen == [["ok"] * BEFORE + ["ok", "timeout"], ["ok"] * BEFORE + ["interrupt", "closed"]]
    assert [one.step for one in ones] == [BEFORE + 1, BEFORE]
    before = [np.array(one.residual("w")) for one in ones]

    def go_on(comm: Any) -> list[str]:
        texts = []
        for step in range(2):
            with pytest.raises(co.CollectiveError) as caught:
                average(comm, ones[comm.rank], gradient(comm.rank, step))
            assert caught.value.reason == "scheme"
            texts.append(str(caught.value))
        return texts

    texts, others = co.simulate(2, go_on)
    assert texts == others
    assert f"step {BEFORE}, but rank 0" in texts[0]
    for one, residual in zip(ones, before, strict=True):
        np.testing.assert_array_equal(one.residual("w"), residual)

    def load(comm: Any) -> tuple[Array, Array]:
        one = ones[comm.rank]
        one.load_state_dict(states[comm.rank])
        came_in = one.residual("w") + gradient(comm.rank, 9)["w"]
        mean = average(comm, one, gradient(comm.rank, 9))
        return mean, came_in - one.residual("w")

    (mean, one), (same, other) = co.simulate(2, load)
    np.testing.assert_array_equal(mean, same)
    np.testing.assert_array_equal(2 * mean, one + other)


@pytest.mark.parametrize("name", ["topk", "group", "clt-k"])
def test_local_updates_settle_it(name: str) -> None:
    """The exchange counts on both ranks, once, after ``synchronize`` on a new communicator."""

    def train(last: int) -> tuple[list[Any], int]:
        def run(comm: Any) -> Any:
            losing, w, one = (
                losing_at(comm, last),
                np.zeros(40),
                METHODS[name](),
            )
            local, seen = co.LocalUpdates(None, {"w": w}, one, losing, every=1), list[str]()
            for step in range(BEFORE + 1):
                w += gradient(comm.rank, step)["w"]
                try:
                    local.step()
                    seen.append("ok")
                except KeyboardInterrupt:
                    seen.append("interrupt")
            return local, one, seen, losing.requests

        found = co.simulate(2, run)
        return found, found[FAULTY][3]

    workers, _ = train(train(0)[1])
    assert [seen[-1] for _, _, seen, _ in workers] == ["ok", "interrupt"]
    assert [local.round for local, *_ in workers] == [BEFORE + 1, BEFORE]

    def go_on(comm: Any) -> Array:
        local = workers[comm.rank][0]
        local.rebind(comm)
        local.synchronize()
        return np.array(local._anchor.state.parameters["w"])

    state, same = co.simulate(2, go_on)
    np.testing.assert_array_equal(state, same)
    came_in = sum(gradient(rank, step)["w"] for rank in range(2) for step in range(BEFORE + 1))
    kept = sum(local._anchor.measure_all(["w"])["w"] + one.residual("w") for local, one, *_ in workers)
    np.testing.assert_array_equal(came_in, 2 * state - kept)  # which it keeps with the sign of a gradient
