"""Systems that are compared: a model alone, DistributedDataParallel, torch's hooks, and this library's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from inspect import signature
from typing import Any

from benchmarks.step.models import Problem

__all__ = [
    "BUDGET",
    "BUDGETED",
    "COMPUTING",
    "DEFAULT",
    "ELEMENTS_PER_BYTE",
    "LIMITED",
    "NATIVE",
    "OFF",
    "ON",
    "OURS",
    "PLAIN",
    "POWERSGD",
    "SYSTEMS",
    "TOPK",
    "System",
    "build",
]

COMPUTING = "computing alone"
PLAIN, HALF, POWERSGD = "plain DDP", "fp16_compress_hook", "PowerSGD, rank 2"
DEFAULT, OFF, ON = "topk", "topk, overlap=False", "topk, overlap=True"
BUDGET, LIMITED = "budget(0.25), group", "bytes_per_step"
NATIVE = (PLAIN, HALF, POWERSGD)
OURS = (DEFAULT, OFF, ON, BUDGET, LIMITED)
SYSTEMS = (COMPUTING, *NATIVE, *OURS)

TOPK = "topk(0.01) | rice | raw(bfloat16)"
BUDGETED = "budget(0.25) | rice | error-bounded"
ELEMENTS_PER_BYTE = 32
"""Of ``bytes_per_step``: 0.25 bits per element."""
WHOLE_MODEL_MB = 1000
"""Bucket size for PowerSGD's hook, which needs all gradients in one bucket on gloo."""
LEARNING_RATE = 1e-3


@dataclass(frozen=True)
class System:
    """A model that is ready to train.

    Attributes:
        step: takes one training step.
        model: the model itself.
        wrapped: what wraps it, or the model itself.
        bytes_sent: counts the bytes that this rank has sent so far; None if the system does not count them.
    """

    step: Callable[[], None]
    model: Any
    wrapped: Any = field(repr=False)
    bytes_sent: Callable[[], int] | None = None


def build(name: str, problem: Problem, make_comm: Callable[[], Any]) -> System:
    """Wrap a model, and make its optimizer.

    Args:
        name: of ``SYSTEMS``.
        problem: the model and its loss; the model is used by this system alone.
        make_comm: makes the communicator of this library's hook.
    """
    import torch
    from torch.nn.parallel import DistributedDataParallel

    model = problem.model
    wrapped, bytes_sent = model, None
    if name != COMPUTING:
        settings: dict[str, Any] = {"bucket_cap_mb": WHOLE_MODEL_MB} if name == POWERSGD else {}
        if "init_sync" in signature(DistributedDataParallel).parameters:
            # All ranks have built the same model, whose copy over a slow link would take long.
            settings["init_sync"] = False
        wrapped = DistributedDataParallel(model, gradient_as_bucket_view=True, **settings)
    if name in (HALF, POWERSGD):
        _register_native(name, wrapped)
    elif name in OURS:
        bytes_sent = _register_ours(name, wrapped, make_comm())
    optimizer = torch.optim.SGD(model.parameters(), LEARNING_RATE)

    def step() -> None:
        optimizer.zero_grad()
        problem.loss(wrapped).backward()
        optimizer.step()

    return System(step, model, wrapped, bytes_sent)


def _register_native(name: str, wrapped: Any) -> None:
    """Register a hook of torch."""
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

    if name == HALF:
        wrapped.register_comm_hook(None, default_hooks.fp16_compress_hook)
        return
    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=2)
    wrapped.register_comm_hook(state, powerSGD_hook.powerSGD_hook)


def _register_ours(name: str, wrapped: Any, comm: Any) -> Callable[[], int]:
    """Register this library's hook; return the count of its bytes."""
    import collectives as co
    import wirecodec as wc

    model = wrapped.module
    channel = co.Channel.of(comm)
    overlap: bool | None = None
    if name == BUDGET:
        compressor = wc.Compressor(BUDGETED, scope="group")
    elif name == LIMITED:
        elements = sum(parameter.numel() for parameter in model.parameters())
        compressor = wc.Compressor(BUDGETED, bytes_per_step=elements // ELEMENTS_PER_BYTE)
    else:
        compressor = wc.Compressor(TOPK)
        overlap = {OFF: False, ON: True}.get(name)
    hook = co.torch_hook(compressor, channel, model.named_parameters(), overlap=overlap)
    wrapped.register_comm_hook(None, hook)
    return lambda: channel.bytes_sent
