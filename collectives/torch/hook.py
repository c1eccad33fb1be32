"""Communication hook for DistributedDataParallel. torch is imported on first use.

ddp.register_comm_hook(None, co.torch_hook(compressor, co.TorchComm(), model.named_parameters()))
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import wirecodec as wc
from collectives.channel import Channel
from collectives.cltk.allreduce import CLTk
from collectives.communicator import Communicator
from collectives.errors import CollectiveError
from collectives.torch.arguments import check_compressor, name_parameters, refuse_as_hook, wrap_group
from collectives.torch.gradients import as_tensor, average

__all__ = ["torch_hook"]


def torch_hook(
    compressor: wc.Compressor | CLTk,
    comm: Communicator | Channel,
    named_parameters: Iterable[tuple[str, Any]],
    *,
    algorithm: str = "auto",
    nonfinite: Literal["raise", "propagate"] = "propagate",
) -> Callable[[object, Any], Any]:
    """Create a communication hook with which DistributedDataParallel averages compressed gradients.

    DDP passes gradients to the hook in buckets. The hook collects all buckets of a step and exchanges them at
    once, under the parameters' names. So residuals and schedules advance once per training step, for any size
    of the buckets.

    A gradient that is zero everywhere on a rank is held: the rank sends nothing of it and keeps its residual.
    DDP passes zeros for a parameter that the rank did not use. If no rank used it, DDP drops the mean.

    An exception is raised by ``backward()``, on all ranks if it is a CollectiveError. It is raised after DDP
    has completed its step, so the next step works. All gradients are then NaN, because they were not
    averaged: call ``optimizer.zero_grad()``, not ``optimizer.step()``.

    An error that closes the channel, such as a Timeout, is raised at once, and DDP cannot continue. It would
    use the process group itself, whose messages may still be in flight. To continue, delete the DDP object,
    create new process groups, wrap the model again, and register a new hook with the same compressor.

    Args:
        compressor: this rank's compressor, with the same settings on all ranks; one per model.
        comm: a TorchComm, or another communicator with the same ranks in the same order, or its Channel. A
            gloo ProcessGroup is wrapped in a TorchComm.
        named_parameters: ``model.named_parameters()`` of the wrapped model.
        algorithm: as for allreduce; CLT-k ignores it.
        nonfinite: as for allreduce. With "propagate", all gradients are NaN if one is NaN or Inf on any rank.
            ``torch.amp.GradScaler`` then skips the step and lowers its scale, and no residual is lost.

    Returns:
        The hook, for ``DistributedDataParallel.register_comm_hook``.

    Raises:
        ImportError: torch is missing.
        TypeError: an argument is of another kind; the message names the right one.
        ValueError: named_parameters is empty, or has a name twice.

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

    check_compressor(compressor)
    channel = Channel.of(wrap_group(comm))
    names = {id(parameter): name for name, parameter in name_parameters(named_parameters).items()}
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
        buckets = [each for each, _ in step]
        try:
            gradients = _name_gradients(buckets, names)
            means = average(channel, gradients, compressor, algorithm, nonfinite)
            for name, gradient in gradients.items():
                gradient.copy_(as_tensor(means[name], gradient))
        except BaseException as error:
            _fill_with_nan(buckets)
            if channel.closed is not None:
                raise _add_advice(error) from error
            _raise_after_step(error)
        for each, completed in step:
            completed.set_result(each.buffer())
        return future

    # DDP checks these annotations and does not accept strings.
    hook.__annotations__ = {"bucket": dist.GradBucket, "return": torch.futures.Future[torch.Tensor]}
    return hook


refuse_as_hook(torch_hook)


def _name_gradients(buckets: Sequence[Any], names: dict[int, str]) -> dict[str, Any]:
    """Return the gradients of all buckets by name. Raises ValueError for a parameter without a name."""
    gradients = {}
    for bucket in buckets:
        parameters, buffer = bucket.parameters(), bucket.buffer()
        # A sparse gradient is in a bucket of its own. The exchange reports it to all ranks.
        parts = bucket.gradients() if _is_dense(buffer) else [buffer]
        for parameter, gradient in zip(parameters, parts, strict=True):
            if id(parameter) not in names:
                raise ValueError(
                    f"a parameter of shape {tuple(parameter.shape)} is not in named_parameters;"
                    " pass those of the module that DistributedDataParallel wraps"
                )
            gradients[names[id(parameter)]] = gradient.detach()
    return gradients


def _fill_with_nan(buckets: Sequence[Any]) -> None:
    """Replace gradients that were not averaged, so that no optimizer uses them unnoticed."""
    for bucket in buckets:
        if _is_dense(bucket.buffer()):
            bucket.buffer().fill_(math.nan)


def _is_dense(tensor: Any) -> bool:
    import torch

    return bool(tensor.layout is torch.strided)


def _add_advice(error: BaseException) -> BaseException:
    """Return an error of a closed channel with the way to continue, if it is a CollectiveError."""
    if not isinstance(error, CollectiveError):
        return error
    text = (
        f"{error}; DistributedDataParallel cannot continue after this error: delete it, create new process"
        " groups, wrap the model again, and register a new torch_hook with the same compressor"
    )
    return type(error)(text, ranks=error.ranks, reason=error.reason)


def _raise_after_step(error: BaseException) -> None:
    """Raise an exception at the end of ``backward()``, after DDP has completed its step.

    An exception of the hook itself would leave DDP in the middle of a step, in which it remains. DDP
    completes a step in a callback, which it queues after the last bucket's hook. So the exception is raised
    in a callback that is queued by another callback, and runs last.

    Outside a backward pass, as for a rank that has joined early, the exception is raised at once.
    """
    import torch

    queue: Callable[[Callable[[], None]], None] = torch.autograd.Variable._execution_engine.queue_callback

    def raise_error() -> None:
        raise error

    try:
        queue(lambda: queue(raise_error))
    except RuntimeError:
        raise error from None
