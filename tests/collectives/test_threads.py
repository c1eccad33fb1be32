"""Threads of collectives: they end with their owners, start again after a fork, and let a program end."""

from __future__ import annotations

import gc
import importlib.util
import os
import threading
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import collectives as co
from collectives.gloo.notices import StoreBoard
from collectives.simulation.communicator import SimulatedComm
from collectives.waiting.worker import Worker
from tests import child
from tests.collectives.torch import processes

PATIENCE = 10.0  # seconds


class Store:
    """Store like that of torch.distributed, of one process.

    Args:
        items: its first contents.
    """

    def __init__(self, **items: bytes) -> None:
        self.items = items

    def set(self, key: str, value: bytes) -> None:
        self.items[key] = value

    def check(self, keys: list[str]) -> bool:
        return all(key in self.items for key in keys)

    def get(self, key: str) -> bytes:
        return self.items[key]


class ClosedStore(Store):
    def check(self, keys: list[str]) -> bool:
        raise RuntimeError("closed")


def wait_until(condition: Callable[[], bool], pause: float = 0.01) -> bool:
    """Wait until a condition is true; return False if it is not after PATIENCE."""
    end = time.monotonic() + PATIENCE
    while not (met := condition()) and time.monotonic() < end:
        time.sleep(pause)
    return met


def use_worker() -> object:
    worker = Worker("test")
    worker.submit(lambda: None)
    return worker


def use_worker_by_its_own_function() -> object:
    """The last function refers to the worker."""
    worker = Worker("test")
    worker.submit(lambda: repr(worker))
    return worker


def use_channel() -> object:
    def submit(comm: SimulatedComm) -> co.Channel:
        channel = co.Channel(comm)
        channel.worker.submit(lambda: co.allgather_bytes(channel, b""))
        return channel

    return co.simulate(1, submit)


def use_channel_of_communicator() -> object:
    """The communicator keeps the channel, and the channel the communicator."""

    def submit(comm: SimulatedComm) -> SimulatedComm:
        co.Channel.of(comm).worker.submit(lambda: None)
        return comm

    return co.simulate(1, submit)


def use_board(store: Store) -> StoreBoard:
    board = StoreBoard(store, 0, 2)
    board.post(b"here", [1])
    board.read()
    return board


OWNERS = {
    "Worker": use_worker,
    "Worker in its function": use_worker_by_its_own_function,
    "Channel": use_channel,
    "Channel of a communicator": use_channel_of_communicator,
    "StoreBoard": lambda: use_board(Store(any=b"1", **{"1": b"there"})),
    "StoreBoard of a closed store": lambda: use_board(ClosedStore()),
}


@pytest.mark.parametrize("make", OWNERS.values(), ids=OWNERS)
def test_threads_end_with_their_owner(make: Callable[[], object]) -> None:
    before = set(threading.enumerate())
    owners = [make() for _ in range(5)]
    assert len(set(threading.enumerate()) - before) == 5
    del owners
    gc.collect()
    assert wait_until(lambda: set(threading.enumerate()) <= before)


def test_no_other_module_starts_threads() -> None:
    """Simulated ranks end with the simulation; all other threads are a Worker's."""
    folder = Path(co.__file__).parent
    starting = {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*.py")
        if "threading.Thread(" in path.read_text() or "(threading.Thread)" in path.read_text()
    }
    assert starting == {"waiting/worker.py", "simulation/scheduler.py"}


def test_a_failed_simulation_leaves_no_thread() -> None:
    def fail(comm: SimulatedComm) -> None:
        if comm.rank == 1:
            raise OSError("here")
        co.allgather_bytes(comm, b"")

    before = set(threading.enumerate())
    with pytest.raises(OSError, match="here"):
        co.simulate(3, fail)
    assert set(threading.enumerate()) <= before


def test_pending_functions_run_before_the_end() -> None:
    """They run in their order, although their worker is collected."""
    done: list[int] = []
    worker = Worker("test")
    for number in range(5):
        worker.submit(partial(time.sleep, 0.01))
        worker.submit(partial(done.append, number))
    del worker
    assert wait_until(lambda: done == list(range(5)))


