"""Training steps of a language model of 124 million parameters in bfloat16 on one GPU, and what crosses to the host.

One process trains, in a group of size 1 whose messages are local. So a step has all of the compressor's work and
of the frameworks', and none of a network's. Each system has a model of its own. The bytes between device and host
are those of the profiler's trace.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import collectives as co
import wirecodec as wc
from collectives.exchange.encoding import Encoding

__all__ = ["CAPTION", "HEADER", "Row", "measure"]

SCHEME = "topk(0.01) | rice | qsgd"
LAYERS, WIDTH, HEADS, WORDS = 12, 768, 12, 50_304
BATCH, LENGTH = 16, 1024
WARM_UP, STEPS, TRACED = 4, 16, 2
EVERY = 8
HEADER = [
    "system",
    "step, ms",
    "added, ms",
    "to the host, MB",
    "from the host, MB",
    "sent, MB",
    "peak memory, GB",
]
CAPTION = f"""A language model of {LAYERS} layers and width {WIDTH} in bfloat16, AdamW, batches of {BATCH} × {LENGTH} tokens,
one GPU, a group of size 1. `added` is the time beyond the same framework without an exchange. The scheme is
`{SCHEME}`. `to the host` and `from the host` are the bytes of all copies of a step in torch's profiler; `sent`
are the containers of a step. LocalUpdates exchange every {EVERY} steps: the row is the mean over {EVERY} steps.

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
    """

    name: str
    ms: float
    to_host: float
    from_host: float
    sent: float | None
    peak: float


def measure(tiny: bool = False) -> Iterator[Row]:
    """Measure every system; ``tiny`` for a test."""
    import torch
    import torch.distributed as dist

    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29533", "GLOO_SOCKET_IFNAME": "lo"}
    dist.init_process_group("cpu:gloo,cuda:nccl", rank=0, world_size=1)
    try:
        for name, build in SYSTEMS.items():
            gc.collect()
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            yield _measure_system(name, build, tiny)
    finally:
        dist.destroy_process_group()


def _measure_system(name: str, build: Callable[[Any], Any], tiny: bool) -> Row:
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
    times = []
    for _ in range(max(STEPS // period, 2)):
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
        to_host, from_host = _trace(step, traced)
    sent = counter.bytes / traced if counter.bytes else None
    peak = torch.cuda.max_memory_allocated() + pool.total_bytes()
    return Row(name, statistics.median(times), to_host / traced, from_host / traced, sent, peak)


def _trace(step: Callable[[], None], steps: int) -> tuple[int, int]:
    """Return the bytes that are copied to and from the host in some steps, of torch's profiler."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as profiler:
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(os.environ.get("TRACE", folder)) / "trace.json"
        profiler.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    copies = [each for each in events if each.get("cat") == "gpu_memcpy"]
    return tuple(
        sum(int(each["args"]["bytes"]) for each in copies if kind in each["name"])
        for kind in ("DtoH", "HtoD")
    )  # type: ignore[return-value]


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
        def count(encoding: Encoding, *arguments: Any) -> None:
            self._set(encoding, *arguments)
            self.bytes += encoding.blob.size

        Encoding.set_blob = count  # type: ignore[method-assign]
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
    "no exchange": _build_alone,
    "DDP": _build_ddp,
    "DDP, PowerSGD of rank 4": _build_power,
    "DDP, torch_hook": _build_hook,
    "average_gradients": _build_average,
    "FSDP2": _build_fsdp,
    "FSDP2, fsdp_hook": lambda model: _build_fsdp(model, wc.Compressor(SCHEME)),
    "LocalUpdates": _build_local,
}


def build_model(tiny: bool) -> Any:
    """Build the language model, whose output layer is the embedding."""
    import torch
    from torch import nn

    layers, width, heads = (2, 64, 2) if tiny else (LAYERS, WIDTH, HEADS)

    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
            self.attend, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            size = x.shape[:2]
            parts = self.attend(self.norms[0](x)).view(*size, 3, heads, -1).permute(2, 0, 3, 1, 4)
            seen = nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
            x = x + self.project(seen.transpose(1, 2).reshape(*size, width))
            return x + self.narrow(nn.functional.gelu(self.widen(self.norms[1](x))))

    class LanguageModel(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(WORDS, width)
            self.position = nn.Parameter(torch.zeros(LENGTH, width))
            self.layers = nn.ModuleList(Block() for _ in range(layers))
            self.norm = nn.LayerNorm(width)
            nn.init.normal_(self.embedding.weight, std=0.02)

        def forward(self, tokens: Any) -> Any:
            x = self.embedding(tokens) + self.position
            for layer in self.layers:
                x = layer(x)
            return nn.functional.linear(self.norm(x), self.embedding.weight)

    return LanguageModel()
