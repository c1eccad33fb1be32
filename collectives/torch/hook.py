"""Communication hook for DistributedDataParallel. torch is imported on first use.

ddp.register_comm_hook(None, co.torch_hook(compressor, co.TorchComm(), model.named_parameters()))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

import wirecodec as wc
from collectives.allreduce import allreduce
from collectives.channel import Channel
from collectives.cltk.allreduce import CLTk
from collectives.communicator import Communicator

__all__ = ["torch_hook"]


def torch_hook(
    compressor: wc.Compressor | CLTk,
    comm: Communicator | Channel,
    named_parameters: Iterable[tuple[str, Any]],
    *,
    algorithm: str = "auto",
) -> Callable[[object, Any], Any]:
    """Create a communication hook with which DistributedDataParallel averages compressed gradients.

    DDP passes gradients to the hook in buckets. The hook collects all buckets of a step and exchanges them at
    once, under the parameters' names. So residuals and schedules advance once per training step, for any size
    of the buckets. An exception of ``allreduce`` is raised by ``backward()``, on all ranks.

    Args:
        compressor: this rank's compressor, with the same settings on all ranks.
        comm: a TorchComm, or another communicator with the same ranks in the same order, or its Channel.
        named_parameters: ``model.named_parameters()`` of the wrapped model.
        algorithm: as for allreduce; CLT-k ignores it.

    Returns:
        The hook, for ``DistributedDataParallel.register_comm_hook``.

    Raises:
        ImportError: torch is missing.

    Source:
        https://docs.pytorch.org/docs/stable/ddp_comm_hooks.html

    Examples:
        >>> import collectives as co, wirecodec as wc
        >>> compressor = wc.Compressor("topk(0.01) | rice | qsgd")
        >>> hook = co.torch_hook(compressor, co.TorchComm(), model.named_parameters())  # doctest: +SKIP
        >>> ddp.register_comm_hook(None, hook)  # doctest: +SKIP
    """
    import torch
    import torch.distributed as dist

    names = {id(parameter): name for name, parameter in named_parameters}
    pending: list[tuple[Any, Any]] = []

    def hook(state: object, bucket: Any) -> Any:
        future: Any = torch.futures.Future()
        if bucket.index() == 0:  # an interrupted backward pass may have left buckets
            pending.clear()
        pending.append((bucket, future))
        if not bucket.is_last():
            return future
        step = list(pending)
        pending.clear()
        parts = [
            (names[id(parameter)], gradient)
            for each, _ in step
            for parameter, gradient in zip(each.parameters(), each.gradients(), strict=True)
        ]
        gradients = {name: gradient.detach() for name, gradient in parts}
        if isinstance(compressor, CLTk):
            means = compressor.allreduce(comm, gradients)
        else:
            means = allreduce(comm, gradients, compressor, algorithm=algorithm)
        for name, gradient in parts:
            mean: Any = means[name]
            if not isinstance(mean, torch.Tensor):  # it is a tensor if the gradient is on a GPU
                bits = mean.view(np.int16) if mean.dtype.name == "bfloat16" else mean
                mean = torch.from_numpy(bits).view(gradient.dtype)
            gradient.copy_(mean)
        for each, done in step:
            done.set_result(each.buffer())
        return future

    # DDP checks these annotations and does not accept strings.
    hook.__annotations__ = {"bucket": dist.GradBucket, "return": torch.futures.Future[torch.Tensor]}
    return hook
