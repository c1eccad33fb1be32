"""Whatever goes wrong on one rank, all ranks say the same, and the communicator is usable afterwards."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

import collectives as co
from collectives.agreement import _text
from collectives.communicator import Communicator
from collectives.header import (
    MAGIC,
    Algorithm,
    Header,
    Operand,
    Operation,
    Reduction,
    Status,
    short_hash,
)
from collectives.verdict import agreed, decide, unreadable
from tests.collectives.conftest import World
from tests.collectives.inputs import bits, gradient
from tests.oracles import Array

Call: TypeAlias = Callable[[Communicator], object]

PAGE = Path(__file__).parents[2] / "formats" / "spec" / "agreement.md"


def with_nan(rank: int) -> Array:
    x = gradient(rank, (10, 100))
    x[3, 21] = np.nan
    x[5, 5] = np.inf
    return x


class Broken:
    """A tensor that cannot be read."""

    shape = (10, 100)
    dtype = np.dtype(np.float32)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
        raise MemoryError("no room on this rank")


TENSOR = gradient(0, (10, 100))
TOPK = "topk(0.1) | rice | raw"
NO_OP: Any = "max"
NO_ALGORITHM: Any = ["auto"]
# What the last rank does while the others call allreduce(comm, TENSOR, TOPK): (call, reason, what the error
# says of it).
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
    "no array": (lambda comm: co.allreduce(comm, "text", TOPK), "encode", "EncodeError: str is not an array"),
    "no scheme": (
        lambda comm: co.allreduce(comm, TENSOR, "topk | rice"),
        "encode",
        "EncodeError: scheme 'topk | rice'",
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
# Likewise: (call, reason, what the error says of the last rank, and of the others).
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
    """One good exchange, one that fails, one good again; (text, ranks, reason) and the sequence number."""

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


@pytest.mark.parametrize("case", FAILURES.values(), ids=FAILURES.keys())
def test_a_rank_that_cannot_contribute(world: World, case: tuple[Call, str, str]) -> None:
    call, reason, says = case
    (text, ranks, why), sequence = provoke(world, call)
    assert (ranks, why) == ((world.n - 1,), reason)
    assert text.startswith(f"rank {world.n - 1}: ")
    assert says in text
    assert sequence == 3


@pytest.mark.parametrize("case", DIFFERENCES.values(), ids=DIFFERENCES.keys())
def test_a_rank_that_differs(several: World, case: tuple[Call, str, str, str]) -> None:
    call, reason, says, others_say = case
    n = several.n
    (text, ranks, why), sequence = provoke(several, call)
    assert (ranks, why) == ((n - 1,), reason)
    most = "rank 0" if n == 2 else f"ranks {', '.join(map(str, range(n - 1)))}"
    first, second = text.split(", where ")
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
    first, second = str(error).split(", where ")
    assert "… layer150.weight: float32 (6,)" in first
    assert "… layer150.weight: float32 (5,)" in second
    assert len(str(error)) < 400


# ---- the page ----


def example() -> bytes:
    """The 64 bytes at the end of the page."""
    lines = re.findall(r"^    ((?:[0-9a-f]{2} +){15}[0-9a-f]{2})$", PAGE.read_text(), re.MULTILINE)
    return bytes.fromhex("".join(lines))


def test_golden_header() -> None:
    operand = Operand.of({"0": ((1000,), "float32")}, bare=True, scheme="topk(0.01) | rice | raw")
    text = _text(operand, None)
    header = Header(
        operation=Operation.ALLREDUCE,
        reduction=Reduction.MEAN,
        sequence=7,
        dtype=operand.dtype,
        text_len=len(text),
        elements=operand.elements,
        payload_len=4096,
        signature=operand.signature,
        scheme=operand.scheme,
    )
    assert text == b"topk(0.01) | rice | raw\nfloat32 (1000,)"
    assert len(example()) == 64
    assert header.pack() == example()
    assert Header.unpack(example()) == header


def test_fields_lie_where_the_page_says() -> None:
    """Each field alone, set to its largest value, fills just the bytes of its row."""
    rows = re.findall(r"^\| (\d+) \| (\w+) \| (u8|u16|u32|u64|4 bytes) \|", PAGE.read_text(), re.MULTILINE)
    widths = {"u8": 1, "u16": 2, "u32": 4, "u64": 8, "4 bytes": 4}
    assert [name for _, name, _ in rows] == list(Header._fields)
    at = 0
    blank = Header(magic=bytes(4), version=0, position=0)
    for offset, name, kind in rows:
        width = widths[kind]
        assert int(offset) == at
        full = b"\xff" * width if name == "magic" else 2 ** (8 * width) - 1
        field: dict[str, Any] = {name: full}
        packed = blank._replace(**field).pack()
        assert packed == bytes(at) + b"\xff" * width + bytes(64 - at - width)
        at += width
    assert at == 64


def test_the_codes_are_those_of_the_page() -> None:
    page = PAGE.read_text()
    assert "| 6 | operation | u8 | 1 allgather of bytes, 2 allgather of tensors, 3 allreduce |" in page
    assert [int(one) for one in Operation] == [1, 2, 3]
    assert "0 none, 1 sum, 2 mean" in page
    assert [one.name for one in Reduction] == ["NONE", "SUM", "MEAN"]
    assert [int(one) for one in Algorithm] == [0, 1]
    assert [int(status) for status in Status] == [
        int(row) for row in re.findall(r"^\| (\d) \| [^|]+ \|$", page, re.MULTILINE)
    ]


def test_hashes_are_those_of_the_page() -> None:
    """Written out from section 2, by hand."""
    import hashlib

    def first8(data: bytes) -> int:
        return int.from_bytes(hashlib.sha256(data).digest()[:8], "little")

    def u32(n: int) -> bytes:
        return n.to_bytes(4, "little")

    def u64(n: int) -> bytes:
        return n.to_bytes(8, "little")

    named = Operand.of({"w": ((2, 3), "float64"), "b": ((), "bfloat16")}, bare=False, scheme="s")
    expected = b"\1" + u32(2) + u32(1) + b"b" + b"\3\0" + u32(1) + b"w" + b"\4\2" + u64(2) + u64(3)
    assert named.signature == first8(expected)
    assert named.scheme == first8(b"s") == short_hash(b"s")
    assert (named.dtype, named.elements) == (255, 7)
    bare = Operand.of({"0": ((5,), "float16")}, bare=True, scheme="s")
    assert bare.signature == first8(b"\0" + u32(1) + u32(0) + b"\2\1" + u64(5))


# ---- the verdict ----


def test_most_ranks_are_right() -> None:
    table = [Header(operation=2, dtype=code) for code in (4, 1, 1, 2, 1)]
    error = decide(table, [""] * 5)
    assert error.ranks == (0, 3)
    assert str(error) == (
        "rank 0: dtype float64, where ranks 1, 2, 4: dtype float32; "
        "rank 3: dtype float16, where ranks 1, 2, 4: dtype float32"
    )


def test_of_equally_many_the_lowest_rank_is_right() -> None:
    assert decide([Header(operation=2, dtype=code) for code in (4, 1, 1, 4)], [""] * 4).ranks == (1, 2)


def test_earlier_fields_are_reported_first() -> None:
    table = [Header(sequence=3, dtype=1), Header(sequence=4, dtype=4, operation=3)]
    assert decide(table, ["", ""]).reason == "sequence"


@pytest.mark.parametrize("foreign", [{"magic": b"abcd"}, {"version": 2}, {"text_len": 1 << 20}], ids=str)
def test_foreign_headers(foreign: dict[str, Any]) -> None:
    table = [Header(operation=2), Header(operation=2)._replace(**foreign)]
    assert not agreed(table) or "text_len" in foreign
    error = unreadable(table)
    assert error is not None
    assert (error.ranks, error.reason) == ((1,), "protocol")
    assert "different software" in str(error)
    assert unreadable(table[:1]) is None
    assert example()[:4] == MAGIC
