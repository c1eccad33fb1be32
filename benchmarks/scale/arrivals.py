"""What arrives in one step of each method, for the same number of elements: its error.

Half of the variance of the ranks' gradients is common to all ranks, as it is when batches differ. The error
is that of the mean of all gradients, in times of the error of its own largest elements, which no method
knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import collectives as co
import wirecodec as wc

__all__ = ["METHODS", "measure_arrivals"]

Array = Any
METHODS = ("allgather", "Ok-Topk", "CLT-k", "gTop-k")


def measure_arrivals(
    ranks: Sequence[int] = (4, 8, 16, 32), size: int = 100_000, ratio: float = 0.01
) -> dict[int, dict[str, float]]:
    """Measure the first step of each method on simulated ranks.

    Args:
        ranks: numbers of ranks.
        size: elements of the gradient.
        ratio: of the elements that each rank selects.

    Returns:
        {ranks: {method: error, in times of the least one for as many elements}}.
    """
    return {n: _measure(n, size, ratio) for n in ranks}


def _measure(n: int, size: int, ratio: float) -> dict[str, float]:
    gradients = [_draw(n, n, size) + _draw(n, rank, size) for rank in range(n)]
    mean = np.mean(gradients, axis=0, dtype=np.float64)
    k = round(ratio * size)
    rest = np.sort(np.abs(mean))[: size - k]
    least = np.linalg.norm(rest)

    def run(comm: Any) -> list[float]:
        gradient = gradients[comm.rank]
        compressor = wc.Compressor(f"topk({ratio!r}) | rice | raw")
        means = (
            co.allreduce(comm, {"": gradient}, compressor, algorithm="allgather")[""],
            co.OkTopK(ratio).allreduce(comm, gradient),
            co.CLTk(ratio).allreduce(comm, gradient),
            co.GTopK(ratio).allreduce(comm, gradient),
        )
        return [float(np.linalg.norm(mean - found) / least) for found in means]

    return dict(zip(METHODS, co.simulate(n, run)[0], strict=True))


def _draw(n: int, seed: int, size: int) -> Array:
    return np.random.default_rng([n, seed]).laplace(size=size).astype(np.float32)
