"""What does a selector cost in reads of the array, and how near does it come to the share that was asked for?

Reads on a synthetic gradient of 26 million elements, as multiples of the time that one sum of magnitudes,
vectorised, takes over the same array just before or after; shares on that one and on the real gradients of
tests/data. The baselines' misses are theirs, as their papers' critics found them.

    python -m benchmarks.selectors [--elements N]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numba
import numpy as np
from rich.progress import track

import wirecodec as wc
from benchmarks.measure import copy_time, keep, markdown

DATA = Path(__file__).parents[1] / "tests" / "data"
RATIOS = (0.1, 0.01, 0.001)


def _magnitudes(x: Any) -> Any:
    """Their sum, in whatever order is fastest."""
    total = np.float32(0)
    for i in range(x.size):
        total += abs(x[i])
    return total


one_read: Any = numba.njit(fastmath=True)(_magnitudes)


def selectors(ratio: float) -> list[Any]:
    """Those that keep a share."""
    return [
        wc.TopK(ratio),
        wc.RandomK(ratio),
        wc.DGC(ratio),
        wc.RedSync(ratio),
        wc.GaussianK(ratio),
        wc.ChunkTopK(ratio, round(1 / ratio)),
        wc.ChunkTopK(ratio, round(32 / ratio)),
    ]


def share(selector: Any, x: Any, gradient: Any = None) -> float:
    """What it keeps."""
    indices = selector.select(x, gradient=gradient, seed=1).indices
    return float(1.0 if indices is None else indices.size / x.size)


def fastest(call: Any, budget: float) -> float:
    """Least seconds of a call: what disturbs it on a shared machine only adds."""
    times: list[float] = []
    stop = time.perf_counter() + budget
    while len(times) < 7 or time.perf_counter() < stop:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def reads(selector: Any, x: Any, gradient: Any = None) -> str:
    """Its time in reads; both are the fastest of several, measured in turn."""
    unit = fastest(lambda: one_read(x), 0.3)
    taken = fastest(lambda: selector.select(x, gradient=gradient, seed=1), 0.6)
    return f"{taken / min(unit, fastest(lambda: one_read(x), 0.3)):.1f}"


def main() -> None:
    """Measure, print and keep the table."""
    parser = argparse.ArgumentParser(description="reads and shares of the selectors")
    parser.add_argument("--elements", type=int, default=26_000_000)
    n = parser.parse_args().elements
    rng = np.random.default_rng(0)
    x, step = rng.laplace(size=n).astype(np.float32), (0.1 * rng.laplace(size=n)).astype(np.float32)
    real = {path.stem: np.load(path) for path in sorted(DATA.glob("*.npy"))}
    one_read(x[:10])
    unit = fastest(lambda: one_read(x), 0.5)
    rows = []
    for ratio in track(RATIOS, "measuring"):
        for one in selectors(ratio):
            kept = [share(one, y) / ratio for y in (x, *real.values())]
            rows.append([f"`{wc.scheme.call_string(one)}`", reads(one, x), *(f"{k:.2f}" for k in kept)])
    for ratio in RATIOS:
        threshold = wc.Threshold(float(np.quantile(np.abs(x[:1_000_000]), 1 - ratio)))
        rows.append([f"`threshold`, {share(threshold, x):.1%} kept", reads(threshold, x), *[""] * 4])
    for bin in (50, 500):
        one = wc.AdaComp(bin)
        rows.append([f"`adacomp(bin={bin})`, with a gradient", reads(one, x, step), *[""] * 4])
    table = markdown(["selector", "reads", "Laplace", *real], rows)
    rate, copy = f"{1e3 * unit:.1f} ms ({x.nbytes / unit / 1e9:.0f} GB/s)", copy_time(x) / unit
    text = f"""{n:,} float32 Laplace elements, one thread. A read takes {rate}, `np.copyto` {copy:.1f} reads;
times are the fastest of seven or more. The other columns are how many elements are kept, as a multiple of
the share that was asked for. `adacomp` reads two arrays.

"""
    print(table)
    print(keep("selectors", "Selectors: reads and shares", text + table))


if __name__ == "__main__":
    main()
