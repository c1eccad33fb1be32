"""allgather returns decode(encode(tensor)) of every rank, the same on all ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import pytest

import collectives as co
import wirecodec as wc
from collectives.communicator import Communicator
from tests.collectives.conftest import World
from tests.collectives.inputs import SCHEMES, bits, gradient
from tests.conftest import DTYPES
from tests.oracles import Array
from wirecodec.container.writer import CHUNK

Parts: TypeAlias = tuple[bytes, bytes, tuple[int, ...]]


def parts(tensor: wc.SparseTensor) -> Parts:
    return bits(tensor.indices), bits(tensor.values), tensor.shape


@pytest.mark.sampled
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_one_tensor(world: World, dtype: np.dtype[Any], scheme: str | None) -> None:
    shape = (7, 90)
    expected = [
        parts(wc.decode(wc.encode(gradient(rank, shape, dtype), scheme, seed=5))) for rank in range(world.n)
    ]

    def check(comm: Communicator) -> list[Parts]:
        got = co.allgather(comm, gradient(comm.rank, shape, dtype), scheme, seed=5)
        return [parts(tensor) for tensor in got]

    assert world.run(check) == [expected] * world.n


@pytest.mark.sampled
@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,), (100_000,)], ids=str)
def test_any_shape(world: World, shape: tuple[int, ...]) -> None:
    """Sizes are from 0 elements to a payload of many segments."""

    def check(comm: Communicator) -> list[bytes]:
        return [bits(tensor.to_dense()) for tensor in co.allgather(comm, gradient(comm.rank, shape))]

    assert world.run(check) == [[bits(gradient(rank, shape)) for rank in range(world.n)]] * world.n


def model(rank: int) -> dict[str, Array]:
    return {
        "weight": gradient(rank, (40, 50)),
        "bias": gradient(rank + 100, (50,), "float64"),
        "ä": gradient(rank + 200, (3,), "float16"),
        "none": np.zeros(0, np.float32),
    }


@pytest.mark.parametrize(
    "scheme", [None, "topk(0.1) | rice | raw", {"w*": "topk(0.1) | rice | raw", "*": None}], ids=str
)
def test_named_tensors(world: World, scheme: str | Mapping[str, str | None] | None) -> None:
    expected = [
        {name: parts(tensor) for name, tensor in wc.decode_many(wc.encode_many(model(rank), scheme)).items()}
        for rank in range(world.n)
    ]

    def check(comm: Communicator) -> list[dict[str, Parts]]:
        got = co.allgather(comm, model(comm.rank), scheme)
        return [{name: parts(tensor) for name, tensor in tensors.items()} for tensors in got]

    assert world.run(check) == [expected] * world.n


def test_sparse_tensors(world: World) -> None:
    def check(comm: Communicator) -> list[tuple[list[int], list[float], tuple[int, ...]]]:
        tensor = wc.SparseTensor([comm.rank, 50], np.array([1.0, comm.rank], np.float32), (10, 10))
        return [
            (t.indices.tolist(), t.values.tolist(), t.shape)
            for t in co.allgather(comm, tensor, "all | rice | raw")
        ]

    assert world.run(check) == [[([r, 50], [1.0, r], (10, 10)) for r in range(world.n)]] * world.n


@pytest.mark.nightly
def test_as_many_entries_as_the_tensors_need() -> None:
    """They are more than the decoder's default limit of 65,536."""
    count = wc.DecodeLimits().max_entries + 1
    tensors = {str(i): np.ones(1, np.float32) for i in range(count)}
    (gathered,) = co.simulate(1, lambda comm: co.allgather(comm, tensors))[0]
    assert len(gathered) == count
    (mean,) = co.simulate(1, lambda comm: co.allreduce(comm, tensors))
    assert len(mean) == count


@pytest.mark.parametrize("size", [CHUNK, CHUNK + 1, 2 * CHUNK + 1])
def test_a_tensor_of_several_chunks(size: int) -> None:
    """Each tensor is an entry."""
    tensor = wc.SparseTensor([5, size - 1], np.array([1.0, 2.0], np.float32), (size,))
    for got in co.simulate(2, lambda comm: co.allgather(comm, tensor, "all | rice | raw")):
        assert [parts(one) for one in got] == [parts(tensor)] * 2


def test_no_tensors(world: World) -> None:
    none: dict[str, Array] = {}
    assert world.run(lambda comm: co.allgather(comm, none)) == [[{}] * world.n] * world.n


def test_spellings_of_one_scheme_agree(several: World) -> None:
    spelled: list[wc.Scheme | str] = [
        "topk(0.01) | rice | raw",
        "topk(ratio=0.01)|rice()|raw",
        wc.Scheme(wc.selectors.TopK(0.01), wc.codecs.Rice(), wc.codecs.Raw()),
    ]
    results = several.run(lambda comm: len(co.allgather(comm, gradient(comm.rank), spelled[comm.rank % 3])))
    assert results == [several.n] * several.n
