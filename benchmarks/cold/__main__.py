"""Time from the start of a process to its first encoded and decoded gradient.

Each measurement starts new processes. A cold start has an empty cache folder of its own, a warm start the
folder of the cold one. One rank runs on one core; four ranks share all cores and one folder. Then the wheel
with kernels is built and installed, and first steps are measured with it.

    python -m benchmarks.cold [--repeats N]
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass

from rich.progress import track

from benchmarks.cold import wheel
from benchmarks.common.command import create_parser
from benchmarks.common.results import format_markdown, write_result
from benchmarks.common.store import ROOT
from benchmarks.common.targets import check_at_most, format_targets

RANKS = 4
MAX_SECONDS, MAX_RATIO, MAX_WHEEL_SECONDS = 10.0, 1.5, 1.5
SCHEMES = [
    "budget(0.25) | rice | error-bounded",
    "nonzero | auto-index | raw",
    "topk(0.01) | rice | raw(bfloat16)",
    "topk(0.01) | rice | qsgd(bits=4)",
    "topk(0.01) | auto-index | error-bounded(0.01)",
    "topk(0.01) | rice | sign-scale",
    "all | raw-index | qsgd(bits=8)",
]
HEADER = [
    "scheme",
    "cold, processor time",
    "cold",
    "kernels",
    "warm",
    f"{RANKS} ranks, cold",
    f"{RANKS} ranks / 1 rank",
    f"{RANKS} ranks, `wc.warm`",
]
CAPTION = """Seconds until a process has encoded and decoded its first gradient: 1,000,000 float32; 5 % are
not 0 for `nonzero`. {runs}. One rank runs on one core; {ranks} ranks share all cores and
an empty cache. `wc.warm` also compiles the kernels that the scheme may need later. If other programs run,
processor time is the better measure of one rank. The load average was {load:.1f} at the start and {end:.1f}
at the end.

"""

WHEEL = """
## With the wheel

`make dist` builds a wheel with kernels. In a new environment with an empty home, seconds from the first
import to the end of a first step with 1,000,000 float32, medians of {repeats} runs:

"""

FIRST_GRADIENT = """
import json, resource, sys
import numpy as np
import wirecodec as wc
rng = np.random.default_rng(0)
gradient = rng.laplace(size=1_000_000).astype(np.float32)
if sys.argv[1].startswith("nonzero"):
    gradient[rng.random(gradient.size) < 0.95] = 0
if sys.argv[2] == "warm":
    wc.warm(sys.argv[1])
blob = wc.encode(gradient, sys.argv[1])
wc.decode(blob)
from wirecodec.kernels.compiler.compile_log import log
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps([used.ru_utime + used.ru_stime, sum(entry.compiled for entry in log)]))
"""


@dataclass(frozen=True)
class Start:
    """Result of ranks that started together.

    Attributes:
        seconds: until the last rank had finished.
        processor: seconds of processor time of the rank that used most.
        kernels: number of kernels that all ranks compiled.
    """

    seconds: float
    processor: float
    kernels: int


def start_ranks(scheme: str, ranks: int, folder: str, mode: str = "") -> Start:
    """Start processes that encode and decode one gradient each."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": folder, "NUMBA_NUM_THREADS": "1"}
    start = time.perf_counter()
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", FIRST_GRADIENT, scheme, mode], env=env, stdout=subprocess.PIPE, text=True
        )
        for _ in range(ranks)
    ]
    pages = [process.communicate()[0] for process in processes]
    seconds = time.perf_counter() - start
    if any(process.returncode for process in processes):
        raise RuntimeError(f"a rank failed with {scheme}")
    found = [json.loads(page) for page in pages]
    return Start(seconds, max(used for used, _ in found), sum(count for _, count in found))


def measure_row(scheme: str, repeats: int) -> tuple[list[float], int]:
    """Measure one scheme; return the seconds of the table's columns, and the number of kernels."""
    runs = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as four:
            cold, warm = start_ranks(scheme, 1, one), start_ranks(scheme, 1, one)
            ranks = start_ranks(scheme, RANKS, four)
        with tempfile.TemporaryDirectory() as folder:
            ahead = start_ranks(scheme, RANKS, folder, "warm")
        ratio = ranks.seconds / cold.seconds
        runs.append([cold.processor, cold.seconds, warm.seconds, ranks.seconds, ratio, ahead.seconds])
    return [statistics.median(column) for column in zip(*runs, strict=True)], cold.kernels


def format_answer(rows: Sequence[Sequence[str]]) -> str:
    """Answer the benchmark's question with the cold and warm columns of the table."""
    cold, warm = (sorted((row[column] for row in rows), key=_seconds) for column in (2, 4))
    return (
        f"A process has its first gradient after {cold[0]} to {cold[-1]} with an empty cache of kernels. "
        f"With cached kernels it takes {warm[0]} to {warm[-1]}.\n\n"
    )


def _seconds(text: str) -> float:
    return float(text.removesuffix(" s"))


def main() -> None:
    """Run the benchmark, print the page, and write it."""
    parser = create_parser(__doc__, __package__)
    parser.add_argument("--repeats", type=int, default=1, help="runs per scheme (default: %(default)s)")
    repeats = parser.parse_args().repeats
    load = os.getloadavg()[0]
    results = {scheme: measure_row(scheme, repeats) for scheme in track(SCHEMES, "measuring")}
    rows = [
        [
            f"`{scheme}`".replace("|", "\\|"),
            *(f"{x:.1f} s" for x in times[:2]),
            str(kernels),
            *(f"{x:.1f} s" for x in times[2:4]),
            f"{times[4]:.2f}",
            f"{times[5]:.1f} s",
        ]
        for scheme, (times, kernels) in results.items()
    ]
    targets = [
        check_at_most(
            f"one rank, cold: at most {MAX_SECONDS:.0f} s of processor time",
            MAX_SECONDS,
            [(f"`{scheme}`".replace("|", "\\|"), times[0]) for scheme, (times, _) in results.items()],
            "{:.1f} s",
        ),
        check_at_most(
            f"{RANKS} ranks, cold: at most {MAX_RATIO} times one rank",
            MAX_RATIO,
            [(f"`{scheme}`".replace("|", "\\|"), times[4]) for scheme, (times, _) in results.items()],
            "{:.2f}",
        ),
    ]
    runs = "One run each" if repeats == 1 else f"Medians of {repeats} runs"
    caption = CAPTION.format(runs=runs, ranks=RANKS, load=load, end=os.getloadavg()[0])
    steps = wheel.measure(max(3, repeats))
    targets.append(
        check_at_most(
            f"with the wheel: at most {MAX_WHEEL_SECONDS} s",
            MAX_WHEEL_SECONDS,
            [(name, seconds) for name, (seconds, _) in steps.items()],
            "{:.2f} s",
        )
    )
    text = format_answer(rows) + caption + format_markdown(HEADER, rows) + "\n" + format_targets(targets)
    text += WHEEL.format(repeats=max(3, repeats)) + format_markdown(
        ["first step", "seconds", "kernels compiled"],
        [[name.replace("|", "\\|"), f"{seconds:.2f} s", str(n)] for name, (seconds, n) in steps.items()],
    )
    print(text)
    print(write_result("cold", "First gradient of a process", text))


if __name__ == "__main__":
    main()
