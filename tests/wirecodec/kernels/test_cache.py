"""The kernels' disk cache: one compilation per type, many processes at once, and no folder at all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from wirecodec.limits import UNLIMITED

ROOT = Path(__file__).parents[3]


ONE_FORM = """
import numpy as np, wirecodec as wc
from wirecodec.kernels.cpu import support
from wirecodec.kernels.cpu.index import bitmap, rice, rice_batch, rice_read, rice_write
from wirecodec.kernels.cpu.select import sample, topk
from wirecodec.kernels.cpu.value import qsgd, qsgd_batch
c = wc.Compressor("topk(0.1) | rice | qsgd")
for step in range(3):
    g = np.random.default_rng(step).normal(size=(50, 40)).astype(np.float32)
    for source in (g, g[::-1], np.asfortranarray(g)):
        wc.decode(bytes(c.compress({"w": source})))
rooms = (bitmap, qsgd, qsgd_batch, rice, rice_batch, rice_read, rice_write, sample, support, topk)
named = [k for room in rooms for k in vars(room).values() if hasattr(k, "signatures")]
used = [k for k in named if getattr(k._cache, "cache_path", None)]  # kernels, not the words they are made of
many = [(k.__name__, k.signatures) for k in used if len(k.signatures) > 1]
assert not many, many
assert sum(len(k.signatures) for k in used) >= 6
"""


def test_a_kernel_is_compiled_once_for_a_type(tmp_path: Path) -> None:
    """Read-only or not, flat or not, first step or third: inputs reach the kernels in one form."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-W", "error", "-c", ONE_FORM], env=env, check=True, timeout=240)


TINY = """
import sys
from wirecodec.kernels.compiler.jit import kernel

@kernel
def double(x):
    return 2 * x

@kernel
def half(x):
    return x / 2

kernels = [double, half][:: 1 if sys.argv[1] < "2" else -1]
x = {"float32": 3, "float64": 3.5}[sys.argv[2]]
assert {each(x) for each in kernels} == {2 * x, x / 2}
"""


RACE = """
import sys, numpy as np, wirecodec as wc
x = np.random.default_rng(int(sys.argv[1])).normal(size=5000).astype(sys.argv[2])
x[::3] = 0
t = wc.decode(wc.encode(x, sys.argv[3]))
k = np.flatnonzero(x)
assert np.array_equal(t.indices, k)
assert np.abs(t.values - x[k]).max() <= np.abs(x).max() / 7
"""


FORKED = """
import fcntl, os, time
from wirecodec.kernels.compiler.compile_lock import CompileLock
path = os.environ["LOCK"]
lock = CompileLock(path)
with lock.hold(lambda: False):
    child = os.fork()
    if child == 0:
        with lock.hold(lambda: True):  # the parent's lock is not the child's
            time.sleep(60)
        os._exit(0)
try:
    file = os.open(path, os.O_RDWR)
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
finally:
    os.kill(child, 9)
"""


def test_a_forked_child_does_not_hold_the_lock(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "LOCK": str(tmp_path / "kernel.lock")}
    subprocess.run([sys.executable, "-c", FORKED], env=env, check=True, timeout=60)


NO_CACHE = """
import warnings
import numpy as np
from numba.core.dispatcher import Dispatcher
def refuse(self):
    raise RuntimeError("cannot cache function: no locator available")
Dispatcher.enable_caching = refuse
from wirecodec.kernels.compiler.jit import cache_folder
from wirecodec.kernels.cpu import support
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    for dtype in (np.uint32, np.int32):
        assert support.find_disorder(np.array([1, 2, 2], dtype)) == 2
assert [str(each.message).partition(",")[0] for each in seen] == [
    "wirecodec compiles its kernels in every process"
], seen
assert "Set the environment variable NUMBA_CACHE_DIR to a writable folder" in str(seen[0].message)
assert cache_folder() is None
"""


def test_without_a_folder_to_cache_in() -> None:
    """One warning per process, at the first compilation."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-W", "error", "-c", NO_CACHE], env=env, check=True, timeout=120)


FULL = """
import pathlib, warnings
import numpy as np
from wirecodec.kernels.cpu import support
from wirecodec.kernels.compiler import cache_files
def refuse(self, name, data):
    raise OSError(28, "No space left on device")
cache_files._ContentNamed._save_data = refuse
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    for dtype in (np.uint32, np.int32):
        assert support.find_disorder(np.array([1, 2, 2], dtype)) == 2
assert len(seen) == 1 and "No space left" in str(seen[0].message), seen
"""


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-W", "error", "-c", FULL], env=env, check=True, timeout=120)


@pytest.mark.parametrize(
    "scheme",
    [
        "",
        pytest.param("nonzero | bitmap | raw", marks=pytest.mark.sweep),
        pytest.param("nonzero | rice | qsgd", marks=pytest.mark.nightly),
    ],
)
def test_many_processes_on_a_cold_cache(tmp_path: Path, scheme: str) -> None:
    """Ranks start together and compile at once: all must get the right code, and leave a cache that serves
    the next one. Without a scheme, the kernels are tiny."""
    path = tmp_path / "race.py"
    path.write_text(RACE if scheme else TINY)
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT), "NUMBA_NUM_THREADS": "1"}
    for count in (3, 2):
        ranks = [
            subprocess.Popen(
                [sys.executable, "-W", "error", path, str(i), ("float32", "float64")[i % 2], scheme],
                env=env,
            )
            for i in range(count)
        ]
        assert [rank.wait(timeout=240) for rank in ranks] == [0] * count


def test_decoding_in_threads(rng: np.random.Generator) -> None:
    from concurrent.futures import ThreadPoolExecutor

    tensors = [rng.normal(size=20_000).astype(np.float32) for _ in range(8)]

    def there_and_back(x: Any) -> bool:
        decoded = wc.decode(wc.encode(x, "topk(0.1) | rice | raw"), limits=UNLIMITED)
        return np.array_equal(decoded.values, x[decoded.indices])

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(there_and_back, tensors))
