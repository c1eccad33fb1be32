"""A communication hook for DistributedDataParallel. torch is imported on first use.

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
    """A communication hook by which DistributedDataParallel averages what ``compressor`` sends.

    Args:
        compressor: this rank's; all ranks build theirs alike.
        comm: a TorchComm, or any communicator of the same ranks in the same order, or its Channel.
        named_parameters: of the model that is wrapped, as ``model.named_parameters()`` gives them.
        algorithm: of allreduce; CLT-k has its own.

    DDP hands over its gradients in buckets. They are gathered, and exchanged when the last one is there: one
    exchange a step, under the parameters' names, so that residuals, steps and schedules are those of training
    steps, however DDP cuts its buckets. What ``allreduce`` raises comes out of ``backward()``, on all ranks.
    """
    import torch
    import torch.distributed as dist

    names = {id(parameter): name for name, parameter in named_parameters}
    pending: list[tuple[Any, Any]] = []

    def hook(state: object, bucket: Any) -> Any:
        future: Any = torch.futures.Future()
        if bucket.index() == 0:  # a backward pass that was interrupted has left its buckets
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
            if not isinstance(mean, torch.Tensor):  # it is one where the gradient lies on a GPU
                bits = mean.view(np.int16) if mean.dtype.name == "bfloat16" else mean
                mean = torch.from_numpy(bits).view(gradient.dtype)
            gradient.copy_(mean)
        for each, done in step:
            done.set_result(each.buffer())
        return future

    # DDP looks at these, and takes no strings.
    hook.__annotations__ = {"bucket": dist.GradBucket, "return": torch.futures.Future[torch.Tensor]}
    return hook
