"""allgather returns decode(encode(tensor)) of every rank, the same on all of them."""

from __future__ import annotations

import numpy as np
import pytest

import collectives as co
import wirecodec as wc
from tests.collectives.inputs import DTYPES, NAMES, SCHEMES, bits, gradient


def parts(tensor: wc.SparseTensor) -> tuple[bytes, bytes, tuple[int, ...]]:
    return bits(tensor.indices), bits(tensor.values), tensor.shape


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("dtype", DTYPES, ids=NAMES)
def test_one_tensor(world, dtype, scheme):
    shape = (7, 90)
    expected = [
        parts(wc.decode(wc.encode(gradient(rank, shape, dtype), scheme, seed=5))) for rank in range(world.n)
    ]

    def check(comm):
        got = co.allgather(comm, gradient(comm.rank, shape, dtype), scheme, seed=5)
        return [parts(tensor) for tensor in got]

    assert world.run(check) == [expected] * world.n


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,), (100_000,)], ids=str)
def test_any_shape(world, shape):
    """From no elements to a payload of many segments."""

    def check(comm):
        return [bits(tensor.to_dense()) for tensor in co.allgather(comm, gradient(comm.rank, shape))]

    assert world.run(check) == [[bits(gradient(rank, shape)) for rank in range(world.n)]] * world.n


def model(rank: int) -> dict[str, np.ndarray]:
    return {
        "weight": gradient(rank, (40, 50)),
        "bias": gradient(rank + 100, (50,), "float64"),
        "ä": gradient(rank + 200, (3,), "float16"),
        "none": np.zeros(0, np.float32),
    }


@pytest.mark.parametrize(
    "scheme", [None, "topk(0.1) | rice | raw", {"w*": "topk(0.1) | rice | raw", "*": None}], ids=str
)
def test_named_tensors(world, scheme):
    expected = [
        {name: parts(tensor) for name, tensor in wc.decode_many(wc.encode_many(model(rank), scheme)).items()}
        for rank in range(world.n)
    ]

    def check(comm):
        got = co.allgather(comm, model(comm.rank), scheme)
        return [{name: parts(tensor) for name, tensor in tensors.items()} for tensors in got]

    assert world.run(check) == [expected] * world.n


def test_sparse_tensors(world):
    def check(comm):
        tensor = wc.SparseTensor([comm.rank, 50], np.array([1.0, comm.rank], np.float32), (10, 10))
        return [
            (t.indices.tolist(), t.values.tolist(), t.shape)
            for t in co.allgather(comm, tensor, "all | rice | raw")
        ]

    assert world.run(check) == [[([r, 50], [1.0, r], (10, 10)) for r in range(world.n)]] * world.n


def test_no_tensors(world):
    assert world.run(lambda comm: co.allgather(comm, {})) == [[{}] * world.n] * world.n


def test_spellings_of_one_scheme_agree(several):
    spelled = [
        "topk(0.01) | rice | raw",
        "topk(ratio=0.01)|rice()|raw",
        wc.Scheme(wc.TopK(0.01), wc.Rice(), wc.Raw()),
    ]
    results = several.run(lambda comm: len(co.allgather(comm, gradient(comm.rank), spelled[comm.rank % 3])))
    assert results == [several.n] * several.n
