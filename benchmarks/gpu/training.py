"""Training steps of a language model of 124 million parameters on one GPU, and what crosses to the host.

One process trains in bfloat16, in a group of size 1 whose messages are local. So a step has all of the
compressor's work and of the frameworks', and none of a network's. Each system has a model of its own. The
bytes between device and host are those of the profiler's trace.
"""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import collectives as co
import wirecodec as wc
from benchmarks.common.results import format_markdown
from benchmarks.gpu.model import LAYERS, LENGTH, WIDTH, WORDS, build_model
from benchmarks.gpu.rows import Job
from benchmarks.gpu.trace import has_cuda, sum_busy, sum_copied, trace
from collectives.exchange.encoding import Encoding

__all__ = ["Row", "draw", "format_rows", "generate_jobs"]

SCHEME = "topk(0.01) | rice | qsgd"
BATCH = 16
WARM_UP, STEPS, TRACED = 4, 16, 2
SECONDS = 3.0
"""Time of the measured steps, after which no other begins."""
EVERY = 8
ALONE, PLAIN, PLAIN_FSDP = "no exchange", "DDP", "FSDP2"
HEADER = [
    "system",
    "step, ms",
    "added, ms",
    "busy, ms",
    "to the host, MB",
    "from the host, MB",
    "sent, MB",
    "peak memory, GB",
]
CAPTION = f"""A language model of {LAYERS} layers and width {WIDTH} in bfloat16, AdamW, batches of {BATCH} ×
{LENGTH} tokens, one GPU, a group of size 1. `added` is the time beyond the same framework without
compression; that of the framework is beyond `{ALONE}`. The scheme is `{SCHEME}`.
`busy` is the sum of all kernels and copies of a step in torch's profiler. `to the host` and
`from the host` are the bytes of its copies there; `sent` are the containers of a step. LocalUpdates exchange
every {EVERY} steps: the row is the mean over {EVERY} steps.

"""


@dataclass(frozen=True)
class Row:
    """Result of one system.

    Attributes:
        name: of the system.
        ms: median time of a step, or mean over a period of local updates.
        to_host, from_host: bytes of copies per step.
        sent: bytes of containers per step, or None without a compressor.
        peak: bytes of memory on the device, torch's and CuPy's.
        busy_ms: time of all kernels and copies of a step.
    """

    name: str
    ms: float
    to_host: float
    from_host: float
    sent: float | None
    peak: float
    busy_ms: float


def generate_jobs(*, quick: bool) -> Iterator[Job]:
    """Yield the measurement of each system. Raises DeviceError if torch cannot use a GPU."""
    if not has_cuda():
        raise wc.DeviceError("torch is not installed, or has no CUDA")
    import torch
    import torch.distributed as dist

    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29533", "GLOO_SOCKET_IFNAME": "lo"}
    dist.init_process_group("cpu:gloo,cuda:nccl", rank=0, world_size=1)
    try:
        for name, build in SYSTEMS.items():
            gc.collect()
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            yield Job(name, partial(_measure_system, name, build, quick))
    finally:
        dist.destroy_process_group()


def _measure_system(name: str, build: Callable[[Any], Any], tiny: bool) -> Iterator[Row]:
    import cupy
    import torch

    pool = cupy.get_default_memory_pool()
    pool.free_all_blocks()
    torch.manual_seed(0)
    model = build_model(tiny).cuda().bfloat16()
    batch = 2 if tiny else BATCH
    tokens = torch.randint(WORDS, (batch, LENGTH + 1), generator=torch.Generator().manual_seed(1)).cuda()
    system = build(model)
    trained = system.model

    def step() -> None:
        system.optimizer.zero_grad()
        logits = trained(tokens[:, :-1])
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).backward()
        system.take()

    period = EVERY if "LocalUpdates" in name else 1
    for _ in range(max(WARM_UP, period)):
        step()
    times: list[float] = []
    begin = time.perf_counter()
    while len(times) < 2 or (len(times) < STEPS // period and time.perf_counter() - begin < SECONDS):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        start.record()
        for _ in range(period):
            step()
        stop.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(stop) / period)
    traced = max(TRACED, period)
    with _Counter() as counter:
        events = trace(step, traced)
    to_host, from_host = (count / traced for count in sum_copied(events))
    sent = counter.bytes / traced if counter.bytes else None
    peak = torch.cuda.max_memory_allocated() + pool.total_bytes()
    yield Row(name, statistics.median(times), to_host, from_host, sent, peak, sum_busy(events) / traced)


@dataclass(frozen=True, eq=False)
class System:
    """A way to train.

    Attributes:
        model: to call.
        optimizer: whose gradients are set to zero.
        take: called after backward.
    """

    model: Any
    optimizer: Any
    take: Callable[[], object]


def _optimize(model: Any) -> Any:
    import torch

    return torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)


class _Counter:
    """Bytes of all containers that collectives of this process have made."""

    def __init__(self) -> None:
        self.bytes = 0
        self._set = Encoding.set_blob

    def __enter__(self) -> _Counter:
        def count(encoding: Encoding, *arguments: Any, **named: Any) -> None:
            self._set(encoding, *arguments, **named)
            self.bytes += encoding.blob.size

        Encoding.set_blob = count  # type: ignore[method-assign, assignment]
        return self

    def __exit__(self, *_: object) -> None:
        Encoding.set_blob = self._set  # type: ignore[method-assign]


