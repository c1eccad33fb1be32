"""Communication hook for DistributedDataParallel. torch is imported on first use.

ddp.register_comm_hook(None, co.torch_hook(compressor, co.TorchComm(), model.named_parameters()))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Literal

import wirecodec as wc
from collectives.call import skip_exchange
from collectives.channel import Channel, find_ends
from collectives.cltk.allreduce import CLTk
from collectives.communicator import Communicator
from collectives.sites.sites import Sites
from collectives.torch.ahead import EncoderAhead
from collectives.torch.arguments import (
    check_compressor,
    is_ready,
    name_parameters,
    refuse_as_hook,
    refuse_complex,
    require_ranks,
    wrap_group,
)
from collectives.torch.callbacks import after_backward, raise_error, report_error
from collectives.torch.first_step import Expected
from collectives.torch.isolation import isolate
from collectives.torch.optimizer import find_momentum, warn_of_momentum
from collectives.torch.parts import PartSettings
from collectives.torch.scaling import check_scaler
from collectives.torch.spare_cores import has_spare_cores
from collectives.torch.step import Settings, TrainingStep


def torch_hook(
    compressor: wc.Compressor | CLTk,
    comm: Communicator | Channel | Sites,
    named_parameters: Iterable[tuple[str, Any]],
    *,
    algorithm: str = "auto",
    nonfinite: Literal["raise", "propagate"] = "propagate",
    overlap: bool | None = None,
    optimizer: Any = None,
    scaler: Any = None,
) -> Callable[[object, Any], Any]:
    """Create a communication hook with which DistributedDataParallel averages compressed gradients.

    DDP passes gradients to the hook in buckets. A thread exchanges each bucket under the parameters' names,
    while ``backward()`` computes the next ones. Residuals and schedules advance once per training step, for
    any size of the buckets: after the last bucket, if all of them were exchanged.

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
        comm: a TorchComm, or another communicator with the same ranks in the same order, its Channel, or
            Sites. A gloo ProcessGroup is wrapped in a TorchComm. If there is no group yet, the hook begins to
            use it with the first bucket.
        named_parameters: ``model.named_parameters()`` of the wrapped model.
        algorithm: as for allreduce; CLT-k ignores it.
        nonfinite: as for allreduce. With "propagate", all gradients are NaN if one is NaN or Inf on any rank.
            ``torch.amp.GradScaler`` then skips the step and lowers its scale, and no residual is lost. Pass
            it as ``scaler``, too.
        overlap: whether each bucket is exchanged while backward computes the next ones, the same on all
            ranks. False exchanges all buckets at once, after the last one, in fewer messages. Only then does
            ``scope="group"`` select from all tensors; with overlap, it selects from each bucket. On an LSTM,
            that cost nothing at 1 % of the elements, and 4 to 5 % of the perplexity at 0.1 %. None for
            True if every host has two cores or more for each of its ranks, or if the model is on a GPU.
            Otherwise the exchange would take its time from backward. None is also False if the compressor
            has ``clip`` or ``bytes_per_step``, which need all gradients, or ``scope="group"``.
        optimizer: the one that applies the means, to be checked by ``check_optimizer``; None for no check.
        scaler: the ``torch.amp.GradScaler`` that scales the loss, the same on all ranks. Residuals, momenta,
            thresholds, limits of values and ``clip`` are then in the gradients' true unit, and the means have
            the scale again. None for a loss without a scale.

    Returns:
        The hook, for ``DistributedDataParallel.register_comm_hook``.

    Raises:
        ImportError: torch is missing.
        TypeError: an argument is of another kind; the message names the right one.
        ValueError: named_parameters is empty, has a name or a parameter twice, or has a complex parameter; or
            overlap is True and the compressor has clip or bytes_per_step.

    Source:
        https://docs.pytorch.org/docs/stable/ddp_comm_hooks.html

    Examples:
        >>> import collectives as co, wirecodec as wc
        >>> compressor = wc.Compressor("topk(0.01) | rice | qsgd")
        >>> hook = co.torch_hook(compressor, co.TorchComm(), model.named_parameters())  # doctest: +SKIP
        >>> ddp.register_comm_hook(None, hook)  # doctest: +SKIP
    """
    import torch.distributed

    check_compressor(compressor)
    check_scaler(scaler)
    if optimizer is not None:
        warn_of_momentum("the optimizer", find_momentum(optimizer), compressor, stacklevel=2)
    comm = require_ranks(wrap_group(comm))
    named = name_parameters(named_parameters)
    refuse_complex(named)
    names = {id(parameter): name for name, parameter in named.items()}
    expected = Expected(named)
    overlap = _decide_overlap(compressor, overlap)
    settings: Settings | None = None
    overlaps = False

    def set_up() -> Settings:
        """Return the settings for the present group; a new group gets new connections."""
        nonlocal settings, overlaps
        channel = find_ends(comm)
        if settings is None or settings.channel is not channel:
            overlaps = (
                has_spare_cores(channel, on_gpu=any(one.is_cuda for one in named.values()))
                if overlap is None
                else overlap
            )
            if overlaps:
                isolate(channel)
            settings = Settings(
                PartSettings(compressor, names.values(), algorithm, nonfinite, scaler),
                channel,
                names,
                expected,
                ahead=EncoderAhead() if overlaps else None,
            )
        return settings

    if is_ready(comm):
        set_up()
    current: TrainingStep | None = None

    def hook(state: object, bucket: Any) -> Any:
        nonlocal current
        if current is None or not current.takes(bucket):
            current = TrainingStep(set_up())
        step, channel = current, current.channel
        number, is_last = step.place(bucket)
        try:
            future = step.add(bucket)
        except BaseException:  # the other ranks exchange this bucket
            channel.worker.submit(partial(skip_exchange, channel))
            raise
        expected.buckets[number] = bucket, future
        if number > bucket.index():
            expected.watch(number, is_last=is_last)
        if overlaps:
            step.encode_ahead(number)
            channel.worker.submit(partial(step.exchange_bucket, number, is_last=is_last))
            if is_last:
                after_backward(partial(_finish, step))
        elif is_last:
            step.exchange()
            step.finish()
            _finish(step)
        return future

    # DDP checks these annotations and does not accept strings.
    hook.__annotations__ = {
        "bucket": torch.distributed.GradBucket,
        "return": torch.futures.Future[torch.Tensor],
    }
    return hook


refuse_as_hook(torch_hook)


def _decide_overlap(compressor: wc.Compressor | CLTk, overlap: bool | None) -> bool | None:
    """Return whether buckets are exchanged one by one, or None if that depends on the hosts' cores.

    Raises ValueError if the compressor needs all gradients before the first exchange.
    """
    if not isinstance(compressor, wc.Compressor):
        return overlap
    whole = [name for name in ("clip", "bytes_per_step") if getattr(compressor, name) is not None]
    if overlap and whole:
        raise ValueError(
            f"the compressor has {whole[0]}, which needs all gradients before the first exchange;"
            f" pass overlap=False, or {whole[0]}=None"
        )
    return False if overlap is None and (whole or compressor.scope == "group") else overlap


def _finish(step: TrainingStep) -> None:
    """Wait for the end of a step's exchange, and raise its error.

    An exception of the hook itself would leave DDP in the middle of a step, in which it remains. DDP
    completes a step in a callback, which it queues after the last bucket's hook. So the exception is raised
    in a callback that is queued by another callback, and runs last. An error that closes the channel is
    raised at once.
    """
    error = step.wait() or step.error
    if error is None:
        return
    report_error(error, step.channel.rank)
    if step.is_closed:
        raise error
    after_backward(partial(after_backward, partial(raise_error, error)))
