"""Time of an exchange of LocalUpdates by stage, and its memory: two ranks over gloo on this machine.

python -m benchmarks.step.local
"""

from __future__ import annotations

import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import wirecodec as wc

ROOT, MODULE = Path(__file__).parents[2], "benchmarks.step.local"
LAYERS, WIDTH, WORDS, PLACES = 12, 256, 8192, 256
WARM_UP = 3
"""Exchanges before those that are timed."""
METHODS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "budget": (
        {"scheme": "budget(bits=0.8) | rice | error-bounded", "scope": "group"},
        {"momentum": 0.3, "nesterov": True},
    ),
    "sparseloco": (wc.recipe("sparseloco"), {}),
    "diloco": ({"scheme": "all | raw-index | raw"}, {"rate": 0.7, "momentum": 0.9, "nesterov": True}),
}
"""Arguments of the Compressor and of LocalUpdates."""


@dataclass(frozen=True)
class LocalRow:
    """Exchanges of one method, of all of a worker's parameters in float32.

    Attributes:
        method: a key of ``METHODS``.
        elements: number of parameters.
        exchange: median milliseconds of an exchange on rank 0.
        fastest, slowest: milliseconds of the fastest and of the slowest exchange.
        compare: median milliseconds of the comparison of the ranks' states.
        movements: those of the movements of the parameters.
        allreduce: those of the all-reduce without the movements.
        outer: those of the outer step, in which the parameters are written.
        peak: largest resident memory above that of the parameters, in float32 per parameter.
        held: resident memory after the last exchange, likewise.
    """

    method: str
    elements: int
    exchange: float
    fastest: float
    slowest: float
    compare: float
    movements: float
    allreduce: float
    outer: float
    peak: float
    held: float


def measure_local(
    step: Callable[[str], None] = lambda _: None, *, exchanges: int = 12, layers: int = LAYERS
) -> list[LocalRow]:
    """Measure each method with two new processes.

    Args:
        step: called with the name of each method.
        exchanges: number of timed exchanges.
        layers: of the transformer whose shapes the parameters have.
    """
    rows = []
    for method in METHODS:
        step(f"local updates, {method}")
        with tempfile.TemporaryDirectory() as folder:
            rows.append(LocalRow(**json.loads(_start(method, folder, exchanges, layers))))
    return rows


