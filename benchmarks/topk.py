"""How near to reading the array once does exact top-k come?

Times in *reads*: one sum of magnitudes over as many bytes of float32, compiled with fastmath, that takes
turns with what is measured. For each size and density: ``TopK.select``, the top k of gradient + residual in
one pass, and ``np.argpartition``. Then inputs that are meant to be slow, and a whole step.

    python -m benchmarks.topk [--elements N] [--threads T]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

import wirecodec as wc
from benchmarks.measure import keep, markdown
from wirecodec.arrays import aligned

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
        markdown([f"{n:,} float32", "encode", "decode_add", "prepare"], whole_step(rng, n)),
    ]
    text = f"Threads: {asked.threads}.\n\n" + "\n".join(tables)
    print(text)
    print(keep(f"topk_{asked.threads}", "Exact top-k in reads of the array", text))


if __name__ == "__main__":
    main()
