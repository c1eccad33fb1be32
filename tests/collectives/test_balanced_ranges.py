"""Tests of split-pairs' ranges: they follow the last call's counts, and results keep their bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import collectives as co
from collectives.simulation.communicator import SimulatedComm
from collectives.sums.split import balance

N, D = 5, 40_000


def test_ranges_become_even_for_any_density() -> None:
    """Five moves bring the largest count to at most 1.1 times the mean, from elements in one corner, too."""
    rng = np.random.default_rng(1)
    for support in (
        np.sort(rng.choice(D, 4000, replace=False)),
        np.sort(D - 1 - rng.choice(D // 50, 700, replace=False)),
        np.unique((rng.random(3000) ** 4 * D).astype(int)),
    ):
        bounds = [D * i // N for i in range(N + 1)]
        for _ in range(5):
            counts = np.diff(np.searchsorted(support, bounds)).tolist()
            bounds = balance(bounds, counts)
            assert bounds[0] == 0
            assert bounds[-1] == D
            assert bounds == sorted(bounds)
        counts = np.diff(np.searchsorted(support, bounds))
        assert counts.sum() == support.size
        assert counts.max() <= 1.1 * support.size / N


def test_ranges_without_elements_stay() -> None:
    assert balance([0, 3, 6], [0, 0]) == [0, 3, 6]
    assert balance([0, 3, 6], [0, 4]) == [0, 4, 6]
    assert balance([0, 3, 6], [4, 0]) == [0, 1, 6]
    assert balance([0, 0, 2], [0, 2]) == [0, 1, 2]
    assert balance([5, 9], [7]) == [5, 9]


@pytest.mark.parametrize("sparse", [False, True])
def test_skewed_tensors_balance_and_keep_their_bits(sparse: bool) -> None:
    """The last tenth of the elements holds most of the stored ones; names and shapes cross the ranges."""

    def run(comm: SimulatedComm) -> tuple[list[int], list[int] | None, bool]:
        channel, sent, equal = co.Channel(comm), [comm.bytes_sent], True
        rng = np.random.default_rng(2)
        for _ in range(5):
            common = rng.standard_normal(D) * np.where(np.arange(D) < 0.9 * D, 1, 20)
            x = (common + 0.3 * np.random.default_rng([comm.rank]).standard_normal(D)).astype(np.float32)
            tensors = {"b": x[:31_000].reshape(31, 1000), "a": x[31_000:], "c": np.zeros(0, np.float32)}

            def reduce(channel: co.Channel, algorithm: str, tensors: Any = tensors) -> list[bytes]:
                found: Any = co.allreduce(  # type: ignore[call-overload]
                    channel, tensors, "threshold(20.0) | rice | raw", algorithm=algorithm, sparse=sparse
                )
                parts = [found[name] for name in sorted(tensors)]
                return [p.indices.tobytes() + p.values.tobytes() if sparse else p.tobytes() for p in parts]

            before = comm.bytes_sent
            balanced = reduce(channel, "split-pairs")
            sent.append(comm.bytes_sent - before)
            equal = equal and balanced == reduce(co.Channel(comm), "allgather")
        (bounds,) = channel._bounds.values()
        return sent[1:], bounds, equal

    results = co.simulate(4, run)
    assert all(equal for _, _, equal in results)
    assert len({tuple(bounds or ()) for _, bounds, _ in results}) == 1
    busiest = np.max([sent for sent, _, _ in results], axis=0)
    assert busiest[-1] < 0.9 * busiest[0]
