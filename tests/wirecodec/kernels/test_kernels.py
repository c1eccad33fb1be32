"""Kernels against brute force, and their disk cache under many processes at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wirecodec as wc
from formats.reference.writing.index.rice import write_rice
from tests import inputs, oracles
from wirecodec.arrays import bits_of
from wirecodec.index.rice import planned_bytes
from wirecodec.kernels.cpu.coding import narrow
from wirecodec.kernels.cpu.index import rice
from wirecodec.limits import UNLIMITED

ROOT = Path(__file__).parents[3]


def planned(gaps: list[int]) -> int:
    indices = np.cumsum(np.array(gaps, np.int64) + 1) - 1
    parameters, words = np.empty(1, np.uint8), np.empty(1, np.int64)
    rice.plan(indices.astype(np.uint32), parameters, words)
    return int(parameters[0])


@settings(max_examples=400, deadline=None)
@given(
    st.one_of(
        st.lists(st.integers(0, 3), min_size=1, max_size=256),
        st.lists(st.integers(0, 60_000), min_size=1, max_size=256),
        st.lists(st.integers(0, 15).map(lambda n: 2**n), min_size=1, max_size=256),
        st.lists(st.sampled_from([0, 64, 192, 50_000]), min_size=1, max_size=256),
    )
)
def test_rice_parameter_is_the_best(gaps: list[int]) -> None:
    assert planned(gaps) == oracles.best_rice_parameter(gaps)


@pytest.mark.parametrize(("density", "ratio"), [(0.1, 1.025), (0.01, 1.010), (0.001, 1.015)])
def test_rice_is_near_the_entropy(density: float, ratio: float) -> None:
    rng = np.random.default_rng(8)
    for d in (2**18, 2_600_000, 2**24):
        r = int(d * density)
        if r >= 2600:
            assert 8 * planned_bytes(inputs.support(rng, d, r)) <= ratio * oracles.entropy_bits(d, r), (d, r)


def test_small_supports_stay_small() -> None:
    rng = np.random.default_rng(9)
    for r in (1, 2, 10, 100, 500):
        for d in (1000, 100_000, 2**24):
            found = planned_bytes(inputs.support(rng, d, r))
            assert found <= 1.1 * oracles.entropy_bits(d, r) / 8 + 16, (d, r)


def test_spans_decode_alone() -> None:
    indices = inputs.support(np.random.default_rng(3), 1_000_000, 10_000)
    section = wc.Rice().encode(indices, 1_000_000, 0)
    for span in range(3):
        found = wc.Rice.decode_span(section, 1_000_000, 10_000, span)
        assert np.array_equal(found, indices[4096 * span : 4096 * (span + 1)])


def rice_supports() -> list[Any]:
    """Gaps that fit eight to a word, that do not, and that leave a word empty between two of them."""
    rng = np.random.default_rng(10)
    gaps = [rng.geometric(p, 5000) for p in (0.9, 0.3, 0.01, 0.0005)]
    gaps += [np.where(rng.random(4500) < p, q, 1) for p, q in ((0.5, 3), (0.1, 9), (0.02, 60), (0.004, 4000))]
    gaps += [np.where(np.arange(600) == at, 900_000, 1) for at in (0, 7, 255, 256, 599)]
    return [np.cumsum(g) - 1 for g in gaps]


@pytest.mark.parametrize("indices", rice_supports(), ids=range(13))
def test_rice_writes_what_the_reference_writes(indices: Any) -> None:
    found = wc.Rice().encode(indices.astype(np.uint32), 2**24, 0)
    assert found.tobytes() == write_rice(indices.tolist())


@pytest.mark.parametrize("b", range(25))
def test_rice_reads_any_parameter(b: int) -> None:
    indices = inputs.support(np.random.default_rng(b), 2**24, 600)
    indices[300:] -= indices[300:] - (indices[299] + np.arange(1, 301, dtype=np.uint32))
    section = np.frombuffer(write_rice(indices.tolist(), [b, 24 - b]), np.uint8)
    assert np.array_equal(wc.Rice.decode(section, 2**24, 600, UNLIMITED), indices)


def test_nonzero_looks_at_bits(dtype: np.dtype[Any]) -> None:
    rng = np.random.default_rng(11)
    for size in (0, 1, 63, 64, 65, 4097):
        for density in (0, 0.02, 0.5, 1):
            x = np.where(rng.random(size) < density, rng.choice([-0.0, np.nan, 1e-7, 3.0], size), 0).astype(
                dtype
            )
            expected = np.flatnonzero(bits_of(x))
            assert np.array_equal(wc.SparseTensor.from_dense(x).indices, expected)


def test_auto_index_is_not_larger() -> None:
    rng = np.random.default_rng(4)
    for d in (10, 1000, 2000, 100_000):
        for density in (0.9, 0.5, 0.3, 0.2, 0.1, 0.065, 0.06, 0.03, 0.001):
            r = max(1, int(d * density))
            indices = inputs.support(rng, d, r)
            sizes = {c: c.encode(indices, d, 0).size for c in (wc.Bitmap(), wc.Rice())}
            assert wc.AutoIndex().choose(indices, d, 0)[1].size <= min(sizes.values()), (d, r)


def test_narrowing_is_the_nearest_value(rng: np.random.Generator) -> None:
    bits = rng.integers(0, 2**32, 300_000, dtype=np.uint32)
    wide = bits.view(np.float32)
    finite = np.isfinite(wide)
    found = np.empty(bits.size, np.uint16)
    narrow.bfloat16_from_f32(bits, found)
    assert np.array_equal(found[finite], wide[finite].astype(ml_dtypes.bfloat16).view(np.uint16))
    narrow.half_from_f32(bits, found)
    with np.errstate(over="ignore"):
        assert np.array_equal(found[finite], wide[finite].astype(np.float16).view(np.uint16))
    double = rng.integers(0, 2**64, 300_000, dtype=np.uint64).view(np.float64)
    double = np.concatenate([double[np.isfinite(double)], wide[finite].astype(np.float64) * (1 + 1e-12)])
    found = np.empty(double.size, np.uint16)
    narrow.half_from_f64(double.view(np.uint64), found)
    with np.errstate(over="ignore"):
        assert np.array_equal(found, double.astype(np.float16).view(np.uint16))


def test_narrowing_rounds_ties_to_even_once(rng: np.random.Generator) -> None:
    """Halfway between two bfloat16 values, and a hair off it: float64 must not be rounded twice."""
    low = rng.integers(0, 0x7F7F, 20_000).astype(np.uint32)
    middle = (
        (low << 16).view(np.float32).astype(float) + ((low + 1) << 16).view(np.float32).astype(float)
    ) / 2
    for nudge, expected in ((0, low + (low & 1)), (1, low + 1), (-1, low)):
        x = middle if nudge == 0 else np.nextafter(middle, nudge * np.inf)
        found = np.empty(x.size, np.uint16)
        narrow.bfloat16_from_f64(x.view(np.uint64), found)
        assert np.array_equal(found, expected)


@pytest.mark.parametrize("stored", ["float16", "bfloat16"])
def test_narrowing_refuses_what_would_become_infinite(stored: str) -> None:
    largest = {"float16": 65504.0, "bfloat16": 3.3895313892515355e38}[stored]
    for dtype in (np.float32, np.float64):
        x = np.array([1, np.inf, -largest, largest], dtype)
        blob = wc.encode(x, f"all | raw-index | raw({stored})")
        assert np.array_equal(wc.decode(blob).values, x)
        x = np.array([1, 2, 0, largest * 1.003], dtype)
        with pytest.raises(wc.EncodeError, match=f"element 3: .* too large for {stored}") as caught:
            wc.encode(x, f"nonzero | rice | raw({stored})")
        assert caught.value.position == 3


def test_qsgd_refuses_what_float32_cannot_hold() -> None:
    with pytest.raises(wc.EncodeError, match="element 5: 1e"):
        wc.encode(np.array([1, 0, 0, 0, 0, 1e39]), "nonzero | rice | qsgd")


ONE_FORM = """
import numpy as np, wirecodec as wc
from wirecodec.kernels.cpu import bitmap, qsgd, rice, rice_read, rice_write, sample, support, topk
c = wc.Compressor("topk(0.1) | rice | qsgd")
for step in range(3):
    g = np.random.default_rng(step).normal(size=(50, 40)).astype(np.float32)
    for source in (g, g[::-1], np.asfortranarray(g)):
        wc.decode(bytes(c.compress({"w": source})))
