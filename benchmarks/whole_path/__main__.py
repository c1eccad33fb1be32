"""Size and time of whole schemes, relative to a copy of the gradient.

Measures the bytes, the bits per kept element, and the times of ``encode``, ``decode`` and ``decode_add``. The
inputs are a synthetic gradient and those of tests/data. Times are ratios to ``np.copyto`` of the
dense gradient in the same run. The lower limit of encode is about half a copy: one read.

    python -m benchmarks.whole_path [--elements N]
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from rich.progress import track

import wirecodec as wc
from benchmarks.common.command import create_parser
from benchmarks.common.inputs import TEST_GRADIENTS, list_gradient_files
from benchmarks.common.results import RESULTS, format_markdown, write_result
from benchmarks.common.timing import measure_copy_time, measure_median_time

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
ALIKE = ("resnet20_raw",)
"""Gradients that are left out: their times are those of another one."""
ANSWER = "topk(0.01) · rice · qsgd"
"""Scheme of the answer, as in the table."""
CAPTION = """Times are relative to `np.copyto` of the dense gradient, on all cores. Bits are per kept element.
[schemes.csv](whole_path/schemes.csv) also has gradients of small models.

"""
HEADER = [
    "gradient and scheme",
    "bytes",
    "compression ratio",
    "index bits",
    "value bits",
    "encode",
    "decode",
    "decode_add",
]


def measure_row(name: str, x: Any, scheme: str) -> list[str]:
    """Measure one scheme on one gradient and format a table row."""
    blob = wc.encode(x, scheme)
    (entry,) = wc.inspect(blob).entries
    out = np.zeros_like(x)
    copy = measure_copy_time(x)
    calls = (partial(wc.encode, x, scheme), partial(wc.decode, blob), partial(wc.decode_add, blob, out))
    times = [measure_median_time(call) / copy for call in calls]
    bits = [8 * n / max(entry.nnz, 1) for n in (entry.index_bytes, entry.value_bytes)]
    return [
        f"{name}: `{scheme}`".replace("|", "·"),
        f"{blob.nbytes:,}",
        f"{x.nbytes / blob.nbytes:.1f}×",
        *(f"{b:.2f}" for b in bits),
        *(f"{t:.2f}×" for t in times),
    ]


def format_answer(rows: Sequence[Sequence[str]]) -> str:
    """Answer the benchmark's question with the first gradient's row of the answer's scheme."""
    row = next((row for row in rows if row[0].endswith(f"`{ANSWER}`")), None)
    if row is None:
        return ""
    gradient, nbytes, ratio, _, _, encode, decode, add = (row[0].partition(":")[0], *row[1:])
    times = (text.rstrip("×") for text in (encode, decode, add))
    return (
        "`{}` sends the gradient ({}) in {} bytes, {} times fewer than float32. Encoding takes {} times as "
        "long as a copy of the gradient, decoding {} times, and `decode_add` {} times.\n\n"
    ).format(ANSWER, gradient, nbytes, ratio.rstrip("×"), *times)


def main() -> None:
    """Run the benchmark, print the page, and write it."""
    parser = create_parser(__doc__, __package__)
    parser.add_argument(
        "--elements",
        type=int,
        default=26_000_000,
        help="size of the synthetic gradient (default: %(default)s)",
    )
    elements = parser.parse_args().elements
    gradients = {f"Laplace, {elements:,}": np.random.default_rng(0).laplace(size=elements).astype(np.float32)}
    paths = [path for path in list_gradient_files(TEST_GRADIENTS) if path.stem not in ALIKE]
    gradients |= {path.stem: np.load(path) for path in paths}
    cases = [(name, x, scheme) for name, x in gradients.items() for scheme in SCHEMES]
    rows = [measure_row(*case) for case in track(cases, "measuring")]
    text = format_answer(rows) + CAPTION + format_markdown(HEADER, rows[: len(SCHEMES)])
    print(text)
    print(write_result("whole_path", "Size and time of whole schemes", text))
    path = RESULTS / "whole_path" / "schemes.csv"
    path.parent.mkdir(exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([HEADER, *rows])


if __name__ == "__main__":
    main()
