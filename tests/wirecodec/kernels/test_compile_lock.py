"""A warm cache needs no lock; with a cold one, the wait for the lock is bounded."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.child import run
from wirecodec.kernels.compiler import cache_files

fcntl = pytest.importorskip("fcntl")

USE = """
import numpy as np
from wirecodec.kernels.compiler import compile_lock
compile_lock.MAX_WAIT_SECONDS = {patience}
from wirecodec.kernels.cpu import support
x = np.ones(70, np.float32)
assert support.find_nonfinite(x.view(np.uint32), np.uint32(0x7F800000)) == -1
"""


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cache of a process that ran USE; no test may change it."""
    folder = tmp_path_factory.mktemp("used")
    run(USE.format(patience=60), NUMBA_CACHE_DIR=str(folder))
    return folder


@pytest.fixture
def lock(used: Path, tmp_path: Path) -> Path:
    """The lock of the kernel of USE, in a copy of that cache in ``tmp_path``."""
    shutil.copytree(used, tmp_path, dirs_exist_ok=True)
    (path,) = tmp_path.rglob("support.find_nonfinite.lock")
    return path


def test_a_held_lock_delays_only_what_is_not_cached(tmp_path: Path, lock: Path) -> None:
    cache = str(tmp_path)
    names = (lock.name, "extension.skip_rows.lock", "support.find_disorder.lock")
    holders = [os.open(lock.with_name(name), os.O_RDWR | os.O_CREAT) for name in names]
    try:
        for holder in holders:
            fcntl.flock(holder, fcntl.LOCK_EX)
        run(RAISE + USE.format(patience=60), NUMBA_CACHE_DIR=cache)
        run(COLD, NUMBA_CACHE_DIR=cache)
    finally:
        for holder in holders:
            os.close(holder)


def test_kernels_are_locked_one_by_one(tmp_path: Path, lock: Path) -> None:
    """While a process compiles one kernel, others compile other kernels."""
    holder = os.open(lock, os.O_RDWR)
    try:
        fcntl.flock(holder, fcntl.LOCK_EX)
        run(RAISE + OTHER, NUMBA_CACHE_DIR=str(tmp_path))
    finally:
        os.close(holder)


def test_a_busy_kernel_raises_where_other_work_can_be_done(tmp_path: Path, lock: Path) -> None:
    holder = os.open(lock.with_name("support.find_disorder.lock"), os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(holder, fcntl.LOCK_EX)
        run(BUSY, NUMBA_CACHE_DIR=str(tmp_path))
    finally:
        os.close(holder)


BUSY = """
import numpy as np
from wirecodec.compilation.sharing import run_shared
from wirecodec.kernels.compiler import compile_lock
from wirecodec.kernels.compiler.compile_log import log
from wirecodec.kernels.cpu import support

compile_lock.MAX_WAIT_SECONDS = 0.3
done = []
def busy():
    support.find_disorder(np.arange(5, dtype=np.uint32))
    done.append("busy")
def free():
    done.append("free")
try:
    with compile_lock.busy_kernels_raise():
        busy()
except compile_lock.KernelBusy as error:
    assert not error.lock.wait()
else:
    raise AssertionError
compile_lock._waits_in_vain.clear()
run_shared([[busy], [free]])  # the busy kernel is compiled after the wait, without the lock
assert done == ["free", "busy"], done
run_shared([[], [busy], [free]], 5)
assert done[2:] == ["free", "busy"], done
"""

OTHER = """
import numpy as np
from wirecodec.kernels.cpu import support
support.find_disorder(np.arange(5, dtype=np.uint32))
"""

RAISE = """
import time
def refuse(_):
    raise AssertionError("it waited")
time.sleep = refuse
"""

COLD = """
import time
import numpy as np
from wirecodec.kernels.cpu import extension, support
from wirecodec.kernels.compiler import compile_lock
compile_lock.MAX_WAIT_SECONDS = 0.3
waits = []
time_sleep, time.sleep = time.sleep, lambda seconds: (waits.append(seconds), time_sleep(seconds))
extension.skip_rows(np.zeros(8, np.uint8), 4)
assert 3 < len(waits) < 40, waits
waits.clear()
support.find_disorder(np.arange(5, dtype=np.uint32))  # another kernel: it does not wait again
assert not waits
"""


def test_a_process_logs_once_that_it_compiles(tmp_path: Path) -> None:
    code = "import logging, sys; logging.basicConfig(level=logging.INFO, stream=sys.stdout)"
    code += USE.format(patience=60) + OTHER
    assert run(code, NUMBA_CACHE_DIR=str(tmp_path)).count("INFO:wirecodec:wirecodec compiles kernels") == 1
    assert not run(code, NUMBA_CACHE_DIR=str(tmp_path))


class Files(cache_files._ContentNamed):
    """Cache files whose stamp a test sets."""

    def __init__(self, folder: Path, stamp: int) -> None:
        super().__init__(str(folder), "kernel-1.py311", stamp)


def test_an_index_never_names_code_of_another_source(tmp_path: Path) -> None:
    """A reader without the lock may see a new index beside old data."""
    seen: list[Any] = []

    class Watched(Files):
        def _save_data(self, name: str, data: Any) -> None:
            seen.append(Files(tmp_path, 2).load("key"))
            super()._save_data(name, data)
            seen.append(Files(tmp_path, 2).load("key"))

        def _save_index(self, overloads: Any) -> None:
            super()._save_index(overloads)
            seen.append(Files(tmp_path, 2).load("key"))

    Files(tmp_path, 1).save("key", "old")
    Watched(tmp_path, 2).save("key", "new")
    assert seen == [None, None, "new"]
    assert Files(tmp_path, 1).load("key") is None
    assert len(list(tmp_path.glob("*.nbc"))) == 1