rooms = (bitmap, qsgd, rice, rice_read, rice_write, sample, support, topk)
named = [k for room in rooms for k in vars(room).values() if hasattr(k, "signatures")]
used = [k for k in named if getattr(k._cache, "cache_path", None)]  # kernels, not the words they are made of
many = [(k.__name__, k.signatures) for k in used if len(k.signatures) > 1]
assert not many, many
assert sum(len(k.signatures) for k in used) >= 10
"""


def test_a_kernel_is_compiled_once_for_a_type(tmp_path: Path) -> None:
    """Read-only or not, flat or not, first step or third: inputs reach the kernels in one form."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-W", "error", "-c", ONE_FORM], env=env, check=True, timeout=240)


RACE = """
import sys, numpy as np, wirecodec as wc
x = np.random.default_rng(int(sys.argv[1])).normal(size=5000).astype(sys.argv[2])
x[::3] = 0
t = wc.decode(wc.encode(x, "nonzero | rice | qsgd"))
k = np.flatnonzero(x)
assert np.array_equal(t.indices, k)
assert np.abs(t.values - x[k]).max() <= np.abs(x).max() / 7
"""


FORKED = """
import fcntl, os, time
from wirecodec.kernels.cpu.jit import _compiling
folder = os.environ["FOLDER"]
with _compiling(folder):
    child = os.fork()
    if child == 0:
        with _compiling(None):  # the parent's lock is not the child's
            time.sleep(60)
        os._exit(0)
try:
    file = os.open(f"{folder}/wirecodec.lock", os.O_RDWR)
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
finally:
    os.kill(child, 9)
"""