def test_several_threads_start_one_thread() -> None:
    before, done = set(threading.enumerate()), []
    worker, start = Worker("test"), threading.Barrier(4)

    def submit() -> None:
        start.wait()
        worker.submit(lambda: done.append(threading.current_thread()))

    submitters = [threading.Thread(target=submit) for _ in range(4)]
    for thread in submitters:
        thread.start()
    for thread in submitters:
        thread.join()
    assert wait_until(lambda: len(done) == 4)
    assert set(done) == set(threading.enumerate()) - before


def run_in_fork(body: Callable[[], bool]) -> bool:
    """Return the result of a function in a forked process, or False if it does not end."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads in the parent
        process = os.fork()
    if process == 0:
        status = 1
        try:
            status = 0 if body() else 1
        finally:
            os._exit(status)
    return os.waitpid(process, 0)[1] == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.parametrize("used", [True, False], ids=["used", "unused"])
def test_a_fork_has_a_thread_of_its_own(used: bool) -> None:
    """Functions that the parent submitted run in the parent alone."""
    parent, blocked, release = os.getpid(), threading.Event(), threading.Event()
    done: list[str] = []
    worker = Worker("test")
    if used:
        worker.submit(blocked.set)
        worker.submit(release.wait)
        worker.submit(lambda: done.append("parent"))
        assert blocked.wait(PATIENCE)

    def submit() -> bool:
        assert os.getpid() != parent
        worker.submit(lambda: done.append("child"))
        return wait_until(lambda: bool(done)) and done == ["child"]

    assert run_in_fork(submit)
    release.set()
    worker.submit(lambda: done.append("end"))
    assert wait_until(lambda: done == (["parent", "end"] if used else ["end"]))


@pytest.mark.parametrize(
    ("function", "output"),
    [("threading.Event().wait", ""), ("lambda: (time.sleep(0.3), print('done'))", "done\n")],
    ids=["never returns", "returns"],
)
def test_a_program_ends_soon_but_not_before_a_short_function(function: str, output: str) -> None:
    start = time.monotonic()
    body = "import threading, time\nfrom collectives.waiting.worker import Worker\n"
    assert child.run(f"{body}worker = Worker('test')\nworker.submit({function})") == output
    assert time.monotonic() - start < PATIENCE


TORCH = """
import gc, threading, time
def threads():
    return sorted(thread.name for thread in threading.enumerate() if "TorchComm" in thread.name)

for _ in range(3):
    comm = co.TorchComm()
    comm.notices.read()
    requests = [comm.Isend(bytes(8), 1 - rank), comm.Irecv(np.empty(8, np.uint8), 1 - rank)]
    while not all(request.Test() for request in requests):
        time.sleep(0.001)
    used = threads()
    del comm
dist.barrier()
end = time.monotonic() + 10
while (gc.collect(), threads())[1] and time.monotonic() < end:
    time.sleep(0.01)
print(json.dumps([used, threads()]), flush=True)
comm = co.TorchComm()
if rank == 0:
    request = comm.Irecv(np.empty(8, np.uint8), 1)
dist.barrier()
if rank == 1:
    time.sleep(0.2)
    os._exit(0)
sys.exit()  # the other rank ends while a thread waits for it
"""


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="no torch")
def test_threads_of_torch_end_with_their_communicator_and_their_program() -> None:
    for used, left in processes.run(2, TORCH, complete=True):
        assert {"TorchComm: notices", "TorchComm: receives", "TorchComm: sends"} <= set(used)
        assert left == []


def test_a_thread_that_cannot_start_is_started_by_the_next_call(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    worker, done = Worker("a worker"), threading.Event()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        with pytest.raises(RuntimeError, match="can't start"):
            worker.submit(done.set)
    worker.submit(done.set)
    assert done.wait(PATIENCE)
