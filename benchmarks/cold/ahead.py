"""Time of ``wc.warm`` with an empty cache, in one process and with helper processes.

python -m benchmarks.cold.ahead [--repeats N]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from rich.progress import track

from benchmarks.cold.__main__ import SCHEMES
from benchmarks.common.command import create_parser
from benchmarks.common.results import format_markdown, write_result
from benchmarks.common.targets import check_at_most, format_targets
from wirecodec.compilation.processes import count_processes

ROOT = Path(__file__).parents[2]
MAX_SCHEME_SECONDS, MAX_COMPRESSOR_SECONDS = 6.0, 8.0
TOP_K, BUDGET = "topk(0.01) | rice | raw(bfloat16)", "budget(0.25) | rice | error-bounded"
CASES = {f"`{scheme}`": (scheme, "") for scheme in SCHEMES} | {
    f"Compressor of `{TOP_K}`": (TOP_K, "tensor"),
    f"Compressor of `{BUDGET}`, one group": (BUDGET, "group"),
}
"""{name: (scheme, scope of the Compressor, or an empty string for the scheme alone)}."""
CAPTION = """Seconds of `wc.warm` with an empty cache, in one process and in one process per core. {runs}.
Processor times are those of the process that used most: the time if nothing else runs and no process waits.
The load average was {load:.1f} at the start and {end:.1f} at the end.

"""

WARM = """
import json, resource, sys, time
import wirecodec as wc
scheme, scope, processes = sys.argv[1:]
what = wc.Compressor(scheme, scope=scope) if scope else scheme
start = time.perf_counter()
wc.warm(what, processes=int(processes))
seconds = time.perf_counter() - start
from wirecodec.kernels.compiler.compile_log import log
own, helpers = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
used = [used.ru_utime + used.ru_stime for used in (own, helpers)]
print(json.dumps([seconds, *used, len(log)]))
"""


@dataclass(frozen=True)
class Ahead:
    """Result of one call of ``wc.warm``.

    Attributes:
        seconds: duration of the call.
        processor: seconds of processor time of the caller, or of all helpers if that is more.
        kernels: number of kernels that became ready.
    """

    seconds: float
    processor: float
    kernels: int


def warm(scheme: str, scope: str, processes: int) -> Ahead:
    """Warm a scheme, or a Compressor of a scope, in a new process with an empty cache."""
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": folder}
        command = [sys.executable, "-c", WARM, scheme, scope, str(processes)]
        page = subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout
    seconds, own, helpers, kernels = json.loads(page)
    return Ahead(seconds, max(own, helpers / max(1, processes - 1)), kernels)


def main() -> None:
    """Run the benchmark, print the page, and write it."""
    parser = create_parser(__doc__, __package__)
    parser.add_argument("--repeats", type=int, default=1, help="pairs per row (default: %(default)s)")
    repeats = parser.parse_args().repeats
    load = os.getloadavg()[0]
    many = max(2, count_processes(None))
    rows, seconds = [], {}
    for name, (scheme, scope) in track(CASES.items(), "warming"):
        pairs = [(warm(scheme, scope, 1), warm(scheme, scope, many)) for _ in range(repeats)]
        sides = list(zip(*pairs, strict=True))
        times = [min(run.seconds for run in side) for side in sides]
        used = [min(run.processor for run in side) for side in sides]
        label = name.replace("|", "\\|")
        seconds[label] = times[1]
        texts = [f"{x:.1f} s" for x in (*times, *used)]
        rows.append([label, str(pairs[0][0].kernels), *texts, f"{used[1] / used[0]:.2f}"])
    limits = {"a scheme": (MAX_SCHEME_SECONDS, False), "a Compressor": (MAX_COMPRESSOR_SECONDS, True)}
    targets = [
        check_at_most(
            f"{kind}, {many} processes: at most {limit:.0f} s",
            limit,
            [(label, x) for label, x in seconds.items() if label.startswith("Compressor") == is_compressor],
            "{:.1f} s",
        )
        for kind, (limit, is_compressor) in limits.items()
    ]
    runs = "One run each" if repeats == 1 else f"Minima of {repeats} runs"
    caption = CAPTION.format(runs=runs, load=load, end=os.getloadavg()[0])
    header = ["what", "kernels", "1 process", f"{many} processes"]
    header += ["processor time, 1 process", f"{many} processes", "ratio"]
    text = f"{caption}{format_markdown(header, rows)}\n{format_targets(targets)}"
    print(text)
    print(write_result("warm", "Compilation in advance", text))


if __name__ == "__main__":
    main()
