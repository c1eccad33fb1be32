"""Work on many tensors, in threads: order, errors, and interrupts of the thread that waits."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from tests.collectives.test_worker import interrupt
from wirecodec.kernels.cpu import threads
from wirecodec.patch.threads import map_in_threads


@pytest.fixture(autouse=True)
def three_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "thread_count", lambda: 3)


def test_results_are_in_order() -> None:
    idents = set()

    def work(number: int) -> int:
        idents.add(threading.get_ident())
        time.sleep(0.01 * (number % 3))
        return number

    assert list(map_in_threads(work, range(20))) == list(range(20))
    assert len(idents) > 1


def test_nothing_runs_after_an_error() -> None:
    begun = []

    def work(number: int) -> int:
        begun.append(number)
        time.sleep(0.01)
        if number == 1:
            raise ZeroDivisionError
        return number

    found: Iterator[int] = map_in_threads(work, range(100))
    with pytest.raises(ZeroDivisionError):
        list(found)
    count = len(begun)
    assert count < 100
    time.sleep(0.05)
    assert len(begun) == count


def test_an_interrupt_at_any_call_ends_it() -> None:
    number, running = 1, []

    def work(_: int) -> None:
        running.append(1)
        time.sleep(0.002)
        running.pop()

    while interrupt(lambda: list(map_in_threads(work, range(4))), number):
        while running:
            time.sleep(0.001)
        number += 1
    assert number > 10
