"""allreduce returns the sum in rank order of the decoded tensors, with the same bits on all ranks."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest

import collectives as co
import wirecodec as wc
from collectives.communicator import Communicator
from tests.collectives.conftest import World
from tests.collectives.inputs import SCHEMES, bits, gradient
from tests.conftest import DTYPES
from tests.oracles import Array, rank_ordered_sum


def definition(tensors: list[Array], scheme: str | None, op: str) -> bytes:
    """Compute the bits of Σ decode(encode(tensor)) in rank order, in at least float32, rounded once.

    Args:
        tensors: one per rank.
        scheme: of the encoding.
        op: "sum", or "mean", which divides by the number of ranks before rounding.
    """
    dtype = tensors[0].dtype
    wide = dtype if dtype.itemsize >= 4 else np.dtype(np.float32)
    decoded = [wc.decode(wc.encode(tensor, scheme)).to_dense().astype(wide) for tensor in tensors]
    total = rank_ordered_sum(decoded)
    if op == "mean":
        total = total / wide.type(len(tensors))
    return bits(total.astype(dtype))


@pytest.mark.sampled
@pytest.mark.parametrize("op", ["mean", "sum"])
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_bits_of_the_definition(
    world: World, dtype: np.dtype[Any], scheme: str | None, op: Literal["mean", "sum"]
) -> None:
    tensors = [gradient(rank, (30, 40), dtype) for rank in range(world.n)]
    expected = definition(tensors, scheme, op)
    results = world.run(lambda comm: bits(co.allreduce(comm, tensors[comm.rank], scheme, op=op)))
    assert results == [expected] * world.n


def test_mean_is_the_default(world: World) -> None:
    tensors = [gradient(rank) for rank in range(world.n)]
    results = world.run(lambda comm: bits(co.allreduce(comm, tensors[comm.rank])))
    assert results == [definition(tensors, None, "mean")] * world.n


@pytest.mark.parametrize("policy", ["naive", "p0", "p1", "p2"])
def test_lossy_indices_keep_the_contract(policy: str) -> None:
    """With Bloom filters, the result is the sum of the decoded tensors, and residuals hold the rest."""
    scheme = f"topk(0.05) | bloom(policy={policy}, fpr=0.01) | raw"

    def train(comm: Communicator) -> tuple[bytes, list[Array]]:
        plain = bits(co.allreduce(comm, gradient(comm.rank, (30, 40)), scheme))
        compressor = wc.Compressor(scheme)
        means = [co.allreduce(comm, {"w": gradient(comm.rank + 9 * t)}, compressor)["w"] for t in range(3)]
        residual = compressor.residual("w")
        assert residual is not None
        return plain, [*means, residual]

    results = co.simulate(3, train)
    expected = definition([gradient(rank, (30, 40)) for rank in range(3)], scheme, "mean")
    assert [plain for plain, _ in results] == [expected] * 3
    assert len({b"".join(map(bits, arrays[:3])) for _, arrays in results}) == 1
    sent = 3 * sum(results[0][1][:3]) + sum(arrays[3] for _, arrays in results)
    given = sum(gradient(rank + 9 * t) for rank in range(3) for t in range(3))
    assert np.allclose(sent, given, rtol=1e-4, atol=1e-3)


def test_sums_start_from_plus_zero(world: World) -> None:
    """A sum of -0 only is +0, because elements that a rank does not send count as +0."""
    got = world.run(lambda comm: bits(co.allreduce(comm, np.full(3, -0.0, np.float32), op="sum")))
    assert got == [bits(np.zeros(3, np.float32))] * world.n


def test_half_precision_is_rounded_once(several: World) -> None:
    """For 1 + n·2^-11, each addition in float16 would round to 1, but the sum in float32 does not."""
    n = several.n
    values = [1.0] + [2.0**-11] * (n - 1)
    got = several.run(
        lambda comm: float(co.allreduce(comm, np.array([values[comm.rank]], np.float16), op="sum")[0])
    )
    assert got == [float(np.float16(sum(values)))] * n


def test_named_tensors(world: World) -> None:
    def model(rank: int) -> dict[str, Array]:
        return {
            "w": gradient(rank, (20, 30)),
            "b": gradient(rank + 50, (30,), "float64"),
            "h": gradient(rank, 9, "float16"),
        }

    expected = {name: definition([model(r)[name] for r in range(world.n)], None, "mean") for name in "wbh"}
    results = world.run(
        lambda comm: {name: bits(x) for name, x in co.allreduce(comm, model(comm.rank)).items()}
    )
    assert results == [expected] * world.n


@pytest.mark.sampled
@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (200_000,)], ids=str)
def test_any_shape(world: World, shape: tuple[int, ...]) -> None:
    tensors = [gradient(rank, shape) for rank in range(world.n)]
    results = world.run(lambda comm: bits(co.allreduce(comm, tensors[comm.rank], op="sum")))
    assert results == [definition(tensors, None, "sum")] * world.n


def test_the_result_is_the_callers(world: World) -> None:
    """Results are writable and share no memory with the input or the next result."""

    def check(comm: Communicator) -> bool:
        x = gradient(comm.rank, (4, 5))
        before = bits(x)
        first = co.allreduce(comm, x)
        kept = bits(first)
        first[...] = 7
        assert bits(x) == before
        return bits(co.allreduce(comm, x)) == kept

    assert all(world.run(check))


def test_overflow_passes_whatever_numpy_is_told(several: World) -> None:
    """Otherwise some ranks would raise and others would not."""

    def check(comm: Communicator) -> float:
        with np.errstate(all="raise"):
            return float(co.allreduce(comm, np.full(1, 60_000, np.float16), op="sum")[0])

    assert several.run(check) == [float("inf")] * several.n
