"""allreduce(sparse=True): the union of the ranks' supports, with the bits of the dense result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import collectives as co
import wirecodec as wc
from collectives.communicator import Communicator
from tests.collectives.conftest import World, worlds
from tests.collectives.inputs import bits, gradient
from tests.gpu_emulated.standin import OnGPU, StandInDevice, marked, standin
from tests.oracles import Array

__all__ = ["standin"]

ALGORITHMS = ["allgather", "split-pairs", "split-bitmap", "auto"]
SCHEME = "topk(0.1) | rice | qsgd(bits=4)"


@pytest.fixture(params=worlds((1, 3), (3,)))
def world(request: pytest.FixtureRequest) -> World:
    """Provide one rank or three."""
    found: World = request.param
    return found


def parts(x: wc.SparseTensor) -> tuple[list[int], bytes, tuple[int, ...]]:
    return x.indices.tolist(), bits(x.values), x.shape


def definition(tensors: list[Array], scheme: str, op: str) -> tuple[list[int], bytes, tuple[int, ...]]:
    """Compute the union and its sums element by element."""
    dtype = tensors[0].dtype
    wide = dtype.type if dtype.itemsize >= 4 else np.float32
    sums: dict[int, Any] = {}
    for tensor in tensors:
        decoded = wc.decode(wc.encode(tensor, scheme))
        for i, value in zip(decoded.indices.tolist(), decoded.values, strict=True):
            sums[i] = wide(sums.get(i, wide(0)) + wide(value))
    divisor = wide(len(tensors) if op == "mean" else 1)
    values = np.array([sums[i] / divisor for i in sorted(sums)], wide).astype(dtype)
    return sorted(sums), bits(values), tensors[0].shape


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("op", ["mean", "sum"])
@pytest.mark.parametrize("scheme", [SCHEME, "all | raw-index | raw", "nonzero | rice | raw"])
def test_the_union_and_its_sums(world: World, algorithm: str, op: Any, scheme: str) -> None:
    tensors = [gradient(rank, (30, 40)) for rank in range(world.n)]
    expected = definition(tensors, scheme, op)
    kwargs: dict[str, Any] = {"algorithm": algorithm, "op": op}

    def both(comm: Communicator) -> bool:
        x = tensors[comm.rank]
        found = co.allreduce(comm, x, scheme, sparse=True, **kwargs)
        dense = co.allreduce(comm, x, scheme, **kwargs)
        return parts(found) == expected and bits(found.to_dense()) == bits(dense)

    assert all(world.run(both))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_sums_of_zero_stay_in_the_union(algorithm: str) -> None:
    def step(comm: Communicator) -> tuple[list[int], bytes]:
        sign = 1 - 2 * comm.rank
        x = wc.SparseTensor([1, 70_000, 99_999], np.array([sign, 0, -0.0], np.float32), 100_000)
        found = co.allreduce(comm, x, "all | rice | raw", algorithm=algorithm, sparse=True)
        return found.indices.tolist(), found.values.tobytes()

    assert co.simulate(2, step) == [([1, 70_000, 99_999], bytes(12))] * 2


def test_named_tensors_of_every_type_and_a_compressor(world: World) -> None:
    def train(comm: Communicator) -> bool:
        plain, other, same = wc.Compressor(SCHEME), wc.Compressor(SCHEME), True
        for step in range(3):
            seed = comm.rank + 10 * step
            grads = {
                name: gradient(seed + n, (9, 50), dtype)
                for n, (name, dtype) in enumerate(zip("whd", ("float32", "float16", "float64"), strict=True))
            }
            want = co.allreduce(comm, grads, plain)
            found = co.allreduce(comm, grads, other, sparse=True)
            same &= list(found) == list(want)
            same &= all(bits(found[name].to_dense()) == bits(want[name]) for name in want)
            same &= all(found[name].nnz < found[name].size for name in want)
        return same

    assert all(world.run(train))


@pytest.mark.parametrize("shape", [0, 1, (2, 0)], ids=str)
@pytest.mark.parametrize("algorithm", ["allgather", "split-pairs"])
def test_small_tensors(shape: Any, algorithm: str) -> None:
    def step(comm: Communicator) -> bool:
        x = np.zeros(shape, np.float32)
        found = co.allreduce(comm, x, algorithm=algorithm, sparse=True)
        return found.nnz == 0 and found.shape == x.shape

    assert all(co.simulate(2, step))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"algorithm": "dense"}, "needs an algorithm that moves supports"),
        ({"algorithm": "split-dense"}, "needs an algorithm that moves supports"),
        ({"out": np.empty(1000, np.float32)}, "out must be None"),
    ],
)
def test_what_has_no_union_is_refused_on_all_ranks(arguments: dict[str, Any], message: str) -> None:
    def step(comm: Communicator) -> str:
        with pytest.raises(co.CollectiveError, match=message) as info:
            co.allreduce(comm, gradient(comm.rank), SCHEME, sparse=True, **arguments)
        return str(info.value)

    assert len(set(co.simulate(2, step))) == 1


def test_ranks_that_differ_hear_of_it() -> None:
    def step(comm: Communicator) -> str:
        settings: Any = {"sparse": comm.rank == 1}
        with pytest.raises(co.CollectiveError, match="sparse results") as info:
            co.allreduce(comm, gradient(comm.rank), SCHEME, **settings)
        return info.value.reason

    assert co.simulate(3, step) == ["scheme"] * 3


def test_nan_is_propagated() -> None:
    def step(comm: Communicator) -> bool:
        x = gradient(comm.rank)
        x[3] = np.nan if comm.rank else 0
        found = co.allreduce(comm, {"w": x}, SCHEME, nonfinite="propagate", sparse=True)["w"]
        return found.is_full and bool(np.isnan(found.values).all())

    assert all(co.simulate(2, step))


def test_results_of_a_gpu_are_there(standin: StandInDevice) -> None:
    def step(comm: Communicator) -> bool:
        x = gradient(comm.rank, (30, 40))
        want = co.allreduce(comm, x, SCHEME, sparse=True)
        found = co.allreduce(comm, marked(x.copy()), SCHEME, sparse=True)
        on_gpu = isinstance(found.values, OnGPU) and isinstance(found.indices, OnGPU)
        values, indices = found.values.view(np.ndarray), found.indices.view(np.ndarray)
        return on_gpu and (indices.tolist(), bits(values)) == (want.indices.tolist(), bits(want.values))

    assert all(co.simulate(2, step))


@pytest.mark.parametrize(
    "algorithm", ["allgather", "dense", "split-pairs", "split-bitmap", "split-dense", "auto"]
)
@pytest.mark.parametrize("named", [False, True])
def test_a_patch_is_refused_by_all_algorithms(algorithm: str, named: bool) -> None:
    """The algorithms that split would add it as zeros, and "dense" would fail on one rank alone."""
    patch = wc.SparseTensor([1, 3], np.array([5, 7], "f4"), 4, absent="unchanged")

    def work(comm: Any) -> tuple[int, ...]:
        tensor: Any = patch if comm.rank == 1 else np.ones(4, np.float32)
        with pytest.raises(co.CollectiveError, match="a patch, whose absent elements") as caught:
            co.allreduce(
                comm, {"w": tensor} if named else tensor, "all | raw-index | raw", algorithm=algorithm
            )
        return caught.value.ranks

    assert co.simulate(2, work) == [(1,), (1,)]
