"""Tensors of zeros, NaN and Inf on a GPU have the effects that they have on the host.

The GPU is a stand-in whose kernels run in an emulator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import collectives as co
import wirecodec as wc
from collectives.communicator import Communicator
from tests.collectives.inputs import bits, gradient
from tests.gpu_emulated.standin import OnGPU, StandInDevice, marked, standin
from tests.oracles import Array

__all__ = ["standin"]

MAKERS: list[Callable[[], Any]] = [
    lambda: wc.Compressor({"b": "all | raw-index | raw", "*": "topk(0.1) | rice | raw"}),
    lambda: wc.Compressor("threshold(0.5) | rice | raw", feedback=None),
    lambda: co.CLTk({"b": 1.0, "*": 0.1}),
    lambda: co.OkTopK({"b": "all | raw-index | raw", "*": "topk(0.1) | rice | qsgd"}),
]


def gradients(rank: int) -> list[dict[str, Array]]:
    """Make the gradients of four steps: all used, one unused, Inf on rank 1, a sum that overflows."""
    steps = [
        {name: gradient(10 * step + rank, shape) for name, shape in (("a", (20, 30)), ("b", 7), ("u", 300))}
        for step in range(4)
    ]
    steps[1]["u"] = np.full(300, -0.0, np.float32)
    if rank == 1:
        steps[2]["a"][3, 4] = np.inf
    steps[3]["b"][:] = 3e38
    return steps


@pytest.mark.parametrize("make", MAKERS)
def test_the_gpu_does_as_the_host(standin: StandInDevice, make: Callable[[], Any]) -> None:
    def train(comm: Communicator, *, on_gpu: bool) -> list[Any]:
        compressor = make()
        found: list[Any] = []
        for grads in gradients(comm.rank):
            given: Any = {name: marked(x.copy()) for name, x in grads.items()} if on_gpu else grads
            options: Any = {"nonfinite": "propagate", "hold_zeros": True}
            if isinstance(compressor, co.CLTk):
                means = compressor.allreduce(comm, given, **options)
            else:
                means = co.allreduce(comm, given, compressor, algorithm="allgather", **options)
            assert all(isinstance(x, OnGPU) == on_gpu for x in means.values())
            nan = [bool(np.isnan(np.asarray(x)).all()) for x in means.values()]
            assert nan == [len(found) > 1] * 3
            state = {key: bits(x) for key, x in compressor.state_dict().items()}
            found.append(([bits(np.asarray(x.view(np.ndarray))) for x in means.values()], state))
        return found

    here = co.simulate(2, lambda comm: train(comm, on_gpu=False))
    assert co.simulate(2, lambda comm: train(comm, on_gpu=True)) == here
