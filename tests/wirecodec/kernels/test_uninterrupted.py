"""Functions that no signal handler interrupts, as kernels are loaded."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from pathlib import Path

import pytest

from tests.child import run as run_child
from wirecodec.kernels.uninterrupted import Latch, run_uninterrupted


def test_an_interrupt_is_raised_after_the_function_has_returned() -> None:
    done, seen = [], threading.Event()

    def handle(*_: object) -> None:
        if not seen.is_set():
            seen.set()
            raise KeyboardInterrupt

    def work() -> None:
        while not seen.wait(0.1):  # a signal just before the main thread waits is seen after the next one
            os.kill(os.getpid(), signal.SIGUSR1)
        time.sleep(0.1)  # the main thread has raised it
        done.append(threading.current_thread() is threading.main_thread())

    before = signal.signal(signal.SIGUSR1, handle)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_uninterrupted(work)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert done == [False]


def test_an_interrupt_before_it_withdraws_the_function() -> None:
    submitted, ran = [], []

    def submit(function: object) -> None:
        submitted.append(function)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_uninterrupted(lambda: ran.append(1), submit)
    submitted[0]()
    assert not ran


def test_a_latch_waits_for_a_time() -> None:
    latch = Latch()
    assert not latch.wait_for(0.01)
    threading.Timer(0.05, latch.set).start()
    assert latch.wait_for(60)
    assert latch.wait_for(0)


def test_no_wait_of_the_packages_can_leave_a_lock_taken() -> None:
    """Events and conditions of threading hold a lock between instructions at which an interrupt is raised.

    Only threads of simulated ranks wait for the scheduler's semaphores, and no handler runs there.
    """
    root = Path(__file__).parents[3]
    of_threading, of_queue = (
        r"threading\.(Event|Condition|\w*Semaphore|Barrier)",
        r"queue\.(Lifo|Priority)?Queue",
    )
    names = rf"{of_threading}|{of_queue}|concurrent\.futures|multiprocessing"
    paths = [path for package in ("wirecodec", "collectives") for path in (root / package).rglob("*.py")]
    assert len(paths) > 400
    found = {
        path.relative_to(root).as_posix()
        for path in paths
        if re.search(names, path.read_text()) and path.name != "uninterrupted.py"  # which names them
    }
    assert found == {"collectives/simulation/scheduler.py"}


def test_results_and_errors_come_back() -> None:
    assert run_uninterrupted(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        run_uninterrupted(lambda: 1 // 0)


LOADING = """
import os, signal, sys, threading
import numpy as np, wirecodec as wc
import llvmlite.binding.ffi as ffi

entered, raised = ffi._LLVMLock.__enter__, []

def enter(self):
    entered(self)
    if not raised:  # the lock is taken, and the block has not begun
        raised.append(threading.current_thread().name)
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000):  # in the main thread, the interrupt comes here
            pass

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have turned it off
x = np.arange(64.0)
wc.encode(x, "nonzero | rice | raw")  # Numba is loaded
ffi._LLVMLock.__enter__ = enter
try:
    wc.encode(x, "topk(0.25) | rice | raw")
except KeyboardInterrupt:
    print("interrupted")
thread = threading.Thread(target=lambda: wc.encode(x, "topk(0.25) | rice | raw"), daemon=True)
thread.start()
thread.join(100)
print("waits" if thread.is_alive() else "right", len(raised))
sys.stdout.flush()
os._exit(0)
"""


def test_an_interrupt_while_a_kernel_is_loaded() -> None:
    """The lock of llvmlite is free afterwards, and another thread loads the kernel."""
    assert run_child(LOADING).split() == ["interrupted", "right", "1"]
