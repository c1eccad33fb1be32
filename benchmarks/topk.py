"""How near to reading the array once does exact top-k come?

Times in *reads*: one sum of magnitudes over as many bytes of float32, compiled with fastmath, that takes
turns with what is measured. For each size and density: ``TopK.select``, the top k of gradient + residual in
one pass, and ``np.argpartition``. Then inputs that are meant to be slow, some that mislead both samples (the
clock that seeds the second one is stopped for it), and a whole step.

    python -m benchmarks.topk [--elements N] [--threads T]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numba
import numpy as np

import wirecodec as wc
from benchmarks.measure import keep, markdown
from wirecodec.arrays import aligned, bits_of
from wirecodec.kernels.cpu import radix, sample
from wirecodec.select import exact

RATIOS = (0.1, 0.01, 0.001)


@numba.njit(fastmath=True, nogil=True)  # type: ignore[untyped-decorator]
def absolute_sum(x: Any) -> Any:
    """One read."""
    total = x.dtype.type(0)
    for i in range(x.size):
        total += abs(x[i])
    return total


def reads(x: Any, *calls: Callable[[], Any], budget: float = 2.0) -> list[str]:
    """The time of each call in reads of ``x``, which take turns with them; medians."""
    y = x if x.dtype == np.float32 else np.ones(x.nbytes // 4, np.float32)
    every = (lambda: absolute_sum(y), *calls)
    times: list[list[float]] = [[] for _ in every]
    for call in every:
        call()
    stop = time.perf_counter() + budget
    while time.perf_counter() < stop or len(times[0]) < 5:
        for call, taken in zip(every, times, strict=True):
            start = time.perf_counter()
            call()
            taken.append(time.perf_counter() - start)
    unit, *others = map(statistics.median, times)
    return [f"{other / unit:.2f}" for other in others]


def argpartition(x: Any, k: int) -> str:
    """NumPy's time for the same, in reads."""
    (found,) = reads(x, lambda: np.argpartition(np.abs(x), x.size - k), budget=0.5)
    return found


def sized(rng: np.random.Generator, n: int, dtype: Any) -> list[list[str]]:
    """One size and type: select, and select with feedback."""
    x = rng.laplace(size=n).astype(dtype)
    selects = [lambda r=r: wc.TopK(r).select(x) for r in RATIOS]
    rows = [[f"{n:,} {x.dtype}", *reads(x, *selects)]]
    if x.itemsize >= 4:
        residual, rest = (0.3 * x[::-1]).astype(dtype), aligned(n, dtype)
        sums = [lambda r=r: wc.TopK(r).select_sum(x, residual, rest) for r in RATIOS]
        rows.append([f"{n:,} {x.dtype}, + residual", *reads(x, *sums)])
    if x.itemsize == 4:
        rows.append([f"{n:,} {x.dtype}, np.argpartition", *(argpartition(x, int(r * n)) for r in RATIOS)])
    return rows


