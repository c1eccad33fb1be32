"""Work over threads: the same bytes and the same verdicts however many there are, and after a fork."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from tests import inputs
from wirecodec.arrays import bits_of, read_only
from wirecodec.index import rice
from wirecodec.kernels import bits
from wirecodec.kernels.cpu import threads
from wirecodec.limits import UNLIMITED

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=[1, 2, 3, 7])
def many(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """So many threads, and every unit of work worth one."""
    monkeypatch.setattr(threads, "thread_count", lambda: request.param)
    for name in ("_LEAST_PLAN", "_LEAST_WRITE", "_LEAST_READ"):
        monkeypatch.setattr(rice, name, 1)
    monkeypatch.setattr(bits, "_LEAST_WORDS", 1)
    found: int = request.param
    return found


def test_ranges_make_up_the_whole(many: int) -> None:
    for n in (0, 1, 2, 6, 7, 8, 100):
        ranges = threads.in_ranges(lambda start, stop: (start, stop), n, 1)
        assert len(ranges) == (max(1, min(n, 8 * many)) if many > 1 else 1)
        assert [0, *(stop for _, stop in ranges)] == [*(start for start, _ in ranges), n]


def test_little_work_stays_in_its_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "thread_count", lambda: 4)
    here = threading.get_ident()
    assert threads.in_ranges(lambda start, stop: threading.get_ident(), 19, 10) == [here]

    def slow(start: int, stop: int) -> int:
        time.sleep(0.02)
        return threading.get_ident()

    assert len({*threads.in_ranges(slow, 20, 2)}) > 1


@pytest.mark.parametrize("where", [0, 1, 5, 19])
def test_errors_arrive(monkeypatch: pytest.MonkeyPatch, where: int) -> None:
    monkeypatch.setattr(threads, "thread_count", lambda: 2)

    def work(start: int, stop: int) -> None:
        time.sleep(0.001)
        if start <= where < stop:
            raise IndexError(where)

    with pytest.raises(IndexError):
        threads.in_ranges(work, 20, 1)


@pytest.fixture(scope="module")
def support() -> Any:
    rng = np.random.default_rng(6)
    return inputs.support(rng, 300_000, 40_000)


def test_the_same_bytes_and_indices(many: int, support: Any) -> None:
    d = 300_000
    dense = np.zeros(d, np.float32)
    dense[support] = -0.0
    for codec in (wc.Rice(), wc.Bitmap()):
        section = codec.encode(read_only(support), d, 0)
        found = codec.decode(read_only(section), d, support.size, UNLIMITED)
        assert np.array_equal(found, support)
        if isinstance(codec, wc.Rice):
            assert rice.planned_bytes(read_only(support)) == section.size
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(threads, "thread_count", lambda: 1)
                assert np.array_equal(codec.encode(read_only(support), d, 0), section)
    for dtype in (np.int32, np.int64):
        assert np.array_equal(bits.nonzero(bits_of(dense)).indices(np.dtype(dtype)), support)


def test_the_first_error_is_reported(many: int, support: Any) -> None:
    """Span 2 runs past the chunk, span 7 has a one bit too many: whoever finds what first."""
    section = wc.Rice().encode(read_only(support), 300_000, 0)
    section[4 * 1 : 4 * 2].view("<u4")[:] = 2**32 - 1
    last = section[-4:].view("<u4")
    last |= last - 1
    with pytest.raises(wc.Invalid, match="span 2 ") as caught:
        wc.Rice.decode(read_only(section), 300_000, support.size, UNLIMITED)
    assert caught.value.code == "index-range"


def test_several_callers(monkeypatch: pytest.MonkeyPatch, support: Any) -> None:
    monkeypatch.setattr(threads, "thread_count", lambda: 3)
    monkeypatch.setattr(rice, "_LEAST_READ", 1)
    section = read_only(wc.Rice().encode(read_only(support), 300_000, 0))

    def right(_: int) -> bool:
        return np.array_equal(wc.Rice.decode(section, 300_000, support.size, UNLIMITED), support)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(right, range(100)))


def run(code: str, **env: str) -> str:
    env = {**os.environ, "PYTHONPATH": str(ROOT), **env}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=env,
        check=True,
        timeout=60,
        capture_output=True,
        text=True,
    )
    return done.stdout


COUNTED = """
import numba
from numba.np.ufunc import parallel
from wirecodec.kernels.cpu.threads import thread_count
assert thread_count() == 3
assert not parallel._is_initialized
numba.set_num_threads(2)
assert thread_count() == 2
"""


def test_numba_says_how_many() -> None:
    run(COUNTED, NUMBA_NUM_THREADS="3")


FORKED = """
import atexit, os, threading
from wirecodec.kernels.cpu import threads
threads.thread_count = lambda: 2
def work():
    assert threads.in_ranges(lambda start, stop: stop - start, 10, 1) == [1] * 10
work()
child = os.fork()
work()
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
late = lambda: print(sum(threads.in_ranges(lambda start, stop: stop - start, 10, 1)))
atexit.register(late)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_after_a_fork_and_at_the_end() -> None:
    """A child makes threads of its own; an interpreter that shuts down has none to give."""
    assert run(FORKED) == "10\n"
