"""gTop-k compared with a merge written from the paper, and with what came in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import collectives as co
import wirecodec as wc
from collectives.communicator import Communicator
from tests.collectives.conftest import World
from tests.collectives.inputs import bits, smooth, top

RATIO, D = 0.02, 1000
K = 20


def merge_tree(parts: list[Any]) -> Any:
    """Merge dense vectors of k elements as the tree does: pairs at distance 1, 2, 4, …; k remain."""
    parts, step = [part.copy() for part in parts], 1
    while step < len(parts):
        for left in range(0, len(parts) - step, 2 * step):
            total = parts[left] + parts[left + step]
            parts[left] = np.zeros_like(total)
            best = top(total, K)
            parts[left][best] = total[best]
        step *= 2
    return parts[0]


def sparsify(x: Any) -> Any:
    found = np.zeros_like(x)
    best = top(x, K)
    found[best] = x[best]
    return found


def test_results_are_the_merged_top(world: World) -> None:
    """All ranks have the same bits, and results and residuals have what came in."""

    def train(comm: Communicator) -> Any:
        gtopk, found = co.GTopK(RATIO), []
        for step in range(4):
            before = gtopk.residual()
            mean = gtopk.allreduce(comm, smooth(10 * step + comm.rank, D))
            found.append((before, mean, gtopk.residual()))
        assert gtopk.step == 4
        return found

    ranks = world.run(train)
    for step in range(4):
        inputs = []
        for rank, found in enumerate(ranks):
            before, mean, _ = found[step]
            assert bits(mean) == bits(ranks[0][step][1])
            inputs.append(smooth(10 * step + rank, D) + (0 if before is None else before))
        mean = ranks[0][step][1]
        assert np.array_equal(mean, merge_tree([sparsify(x) for x in inputs]) / np.float32(world.n))
        kept = sum(found[step][2].astype(float) for found in ranks)
        assert kept + world.n * mean.astype(float) == pytest.approx(
            sum(x.astype(float) for x in inputs), abs=1e-5
        )


def test_named_tensors_and_state(several: World) -> None:
    def train(comm: Communicator) -> tuple[bytes, bytes]:
        grads = [{"a": smooth(step + comm.rank, (20, 5)), "b": smooth(comm.rank, 0)} for step in range(3)]
        one, two = co.GTopK(0.1), co.GTopK(0.1)
        one.allreduce(comm, grads[0])
        two.load_state_dict(one.state_dict())
        found = [bits(each.allreduce(comm, grads[1])["a"]) for each in (one, two)]
        with pytest.raises(ValueError, match="GTopK"):
            two.load_state_dict({"step": np.array(1), "other": np.zeros(1)})
        return found[0], found[1]

    results = several.run(train)
    assert len({blob for pair in results for blob in pair}) == 1


def test_every_rank_raises_for_one_nan(several: World) -> None:
    def train(comm: Communicator) -> str:
        gtopk, x = co.GTopK(RATIO), smooth(comm.rank, D)
        gtopk.allreduce(comm, x)
        before: Any = gtopk.residual()
        bad = x.copy()
        if comm.rank == 1:
            bad[7] = np.nan
        with pytest.raises(co.CollectiveError, match="rank 1") as caught:
            gtopk.allreduce(comm, bad)
        assert gtopk.step == 1
        assert np.array_equal(before, gtopk.residual())  # type: ignore[arg-type]
        gtopk.allreduce(comm, x)  # the communicator is usable
        return str(caught.value)

    assert len(set(several.run(train))) == 1


def test_traffic_grows_with_the_logarithm() -> None:
    def count(comm: Communicator) -> int:
        channel = co.Channel(comm)
        co.GTopK(0.01).allreduce(channel, smooth(comm.rank, 100_000))
        return channel.bytes_sent

    total = {n: sum(co.simulate(n, count)) / n for n in (2, 8, 16)}
    assert total[16] < 2.2 * total[2]


def test_wrong_ratios_raise() -> None:
    with pytest.raises(wc.EncodeError):
        co.GTopK(0)
