"""What does it cost to encode a gradient, and to decode it, beside copying it?

For each scheme, on a synthetic gradient and on the real ones of tests/data: bytes, bits an element that was
kept, and the time of ``encode``, ``decode`` and ``decode_add`` as a ratio to ``np.copyto`` of the dense
gradient in the same run. The floor of encode is about half a copy: one read.

    python -m benchmarks.whole_path [--elements N]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track

import wirecodec as wc
from benchmarks.common.timing import copy_time, keep, markdown, median_time

DATA = Path(__file__).parents[2] / "tests" / "data"
SCHEMES = [
    "topk(0.1) | rice | qsgd",
    "topk(0.01) | rice | qsgd",
    "topk(0.01) | rice | raw(bfloat16)",
    "topk(0.001) | rice | raw",
    "topk(0.01) | raw-index | raw",
    "topk(0.01) | bitmap | raw",
    "nonzero | auto-index | raw",
    "all | raw-index | qsgd(bits=8)",
]
CAPTION = """Times as a ratio to `np.copyto` of the dense gradient, on all cores;
bits are per kept element.

"""
HEADER = [
    "gradient and scheme",
    "bytes",
    "smaller",
    "index bits",
    "value bits",
    "encode",
    "decode",
    "decode_add",
]


def row(name: str, x: Any, scheme: str) -> list[str]:
    """One scheme on one gradient."""
    blob = wc.encode(x, scheme)
    (entry,) = wc.inspect(blob).entries
    out = np.zeros_like(x)
    copy = copy_time(x)
    calls = (lambda: wc.encode(x, scheme), lambda: wc.decode(blob), lambda: wc.decode_add(blob, out))
    times = [median_time(call) / copy for call in calls]
    bits = [8 * n / max(entry.nnz, 1) for n in (entry.index_bytes, entry.value_bytes)]
    return [
        f"{name}: `{scheme}`".replace("|", "·"),
        f"{blob.nbytes:,}",
        f"{x.nbytes / blob.nbytes:.1f}×",
        *(f"{b:.2f}" for b in bits),
        *(f"{t:.2f}×" for t in times),
    ]


def main() -> None:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--elements", type=int, default=26_000_000, help="of the synthetic gradient")
    elements = parser.parse_args().elements
    gradients = {f"Laplace, {elements:,}": np.random.default_rng(0).laplace(size=elements).astype(np.float32)}
    gradients |= {path.stem: np.load(path) for path in sorted(DATA.glob("*.npy"))}
    cases = [(name, x, scheme) for name, x in gradients.items() for scheme in SCHEMES]
    rows = [row(*case) for case in track(cases, "measuring")]
    table = CAPTION + markdown(HEADER, rows)
    print(table)
    print(keep("whole_path", "Encoding and decoding beside copying", table))


if __name__ == "__main__":
    main()
