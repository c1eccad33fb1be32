"""Results have the order in which the gradients were given: users flatten them, or zip them with parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import collectives as co

SHAPES = {"conv.weight": (4, 3), "conv.bias": (4,), "z": (6,), "a": (2, 2)}
EXCHANGES: dict[str, Callable[[Any, Any], Any]] = {
    **{
        name: lambda comm, grads, name=name: co.allreduce(comm, grads, "topk(0.5) | rice | raw", algorithm=name)
        for name in ("allgather", "dense", "split-pairs", "split-bitmap", "split-dense")
    },
    "CLT-k": lambda comm, grads: co.CLTk(0.5).allreduce(comm, grads),
    "gTop-k": lambda comm, grads: co.GTopK(0.5).allreduce(comm, grads),
}


@pytest.mark.parametrize("name", EXCHANGES)
def test_results_have_the_callers_order(name: str) -> None:
    def run(comm: Any) -> Any:
        rng = np.random.default_rng(comm.rank)
        grads = {key: rng.normal(size=shape).astype(np.float32) for key, shape in SHAPES.items()}
        return EXCHANGES[name](comm, grads)

    for result in co.simulate(3, run):
        assert list(result) == list(SHAPES)
        assert [x.shape for x in result.values()] == list(SHAPES.values())
