"""Interrupts of a thread that waits for a Worker, at any call of the waiting thread."""

from __future__ import annotations

import queue
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from collectives.waiting.worker import Worker
from tests.collectives.torch.processes import run


def interrupt(call: Callable[[], object], number: int) -> bool:
    """Raise at the event of this number of a call; return whether it has so many.

    Events are calls and returns of functions of Python, where Python calls signal handlers, too.
    """
    events = 0

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal events
        frame.f_trace_lines = False
        events += event in ("call", "return")
        if events == number and event != "exception":
            sys.settrace(None)
            raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


@pytest.mark.parametrize("has_started", [False, True])
def test_a_thread_goes_on_after_an_interrupt_of_the_wait_for_it(has_started: bool) -> None:
    def wait(worker: Worker) -> None:
        worker.submit(lambda: time.sleep(0.005))
        worker.drain()

    number, more = 1, True
    while more:
        worker = Worker("interrupted")
        if has_started:
            worker.submit(int)
        more = interrupt(lambda worker=worker: wait(worker), number)  # type: ignore[misc]
        done: queue.SimpleQueue[int] = queue.SimpleQueue()
        worker.submit(lambda done=done: done.put(1))  # type: ignore[misc]
        assert done.get(timeout=60) == 1, f"after event {number}"
        number += 1
    assert number > 10


ISOLATION = """
import queue, threading
from collectives.torch import isolation
from tests.collectives.test_worker import interrupt

number, files = 1, (threading.__file__, isolation.__file__)
channel = co.Channel(comm)

def isolate():
    channel.comm._gathers = None
    isolation.isolate(channel)

isolation.allgather_bytes = lambda *_: [np.zeros(16, np.uint8)]
isolation.GroupComm.isolate = lambda self, key: None
while interrupt(isolate, number):
    done = queue.SimpleQueue()
    channel.worker.submit(lambda: done.put(1))
    done.get(timeout=60)
    number += 1
print(json.dumps(number))
"""


def test_the_thread_goes_on_after_an_interrupt_while_connections_are_opened() -> None:
    pytest.importorskip("torch")
    assert run(1, ISOLATION)[0] > 10
