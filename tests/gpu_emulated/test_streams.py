"""The order of the library's work on several streams, with streams that only record what they are told."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from wirecodec.kernels.cuda import streams
from wirecodec.kernels.cuda.streams import StreamOrder


class Stream:
    """Stream that keeps a list of its events and waits, and may be CuPy's current one."""

    null: Stream
    current: Stream
    of_torch: int
    known: dict[int, Stream]

    def __init__(self, pointer: int) -> None:
        self.ptr = pointer
        self.done: list[str] = []
        self._before: list[Stream] = []

    @classmethod
    def from_external(cls, external: Any) -> Stream:
        """Return the stream of a pointer."""
        _, pointer = external.__cuda_stream__()
        return cls.known.setdefault(pointer, Stream(pointer))

    def record(self) -> tuple[Stream, int]:
        """Return an event: what this stream has done so far."""
        return self, len(self.done)

    def wait_event(self, event: tuple[Stream, int]) -> None:
        """Note that this stream waits."""
        self.done.append(f"waits for {event[0].ptr} after {event[1]}")

    def __enter__(self) -> None:
        self._before.append(Stream.current)
        Stream.current = self

    def __exit__(self, *_: object) -> None:
        Stream.current = self._before.pop()


@pytest.fixture
def order(monkeypatch: pytest.MonkeyPatch) -> StreamOrder:
    Stream.null = Stream.current = Stream(0)
    Stream.known = {0: Stream.null}
    cuda = SimpleNamespace(Stream=Stream, get_current_stream=lambda: Stream.current)
    monkeypatch.setattr(streams, "find_torch_stream", lambda number: Stream.of_torch)
    return StreamOrder(SimpleNamespace(cuda=cuda), 0)


def work(order: StreamOrder, pointer: int = 0) -> Stream:
    """Launch a kernel for a tensor of torch, whose current stream has this pointer."""
    Stream.of_torch = pointer
    with order.current(follows_torch=True):
        Stream.current.done.append("kernel")
        return Stream.current


def test_one_stream_never_waits(order: StreamOrder) -> None:
    for _ in range(3):
        assert work(order) is Stream.null
    assert Stream.null.done == ["kernel"] * 3


def test_work_on_another_stream_waits_for_the_work_before(order: StreamOrder) -> None:
    work(order)
    side = work(order, 7)
    assert side is Stream.known[7]
    assert side.done == ["waits for 0 after 1", "kernel"]
    assert Stream.null.done == ["kernel", "waits for 7 after 2"], "results may be used on CuPy's stream"
    work(order, 8)
    assert any(each.startswith("waits for 7") for each in Stream.known[8].done)
    again = work(order, 7)
    assert again.done[-2].startswith("waits for 8")


def test_a_stream_that_the_program_sets_in_cupy_is_used(order: StreamOrder) -> None:
    own = Stream(5)
    with own:
        assert work(order, 7) is own
    assert own.done == ["kernel"]
    with order.current():
        assert Stream.current is Stream.null, "arrays of CuPy do not follow torch"


def test_the_end_is_recorded_after_an_error(order: StreamOrder) -> None:
    work(order)
    side = work(order, 7)
    before = len(side.done)

    def fail() -> None:
        with order.current(follows_torch=True):
            side.done.append("kernel")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    work(order, 0)
    assert Stream.null.done[-2] == f"waits for 7 after {before + 2}"
