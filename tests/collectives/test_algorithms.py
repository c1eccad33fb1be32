"""Algorithms of allreduce: equal results, bytes, failures, and the automatic choice."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import collectives as co
import wirecodec as wc
from collectives.agreement.header import Algorithm
from collectives.algorithms import ALGORITHMS as RECORDS
from collectives.communicator import Communicator
from collectives.cost_model import Rates, Workload
from collectives.simulation.communicator import SimulatedComm
from collectives.sums.pieces import assign_ranges
from collectives.tuning.calibration import get_rates
from collectives.tuning.choice import choose_algorithm
from tests.collectives.conftest import World
from tests.collectives.inputs import SCHEMES, bits, gradient, smooth
from tests.conftest import DTYPES
from tests.oracles import Array
from wirecodec.interop import estimate_index_bytes, estimate_union

ALGORITHMS = ("allgather", "dense", "split-pairs", "split-bitmap", "split-dense", "auto")
OTHERS = ALGORITHMS[1:]


@pytest.mark.sampled
@pytest.mark.parametrize("algorithm", OTHERS)
def test_the_bits_are_those_of_allgather(world: World, algorithm: str) -> None:
    def differing(comm: Communicator) -> list[tuple[str, str | None]]:
        found = []
        for dtype in DTYPES:
            x = gradient(comm.rank, (30, 41), dtype)
            for scheme in SCHEMES:
                one = co.allreduce(comm, x, scheme, algorithm=algorithm, seed=comm.rank)
                other = co.allreduce(comm, x, scheme, algorithm="allgather", seed=comm.rank)
                if bits(one) != bits(other):
                    found.append((dtype.name, scheme))
        return found

    assert world.run(differing) == [[]] * world.n


@pytest.mark.sampled
@pytest.mark.parametrize("algorithm", OTHERS)
def test_tensors_of_any_shapes_and_types(several: World, algorithm: str) -> None:
    """Cases are more ranks than elements, empty tensors, and more elements than a segment holds."""
    model: dict[str, int | tuple[int, ...]] = {"a": 3, "b": (2, 0), "c": (), "d": (100, 2000), "é": 1}
    kinds = dict(zip(model, ["float32", "float64", "float16", "float32", "bfloat16"], strict=True))

    def both(comm: Communicator) -> bool:
        tensors = {name: gradient(comm.rank, shape, kinds[name]) for name, shape in model.items()}
        one = co.allreduce(comm, tensors, "topk(0.2) | rice | raw", algorithm=algorithm, op="sum")
        other = co.allreduce(comm, tensors, "topk(0.2) | rice | raw", algorithm="allgather", op="sum")
        return all(bits(one[name]) == bits(other[name]) for name in model)

    assert several.run(both) == [True] * several.n


@pytest.mark.parametrize("algorithm", OTHERS)
def test_compressors_take_the_same_steps(algorithm: str) -> None:
    def train(comm: Communicator, algorithm: str) -> bytes:
        compressor = wc.Compressor("topk(0.05) | rice | qsgd(bits=4)", seed=5)
        means = [
            co.allreduce(comm, {"w": gradient(comm.rank + 9 * t)}, compressor, algorithm=algorithm)["w"]
            for t in range(3)
        ]
        residual = compressor.residual("w")
        assert residual is not None
        return b"".join(map(bits, [*means, residual]))

    assert co.simulate(3, partial(train, algorithm=algorithm)) == co.simulate(
        3, partial(train, algorithm="allgather")
    )


@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_ranges_part_all_elements(n: int) -> None:
    shapes: dict[str, tuple[int, ...]] = {"b": (5,), "a": (2, 3), "c": (0,), "d": (), "e": (40,)}
    specs = {name: (shape, np.dtype(np.float32)) for name, shape in shapes.items()}
    ranges = assign_ranges(specs, n)
    seen = [(name, i) for mine in ranges for name, (start, stop) in mine.items() for i in range(start, stop)]
    assert seen == [(name, i) for name in sorted(shapes) for i in range(int(np.prod(shapes[name])))]
    widths = [sum(stop - start for start, stop in mine.values()) for mine in ranges]
    assert max(widths) - min(widths) <= 1


# ---- bytes ----


def sent_bytes(n: int, algorithm: str, scheme: str, tensors: list[Array]) -> float:
    """Compute the average bytes per rank without headers."""

    def one(comm: SimulatedComm) -> int:
        co.allreduce(comm, tensors[comm.rank], scheme, algorithm=algorithm)
        return comm.bytes_sent

    return sum(co.simulate(n, one)) / n


@pytest.mark.parametrize("n", [2, 4, 5])
def test_bytes_are_those_of_the_formulas(n: int) -> None:
    """The tolerance of 6 % covers the headers of containers."""
    d, k = 400_000, 20_000
    rng = np.random.default_rng(3)
    tensors = []
    for _ in range(n):
        x = np.zeros(d, np.float32)
        x[rng.choice(d, k, replace=False)] = rng.standard_normal(k)
        tensors.append(x)
    union = int((np.array(tensors) != 0).any(0).sum())
    share, h = (n - 1) / n, estimate_index_bytes(k, d)
    first = share * k * (4 + h)
    expected = {
        "allgather": (n - 1) * k * (4 + h),
        "dense": 2 * share * 4 * d,
        "split-pairs": first + share * union * (4 + estimate_index_bytes(union, d)),
        "split-bitmap": first + share * (4 * union + d / 8),
        "split-dense": first + share * 4 * d,
    }
    for algorithm, nbytes in expected.items():
        got = sent_bytes(n, algorithm, "nonzero | rice | raw", tensors)
        assert got == pytest.approx(nbytes, rel=0.06), algorithm


def test_what_is_expected_is_what_is_sent() -> None:
    """The cost model predicts the sent bytes of each algorithm."""
    n, d = 4, 300_000
    tensors = [gradient(rank, d) for rank in range(n)]
    scheme = "topk(0.05) | rice | raw"
    blobs = tuple(wc.encode(x, scheme).nbytes for x in tensors)
    stored = (d // 20,) * n
    union = int((np.array([wc.decode(wc.encode(x, scheme)).to_dense() for x in tensors]) != 0).any(0).sum())
    work = Workload.of(d, 4 * d, blobs, stored, union)
    for code, record in RECORDS.items():
        name = code.name.lower().replace("_", "-")
        assert sent_bytes(n, name, scheme, tensors) == pytest.approx(record.cost(work).nbytes, rel=0.06), name


# ---- the choice ----


@pytest.mark.parametrize("ranks", [(4,), pytest.param((2, 4, 8), marks=pytest.mark.nightly)])
def test_it_chooses_the_fastest_of_a_simulated_network(ranks: tuple[int, ...]) -> None:
    """On the simulated clock, it takes at most 1.25 times the time of the best."""
    regrets = []
    for n in ranks:
        for share, overlap in [(0.5, 0), (0.1, 0), (0.1, 0.9), (0.01, 0), (0.01, 0.9), (0.001, 0)]:
            d = 200_000
            rng = np.random.default_rng(n)
            common = rng.choice(d, int(share * d * overlap), replace=False)
            tensors = []
            for _ in range(n):
                x = np.zeros(d, np.float32)
                x[common] = rng.standard_normal(common.size)
                x[rng.choice(d, int(share * d * (1 - overlap)), replace=False)] = 1
                tensors.append(x)

            def timed(comm: SimulatedComm, algorithm: str, tensors: list[Array] = tensors) -> float:
                channel = co.Channel(comm)
                get_rates(channel)
                for _ in range(2):  # the second call knows the union
                    begin = comm.clock
                    co.allreduce(channel, tensors[comm.rank], algorithm=algorithm)
                return comm.clock - begin

            times = {
                a: max(co.simulate(n, partial(timed, algorithm=a), alpha=5e-5, beta=8e-9)) for a in ALGORITHMS
            }
            regrets.append(times["auto"] / min(times.values()))
    assert np.median(regrets) <= 1.02
    assert max(regrets) <= 1.25


def test_rates_of_a_simulated_network_are_its_own() -> None:
    for rates in co.simulate(4, lambda comm: get_rates(co.Channel(comm)), alpha=5e-5, beta=8e-9):
        assert rates.alpha == pytest.approx(5e-5, rel=1e-3)
        assert rates.beta == pytest.approx(8e-9, rel=1e-3)
        assert rates.gamma == rates.delta == 0


def test_calibration_is_alike_on_all_ranks_and_short(several: World) -> None:
    import time

    def measure(comm: Communicator) -> tuple[Rates, float]:
        channel = co.Channel(comm)
        begin = time.perf_counter()
        return get_rates(channel), time.perf_counter() - begin

    found = several.run(measure)
    assert len({rates for rates, _ in found}) == 1
    assert 0 <= found[0][0].gamma <= found[0][0].delta


@pytest.mark.parametrize("size", [40_000, 1_000_000])
def test_measuring_sends_less_than_a_step(several: World, size: int) -> None:
    """It is counted apart, and only once."""

    def send(comm: Communicator) -> list[int]:
        channel, found = co.Channel(comm), []
        for _ in range(3):
            co.allreduce(channel, smooth(comm.rank, size), "topk(0.5) | rice | raw", algorithm="auto")
            found.append(channel.calibration_bytes)
        return found

    nbytes = wc.encode(smooth(0, size), "topk(0.5) | rice | raw").nbytes
    for first, *later in several.run(send):
        assert 0 < first <= nbytes + 16 * 8 * several.n
        assert {*later} == {first}


def test_small_exchanges_are_not_worth_measuring_for(several: World) -> None:
    def small(comm: Communicator) -> bool:
        channel = co.Channel(comm)
        co.allreduce(channel, gradient(comm.rank, 100))
        return channel.rates is None

    assert several.run(small) == [True] * several.n


def test_union_by_chance() -> None:
    assert estimate_union(1000, [1000, 3]) == 1000
    assert estimate_union(1000, [10]) == pytest.approx(10)
    assert estimate_union(1000, [500, 500]) == pytest.approx(750)


def test_the_union_is_remembered_and_looked_at_again() -> None:
    """For ranks that select alike, the first estimate assumes independence; the second one is the count."""
    x = gradient(0, 100_000)

    def learn(comm: SimulatedComm) -> tuple[int | None, Algorithm]:
        channel = co.Channel(comm)
        co.allreduce(channel, x, "topk(0.1) | rice | raw")
        known = next(iter(channel._union_sizes.values()), None)
        work = Workload.of(x.size, x.nbytes, (45_000,) * 8, (10_000,) * 8, known or 0)
        return known, choose_algorithm(channel, work)

    known, chosen = co.simulate(8, learn, alpha=1e-6, beta=8e-9)[0]
    assert known == 10_000
    assert chosen == Algorithm.SPLIT_PAIRS


# ---- failures ----


@pytest.mark.parametrize("algorithm", ["split-pairs", "split-bitmap", "split-dense"])
def test_a_piece_that_one_rank_cannot_decode_is_an_error_on_all(algorithm: str, monkeypatch: Any) -> None:
    """Rank 1 sends an invalid piece to rank 2, the only one that receives it."""
    from collectives.sums import pieces as pieces_module
    from collectives.sums import split

    whole = pieces_module.encode_pieces

    def broken(sent: Any, ranges: Any, **settings: Any) -> Any:
        pieces = whole(sent, ranges, **settings)
        if sent["0"].values[0] == 1:
            pieces[2] = pieces[2].copy()
            pieces[2][-9] ^= 1
        return pieces

    monkeypatch.setattr(split, "encode_pieces", broken)

    def fn(comm: SimulatedComm) -> tuple[co.CollectiveError, int, bytes]:
        compressor = wc.Compressor("topk(0.5) | rice | raw")
        tensors = {"0": np.full(3000, comm.rank, np.float32)}
        with pytest.raises(co.CollectiveError) as info:
            co.allreduce(comm, tensors, compressor, algorithm=algorithm)
        return info.value, compressor.step, bits(co.allreduce(comm, np.ones(5, np.float32)))

    results = co.simulate(4, fn)
    assert {str(error) for error, _, _ in results} == {str(results[0][0])}
    error = results[0][0]
    assert (error.ranks, error.reason) == ((1,), "decode")
    assert "cannot be decoded by rank 2: ChecksumMismatch" in str(error)
    assert [step for _, step, _ in results] == [0] * 4
    assert {after for _, _, after in results} == {bits(np.ones(5, np.float32))}


@pytest.mark.sampled
@pytest.mark.parametrize("algorithm", OTHERS)
def test_a_rank_that_cannot_encode_is_an_error_on_all(several: World, algorithm: str) -> None:
    def fn(comm: Communicator) -> object:
        x = gradient(comm.rank)
        if comm.rank == several.n - 1:
            x[7] = np.nan
        return co.allreduce(comm, x, "topk(0.1) | rice | raw", algorithm=algorithm)

    errors = several.errors(fn)
    assert {(error.ranks, error.reason) for error in errors} == {((several.n - 1,), "value")}


def test_ranks_that_want_different_algorithms(several: World) -> None:
    def fn(comm: Communicator) -> object:
        return co.allreduce(comm, gradient(0), algorithm="dense" if comm.rank else "split-pairs")

    assert {error.reason for error in several.errors(fn)} == {"operation"}


def test_every_algorithm_has_a_name() -> None:
    assert {one.name.lower().replace("_", "-") for one in Algorithm} == set(ALGORITHMS)
    assert {Algorithm.AUTO, *RECORDS} == set(Algorithm)


# ---- overlap ----


@pytest.mark.mpi(2, 4)
def test_the_caller_computes_meanwhile() -> None:
    """The caller's function runs while nothing arrives, and the result is the same."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    word = comm.Dup()
    pieces: list[float] = []

    def work() -> bool:
        if comm.rank and not pieces:
            word.send("works", dest=0)
        pieces.append(float(np.sum(np.ones(1000))))
        return True

    x = gradient(comm.rank, 300_000)
    channel = co.Channel(comm, meanwhile=work)
    if comm.rank == 0:  # joins after every other rank has worked, so that they had to wait
        for rank in range(1, comm.size):
            assert word.recv(source=rank) == "works"
    got = bits(co.allreduce(channel, x, algorithm="dense"))
    word.Free()
    assert got == bits(co.allreduce(comm, x))
    if comm.rank:
        assert len(pieces) >= 1  # grows with the speed of the machine


@pytest.mark.mpi(2)
def test_what_the_callers_work_raises_closes_the_channel() -> None:
    from mpi4py import MPI

    comm = MPI.COMM_WORLD.Dup()
    word = comm.Dup()

    def work() -> bool:
        word.send("raises", dest=0)
        raise ZeroDivisionError

    channel = co.Channel(comm, timeout=1, meanwhile=work if comm.rank else None)
    if comm.rank:
        with pytest.raises(ZeroDivisionError):
            co.allreduce(channel, gradient(comm.rank, 100_000))
        with pytest.raises(co.CollectiveError, match="was closed after an earlier error"):
            co.allreduce(comm, gradient(0))
    else:  # joins after the other rank had to wait
        assert word.recv(source=1) == "raises"
        with pytest.raises(co.Timeout):
            co.allreduce(channel, gradient(comm.rank, 100_000))
