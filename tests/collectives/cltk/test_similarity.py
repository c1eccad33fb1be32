"""Similarity of the ranks' residuals and selections."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import collectives as co
from collectives.communicator import Communicator
from tests.collectives.conftest import World
from tests.collectives.inputs import bits, smooth, top
from tests.oracles import rank_ordered_sum

RATIO = 0.1


def test_similarity(several: World) -> None:
    """Equal ranks have distance 0 and select alike; independent ones have distance 1."""

    def measure(comm: Communicator) -> tuple[co.Similarity, co.Similarity]:
        alike, apart = co.CLTk(RATIO), co.CLTk(RATIO)
        alike.allreduce(comm, smooth(0))
        apart.allreduce(comm, smooth(comm.rank, 20_000))
        one = co.similarity(comm, alike, smooth(1))
        other = co.similarity(comm, apart, smooth(comm.rank + 20, 20_000))
        assert isinstance(one, co.Similarity)
        assert isinstance(other, co.Similarity)
        return one, other

    results = several.run(measure)
    assert len(set(results)) == 1
    one, other = results[0]
    assert one.cosine_distance == pytest.approx(0, abs=1e-6)
    assert one.hamming == (0.0,) * several.n
    assert other.cosine_distance == pytest.approx(1, abs=0.05)
    assert all(0.2 < share < 1 for share in other.hamming)


def test_hamming_is_the_definition(several: World) -> None:
    grads = [smooth(rank) for rank in range(several.n)]
    mean = (rank_ordered_sum(grads) / np.float32(several.n)).astype(np.float32)
    best = top(mean, 100)
    want = tuple(np.setdiff1d(top(g, 100), best).size / 100 for g in grads)

    def measure(comm: Communicator) -> Any:
        return co.similarity(comm, co.CLTk(RATIO), {"w": grads[comm.rank]})

    for found in several.run(measure):
        assert found["w"].hamming == want
        assert np.isnan(found["w"].cosine_distance)


def test_contraction_is_the_definition(several: World) -> None:
    """Energies and histograms equal NumPy's; the paper's bound holds on average over the ranks."""
    grads = [smooth(rank) for rank in range(several.n)]
    mean = (rank_ordered_sum(grads) / np.float32(several.n)).astype(np.float64)
    own, best = [top(g, 100) for g in grads], top(mean.astype(np.float32), 100)

    def lost(indices: Any) -> float:
        return 1 - float(np.sum(mean[indices] ** 2) / np.sum(mean**2))

    def count(magnitudes: Any) -> list[int]:
        relative = np.maximum(np.abs(magnitudes) / np.abs(mean).max(), 1e-12)
        edges = 10 ** (np.arange(-48, 1) / 4)
        edges[-1] = 2
        counts: list[int] = np.histogram(relative, edges)[0].tolist()
        return counts

    for found in several.run(lambda comm: co.similarity(comm, co.CLTk(RATIO), grads[comm.rank])):
        assert isinstance(found, co.Similarity)
        assert found.contraction == pytest.approx([lost(each) for each in own], rel=1e-6)
        assert found.top_contraction == pytest.approx(lost(best), rel=1e-6)
        assert found.bounds == pytest.approx([h + (1 - h) * lost(best) for h in found.hamming])
        assert min(found.contraction) >= found.top_contraction
        assert np.mean(found.contraction) <= np.mean(found.bounds)
        histogram = found.histogram
        assert histogram is not None
        assert list(histogram.all) == count(mean)
        assert list(histogram.top) == count(mean[best])
        assert [list(each) for each in histogram.selected] == [count(mean[each]) for each in own]


def test_measuring_changes_nothing(several: World) -> None:
    """A step after a measurement equals a step without it."""

    def step(comm: Communicator, measured: bool) -> bytes:
        cltk = co.CLTk(RATIO)
        cltk.allreduce(comm, smooth(comm.rank))
        if measured:
            co.similarity(comm, cltk, smooth(comm.rank + 20))
        return bits(cltk.allreduce(comm, smooth(comm.rank + 20)))

    def both(comm: Communicator) -> bool:
        return step(comm, True) == step(comm, False)

    assert several.run(both) == [True] * several.n
