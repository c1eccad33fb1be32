"""Room behind headers: as its page says, alike on all ranks, and without an effect on results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import collectives as co
import wirecodec as wc
from collectives.agreement.agree import Payload, agree
from collectives.agreement.header import Header, Operand, Operation
from collectives.foresight import PAUSE, Foresight


class Counting:
    """Communicator that counts its all-gathers."""

    def __init__(self, comm: Any, *, gathers_any_size: bool = False) -> None:
        self.comm, self.gathers_any_size, self.gathers = comm, gathers_any_size, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.comm, name)

    def Iallgather(self, *args: Any) -> Any:
        self.gathers += 1
        return self.comm.Iallgather(*args)

    def Iallgatherv(self, *args: Any) -> Any:
        self.gathers += 1
        return self.comm.Iallgatherv(*args)


def test_room_follows_the_page() -> None:
    """Section 5 of formats/spec/agreement.md."""
    foresight, rooms = Foresight(4096), []
    for number, nbytes in enumerate((1000, 1000, 1010, 1100, 1024, 4097, 0, 5)):
        room = foresight.room
        rooms.append(room)
        foresight.agreed(number, "kind", is_short=room > 0 and nbytes > room)
        foresight.agreed(number, "another", is_short=True)  # again for the same exchange: no effect
        foresight.gathered(nbytes)
    assert rooms == [0, 0, 1024, 1088, 0, 0, 0, 0]  # 1100 bytes do not fit in 1088, so there is a pause
    for number in range(8, 8 + PAUSE):
        foresight.agreed(number, "kind", is_short=False)
        foresight.gathered(640)
    assert foresight.room == 704
    foresight.forget()
    assert foresight.room == 0


@pytest.mark.parametrize(
    ("gathers_any_size", "sizes"), [(False, (20_000, 50_000)), (True, (20_000, 2_000_000))]
)
def test_one_exchange_per_bucket(gathers_any_size: bool, sizes: tuple[int, int]) -> None:
    """Steps of two buckets of different sizes take one exchange each from the third step on."""

    def rank(comm: Any) -> list[int]:
        counting = Counting(comm, gathers_any_size=gathers_any_size)
        channel, gathers = co.Channel(counting), []
        draw = np.random.default_rng(comm.rank)
        compressors = [wc.Compressor("topk(0.01) | rice | raw(bfloat16)") for _ in range(2)]
        for _ in range(6):
            before = counting.gathers
            for compressor, size in zip(compressors, sizes, strict=True):
                gradient = draw.standard_normal(size).astype(np.float32)
                co.allreduce(channel, gradient, compressor, algorithm="allgather")
            gathers.append(counting.gathers - before)
        return gathers

    for gathers in co.simulate(2, rank):
        assert gathers == [4, 3, 2, 2, 2, 2]


def test_results_do_not_depend_on_room() -> None:
    """Calls of all kinds in a random order, of random sizes, some of which fail: all as on new channels."""

    def rank(comm: Any, fresh: bool) -> list[Any]:
        channel, same = co.Channel(comm), np.random.default_rng(3)
        results: list[Any] = []
        own = np.random.default_rng(comm.rank)
        for _ in range(60):
            kind, size, fails = same.integers(5), int(same.choice([10, 300, 301, 5000])), same.random() < 0.15
            x = own.standard_normal(size).astype(np.float32)
            if fails and comm.rank == 1:
                x[3] = np.nan
            if fresh:
                channel.foresight = Foresight(0)
            try:
                if kind == 0:
                    results += [y.tobytes() for y in co.allgather_bytes(channel, x[: own.integers(size)])]
                elif kind == 1:
                    results += [
                        y.to_dense().tobytes() for y in co.allgather(channel, x, "topk(0.2) | rice | raw")
                    ]
                elif kind == 2:
                    results.append(co.allreduce(channel, x, "topk(0.2) | rice | qsgd").tobytes())
                else:
                    way = "split-pairs" if kind == 3 else "auto"
                    results.append(
                        co.allreduce(channel, x, "topk(0.2) | rice | raw", algorithm=way).tobytes()
                    )
            except co.CollectiveError as error:
                results.append(str(error))
        return results

    with_room = co.simulate(3, lambda comm: rank(comm, False))
    assert with_room == co.simulate(3, lambda comm: rank(comm, True))
    assert any("nan" in str(one).lower() for one in with_room[0])


def test_payloads_are_those_of_the_last_agreement() -> None:
    """A call with two agreements, of which only the first has its payloads behind the headers."""

    def rank(comm: Any) -> list[int | None]:
        channel = co.Channel(comm)
        arrived: list[int | None] = []
        for _ in range(3):
            with channel.collective() as call:
                for nbytes in (100, 5000):
                    data = np.full(nbytes, comm.rank, np.uint8)
                    header = Header(operation=Operation.ALLGATHER_BYTES, payload_len=nbytes)
                    agree(channel, header, Operand(), None, Payload(data, is_final=nbytes == 5000))
                    arrived.append(None if call.payloads is None else len(call.payloads[1]))
                    channel.foresight.gathered(nbytes)
                call.is_delivered = True
        return arrived

    assert co.simulate(2, rank) == [[None, None, None, None, 100, None]] * 2