def meant_to_be_slow(rng: np.random.Generator, n: int) -> list[list[str]]:
    """Ties, order, clusters."""
    x = rng.laplace(size=n).astype(np.float32)
    inputs = {
        "constant": np.full(n, 2, np.float32),
        "zeros": np.full(n, 0, np.float32),
        "integers": rng.integers(-5, 6, n).astype(np.float32),
        "one in a thousand": x * (rng.random(n) < 1e-3),
        "rows of 64": x * np.repeat(rng.random(n // 64 + 1) < 0.05, 64)[:n],
        "ascending": np.arange(n, dtype=np.float32),
        "descending": np.arange(n, dtype=np.float32)[::-1].copy(),
        "one cluster": (1 + 1e-3 * rng.random(n)).astype(np.float32),
        "three neighbours": 1 + rng.integers(0, 3, n).astype(np.float32) * np.float32(1.2e-7),
    }
    return [
        [name, *reads(y, *(lambda r=r, y=y: wc.TopK(r).select(y) for r in RATIOS))]
        for name, y in inputs.items()
    ]


@numba.njit  # type: ignore[untyped-decorator]
def looked_at(size: int, run: int, samples: int, seed: int) -> Any:
    """The positions of a sample."""
    found = np.empty(samples, np.int64)
    for i in range(samples):
        first = sample.run_of(i // run, samples // run, size // run, np.uint64(seed)) * run
        found[i] = first + i % run
    return found


def few_digits(rng: np.random.Generator, n: int) -> Any:
    """Numbers near one of which each digit has four values, one of them most often."""
    bits = np.full(n, 0x3F9 << 20, np.uint32)
    for shift in (20, 9, 0):
        bits += np.where(rng.random(n) < 0.8, 4, rng.integers(0, 3, n)).astype(np.uint32) << np.uint32(shift)
    return bits.view(np.float32)


def meant_to_mislead(rng: np.random.Generator, n: int) -> list[list[str]]:
    """Inputs of which both samples see something else; and counting digits alone, the last resort."""
    x = rng.laplace(size=n).astype(np.float32)
    two, near = rng.integers(1, 3, n), rng.integers(0, 3, n)
    inputs = {
        "large where nobody looks": (x, 1e-3),
        "small where nobody looks": (1e-3 * x, 1e3),
        "ones where nobody looks": (np.ones(n), 1e-3),
        "two values": (two, 0.1),
        "three neighbours": (1 + near.astype(np.float32) * np.float32(1.2e-7), 3.0),
        "cluster": (1 + 1e-3 * rng.random(n), 3.0),
        "ascending": (np.arange(n), 1e-3),
        "few digits": (few_digits(rng, n), 1e-3),
        "few digits, large where all look": (few_digits(rng, n), 1e3),
    }
    rows = []
    stopped = SimpleNamespace(perf_counter_ns=lambda: 7)
    for name, (given, factor) in inputs.items():
        row, alone = [name], []
        for ratio in RATIOS:
            k = int(ratio * n)
            y = given.astype(np.float32)
            for run, spread, seed in ((16, exact.CORRELATED, 0), (1, 1.0, 7)):
                where = looked_at(n, run, exact.planned(n, k, run, spread).samples, seed)
                y[where] = factor * x[where]
            with mock.patch.object(exact, "time", stopped):
                found = reads(y, partial(wc.TopK(k=k).select, y), budget=0.5)
            row += found
            alone += reads(y, partial(radix.count_threshold, bits_of(y), k), budget=0.5)
        rows += [row, [f"{name}, digits alone", *alone]]
    return rows


def whole_step(rng: np.random.Generator, n: int) -> list[list[str]]:
    """Encoding, decoding into a sum, and a Compressor's step."""
    x = rng.laplace(size=n).astype(np.float32)
    out, rows = np.zeros_like(x), []
    for scheme in [f"topk({r}) | rice | {v}" for r in RATIOS for v in ("raw", "raw(bfloat16)")]:
        blob, c = wc.encode(x, scheme), wc.Compressor(scheme)
        for _ in range(3):
            c.compress({"w": x})
        calls = (
            lambda s=scheme: wc.encode(x, s),
            lambda b=blob: wc.decode_add(b, out),
            lambda c=c: c.prepare({"w": x}).rollback(),
        )
        rows.append([f"`{scheme}`".replace("|", "·"), *reads(x, *calls)])
    return rows


def main() -> None:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--elements", type=int, default=26_000_000, help="of the largest array")
    parser.add_argument("--threads", type=int, default=1)
    asked = parser.parse_args()
    numba.set_num_threads(asked.threads)
    rng, n = np.random.default_rng(0), asked.elements
    sizes = [row for size in (n // 100, n // 10, n) for row in sized(rng, size, np.float32)]
    sizes += [row for dtype in (np.float16, np.float64) for row in sized(rng, n, dtype)]
    densities = [f"{ratio:g}" for ratio in RATIOS]
    tables = [
        markdown(["reads of the array", *densities], sizes),
        markdown([f"{n:,} float32", *densities], meant_to_be_slow(rng, n)),
        markdown([f"{n:,} float32, misled", *densities], meant_to_mislead(rng, n)),
        markdown([f"{n:,} float32", "encode", "decode_add", "prepare"], whole_step(rng, n)),
    ]
    text = f"Threads: {asked.threads}.\n\n" + "\n".join(tables)
    print(text)
    print(keep(f"topk_{asked.threads}", "Exact top-k in reads of the array", text))


if __name__ == "__main__":
    main()