def list_shapes(layers: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a transformer's parameters; with 12 layers, 148 tensors of 11.6M elements."""
    w = WIDTH
    shapes: dict[str, tuple[int, ...]] = {"words": (WORDS, w), "places": (PLACES, w)}
    for i in range(layers):
        for name, rows, columns in (("qkv", 3 * w, w), ("out", w, w), ("up", 4 * w, w), ("down", w, 4 * w)):
            shapes |= {f"{i}.{name}.weight": (rows, columns), f"{i}.{name}.bias": (rows,)}
        for name in ("norm1", "norm2"):
            shapes |= {f"{i}.{name}.weight": (w,), f"{i}.{name}.bias": (w,)}
    return shapes | {"norm.weight": (w,), "norm.bias": (w,)}


def run_rank(method: str, folder: str, rank: int, exchanges: int, layers: int) -> LocalRow:
    """Take part as one of two ranks in this process, with one thread.

    Args:
        method: a key of ``METHODS``.
        folder: where the ranks find each other.
        rank: of this process.
        exchanges: number of timed exchanges; the inner optimizer takes one step before each.
        layers: as for ``measure_local``.
    """
    import torch
    import torch.distributed as dist

    import collectives as co

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    compressor, settings = METHODS[method]
    torch.manual_seed(rank)
    shapes = list_shapes(layers)
    weights = {name: torch.nn.Parameter(torch.zeros(shape)) for name, shape in shapes.items()}
    noise = {name: torch.randn(shape) for name, shape in shapes.items()}

    def train(named: dict[str, Any], count: int) -> Any:
        local = co.LocalUpdates(None, named, wc.Compressor(**compressor), channel, every=1, **settings)
        for i in range(count):
            with torch.no_grad():
                for name, weight in named.items():
                    weight.add_(noise[name][: len(weight)], alpha=1 / (i + 2))
            local.step()
        return local

    channel = co.Channel(co.TorchComm())
    train({name: torch.nn.Parameter(torch.zeros_like(w[: len(w) // 32])) for name, w in weights.items()}, 4)
    before = _read_memory("VmRSS")
    _reset_peak()
    with _timed() as times:
        local = train(weights, WARM_UP + exchanges)
    elements = sum(w.numel() for w in weights.values())
    peak, held = ((_read_memory(field) - before) / elements / 4 for field in ("VmHWM", "VmRSS"))
    assert local.round == WARM_UP + exchanges
    dist.barrier()
    timed = {name: x[-exchanges:] for name, x in times.items()}  # a compilation repeats a part of the first
    return _summarize(method, elements, timed, peak, held)


def _summarize(
    method: str, elements: int, times: dict[str, list[float]], peak: float, held: float
) -> LocalRow:
    """Return the row of some exchanges, from the seconds of each one and of its parts."""
    scale = 1000.0
    whole, compare, movements, reduce = (
        [scale * x for x in times[name]]
        for name in ("exchange", "collect_states", "measure_movements", "reduce_made")
    )
    allreduce = [all_of_it - made for all_of_it, made in zip(reduce, movements, strict=True)]
    outer = [total - a - b for total, a, b in zip(whole, compare, reduce, strict=True)]
    stages = {"compare": compare, "movements": movements, "allreduce": allreduce, "outer": outer}
    medians = {name: statistics.median(values) for name, values in stages.items()}
    middle = statistics.median(whole)
    return LocalRow(method, elements, middle, min(whole), max(whole), peak=peak, held=held, **medians)


@contextmanager
def _timed() -> Iterator[dict[str, list[float]]]:
    """Yield {name: seconds of each call} of an exchange and of functions that it calls."""
    import collectives as co

    times: dict[str, list[float]] = {}
    folder = "collectives.local_updates"
    exchange, anchor = (importlib.import_module(f"{folder}.{name}") for name in ("delayed", "anchor"))
    owners: dict[str, Any] = {
        "collect_states": exchange,
        "reduce_made": exchange,
        "measure_movements": anchor,
    }
    originals = []
    for name, owner in [*owners.items(), ("exchange", co.LocalUpdates)]:
        originals.append((owner, name, getattr(owner, name)))
        setattr(owner, name, _time_calls(getattr(owner, name), times.setdefault(name, [])))
    try:
        yield times
    finally:
        for owner, name, original in originals:
            setattr(owner, name, original)


def _time_calls(function: Any, seconds: list[float]) -> Any:
    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            seconds.append(time.perf_counter() - start)

    return call


def _read_memory(field: str) -> int:
    """Return a field of Linux's account of this process's memory, in bytes; 0 on other systems."""
    path = Path("/proc/self/status")
    lines = path.read_text().splitlines() if path.exists() else []
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(field)), 0)


def _reset_peak() -> None:
    path = Path("/proc/self/clear_refs")
    if path.exists():
        path.write_text("5")


def _start(method: str, folder: str, exchanges: int, layers: int) -> str:
    """Run two ranks in new processes on one thread each, and return the output of rank 0."""
    variables = {"PYTHONPATH": str(ROOT), "NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    env = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", **variables}
    ranks = [
        subprocess.Popen(
            [
                sys.executable,
                "-m",
                "benchmarks.step.local",
                method,
                folder,
                str(rank),
                str(exchanges),
                str(layers),
            ],
            env=env,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for rank in range(2)
    ]
    outputs = [rank.communicate()[0] for rank in ranks]
    for rank in ranks:
        if rank.returncode:
            raise subprocess.CalledProcessError(rank.returncode, rank.args)
    return outputs[0]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        row = run_rank(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
        print(json.dumps(asdict(row)), flush=True)
        os._exit(0)  # gloo's threads may still run
    else:
        for row in measure_local(lambda text: print(text, flush=True)):
            print(
                *(
                    f"{key}={x:.1f}" if isinstance(x, float) else f"{key}={x}"
                    for key, x in asdict(row).items()
                )
            )
