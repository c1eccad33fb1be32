"""The cost model: made-up numbers whose answers are known, the FFT paper's own, and properties."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from collectives.advise.cost_model import (
    BUCKET,
    FIRST_BUCKET,
    Network,
    Step,
    compute_costs,
    compute_dense_cost,
    compute_min_ratio,
    find_fastest,
    find_paying_bandwidths,
    share_buckets,
)
from collectives.advise.measurement import Gradient, Owned, Pairs, Stages
from tests.collectives.advise.min_ratio import published_min_ratio

M = 1_000_000
GBIT = 1e9 / 8
seconds = st.floats(0, 1e-2)
NETWORKS = st.builds(Network, st.integers(2, 64), st.floats(1e5, 1e12), st.floats(0, 1e-3))
GRADIENTS = st.builds(Gradient, st.just(M), seconds, seconds)
STAGES = st.builds(Stages, st.integers(64, 2 * M), seconds, seconds, seconds, st.booleans())
PIECES = st.lists(st.integers(1, 9), min_size=1, max_size=9).map(
    lambda parts: tuple(part / sum(parts) for part in parts)
)
"""Shares of a gradient."""


def by_name(stages: Stages, gradient: Gradient, ranks: int) -> dict[str, float]:
    network = Network(ranks, 1e6, 1e-3)
    return {cost.algorithm: cost.seconds(network) for cost in compute_costs(stages, gradient, ranks)}


def test_times_of_every_way() -> None:
    gradient = Gradient(M, add=0.04, finish=0.08)
    stages = Stages(1000, select=0.1, encode=0.2, decode=0.3)
    dense = 0.75 * 0.04 + 0.08 / 4 + 4 * 1e-3 + 2 * 0.75 * M / 1e6
    assert compute_dense_cost(gradient, 4).seconds(Network(4, 1e6, 1e-3)) == pytest.approx(dense)
    assert by_name(stages, gradient, 4) == pytest.approx(
        {
            "allgather": 0.1 + 0.2 + 4 * 0.3 + 0.08 + 3 * (1e-3 + 1000 / 1e6),
            "decoded": 0.1 + 0.2 + 0.3 + dense + 2 * 1e-3,  # a ring, of more messages
        }
    )
    narrow = by_name(dataclasses.replace(stages, nbytes=M // 2, summable=True), gradient, 4)
    assert narrow["narrow"] == pytest.approx(0.6 + dense - 0.75 * M / 1e6)


def test_the_fastest_way_changes_with_the_number_of_ranks() -> None:
    stages, gradient = Stages(M // 10, 0, 0, 1e-3), Gradient(M)
    chosen = [
        find_fastest(compute_costs(stages, gradient, ranks), Network(ranks, GBIT)).algorithm
        for ranks in (2, 8, 64)
    ]
    assert chosen == ["allgather", "allgather", "decoded"]


def test_exact_break_even() -> None:
    """Two ranks, ten times smaller, 1 ms of computing: 0.9 ms a bandwidth's worth of M is saved."""
    stages, gradient = Stages(M // 10, 2e-4, 2e-4, 3e-4), Gradient(M)
    found, dense = compute_costs(stages, gradient, 2), compute_dense_cost(gradient, 2)
    ((low, high),) = find_paying_bandwidths(found, dense)
    assert low == 0
    assert high == pytest.approx(0.9 * M / 1e-3)
    for factor, pays in ((0.999, True), (1.001, False)):
        network = Network(2, factor * high)
        assert (find_fastest(found, network).seconds(network) < dense.seconds(network)) is pays
    assert compute_min_ratio(stages, gradient, Network(2, high)) == pytest.approx(10)


def test_what_is_short_without_compression_pays_everywhere() -> None:
    """A dense sum costs more additions and messages than gathering two small encodings."""
    gradient = Gradient(M, add=1e-2)
    assert find_paying_bandwidths(
        compute_costs(Stages(100, 0, 0, 1e-4), gradient, 2), compute_dense_cost(gradient, 2)
    ) == ((0, math.inf),)


def test_encodings_larger_than_the_gradient_pay_where_latency_rules() -> None:
    gradient, stages = Gradient(M), Stages(2 * M, 0, 0, 0)
    found, dense = compute_costs(stages, gradient, 2), compute_dense_cost(gradient, 2)
    ((low, high),) = find_paying_bandwidths(found, dense, latency=1e-3)
    assert low == pytest.approx(M / 1e-3)
    assert high == math.inf
    assert find_paying_bandwidths(found, dense) == ()


def test_no_ratio_pays_where_computing_takes_longer() -> None:
    gradient, network = Gradient(M), Network(2, GBIT)
    assert compute_min_ratio(Stages(10, 0.1, 0, 0), gradient, network) == math.inf
    assert compute_min_ratio(Stages(10, 0, 0, 0), gradient, network) == 1


def test_clt_k_sends_constant_bytes() -> None:
    """The indices once, and a dense sum of the values; more ranks only add messages."""
    stages = Stages(5000, select=0.1, encode=0.2, decode=0.3, index_bytes=1000)
    for ranks in (2, 8, 64):
        (cost,) = compute_costs(stages, Gradient(M, add=0.04, finish=0.08), ranks)
        fraction = (ranks - 1) / ranks
        chain = (ranks - 2) * 1000  # one segment per further rank
        assert cost.nbytes == pytest.approx(1000 + 2 * fraction * 4000 + chain)
        assert cost.computing == pytest.approx(0.3 + 0.08 + fraction * 0.04 * 4000 / M)
        assert cost.alone == pytest.approx(0.1 + 0.2)
        assert cost.messages == 3 * (ranks - 1)
        crowded = Network(ranks, 1e12, ranks_per_core=3)
        alone = Network(ranks, 1e12)
        assert cost.seconds(crowded) - cost.seconds(alone) == pytest.approx(2 * cost.computing, rel=1e-6)


def test_split_sends_the_union() -> None:
    """On many ranks, the union of random supports is everything: its dense sums, and one rank's pairs."""
    pairs = Pairs(elements=M // 4, stored=M // 400, nbytes=12_000, encode=1e-3, decode=2e-3, scan=0.7)
    gradient = Gradient(M, add=0.04, finish=0.08)
    stages = Stages(20_000, select=0.1, encode=0.2, decode=0.3, pairs=pairs)
    for ranks, second in ((2, 2 * 12_000), (8, None), (4096, M)):
        cost = next(c for c in compute_costs(stages, gradient, ranks) if c.algorithm == "split")
        fraction = (ranks - 1) / ranks
        assert cost.nbytes <= fraction * (12_000 + M)
        if second:
            assert cost.nbytes == pytest.approx(fraction * (12_000 + second), rel=0.05)
        assert cost.messages == 4 * (ranks - 1)
    assert cost.computing == pytest.approx(0.1 + 0.2 + 0.08 + 1e-3 + 101 * 2e-3, rel=0.02)


def test_local_updates_share_an_exchange_between_their_steps() -> None:
    gradient, network = Gradient(M, add=0.04, finish=0.08, move=0.6), Network(4, 1e6, 1e-3)
    stages = Stages(5000, select=0.1, encode=0.2, decode=0.3)
    once = compute_costs(stages, gradient, 4)
    spread = compute_costs(dataclasses.replace(stages, every=10), gradient, 4)
    for one, each in zip(once, spread, strict=True):
        assert each.algorithm == f"{one.algorithm}, every 10"
        assert each.seconds(network) == pytest.approx((one.seconds(network) + 0.6) / 10)


def test_two_ranks_are_the_published_formula() -> None:
    """Its compression, once, and its decompression, of two encodings here, each half as dear."""
    rates = {"conversion": 200e9, "transform": 60e9, "packing": 34e9, "selection": 12e9}
    once = 2 / rates["conversion"] + 1 / rates["transform"] + 1 / rates["packing"] + 1 / rates["selection"]
    stages = Stages(1, M / rates["selection"], M * (once - 1 / rates["selection"]), M * once / 2)
    for bandwidth in (GBIT, 10 * GBIT, 20 * GBIT, 56 * GBIT):
        ours = compute_min_ratio(stages, Gradient(M), Network(2, bandwidth))
        assert ours == pytest.approx(published_min_ratio(bandwidth, **rates))


@given(STAGES, GRADIENTS, NETWORKS)
def test_ratio_spans_and_times_agree(stages: Stages, gradient: Gradient, network: Network) -> None:
    found, dense = compute_costs(stages, gradient, network.ranks), compute_dense_cost(gradient, network.ranks)
    gain = dense.seconds(network) / find_fastest(found, network).seconds(network) - 1
    assume(abs(gain) > 1e-6)
    spans = find_paying_bandwidths(found, dense, network.latency)
    assert any(low < network.bandwidth < high for low, high in spans) == (gain > 0)
    assert (gradient.nbytes / stages.nbytes > compute_min_ratio(stages, gradient, network)) == (gain > 0)


@given(STAGES, GRADIENTS, NETWORKS, st.floats(1, 100))
def test_more_of_anything_is_not_faster(
    stages: Stages, gradient: Gradient, network: Network, factor: float
) -> None:
    def time(stages: Stages, network: Network) -> float:
        return find_fastest(compute_costs(stages, gradient, network.ranks), network).seconds(network)

    least, taken = compute_min_ratio(stages, gradient, network), time(stages, network)
    for field in ("select", "encode", "decode"):
        slower = dataclasses.replace(stages, **{field: factor * getattr(stages, field)})
        assert time(slower, network) >= taken
        assert compute_min_ratio(slower, gradient, network) >= least
    assert time(dataclasses.replace(stages, nbytes=int(factor * stages.nbytes)), network) >= taken
    assert time(stages, dataclasses.replace(network, bandwidth=network.bandwidth / factor)) >= taken
    assert time(stages, dataclasses.replace(network, latency=factor * network.latency)) >= taken


@given(STAGES, GRADIENTS, NETWORKS)
def test_decoded_vectors_never_pay(stages: Stages, gradient: Gradient, network: Network) -> None:
    for cost in compute_costs(dataclasses.replace(stages, summable=False), gradient, network.ranks):
        if cost.algorithm == "decoded":
            assert (
                find_paying_bandwidths([cost], compute_dense_cost(gradient, network.ranks), network.latency)
                == ()
            )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((1, 1e9), "ranks is 1; an exchange needs 2"),
        ((2, 0.0), "bandwidth"),
        ((2, math.inf), "bandwidth"),
        ((2, math.nan), "bandwidth"),
        ((2, 1e9, -1e-6), "latency"),
        ((2, 1e9, math.nan), "latency"),
        ((2, 1e9, 0.0, 0.5), "ranks_per_core"),
    ],
)
def test_networks_that_are_none(arguments: tuple[Any, ...], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Network(*arguments)


@given(
    STAGES,
    GRADIENTS,
    NETWORKS,
    st.builds(Step, st.floats(0, 0.05), st.booleans(), PIECES),
    st.sampled_from([1, 5]),
)
def test_steps_pay_where_they_are_shorter(
    stages: Stages, gradient: Gradient, network: Network, step: Step, every: int
) -> None:
    """The intervals of bandwidth agree with the seconds of whole steps, with and without overlap."""
    local = every > 1
    costs = compute_costs(dataclasses.replace(stages, every=every), gradient, network.ranks)
    dense = compute_dense_cost(gradient, network.ranks)
    ours = step.seconds(find_fastest(costs, network).seconds(network), local=local)
    theirs = step.seconds(dense.seconds(network))
    intervals = find_paying_bandwidths(costs, dense, network.latency, step, local=local)
    assume(not math.isclose(ours, theirs, rel_tol=1e-9))
    assert any(low < network.bandwidth < high for low, high in intervals) == (ours < theirs)


@given(st.floats(0, 1), st.floats(0, 1), PIECES, st.booleans())
def test_overlap_is_that_of_a_timeline(
    compute: float, exchange: float, pieces: tuple[float, ...], overlap: bool
) -> None:
    """Oracle: pieces that are exchanged one after the other, each as soon as backward has computed it."""
    step = Step(compute, overlap, pieces)
    done = ready = compute / 3
    for share in pieces:
        ready += compute * 2 / 3 * share
        done = max(done, ready if overlap else compute) + exchange * share
    assert step.seconds(exchange) == pytest.approx(done)
    assert step.seconds(exchange, local=True) == pytest.approx(compute + exchange)


@pytest.mark.parametrize("sizes", [[4_000_000] * 10, [2**20] * 3, [10, 2**26, 300, 2**25, 2**19, 2**19, 7]])
def test_buckets_are_those_of_torch(sizes: list[int]) -> None:
    torch = pytest.importorskip("torch")
    tensors = [torch.empty(size, dtype=torch.uint8) for size in reversed(sizes)]
    buckets, _ = torch.distributed._compute_bucket_assignment_by_size(tensors, [FIRST_BUCKET, BUCKET])
    shares = [sum(tensors[i].nbytes for i in bucket) / sum(sizes) for bucket in buckets]
    assert share_buckets(sizes) == pytest.approx(shares)


def test_a_single_tensor_stands_for_small_ones() -> None:
    fine = [2**10] * 100_000
    assert share_buckets([sum(fine)]) == pytest.approx(share_buckets(fine), rel=1e-3)
    assert share_buckets([100]) == (1.0,)


def test_ok_topk_sends_constant_bytes_and_more_messages() -> None:
    owned = Owned(1000, work=0.02, piece=1e-3, piece_bytes=40)
    stages = Stages(5000, select=0.1, encode=9.0, decode=9.0, owned=owned)
    costs = {n: compute_costs(stages, Gradient(M, finish=0.01), n)[0] for n in (2, 100)}
    assert costs[2].computing == pytest.approx(0.1 + 0.02 + 2e-3 + 0.01)
    assert costs[100].computing - costs[2].computing == pytest.approx(98e-3)
    assert costs[100].nbytes - costs[2].nbytes == pytest.approx(2 * 5000 * (0.99 - 0.5) + 98 * (2 * 112 + 8))
    assert (costs[2].messages, costs[100].messages) == (4, 396)


def test_powersgd_sums_three_vectors() -> None:
    gradient = Gradient(M, add=0.4, finish=0.2)
    cost = compute_costs(Stages(M // 10, encode=0.5, factored=True), gradient, 4)[0]
    assert (cost.messages, cost.nbytes) == (3 * 2 * 2, 2 * 0.75 * M / 10)
    assert cost.computing == pytest.approx(0.5 + 0.75 * 0.04 + 0.02 / 4)
