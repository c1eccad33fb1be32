"""Collectives of arrays on a GPU: what ranks on the host would have."""

from __future__ import annotations

from typing import Any

import numpy as np

import collectives as co


def test_allreduce_and_allgather(cupy: Any) -> None:
    scheme = "topk(0.1) | rice | qsgd"

    def rank(comm: Any, there: bool) -> tuple[Any, Any]:
        x = np.random.default_rng(comm.Get_rank()).standard_normal(5000).astype(np.float32)
        given = cupy.asarray(x) if there else x
        total, parts = co.allreduce(comm, given, scheme), co.allgather(comm, given, scheme)
        return (cupy.asnumpy(total) if there else total), [part.values.tobytes() for part in parts]

    on_host = co.simulate(3, lambda comm: rank(comm, False))
    on_gpu = co.simulate(3, lambda comm: rank(comm, True))
    for (a, b), (c, d) in zip(on_host, on_gpu, strict=True):
        assert a.tobytes() == c.tobytes()
        assert b == d