def test_a_forked_child_does_not_hold_the_lock(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "FOLDER": str(tmp_path)}
    subprocess.run([sys.executable, "-c", FORKED], env=env, check=True, timeout=60)


NO_CACHE = """
import numpy as np
from numba.core.dispatcher import Dispatcher
def refuse(self):
    raise RuntimeError("cannot cache function: no locator available")
Dispatcher.enable_caching = refuse
import wirecodec as wc
assert wc.decode(wc.encode(np.arange(9, dtype=np.float32), "topk(0.3) | bitmap | raw")).nnz == 2
"""


def test_without_a_folder_to_cache_in() -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-W", "error", "-c", NO_CACHE], env=env, check=True, timeout=120)


def test_many_processes_on_a_cold_cache(tmp_path: Path) -> None:
    """Ranks start together and compile at once: all must get the right code, and leave a cache that serves
    the next one."""
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT), "NUMBA_NUM_THREADS": "1"}
    for _ in range(2):
        ranks = [
            subprocess.Popen(
                [sys.executable, "-W", "error", "-c", RACE, str(i), ("float32", "float64")[i % 2]], env=env
            )
            for i in range(4)
        ]
        assert [rank.wait(timeout=240) for rank in ranks] == [0] * 4


def test_decoding_in_threads(rng: np.random.Generator) -> None:
    from concurrent.futures import ThreadPoolExecutor

    tensors = [rng.normal(size=20_000).astype(np.float32) for _ in range(8)]

    def there_and_back(x: Any) -> bool:
        decoded = wc.decode(wc.encode(x, "topk(0.1) | rice | raw"), limits=UNLIMITED)
        return np.array_equal(decoded.values, x[decoded.indices])

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(there_and_back, tensors))


def test_conversions_do_not_depend_on_the_place(rng: np.random.Generator) -> None:
    """Every pattern of 16 bits, and what decides, in a vector and in the rest after it."""
    halves = np.arange(2**16, dtype=np.uint16)
    for widen, kind in (
        (narrow.single_from_half, np.float16),
        (narrow.single_from_bfloat16, ml_dtypes.bfloat16),
    ):
        wide = np.empty(halves.size, np.uint32)
        widen(halves, wide)
        numbers = halves.view(kind).astype(np.float32)
        finite = np.isfinite(numbers)
        assert np.array_equal(wide[finite], numbers.view(np.uint32)[finite])
        assert np.array_equal(np.isnan(wide.view(np.float32)), np.isnan(halves.view(kind).astype(np.float32)))
        edges = [
            0x477FEFFF,
            0x477FF000,
            0x387FFFFF,
            0x38800000,
            0x7F7F7FFF,
            0x7F7F8000,
            0x7F800000,
            0x7F800001,
        ]
        bits = np.concatenate([wide, wide + 1, wide - 1, np.array(edges, np.uint32)])
        for convert in (narrow.half_from_f32, narrow.bfloat16_from_f32):
            found, alone = np.empty(bits.size, np.uint16), np.empty(bits.size, np.uint16)
            convert(bits, found)
            for size in (1, 31, 33):
                for start in range(0, bits.size - size, 9973):
                    convert(bits[start : start + size], alone[start : start + size])
                    assert np.array_equal(alone[start : start + size], found[start : start + size])
    for convert, most in ((narrow.half_from_f32, 0x477FEFFF), (narrow.bfloat16_from_f32, 0x7F7F7FFF)):
        for place in (0, 31, 32, 39):
            bits, out = np.full(40, 0x7F800000, np.uint32), np.empty(40, np.uint16)
            bits[::2], bits[1::4] = 0xFFC00000, 0x80000000 | most
            bits[place] = most
            assert not convert(bits, out)
            bits[place] = most + 1
            assert convert(bits, out)
