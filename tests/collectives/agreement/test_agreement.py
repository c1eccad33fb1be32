"""After any failure of one rank, all ranks raise the same error, and the communicator stays usable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pytest

import collectives as co
from collectives.communicator import Communicator
from tests.collectives.conftest import World
from tests.collectives.inputs import bits, gradient
from tests.oracles import Array

Call: TypeAlias = Callable[[Communicator], object]


def with_nan(rank: int) -> Array:
    x = gradient(rank, (10, 100))
    x[3, 21] = np.nan
    x[5, 5] = np.inf
    return x


class Broken:
    """Object that cannot be converted to an array."""

    shape = (10, 100)
    dtype = np.dtype(np.float32)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
        raise MemoryError("no room on this rank")


TENSOR = gradient(0, (10, 100))
TOPK = "topk(0.1) | rice | raw"
NO_OP: Any = "max"
NO_ALGORITHM: Any = ["auto"]
# Calls of the last rank while the others call allreduce(comm, TENSOR, TOPK): (call, reason, error text).
FAILURES: dict[str, tuple[Call, str, str]] = {
    "NaN": (
        lambda comm: co.allreduce(comm, with_nan(0), TOPK),
        "value",
        "encoding failed at element 321: EncodeError",
    ),
    "no memory": (
        lambda comm: co.allreduce(comm, Broken(), TOPK),
        "encode",
        "MemoryError: no room on this rank",
    ),
    "no array": (
        lambda comm: co.allreduce(comm, "text", TOPK),  # type: ignore[call-overload]
        "encode",
        "EncodeError: str is not an array",
    ),
    "no scheme": (
        lambda comm: co.allreduce(comm, TENSOR, "topk | rice"),
        "encode",
        "EncodeError: scheme is 'topk | rice'",
    ),
    "integers": (
        lambda comm: co.allreduce(comm, TENSOR.astype(int), TOPK),
        "encode",
        "dtype int64 is not carried",
    ),
    "a mapping of schemes for one tensor": (
        lambda comm: co.allreduce(comm, TENSOR, {"*": TOPK}),
        "argument",
        "wrong argument: TypeError: a mapping of globs",
    ),
    "unknown op": (
        lambda comm: co.allreduce(comm, TENSOR, TOPK, op=NO_OP),
        "argument",
        "wrong argument: ValueError: op is 'max'; the choices are 'sum', 'mean'",
    ),
    "unknown algorithm": (
        lambda comm: co.allreduce(comm, TENSOR, TOPK, algorithm="ring"),
        "argument",
        "wrong argument: ValueError: algorithm is 'ring'; the choices are 'auto', 'allgather'",
    ),
    "no algorithm at all": (
        lambda comm: co.allreduce(comm, TENSOR, TOPK, algorithm=NO_ALGORITHM),
        "argument",
        "wrong argument: ValueError: algorithm is ['auto']",
    ),
}
# Likewise: (call, reason, parts of the error about the last rank and about the others).
DIFFERENCES: dict[str, tuple[Call, str, str, str]] = {
    "dtype": (
        lambda comm: co.allreduce(comm, TENSOR.astype("f8"), TOPK),
        "dtype",
        "dtype float64",
        "dtype float32",
    ),
    "elements": (
        lambda comm: co.allreduce(comm, TENSOR[:9], TOPK),
        "shape",
        "tensors float32 (9, 100)",
        "tensors float32 (10, 100)",
    ),
    "shape of as many elements": (
        lambda comm: co.allreduce(comm, TENSOR.reshape(100, 10), TOPK),
        "shape",
        "tensors float32 (100, 10)",
        "tensors float32 (10, 100)",
    ),
    "name": (
        lambda comm: co.allreduce(comm, {"w": TENSOR}, TOPK),
        "shape",
        "tensors {w: float32 (10, 100)}",
        "tensors float32 (10, 100)",
    ),
    "scheme": (
        lambda comm: co.allreduce(comm, TENSOR, "topk(0.2) | rice | raw"),
        "scheme",
        "scheme topk(0.2) | rice | raw",
        "scheme topk(0.1) | rice | raw",
    ),
    "op": (
        lambda comm: co.allreduce(comm, TENSOR, TOPK, op="sum"),
        "operation",
        "allreduce op=sum algorithm=auto",
        "allreduce op=mean algorithm=auto",
    ),
    "algorithm": (
        lambda comm: co.allreduce(comm, TENSOR, TOPK, algorithm="allgather"),
        "operation",
        "algorithm=allgather",
        "algorithm=auto",
    ),
    "operation": (
        lambda comm: co.allgather(comm, TENSOR, TOPK),
        "operation",
        "allgather",
        "allreduce op=mean",
    ),
    "bytes": (
        lambda comm: co.allgather_bytes(comm, b"x"),
        "operation",
        "allgather-bytes",
        "allreduce op=mean",
    ),
}


def skip(comm: Communicator) -> object:
    co.Channel.of(comm).sequence += 1
    return co.allreduce(comm, TENSOR, TOPK)


DIFFERENCES["skipped step"] = (skip, "sequence", "exchange 2", "exchange 1")


def usable(comm: Communicator) -> tuple[bytes, int]:
    return bits(co.allreduce(comm, TENSOR, TOPK)), co.Channel.of(comm).sequence


def provoke(world: World, odd_call: Call) -> tuple[tuple[str, tuple[int, ...], str], int]:
    """Make a correct, a failing and a correct exchange; return (text, ranks, reason) and the sequence."""

    def check(comm: Communicator) -> tuple[tuple[str, tuple[int, ...], str], int]:
        first, _ = usable(comm)
        call: Call = odd_call if comm.rank == world.n - 1 else usable
        with pytest.raises(co.CollectiveError) as info:
            call(comm)
        assert not isinstance(info.value, co.Timeout)
        again, sequence = usable(comm)
        assert again == first
        return (str(info.value), info.value.ranks, info.value.reason), sequence

    results = world.run(check)
    assert results == [results[0]] * world.n, "ranks disagree about the failure"
    return results[0]


@pytest.mark.sampled
@pytest.mark.parametrize("case", FAILURES.values(), ids=FAILURES.keys())
def test_a_rank_that_cannot_contribute(world: World, case: tuple[Call, str, str]) -> None:
    call, reason, says = case
    (text, ranks, why), sequence = provoke(world, call)
    assert (ranks, why) == ((world.n - 1,), reason)
    assert text.startswith(f"rank {world.n - 1}: ")
    assert says in text
    assert sequence == 3


@pytest.mark.sampled
@pytest.mark.parametrize("case", DIFFERENCES.values(), ids=DIFFERENCES.keys())
def test_a_rank_that_differs(several: World, case: tuple[Call, str, str, str]) -> None:
    call, reason, says, others_say = case
    n = several.n
    (text, ranks, why), sequence = provoke(several, call)
    assert (ranks, why) == ((n - 1,), reason)
    most = "rank 0" if n == 2 else f"ranks {', '.join(map(str, range(n - 1)))}"
    first, second = text.split(", but ")
    assert first.startswith(f"rank {n - 1}: ")
    assert says in first
    assert second.startswith(f"{most}: ")
    assert others_say in second
    assert sequence == (4 if why == "sequence" else 3)


@pytest.mark.parametrize("wrong", [{"op": "max"}, {"algorithm": "ring"}], ids=str)
def test_an_argument_that_is_wrong_on_all_ranks(world: World, wrong: dict[str, Any]) -> None:
    def check(comm: Communicator) -> tuple[str, tuple[int, ...], str]:
        first, _ = usable(comm)
        with pytest.raises(co.CollectiveError, match="the choices are") as info:
            co.allreduce(comm, TENSOR, TOPK, **wrong)
        assert usable(comm) == (first, 3)
        assert isinstance(info.value.__cause__, ValueError)
        return str(info.value), info.value.ranks, info.value.reason

    results = world.run(check)
    assert results == [(results[0][0], tuple(range(world.n)), "argument")] * world.n


def test_several_failed_ranks_are_all_named(several: World) -> None:
    n = several.n

    def check(comm: Communicator) -> None:
        x = gradient(0)
        x[comm.rank // 2] = np.nan
        co.allgather(comm, x, TOPK)

    errors = several.errors(check)
    assert len({str(error) for error in errors}) == 1
    assert errors[0].ranks == tuple(range(n))
    assert all(f"at element {at}:" in str(errors[0]) for at in range((n + 1) // 2))


def test_the_failed_rank_keeps_its_own_error(world: World) -> None:
    errors = world.run(
        lambda comm: type(_caught(comm, with_nan(0) if comm.rank == 0 else TENSOR).__cause__).__name__
    )
    assert errors == ["EncodeError"] + ["NoneType"] * (world.n - 1)


def _caught(comm: Communicator, tensor: Array) -> co.CollectiveError:
    with pytest.raises(co.CollectiveError) as info:
        co.allgather(comm, tensor, TOPK)
    return info.value


def test_a_long_message_is_cut(world: World) -> None:
    class Verbose(Broken):
        def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
            raise RuntimeError("ä" * 100_000)

    errors = world.errors(lambda comm: co.allgather(comm, Verbose() if comm.rank == 0 else TENSOR, TOPK))
    assert len({str(error) for error in errors}) == 1
    assert len(str(errors[0]).encode()) < 1100
    assert str(errors[0]).endswith("ä…")


def test_a_difference_far_down_a_long_list_of_tensors(several: World) -> None:
    def model(rank: int) -> dict[str, Array]:
        return {
            f"layer{i:03}.weight": np.zeros(5 + (i == 150 and rank == several.n - 1), "f4")
            for i in range(200)
        }

    error = several.errors(lambda comm: co.allreduce(comm, model(comm.rank)))[0]
    first, second = str(error).split(", but ")
    assert "… layer150.weight: float32 (6,)" in first
    assert "… layer150.weight: float32 (5,)" in second
    assert len(str(error)) < 400
