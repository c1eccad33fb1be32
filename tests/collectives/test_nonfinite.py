"""nonfinite="propagate": NaN or Inf on one rank gives NaN on all ranks, and no state changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import collectives as co
import wirecodec as wc
from collectives.communicator import Communicator
from tests.collectives.conftest import World
from tests.collectives.inputs import bits, gradient
from tests.oracles import Array

SCHEMES: list[Any] = [
    "topk(0.1) | rice | qsgd(bits=4)",
    {"small": "all | raw-index | raw", "*": "topk(0.1) | rice | raw"},
    "threshold(0.5) | rice | raw",
    "dct | topk(0.1) | rice | raw",
]


def tensors(rank: int) -> dict[str, Array]:
    return {"big": gradient(rank, (20, 30)), "small": gradient(rank + 50, 7)}


def is_nan(means: dict[str, Any]) -> bool:
    forms = {name: (x.shape, x.dtype) for name, x in tensors(0).items()}
    same = {name: (x.shape, x.dtype) for name, x in means.items()} == forms
    return same and all(np.isnan(x).all() for x in means.values())


def state(compressor: wc.Compressor | co.CLTk) -> dict[str, bytes]:
    return {key: bits(x) for key, x in compressor.state_dict().items()}


def step(comm: Communicator, compressor: Any, grads: dict[str, Array], algorithm: str) -> dict[str, Any]:
    if isinstance(compressor, co.CLTk):
        return compressor.allreduce(comm, grads, nonfinite="propagate")
    return co.allreduce(comm, grads, compressor, algorithm=algorithm, nonfinite="propagate")


@pytest.mark.parametrize(("name", "bad"), [("big", np.nan), ("small", -np.inf)])
@pytest.mark.parametrize(
    ("make", "algorithm"),
    [
        *((lambda s=scheme: wc.Compressor(s), "allgather") for scheme in SCHEMES),
        (lambda: wc.Compressor(SCHEMES[1]), "dense"),
        (lambda: wc.Compressor(SCHEMES[1]), "split-pairs"),
        (lambda: wc.Compressor("randomk(0.1) | rice | raw", feedback=None), "allgather"),
        (lambda: co.CLTk(0.1), ""),
        (lambda: co.OkTopK("topk(0.1) | rice | qsgd"), "auto"),
        (lambda: co.CLTk(0.1, schedule=wc.WarmUp(9, hold=True)), ""),
    ],
)
def test_all_ranks_get_nan_and_continue(
    several: World, make: Callable[[], Any], algorithm: str, name: str, bad: float
) -> None:
    odd = several.n - 1

    def train(comm: Communicator) -> list[bytes]:
        compressor = make()
        step(comm, compressor, tensors(comm.rank), algorithm)
        before = state(compressor)
        grads = tensors(comm.rank)
        if comm.rank == odd:
            grads[name].reshape(-1)[3] = bad
        assert is_nan(step(comm, compressor, grads, algorithm))
        assert state(compressor) == before
        means = step(comm, compressor, tensors(comm.rank + 9), algorithm)
        assert compressor.step == 2
        return [bits(x) for x in means.values()]

    results = several.run(train)
    assert all(result == results[0] for result in results)


@pytest.mark.parametrize("make", [lambda: wc.Compressor("topk(0.5) | rice | raw"), lambda: co.CLTk(0.5)])
def test_a_sum_that_overflows_takes_no_step(make: Callable[[], Any]) -> None:
    """Each gradient is finite; an optimizer that skips the infinite mean loses no residual."""

    def train(comm: Communicator) -> tuple[bool, int]:
        compressor = make()
        mean = step(comm, compressor, {"w": np.array([3e38, 1, 2, 3], "f4")}, "auto")
        return bool(np.isnan(mean["w"]).all()), compressor.step

    assert co.simulate(2, train) == [(True, 0)] * 2


def test_finite_gradients_have_the_same_bits_and_bytes(several: World) -> None:
    def train(comm: Communicator) -> bool:
        found = []
        for nonfinite in ("raise", "raise", "propagate"):  # the first one may announce a compilation
            channel, compressor = co.Channel(comm), wc.Compressor(SCHEMES[1])
            settings: Any = {"algorithm": "allgather", "nonfinite": nonfinite}
            mean: Any = co.allreduce(channel, tensors(comm.rank), compressor, **settings)
            found.append(([bits(x) for x in mean.values()], state(compressor), channel.bytes_sent))
        return found[1] == found[2]

    assert all(several.run(train))


def test_another_error_beside_nan_is_raised(several: World) -> None:
    """A rank that cannot contribute for another reason is not hidden by the NaN of a rank."""

    def wrong(comm: Communicator) -> None:
        x: Any = np.full(10, np.nan, np.float32) if comm.rank == 0 else np.ones(10, np.int32)
        co.allreduce(comm, x, "topk(0.5) | rice | raw", nonfinite="propagate")

    assert {error.reason for error in several.errors(wrong)} == {"encode"}


def test_the_setting_is_checked(world: World) -> None:
    errors = world.errors(lambda comm: co.allreduce(comm, np.ones(3), nonfinite="ignore"))  # type: ignore[call-overload]
    assert "nonfinite is 'ignore'; the choices are 'raise', 'propagate'" in str(errors[0])
