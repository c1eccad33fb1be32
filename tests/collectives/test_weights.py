"""Weights of the ranks: sum(weight * tensor) / sum(weight), with the same bits for all algorithms."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import collectives as co
import wirecodec as wc
from collectives.transport.weights import Weights
from tests.collectives.conftest import World

ALGORITHMS = ("auto", "allgather", "dense", "split-pairs", "split-bitmap", "split-dense")
SCHEME = "topk(0.3) | rice | raw"


def tensors_of(rank: int, dtype: Any) -> dict[str, Any]:
    rng = np.random.default_rng(rank)
    return {name: rng.normal(size=size).astype(dtype) for name, size in (("a", 200), ("b", 31), ("c", 1))}


def expect(given: list[dict[str, Any]], weights: Sequence[float], scheme: str, op: str) -> dict[str, Any]:
    """Return the weighted sum or mean of decoded containers, in rank order, with the factors of the page."""
    largest = max(weights)
    factors = list(weights)
    if op == "mean":
        factors = [w * 2.0 ** (1 - math.frexp(largest)[1]) for w in weights]
        if all(w in (0, largest) for w in weights):
            factors = [float(w > 0) for w in weights]
    results = {}
    for name, like in given[0].items():
        wide = np.promote_types(like.dtype, np.float32) if like.dtype.itemsize != 2 else np.dtype(np.float32)
        total = np.zeros(like.shape, wide)
        for tensors, factor in zip(given, factors, strict=True):
            if factor:
                decoded = wc.decode(wc.encode(tensors[name], scheme)).to_dense()
                total += wide.type(factor) * decoded.astype(wide)
        if op == "mean":
            total /= wide.type(math.fsum(factors))
        results[name] = total.astype(like.dtype)
    return results


def same_bits(one: Any, other: Any) -> bool:
    return bool(one.dtype == other.dtype and one.tobytes() == other.tobytes())


@pytest.mark.parametrize("weights", [[1, 2, 4], [3, 0, 100.5], [0, 7, 7], [1e-30, 1e30, 0]], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
def test_weighted_means_have_the_bits_of_the_reference(weights: list[float], dtype: Any) -> None:
    given = [tensors_of(rank, dtype) for rank in range(3)]

    def run(comm: Any) -> list[Any]:
        return [
            co.allreduce(
                comm, given[comm.rank], SCHEME, algorithm=algorithm, op=op, weight=weights[comm.rank]
            )
            for op in ("mean", "sum")
            for algorithm in ALGORITHMS
        ]

    if max(weights) == 1e30 and dtype is np.float16:
        pytest.skip("sums of float16 overflow")
    ranks = co.simulate(3, run)
    wanted = [expect(given, weights, SCHEME, op) for op in ("mean", "sum") for _ in ALGORITHMS]
    for results in ranks:
        for means, reference in zip(results, wanted, strict=True):
            for name, mean in means.items():
                assert same_bits(mean, reference[name]), name


@pytest.mark.parametrize("algorithm", ["auto", "split-pairs", "split-bitmap"])
def test_sparse_results_are_those_of_the_ranks_with_a_weight(algorithm: str) -> None:
    given = [tensors_of(rank, np.float32) for rank in range(3)]
    weights = [2, 0, 5]

    def run(comm: Any) -> Any:
        options: dict[str, Any] = {"algorithm": algorithm, "weight": weights[comm.rank], "sparse": True}
        return co.allreduce(comm, given[comm.rank], SCHEME, **options)

    wanted = expect(given, weights, SCHEME, "mean")
    support = {
        name: set().union(
            *(wc.decode(wc.encode(given[rank][name], SCHEME)).indices.tolist() for rank in (0, 2))
        )
        for name in wanted
        if name != "c"
    }
    for means in co.simulate(3, run):
        for name, mean in means.items():
            assert same_bits(mean.to_dense(), wanted[name])
            assert name == "c" or set(mean.indices.tolist()) == support[name]


def test_many_ranks_are_added_in_turn() -> None:
    """More containers than are decoded before they are added."""
    n = 19
    given = [tensors_of(rank, np.float32) for rank in range(n)]
    weights = [float(rank % 3) for rank in range(n)]

    def run(comm: Any) -> Any:
        return co.allreduce(comm, given[comm.rank], SCHEME, algorithm="allgather", weight=weights[comm.rank])

    wanted = expect(given, weights, SCHEME, "mean")
    for means in co.simulate(n, run)[::6]:
        assert all(same_bits(mean, wanted[name]) for name, mean in means.items())


@pytest.mark.parametrize("weight", [1.0, 3.0, 1e-20])
def test_equal_weights_have_the_bits_of_no_weights(weight: float) -> None:
    def run(comm: Any) -> bool:
        given = tensors_of(comm.rank, np.float32)
        one, other = co.allreduce(comm, given, SCHEME, weight=weight), co.allreduce(comm, given, SCHEME)
        return all(same_bits(one[name], other[name]) for name in one)

    assert all(co.simulate(3, run))


@pytest.mark.parametrize("scheme", ["topk(0.1) | rice | qsgd(bits=4)", "all | raw-index | raw"])
def test_a_rank_with_weight_0_listens(scheme: str) -> None:
    """Its tensors are not read, its residuals stay, its step advances, and it sends next to nothing."""
    given = [tensors_of(rank, np.float32) for rank in range(3)]

    def run(comm: Any) -> Any:
        compressor = wc.Compressor(scheme)
        co.allreduce(comm, given[comm.rank], compressor)
        before = compressor.state_dict()
        channel = co.Channel.of(comm)
        sent = channel.bytes_sent
        broken = {name: np.full_like(x, np.nan) for name, x in given[0].items()}
        listens = comm.rank == 1
        means = co.allreduce(comm, broken if listens else given[comm.rank], compressor, weight=not listens)
        sent, after = channel.bytes_sent - sent, compressor.state_dict()
        unchanged = all(
            after[key].tobytes() == value.tobytes() for key, value in before.items() if key != "step"
        )
        co.allreduce(comm, given[comm.rank], compressor)
        return means, sent, unchanged, after["step"] - before["step"]

    ranks = co.simulate(3, run)
    assert [int(advanced) for *_, advanced in ranks] == [1, 1, 1]
    assert ranks[1][2]
    assert "topk" not in scheme or not ranks[0][2]
    assert all(np.isfinite(x).all() for x in ranks[1][0].values())
    for means, *_ in ranks:
        assert all(same_bits(x, ranks[0][0][name]) for name, x in means.items())


@pytest.mark.parametrize("leader", [0, 1])
def test_weights_of_clt_k(leader: int) -> None:
    """What was sent plus what is kept equals what came in; a listening rank keeps its residual."""
    grads = [np.random.default_rng(rank).normal(size=64).astype(np.float32) for rank in range(2)]
    weights = [0.0, 3.0] if leader == 0 else [2.0, 6.0]

    def run(comm: Any) -> Any:
        cltk = co.CLTk(0.25)
        for _ in range(leader):
            cltk.allreduce(comm, np.zeros(64, np.float32))
        grad = grads[comm.rank] if weights[comm.rank] else np.full(64, np.nan, np.float32)
        mean = cltk.allreduce(comm, grad, weight=weights[comm.rank])
        return mean, cltk.residual(), cltk.step

    (mean, kept, step), (same, other, _) = co.simulate(2, run)
    assert mean.tobytes() == same.tobytes()
    assert step == leader + 1
    if leader == 0:  # the leader listens, so nothing is sent, and rank 1 keeps all
        assert kept is None or not kept.any()
        assert not mean.any()
        np.testing.assert_array_equal(other, grads[1])
        return
    sent = [grads[0] - kept, grads[1] - other]
    np.testing.assert_array_equal(np.flatnonzero(mean), np.flatnonzero(sent[1]))
    exact = (np.float32(0.5) * sent[0] + np.float32(1.5) * sent[1]) / np.float32(2)
    np.testing.assert_array_equal(mean, exact)


@pytest.mark.parametrize("weight", [-1, math.nan, math.inf, "much"])
def test_a_weight_that_is_none(world: World, weight: Any) -> None:
    def run(comm: Any) -> Any:
        bad = comm.rank == comm.size - 1
        calls: tuple[Callable[[Any], Any], ...] = (
            lambda w: co.allreduce(comm, np.ones(4, np.float32), SCHEME, weight=w),
            lambda w: co.CLTk(0.5).allreduce(comm, np.ones(4, np.float32), weight=w),
        )
        for call in calls:
            with pytest.raises(co.CollectiveError, match="weight" if weight != "much" else "much") as caught:
                call(weight if bad else 1)
            assert caught.value.ranks == (comm.size - 1,)
        return float(co.allreduce(comm, np.ones(4, np.float32), SCHEME)[0])

    assert set(world.run(run)) == {1.0}


def test_weights_that_are_all_0() -> None:
    def run(comm: Any) -> Any:
        compressor = wc.Compressor(SCHEME)
        with pytest.raises(co.CollectiveError, match="all ranks have weight 0"):
            co.allreduce(comm, tensors_of(comm.rank, np.float32), compressor, weight=0)
        return compressor.step

    assert co.simulate(2, run) == [0, 0]


def test_factors() -> None:
    assert Weights.of([1, 1, 1], mean=True) == Weights(3.0)
    assert Weights.of([5, 0, 5], mean=True) == Weights(2.0, (1.0, 0.0, 1.0))
    assert Weights.of([1, 3], mean=True) == Weights(2.0, (0.5, 1.5))
    assert Weights.of([1, 3], mean=False) == Weights(1.0, (1.0, 3.0))
    assert Weights.of([0, 0], mean=True) is None