def _build_alone(model: Any) -> System:
    optimizer = _optimize(model)
    return System(model, optimizer, optimizer.step)


def _build_ddp(model: Any, register: Callable[[Any, Any], None] = lambda ddp, model: None) -> System:
    from torch.nn.parallel import DistributedDataParallel

    ddp = DistributedDataParallel(model)
    register(ddp, model)
    optimizer = _optimize(model)
    return System(ddp, optimizer, optimizer.step)


def _build_power(model: Any) -> System:
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as power

    def register(ddp: Any, model: Any) -> None:
        state = power.PowerSGDState(None, matrix_approximation_rank=4, start_powerSGD_iter=2)
        ddp.register_comm_hook(state, power.powerSGD_hook)

    return _build_ddp(model, register)


def _build_hook(model: Any) -> System:
    def register(ddp: Any, model: Any) -> None:
        compressor = wc.Compressor(SCHEME)
        ddp.register_comm_hook(None, co.torch_hook(compressor, co.TorchComm(), model.named_parameters()))

    return _build_ddp(model, register)


def _build_average(model: Any) -> System:
    compressor, comm, optimizer = wc.Compressor(SCHEME), co.TorchComm(), _optimize(model)

    def take() -> None:
        co.average_gradients(comm, model.named_parameters(), compressor)
        optimizer.step()

    return System(model, optimizer, take)


def _build_fsdp(model: Any, compressor: Any = None) -> System:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cuda", (1, 1), mesh_dim_names=("site", "rank"))
    for layer in model.layers:
        fully_shard(layer, mesh=mesh["rank"])
    fully_shard(model, mesh=mesh["rank"])
    optimizer = _optimize(model)
    if compressor is not None:
        co.fsdp_hook(model, compressor, co.TorchComm(mesh.get_group(0)))
    return System(model, optimizer, optimizer.step)


def _build_local(model: Any) -> System:
    compressor, optimizer = wc.Compressor(SCHEME), _optimize(model)
    local = co.LocalUpdates(optimizer, model.named_parameters(), compressor, co.TorchComm(), every=EVERY)
    return System(model, optimizer, local.step)


SYSTEMS: dict[str, Callable[[Any], System]] = {
    ALONE: _build_alone,
    PLAIN: _build_ddp,
    "DDP, PowerSGD of rank 4": _build_power,
    "DDP, torch_hook": _build_hook,
    "average_gradients": _build_average,
    PLAIN_FSDP: _build_fsdp,
    "FSDP2, fsdp_hook": lambda model: _build_fsdp(model, wc.Compressor(SCHEME)),
    "LocalUpdates": _build_local,
}


def base_of(name: str) -> str:
    """Return the system to which another one adds its time."""
    if name.startswith("FSDP2, "):
        return PLAIN_FSDP
    return PLAIN if name.startswith("DDP, ") else ALONE


def format_rows(rows: Sequence[Row]) -> str:
    """Format a table with one row per system."""
    ms = {row.name: row.ms for row in rows}
    table = []
    for row in rows:
        base = ms.get(base_of(row.name))
        added = "" if base is None or row.name == ALONE else f"{row.ms - base:.1f}"
        sent = "" if row.sent is None else f"{row.sent / 1e6:.2f}"
        copied = [f"{row.to_host / 1e6:.2f}", f"{row.from_host / 1e6:.2f}"]
        memory = f"{row.peak / 1e9:.2f}"
        table.append([row.name, f"{row.ms:.1f}", added, f"{row.busy_ms:.1f}", *copied, sent, memory])
    return CAPTION + format_markdown(HEADER, table)


def draw(path: Path, rows: Sequence[Row], gpu: str) -> None:
    """Draw the time of a step by system; needs Matplotlib.

    Args:
        path: path of the PNG.
        rows: of all systems.
        gpu: name of the device.
    """
    from benchmarks.common.palette import DENSE, OTHERS, OURS
    from benchmarks.common.pictures import open_picture

    title = f"How long does a training step of a language model take on an {gpu}?"
    with open_picture(path, 1, title=title, height=0.8 + 0.35 * len(rows)) as axes:
        axis = axes[0, 0]
        plain = [OTHERS if "PowerSGD" in row.name else DENSE for row in rows]
        kinds = [other if row.sent is None else OURS for row, other in zip(rows, plain, strict=True)]
        bars = axis.barh([_name_bar(row.name) for row in rows], [row.ms for row in rows], color=kinds)
        axis.bar_label(bars, [f"{row.ms:.0f}" for row in rows], padding=3)
        axis.invert_yaxis()
        axis.set_xlabel("milliseconds per step (grey: dense, red: PowerSGD, blue: this library)")


def _name_bar(name: str) -> str:
    """Return a system's name; of local updates, with the steps between two exchanges."""
    return f"{name}, every {EVERY} steps" if name == "LocalUpdates" else name
