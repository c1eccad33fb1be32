"""Work on threads: the same bytes and errors for any number of threads, and after a fork."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from tests import inputs
from tests.child import run
from wirecodec.arrays import bits_of, read_only
from wirecodec.index.rice import measure_section
from wirecodec.kernels.compiler.jit import kernel
from wirecodec.kernels.cpu import threads
from wirecodec.kernels.cpu.index import bitmap, rice, rice_read, rice_write
from wirecodec.kernels.cpu.threads import next_unit
from wirecodec.limits import UNLIMITED

ROOT = Path(__file__).parents[3]


@kernel
def count_visits(turns: Any, visits: Any, slow: int) -> int:
    """Count each unit in its slot, slowly, and return the number of units done here."""
    done = 0
    unit = next_unit(turns, -1)
    while unit >= 0:
        for _ in range(slow):
            visits[unit] *= 3
        visits[unit] += 1
        done += 1
        unit = next_unit(turns, unit)
    return done


@pytest.fixture(params=[1, 2, 3, 7])
def many(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Set the number of threads, and let every unit of work be worth one."""
    monkeypatch.setattr(threads, "thread_count", lambda: request.param)
    for module in (rice, rice_write, rice_read):
        monkeypatch.setattr(module, "MIN_UNITS_PER_THREAD", 1)
    for name in ("MIN_BLOCKS_NONZERO", "MIN_BLOCKS_COPY", "MIN_BLOCKS_POSITIONS"):
        monkeypatch.setattr(bitmap, name, 1)
    found: int = request.param
    return found


def test_every_unit_is_done_once(many: int) -> None:
    for units in (0, 1, 2, 3, 10, 100):
        visits = np.zeros(units, np.int64)
        for times in range(1, 30):
            threads.run_parallel(lambda turns, v=visits: count_visits(turns, v, 0), units, 1)
            assert (visits == times).all()


def test_ranges_are_in_order_and_complete(many: int) -> None:
    for n in (0, 1, 2, 3, 10, 100):
        ranges = threads.map_ranges(lambda start, stop: (start, stop), n, 1)
        assert [start for start, _ in ranges] == [0, *(stop for _, stop in ranges[:-1])]
        assert ranges[-1][1] == n


def test_errors_in_ranges_are_raised(many: int) -> None:
    def work(start: int, stop: int) -> None:
        if stop > 50:
            raise ValueError(f"unit {start}")

    with pytest.raises(ValueError, match="unit"):
        threads.map_ranges(work, 100, 1)


