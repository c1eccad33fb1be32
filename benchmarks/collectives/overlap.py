"""Overlap of backward and exchange under DistributedDataParallel, on a shaped link between two hosts.

Each rank trains a stack of equal layers whose backward waits, as for an accelerator: on one machine, ranks
that compute would take the processor time of the exchange. Backward takes as long as the exchange of all
gradients. Steps with ``overlap=True`` and ``overlap=False`` alternate. It needs torch, and root for the
network namespaces.

    python -m benchmarks.collectives.overlap [--rate "100 Mbit"] [--steps 15]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.common.command import create_parser
from benchmarks.common.hosts import RATES, Hosts, find_missing_tools
from benchmarks.common.ranks import is_rank, run_ranks, run_torch_rank

__all__ = ["main"]

RANKS, LAYERS, WIDTH = 2, 12, 512
SCHEME = "topk(0.1) | rice | raw"
MODULE = "benchmarks.collectives.overlap"


def main() -> None:
    """Run one rank per host, and print the times of rank 0."""
    parser = create_parser(__doc__, MODULE)
    parser.add_argument("--rate", default="100 Mbit", choices=RATES, help="(default: %(default)s)")
    parser.add_argument("--steps", type=int, default=15, help="of each kind (default: %(default)s)")
    options = parser.parse_args()
    if reason := find_missing_tools():
        sys.exit(f"no shaped links: {reason}")
    with Hosts(RANKS) as hosts:
        hosts.shape(RATES[options.rate])
        times = run_ranks(MODULE, options.steps, hosts.names)
    print(f"{RANKS} hosts at {options.rate}, {LAYERS} layers of {WIDTH} x {WIDTH}, {SCHEME}")
    for name, milliseconds in times.items():
        print(f"{name:24}{milliseconds:8.1f} ms")
    print(f"after backward / overlapped: {times['after backward'] / times['overlapped']:.2f}")


def _measure(steps: int) -> dict[str, float]:
    """Measure steps on one rank; return {name: milliseconds, the median}."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    import collectives as co
    import wirecodec as wc

    torch.manual_seed(0)

    seconds = [0.001]  # per layer

    class Wait(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, x: Any, weight: Any) -> Any:
            ctx.save_for_backward(weight)
            return x + weight.mean()

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            time.sleep(seconds[0])
            return gradients[0], ctx.saved_tensors[0] * gradients[0]

    class Model(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.ParameterList([torch.randn(WIDTH, WIDTH) for _ in range(LAYERS)])

        def forward(self, x: Any) -> Any:
            for weight in self.layers:
                x = Wait.apply(x, weight)
            return x

    def make(overlap: bool) -> Any:
        model = Model()
        ddp = DistributedDataParallel(model, bucket_cap_mb=1.1, gradient_as_bucket_view=True)
        compressor, comm = wc.Compressor(SCHEME), co.TorchComm()
        hook = co.torch_hook(
            compressor, comm, model.named_parameters(), algorithm="allgather", overlap=overlap
        )
        ddp.register_comm_hook(None, hook)
        return ddp

    models = {"after backward": make(False), "overlapped": make(True)}
    alone = wc.Compressor(SCHEME)

    comm = co.TorchComm()

    def backward(ddp: Any) -> float:
        ddp.zero_grad()
        loss = ddp(torch.ones(()))
        dist.barrier()
        return _time(loss.backward)

    def backward_alone() -> float:
        with models["overlapped"].no_sync():
            return backward(models["overlapped"])

    def exchange() -> float:
        backward_alone()
        named = list(models["overlapped"].module.named_parameters())
        dist.barrier()
        return _time(lambda: co.average_gradients(comm, named, alone, algorithm="allgather"))

    for ddp in models.values():
        for _ in range(3):
            backward(ddp)
    target = torch.tensor(float(np.median([exchange() for _ in range(7)][1:])) / LAYERS)
    dist.broadcast(target, 0)
    seconds[0] = float(target)
    times: dict[str, list[float]] = {"backward alone": [], "exchange alone": []}
    times |= {name: [] for name in models}
    for _ in range(steps):
        times["backward alone"].append(backward_alone())
        times["exchange alone"].append(exchange())
        for name, ddp in models.items():
            times[name].append(backward(ddp))
    return {name: 1000 * float(np.median(taken)) for name, taken in times.items()}


def _time(function: Callable[[], object]) -> float:
    """Return the seconds that a call takes."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


if __name__ == "__main__":
    run_torch_rank(_measure) if is_rank() else main()
