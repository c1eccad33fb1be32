"""Collectives of transformed tensors, which have more coefficients than elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import collectives as co
import wirecodec as wc

SIZES = (1, 2, 7, 13, 1025)


def gradients(rank: int) -> dict[str, Any]:
    rng = np.random.default_rng(rank)
    return {f"w{n}": rng.normal(size=n).astype(np.float32) for n in SIZES}


@pytest.mark.parametrize("name", ["rfft", "dct"])
def test_sums_of_transformed_tensors(name: str) -> None:
    """If all coefficients are sent, the result is the mean of the tensors, the same on every rank."""
    scheme = f"{name} | all | raw-index | raw"
    found = co.simulate(3, lambda comm: co.allreduce(comm, gradients(comm.rank), scheme))
    gathered = co.simulate(3, lambda comm: co.allgather(comm, gradients(comm.rank), scheme))
    for n in (f"w{size}" for size in SIZES):
        mean = np.mean([gradients(rank)[n] for rank in range(3)], axis=0)
        assert all(np.allclose(result[n], mean, atol=1e-5) for result in found)
        assert all(np.array_equal(result[n], found[0][n]) for result in found)
        for rank, tensor in enumerate(gathered[0]):
            assert np.allclose(tensor[n].to_dense(), gradients(rank)[n], atol=1e-5)


def test_feedback_across_ranks() -> None:
    """Elements that were not sent are sent later."""

    def train(comm: Any) -> Any:
        compressor = wc.Compressor("dct | topk(0.1) | rice | raw")
        total = np.zeros(1025)
        for _ in range(200):
            total += co.allreduce(comm, gradients(comm.rank), compressor)["w1025"]
        return total / 200

    found = co.simulate(2, train)
    mean = np.mean([gradients(rank)["w1025"] for rank in range(2)], axis=0)
    assert np.linalg.norm(found[0] - mean) < 0.1 * np.linalg.norm(mean)
    assert np.array_equal(*found)