def test_other_threads_help(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine the other thread may be late for one call, but not for fifty."""
    monkeypatch.setattr(threads, "thread_count", lambda: 2)
    visits = np.zeros(100, np.int64)
    helped = threading.Event()
    caller = threading.get_ident()

    def work(turns: Any) -> None:
        if count_visits(turns, visits, 1_000_000) and threading.get_ident() != caller:
            helped.set()

    for _ in range(50):
        threads.run_parallel(work, 100, 1)
        if helped.wait(0.01):
            break
    assert helped.is_set()


def test_little_work_stays_in_its_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "thread_count", lambda: 4)
    monkeypatch.setattr(threads._helpers, "call", lambda *_: pytest.fail("not worth it"))
    visits = np.zeros(19, np.int64)
    threads.run_parallel(lambda turns: count_visits(turns, visits, 0), 19, 10)
    assert (visits == 1).all()


def test_a_thread_that_flushes_denormals_computes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other threads keep them, and which one takes a unit depends on the time."""
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(threads, "thread_count", lambda: 4)
    monkeypatch.setattr(threads._helpers, "call", lambda *_: pytest.fail("it has another mode"))
    visits = np.zeros(100, np.int64)
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor cannot flush denormal numbers")
    try:
        threads.run_parallel(lambda turns: count_visits(turns, visits, 0), 100, 1)
        threads.map_ranges(lambda start, stop: visits[start:stop].sum(), 100, 1)
    finally:
        torch.set_flush_denormal(False)
    assert (visits == 1).all()


def test_errors_are_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors are raised from this thread, and from one that took a unit and did not finish it."""
    monkeypatch.setattr(threads, "thread_count", lambda: 2)
    here = threading.get_ident()
    taken = threading.Event()

    def fails_there(turns: Any) -> None:
        if threading.get_ident() == here:
            assert taken.wait(20)
            count_visits(turns, visits, 0)
        else:
            turns[threads.NEXT] += 1
            taken.set()
            raise IndexError("there")

    def fails_here(turns: Any) -> None:
        if threading.get_ident() == here:
            raise IndexError("here")
        count_visits(turns, visits, 0)

    for work, message in ((fails_there, "there"), (fails_here, "here")):
        visits = np.zeros(10, np.int64)
        with pytest.raises(IndexError, match=message):
            threads.run_parallel(work, 10, 1)
    visits = np.zeros(10, np.int64)
    threads.run_parallel(lambda turns: count_visits(turns, visits, 0), 10, 1)
    assert (visits == 1).all()


@pytest.fixture(scope="module")
def support() -> Any:
    rng = np.random.default_rng(6)
    return inputs.support(rng, 300_000, 70_000)


def test_the_same_bytes_and_indices(many: int, support: Any) -> None:
    d = 300_000
    dense = np.zeros(d, np.float32)
    dense[support] = -0.0
    for codec in (wc.codecs.Rice(), wc.codecs.Bitmap()):
        section = codec.encode(read_only(support), d, 0)
        found = codec.decode(read_only(section), d, support.size, UNLIMITED)
        assert np.array_equal(found, support)
        if isinstance(codec, wc.codecs.Rice):
            assert measure_section(read_only(support)) == section.size
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(threads, "thread_count", lambda: 1)
                assert np.array_equal(codec.encode(read_only(support), d, 0), section)
    for dtype in (np.int32, np.int64):
        found = bitmap.find_positions(*bitmap.find_nonzero(bits_of(dense)), np.dtype(dtype))
        assert np.array_equal(found, support)


def test_the_first_error_is_reported(many: int, support: Any) -> None:
    """Span 2 runs past the chunk and span 7 has one bit too many; threads find them in any order."""
    section = wc.codecs.Rice().encode(read_only(support), 300_000, 0)
    section[4 * 1 : 4 * 2].view("<u4")[:] = 2**32 - 1
    last = section[-4:].view("<u4")
    last |= last - 1
    with pytest.raises(wc.Invalid, match="span 2 ") as caught:
        wc.codecs.Rice.decode(read_only(section), 300_000, support.size, UNLIMITED)
    assert caught.value.code == "index-range"


def test_several_callers(monkeypatch: pytest.MonkeyPatch, support: Any) -> None:
    monkeypatch.setattr(threads, "thread_count", lambda: 3)
    monkeypatch.setattr(rice_read, "MIN_UNITS_PER_THREAD", 1)
    section = read_only(wc.codecs.Rice().encode(read_only(support), 300_000, 0))

    def right(_: int) -> bool:
        return np.array_equal(wc.codecs.Rice.decode(section, 300_000, support.size, UNLIMITED), support)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(right, range(100)))


COUNTED = """
import numba
from numba.np.ufunc import parallel
from wirecodec.kernels.cpu.threads import thread_count
assert thread_count() == 3
assert not parallel._is_initialized
numba.set_num_threads(2)
assert thread_count() == 2
"""


def test_numba_sets_the_number() -> None:
    run(COUNTED, NUMBA_NUM_THREADS="3")


FORKED = """
import atexit, os
import numpy as np
from tests.wirecodec.kernels.test_threads import count_visits
from wirecodec.kernels.cpu import threads
threads.thread_count = lambda: 2
def work():
    visits = np.zeros(100, np.int64)
    threads.run_parallel(lambda turns: count_visits(turns, visits, 1000), 100, 1)
    return int((visits != 0).sum())
atexit.register(lambda: print(work()))  # runs after the threads have ended
assert work() == 100
child = os.fork()
assert work() == 100
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_after_a_fork_and_at_exit() -> None:
    """A child starts its own threads; at exit there are none, and the work is still done."""
    assert run(FORKED) == "100\n"


INTERRUPTED = """
import threading
from wirecodec.kernels.cpu import threads
threads.thread_count = lambda: 2
threads.MAX_EXIT_SECONDS = 0.1
lock, entered = threading.Lock(), threading.Event()
lock.acquire()
def work(turns):
    if threading.current_thread() is threading.main_thread():
        entered.wait()
        raise KeyboardInterrupt
    entered.set()
    lock.acquire()
try:
    threads.run_parallel(work, 4, 1)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_a_thread_that_waits_for_a_lock_does_not_hold_up_the_exit() -> None:
    """An interrupt during compilation can leave the compiler's lock locked."""
    assert run(INTERRUPTED) == "interrupted\n"
