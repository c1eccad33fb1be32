"""Results have the order in which the gradients were given: users flatten or zip them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import collectives as co

SHAPES = {"conv.weight": (4, 3), "conv.bias": (4,), "z": (6,), "a": (2, 2)}
ALGORITHMS = ("allgather", "dense", "split-pairs", "split-bitmap", "split-dense")


def _exchange(name: str, comm: Any, grads: Any) -> Any:
    if name in ALGORITHMS:
        return co.allreduce(comm, grads, "topk(0.5) | rice | raw", algorithm=name)
    methods: dict[str, Any] = {"CLT-k": co.CLTk, "gTop-k": co.GTopK, "Ok-Topk": co.OkTopK}
    return methods[name](0.5).allreduce(comm, grads)


@pytest.mark.parametrize("name", [*ALGORITHMS, "CLT-k", "gTop-k", "Ok-Topk"])
def test_results_have_the_callers_order(name: str) -> None:
    def run(comm: Any) -> Any:
        rng = np.random.default_rng(comm.rank)
        grads = {key: rng.normal(size=shape).astype(np.float32) for key, shape in SHAPES.items()}
        return _exchange(name, comm, grads)

    for result in co.simulate(3, run):
        assert list(result) == list(SHAPES)
        assert [x.shape for x in result.values()] == list(SHAPES.values())
