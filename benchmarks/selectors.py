"""What does a selector cost in reads of the array, and how near does it come to the share that was asked for?

Times on a synthetic gradient of 26 million elements, in reads: the time of one sum of magnitudes, vectorised,
over the same array in the same run. Shares on that one and on the real gradients of tests/data. That the
baselines miss is theirs, as their papers' critics found it.

    python -m benchmarks.selectors [--elements N]
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path
from typing import Any

import numba
import numpy as np
from rich.progress import track

import wirecodec as wc
from benchmarks.measure import keep, markdown
from wirecodec.scheme import call_string

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
        wc.SIDCo(ratio),
        wc.RandomK(ratio),
        wc.DGC(ratio),
        wc.RedSync(ratio),
        wc.GaussianK(ratio),
        wc.ChunkTopK(ratio, round(1 / ratio)),
        wc.ChunkTopK(ratio, round(32 / ratio)),
    ]


def share(selector: Any, x: Any) -> float:
    """What it keeps."""
    indices = selector.select(x, seed=1).indices
    return float(1.0 if indices is None else indices.size / x.size)


def seconds(call: Any) -> float:
    """One call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def times(calls: list[Any], rounds: int) -> list[float]:
    """The least seconds of each call, all of them in turn: what disturbs a shared machine only adds."""
    for call in calls:
        call()  # compiled now, if not before
    best = [math.inf] * len(calls)
    for _ in track(range(rounds), "measuring"):
        best = [min(least, seconds(call)) for least, call in zip(best, calls, strict=True)]
    return best


def main() -> None:
    """Measure, print and keep the table."""
    parser = argparse.ArgumentParser(description="reads and shares of the selectors")
    parser.add_argument("--elements", type=int, default=26_000_000)
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    numba.set_num_threads(1)
    n, rng = given.elements, np.random.default_rng(0)
    x, step = rng.laplace(size=n).astype(np.float32), (0.1 * rng.laplace(size=n)).astype(np.float32)
    real = {path.stem: np.load(path) for path in sorted(DATA.glob("*.npy"))}
    cases: list[tuple[Any, float | None]] = [(one, ratio) for ratio in RATIOS for one in selectors(ratio)]
    cases += [(wc.Threshold(round(-math.log(ratio), 2)), ratio) for ratio in RATIOS]
    cases += [(wc.AdaComp(bin), None) for bin in (50, 500)]
    calls = [lambda one=one: one.select(x, gradient=step, seed=1) for one, _ in cases]
    copy = np.empty_like(x)
    plain = [lambda: one_read(x), lambda: np.copyto(copy, x)]
    *taken, read, copied = times([*calls, *plain], given.rounds)
    rows = []
    for (one, ratio), spent in zip(cases, taken, strict=True):
        kept = [""] * (1 + len(real))
        if ratio is not None:
            some = (x,) if isinstance(one, wc.Threshold) else (x, *real.values())
            kept[: len(some)] = [f"{share(one, y) / ratio:.2f}" for y in some]
        rows.append([f"`{call_string(one)}`", f"{spent / read:.1f}", *kept])
    table = markdown(["selector", "reads", "Laplace", *real], rows)
    rate = f"{1e3 * read:.1f} ms ({x.nbytes / read / 1e9:.0f} GB/s)"
    text = f"""{n:,} float32 Laplace elements, one thread. A read takes {rate},
`np.copyto` {copied / read:.1f} reads; times are the least of {given.rounds} rounds. The other columns are how
many elements are kept, as a multiple of the share that was asked for. `adacomp` reads two arrays, the
gradient being one.

"""
    print(table)
    print(keep("selectors", "Selectors: reads and shares", text + table))


if __name__ == "__main__":
    main()
