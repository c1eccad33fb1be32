"""One rank that trains the LSTM over gloo, and records the loss and the seconds of each step.

The norm of the mean gradient is limited, because DDP averages inside backward. Local updates limit that of
each rank.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from benchmarks.common.ranks import run_torch_rank

__all__ = ["METHODS", "measure"]

LOCAL_SYSTEMS = {
    "local updates every 4": "local updates every 4, 0.25 bits per step",
    "local updates every 6": "local updates every 6, 0.1 bits per step, inner momentum 0.5",
}
"""System of the training benchmark whose settings each method of local updates has here."""
METHODS = (
    "dense",
    "fp16",
    "PowerSGD, rank 4",
    "PowerSGD, rank 8",
    "PowerSGD, rank 16",
    "budget 0.25, after backward",
    "budget 0.25, overlapped",
    *LOCAL_SYSTEMS,
)
WHOLE_MODEL_MB = 1000
"""Bucket size for PowerSGD's hook, which needs all gradients in one bucket on gloo."""
SCHEME = "budget(bits=0.25) | rice | error-bounded"
WARM_UP = 3


def measure(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Train with the settings of a plan; return them with the losses and seconds of the steps."""
    import torch.distributed as dist

    return dict(plan) | _train(plan["method"], plan["steps"], plan["rate"], dist.get_rank())


def _train(method: str, steps: int, highest: float, rank: int) -> dict[str, Any]:
    """Train, and return losses (mean over ranks) and seconds since the first step, per step."""
    import torch
    import torch.distributed as dist

    from benchmarks.training.systems.registry import SYSTEMS
    from benchmarks.training.tasks.registry import TASKS
    from benchmarks.training.tasks.task import Settings
    from benchmarks.training.train import build_optimizer, compute_rate

    task = TASKS["text-lstm"]
    problem = task.build(0)
    model = problem.model
    settings = Settings(highest, 0.0, 0.99)
    local = None
    if method in LOCAL_SYSTEMS:
        system: Any = SYSTEMS[LOCAL_SYSTEMS[method]]
        optimizer = build_optimizer(task, model.parameters(), system.optimizer_settings(settings))
        local = _build_local_updates(system, optimizer, model, settings)
        local.synchronize()
    else:
        optimizer = build_optimizer(task, model.parameters(), settings)
        problem.model = _wrap(method, model)
    losses, seconds = [], []
    dist.barrier()
    start = time.perf_counter()
    for step in range(-WARM_UP, steps):
        if step == 0:  # hooks and kernels are ready
            if local is not None:
                local.exchange()
            dist.barrier()
            start = time.perf_counter()
        loss = problem.loss(max(step, 0), rank)
        model.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), task.clip)
        optimizer.param_groups[0]["lr"] = compute_rate(task, highest, max(step, 0), steps)
        _ = (local or optimizer).step()
        if step >= 0:
            seconds.append(time.perf_counter() - start)
            losses.append(loss.detach())
    total = torch.stack(losses)
    dist.all_reduce(total)
    return {"losses": (total / dist.get_world_size()).tolist(), "seconds": seconds}


def _build_local_updates(system: Any, optimizer: Any, model: Any, settings: Any) -> Any:
    """Build a system's exchange of movements over gloo."""
    import collectives as co
    import wirecodec as wc

    compressor = wc.Compressor(system.scheme, feedback=wc.ErrorFeedback(decay=system.decay), scope="group")
    rate, momentum = system.outer_settings(settings)
    return co.LocalUpdates(
        optimizer,
        model.named_parameters(),
        compressor,
        co.TorchComm(),
        system.every_steps,
        rate,
        momentum,
        nesterov=True,
    )


def _wrap(method: str, model: Any) -> Any:
    """Wrap a model in DistributedDataParallel with a method's communication hook."""
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
    from torch.nn.parallel import DistributedDataParallel

    import collectives as co
    import wirecodec as wc

    if method.startswith("PowerSGD"):
        ddp = DistributedDataParallel(model, bucket_cap_mb=WHOLE_MODEL_MB)
        rank = int(method.rsplit(maxsplit=1)[-1])
        state = powerSGD_hook.PowerSGDState(
            None, matrix_approximation_rank=rank, start_powerSGD_iter=2, min_compression_rate=2
        )
        ddp.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
        return ddp
    ddp = DistributedDataParallel(model, bucket_cap_mb=1)
    if method == "fp16":
        ddp.register_comm_hook(None, default_hooks.fp16_compress_hook)
    elif method.startswith("budget"):
        overlap = method.endswith("overlapped")
        hook = co.torch_hook(
            wc.Compressor(SCHEME, scope="group"), co.TorchComm(), model.named_parameters(), overlap=overlap
        )
        ddp.register_comm_hook(None, hook)
    return ddp


if __name__ == "__main__":
    run_torch_rank(measure)
