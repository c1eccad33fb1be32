"""How near to k do SIDCo's thresholds come, and what do they cost beside one read of the array?

For each distribution and density, on a synthetic gradient and on the real ones of tests/data: k̂/k, the fits,
the reads that were counted, and the time as a ratio to one read, a plain sum of magnitudes compiled by Numba,
in the same run.

    python -m benchmarks.sidco [--elements N]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numba
import numpy as np
from rich.progress import track

import wirecodec as wc
from benchmarks.measure import keep, markdown, median_time
from wirecodec.arrays import read_only
from wirecodec.scheme import call_string

DATA = Path(__file__).parents[1] / "tests" / "data"
DENSITIES = (0.1, 0.01, 0.001)
SIDS = ("exponential", "gamma-gp", "gp")
HEADER = ["gradient and selector", "k̂/k", "fits", "reads counted", "time in reads", "exact"]
CAPTION = """One thread. `read` is a sum of magnitudes, float32 in blocks of 4096, of the same array: {reads}.
Reads counted are elements looked at over elements there, the last sweep that gathers the indices included;
time has the writing in it, too. Faithful is the paper's mode at three stages.

"""


@numba.njit(nogil=True, fastmath=True)  # type: ignore[untyped-decorator]
def _block(x: Any) -> Any:
    total = np.float32(0)
    for i in range(x.size):
        total += abs(x[i])
    return total


@numba.njit(nogil=True)  # type: ignore[untyped-decorator]
def one_read(x: Any) -> float:
    """What a read is measured by."""
    total = 0.0
    for start in range(0, x.size, 4096):
        total += _block(x[start : start + 4096])
    return total


def row(name: str, x: Any, selector: wc.SIDCo, read: float) -> list[str]:
    """One selector on one gradient."""
    search = selector.search(x)
    kept = search.selection.indices
    assert kept is not None
    time = median_time(lambda: selector.select(x))
    return [
        f"{name}: `{call_string(selector)}`",
        f"{kept.size / int(selector.ratio * x.size):.3f}",
        str(search.stages),
        f"{search.reads:.2f}",
        f"{time / read:.2f}",
        "yes" if search.exact else "",
    ]


def main() -> None:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--elements", type=int, default=26_000_000, help="of the synthetic gradient")
    elements = parser.parse_args().elements
    numba.set_num_threads(1)
    gradients = {f"Laplace, {elements:,}": np.random.default_rng(0).laplace(size=elements).astype(np.float32)}
    gradients |= {path.stem: np.load(path) for path in sorted(DATA.glob("*.npy"))}
    selectors = [wc.SIDCo(density, sid) for sid in SIDS for density in DENSITIES]
    selectors += [wc.SIDCo(density, mode="faithful", stages=3) for density in DENSITIES]
    rows, reads = [], []
    for name, x in gradients.items():
        read = median_time(lambda x=x: one_read(read_only(x)))  # type: ignore[misc]
        reads.append(f"{name} {x.nbytes / read / 1e9:.1f} GB/s")
        rows += [row(name, x, selector, read) for selector in track(selectors, name)]
    table = CAPTION.format(reads="; ".join(reads)) + markdown(HEADER, rows)
    print(table)
    print(keep("sidco", "SIDCo: how near to k, in how many reads", table))


if __name__ == "__main__":
    main()
