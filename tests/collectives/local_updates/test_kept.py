"""``keep``: workers keep a share of what they have not sent, and nothing is sent twice or lost."""

from __future__ import annotations

from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import collectives as co
import wirecodec as wc
from collectives.communicator import Communicator
from collectives.local_updates.fragments import divide_parameters
from tests.collectives.local_updates.test_fragments import EVERY, SIZES, STEPS, WORKERS, Descent, zeros
from tests.oracles import Array

SCHEME = "topk(0.2) | rice | raw"


def compressor() -> wc.Compressor:
    return wc.Compressor(SCHEME, feedback=wc.ErrorFeedback())


def reference(keep: float, count: int, delay: int, alpha: float) -> list[dict[str, Array]]:
    """Train with Compressors of each worker, and every other step in NumPy."""
    fragments = divide_parameters(SIZES, count)
    workers = [Descent(zeros(), worker) for worker in range(WORKERS)]
    senders, last = [compressor() for _ in workers], zeros()
    starts, started = [zeros() for _ in workers], []
    for t in range(1, STEPS + 1):
        for worker in workers:
            worker.step()
        for number, names in enumerate(fragments):
            if t % EVERY == number * EVERY // count:
                sent = []
                for rank, worker in enumerate(workers):
                    moved = {name: starts[rank][name] - worker.parameters[name] for name in names}
                    blob = senders[rank].compress(moved, rank=rank, ranks=WORKERS)
                    sent.append({name: x.to_dense() for name, x in wc.decode_many(blob).items()})
                mean = {name: sum(one[name] for one in sent) / WORKERS for name in names}
                started.append((t + delay, mean))
        for end, mean in started:
            if end != t:
                continue
            for name, m in mean.items():
                last[name] = last[name] - m
                for rank, worker in enumerate(workers):
                    residual = senders[rank].residual(name)
                    assert residual is not None
                    starts[rank][name] = last[name] - keep * residual
                    own = worker.parameters[name]
                    own[:] = alpha * own + (1 - alpha) * starts[rank][name]
    return [worker.parameters for worker in workers]


def train(comm: Communicator, steps: int = STEPS, **settings: Any) -> dict[str, Array]:
    parameters = zeros()
    local = co.LocalUpdates(
        Descent(parameters, comm.rank), parameters, compressor(), comm=comm, every=EVERY, **settings
    )
    for _ in range(steps):
        local.step()
    return parameters


@pytest.mark.parametrize(
    ("keep", "fragments", "delay", "alpha"), [(0.5, 1, 0, 0.0), (1.0, 1, 0, 0.0), (0.5, 2, 2, 0.25)]
)
def test_parameters_are_those_of_the_definition(
    keep: float, fragments: int, delay: int, alpha: float
) -> None:
    settings: dict[str, Any] = {"keep": keep, "fragments": fragments, "delay": delay, "alpha": alpha}
    found = co.simulate(WORKERS, lambda comm: train(comm, **settings))
    for one, other in zip(found, reference(keep, fragments, delay, alpha), strict=True):
        for name, x in other.items():
            np.testing.assert_allclose(one[name], x, rtol=1e-12, atol=1e-13)


def test_what_was_sent_and_what_is_left_is_what_workers_moved() -> None:
    """All values are multiples of 2^-20, so all sums are exact."""

    def run(comm: Communicator) -> tuple[Array, Array, Array]:
        rng = np.random.default_rng(comm.rank)
        w, own, sender = np.zeros(64), np.zeros(64), compressor()
        local = co.LocalUpdates(None, {"w": w}, sender, comm=comm, every=2, keep=0.5)
        for _ in range(12):
            move = rng.integers(-8, 9, 64) * 1.0
            w += move
            own += move
            local.step()
        left = sender.residual("w")
        assert left is not None
        local.revert()
        return own, left, w

    found = co.simulate(4, run)
    moved, left = (sum(one[part] for one in found) for part in (0, 1))
    assert any(one[1].any() for one in found)
    for _, _, common in found:
        np.testing.assert_array_equal(common * 4, moved + left)  # a residual is of start - end


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32])
def test_rounding_to_16_bits_is_no_movement(dtype: Any) -> None:
    """Exchanges without steps between them send what the workers moved, less what is left."""

    def run(comm: Communicator) -> tuple[Array, Array, Array]:
        rng, sender = np.random.default_rng(comm.rank), compressor()
        w = (1 + np.random.default_rng(9).random(400)).astype(dtype)
        start = w.astype(np.float32)
        local = co.LocalUpdates(None, {"w": w}, sender, comm=comm, every=1, keep=0.5)
        w[:] = (start + rng.normal(size=400) / 50).astype(dtype)
        moved = start - w.astype(np.float32)
        for _ in range(3):
            local.step()
        left = sender.residual("w")
        assert left is not None
        assert left.any()
        return moved, left, start - local.state_dict()["parameter/w"]

    found = co.simulate(2, run)
    moved, left = (sum(one[part].astype(np.float64) for one in found) for part in (0, 1))
    for _, _, sent in found:
        np.testing.assert_allclose(2 * sent.astype(np.float64), moved - left, rtol=0, atol=1e-6)


def test_a_saved_state_resumes_between_two_exchanges() -> None:
    def run(comm: Communicator) -> tuple[dict[str, Array], dict[str, Array]]:
        whole = train(comm, 20, keep=0.5)
        parameters = zeros()
        inner = Descent(parameters, comm.rank)
        make = partial(co.LocalUpdates, comm=comm, every=EVERY, keep=0.5)
        local = make(inner, parameters, compressor())
        for _ in range(9):
            local.step()
        state = local.state_dict()
        again = make(inner, parameters, compressor())
        again.load_state_dict(state)
        for _ in range(11):
            again.step()
        return whole, parameters

    for whole, resumed in co.simulate(WORKERS, run):
        for name, x in whole.items():
            np.testing.assert_array_equal(resumed[name], x)


def test_a_rank_that_takes_over_a_state_has_moved_nothing() -> None:
    def run(comm: Communicator) -> Array:
        w = np.zeros(8)
        local = co.LocalUpdates(None, {"w": w}, compressor(), comm=comm, every=1, keep=1.0)
        w += np.arange(8.0) * (comm.rank + 1)
        local.exchange()
        if comm.rank == 1:  # a rank that was restarted
            w = np.zeros(8)
            local = co.LocalUpdates(None, {"w": w}, compressor(), comm=comm, every=1, keep=1.0)
        local.synchronize()
        before = w.copy()
        local.revert()
        common: Array = w.copy()
        w[:] = before
        if comm.rank == 1:
            np.testing.assert_array_equal(before, common)
        return common

    first, second = co.simulate(2, run)
    np.testing.assert_array_equal(first, second)


def test_settings_that_need_residuals_say_so() -> None:
    make = partial(co.LocalUpdates, None, {"w": np.zeros(3)}, every=1)
    comm: Any = None  # is not reached
    dense = wc.Compressor("all | raw-index | raw", feedback=None)
    with pytest.raises(ValueError, match="residual"):
        make(dense, comm=comm, keep=0.5)
    with pytest.raises(TypeError, match="Compressor"):
        make(co.CLTk(0.5), comm=comm, keep=0.5)
    with pytest.raises(ValueError, match="0 to 1"):
        make(compressor(), comm=comm, keep=1.5)
