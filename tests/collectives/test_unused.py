"""Tensors whose gradients are zero on all ranks lose no residual; sent plus kept is what came in."""

from __future__ import annotations

import numpy as np
import pytest

import collectives as co
import wirecodec as wc
from collectives.communicator import Communicator
from tests.collectives.conftest import World
from tests.collectives.inputs import bits
from tests.oracles import Array

STEPS = 6
NAMES = ("everyone", "last", "never", "first steps")


def whole_numbers(step: int, rank: int, ranks: int) -> dict[str, Array]:
    """Make gradients of whole numbers, whose sums are exact in any order.

    All ranks use "everyone", only the last rank uses "last", and no rank "never". All ranks stop using
    "first steps" in the middle, as after a freeze.
    """
    rng = np.random.default_rng([3, step, rank])
    used = {"everyone": True, "last": rank == ranks - 1, "never": False, "first steps": step < STEPS // 2}
    return {name: (rng.integers(-50, 50, 200) * ranks * used[name]).astype(np.float32) for name in NAMES}


def compressor(method: str) -> wc.Compressor | co.CLTk:
    return co.CLTk(0.05, schedule=wc.WarmUp(1, hold=True)) if method == "clt-k" else wc.Compressor(method)


@pytest.mark.parametrize(
    ("method", "algorithm"),
    [
        ("topk(0.05) | rice | raw", "allgather"),
        ("topk(0.05) | rice | raw", "dense"),
        ("topk(0.05) | rice | raw", "split-pairs"),
        ("all | raw-index | qsgd(bits=2)", "allgather"),
        ("clt-k", ""),
    ],
)
def test_nothing_is_lost(several: World, method: str, algorithm: str) -> None:
    """Means count only if some rank's gradient is not zero, as DistributedDataParallel delivers them."""
    n = several.n

    def train(comm: Communicator) -> tuple[dict[str, Array], dict[str, Array]]:
        state = compressor(method)
        delivered = {name: np.zeros(200, np.float32) for name in NAMES}
        for step in range(STEPS):
            gradients = whole_numbers(step, comm.rank, n)
            if isinstance(state, co.CLTk):
                means = state.allreduce(comm, gradients, hold_zeros=True)
            else:
                means = co.allreduce(comm, gradients, state, algorithm=algorithm, hold_zeros=True)
            for name in NAMES:
                if any(whole_numbers(step, rank, n)[name].any() for rank in range(n)):
                    delivered[name] += means[name] * n
                else:
                    assert not means[name].any()
        residuals = {name: state.residual(name) for name in NAMES}
        return delivered, {name: np.zeros(200) if x is None else x for name, x in residuals.items()}

    results = several.run(train)
    for name in NAMES:
        came_in = sum(whole_numbers(step, rank, n)[name] for step in range(STEPS) for rank in range(n))
        np.testing.assert_array_equal(results[0][0][name] + sum(left[name] for _, left in results), came_in)


def test_a_leader_that_holds_a_tensor_sends_nothing_of_it() -> None:
    """The others keep what they have accumulated until a leader uses the tensor."""

    def train(comm: Communicator) -> list[bytes]:
        cltk = co.CLTk(0.5)
        gradient = np.array([8, 2, 6, 4], np.float32)
        used = [np.zeros_like(gradient) if comm.rank == 0 else gradient] * 2
        return [bits(cltk.allreduce(comm, used[step], hold_zeros=True)) for step in range(2)]

    expected = [np.zeros(4, "f4"), np.array([8, 0, 6, 0], "f4")]
    assert co.simulate(2, train) == [[bits(x) for x in expected]] * 2


def test_cltk_keeps_the_residual_of_a_tensor_that_is_absent(world: World) -> None:
    """A tensor that is not among those of a step keeps its residual, as with a Compressor."""

    def train(comm: Communicator) -> bool:
        cltk = co.CLTk(0.5)
        cltk.allreduce(comm, {"a": np.array([1, 2], "f4"), "b": np.array([1, 2], "f4")})
        before = cltk.residual("a")
        cltk.allreduce(comm, {"b": np.array([1, 2], "f4")})
        after = cltk.residual("a")
        return before is not None and after is not None and bits(before) == bits(after)

    assert all(world.run(train))
