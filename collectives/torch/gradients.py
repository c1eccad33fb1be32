"""Average torch gradients in place, with a Compressor or CLT-k."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import numpy as np

import wirecodec as wc
from collectives.allreduce import allreduce
from collectives.channel import Channel
from collectives.cltk.allreduce import CLTk
from collectives.communicator import Communicator
from collectives.torch.arguments import check_compressor, name_parameters
from collectives.torch.optimizer import find_momentum, warn_of_momentum
from wirecodec.interop import is_zero

__all__ = ["average", "average_gradients", "is_dense"]


def average_gradients(
    comm: Communicator | Channel,
    named_parameters: Iterable[tuple[str, Any]],
    compressor: wc.Compressor | CLTk,
    *,
    algorithm: str = "auto",
    nonfinite: Literal["raise", "propagate"] = "propagate",
    optimizer: Any = None,
) -> None:
    """Replace the gradients of parameters by their means over the ranks, in place, in one exchange.

    It is for programs without DistributedDataParallel: over MPI, with gradient accumulation, or with several
    models. Call it after ``backward()`` and before ``optimizer.step()``, on all ranks.

    A parameter without a gradient, or with a gradient of zeros, is held: nothing of it is sent, and its
    residual does not change. If another rank has a gradient for it, this rank also gets the mean. If the mean
    is zero everywhere, the gradient becomes None on all ranks, so that their optimizers do the same.

    A sparse gradient, as of ``nn.Embedding(sparse=True)``, is replaced by a sparse mean with the rows that
    any rank has sent. A rank without a gradient for this parameter gets a dense mean. The residual is dense.
    A scheme with a transform is an error for a sparse gradient.

    Args:
        comm: a communicator or its Channel.
        named_parameters: ``model.named_parameters()``, with the same names on all ranks. Parameters that need
            no gradient are left out.
        compressor: this rank's compressor, with the same settings on all ranks; one per set of parameters.
        algorithm: as for allreduce; CLT-k ignores it.
        nonfinite: as for allreduce. With "propagate", all gradients are NaN if one is NaN or Inf on any rank.
            ``torch.amp.GradScaler`` then skips the step.
        optimizer: the one that applies the means, to be checked by ``check_optimizer``; None for no check.

    Raises:
        ImportError: torch is missing.
        TypeError: compressor or named_parameters is of another kind; the message names the right one.
        CollectiveError: as for allreduce. A DTensor is an error, too.
        Timeout: a rank does not take part.

    Examples:
        >>> import collectives as co, wirecodec as wc
        >>> compressor = wc.Compressor("topk(0.01) | rice | qsgd")
        >>> loss.backward()  # doctest: +SKIP
        >>> co.average_gradients(comm, model.named_parameters(), compressor)  # doctest: +SKIP
        >>> optimizer.step()  # doctest: +SKIP
    """
    import torch

    check_compressor(compressor)
    if optimizer is not None:
        warn_of_momentum("the optimizer", find_momentum(optimizer), compressor, stacklevel=2)
    trained = {name: p for name, p in name_parameters(named_parameters).items() if p.requires_grad}
    gradients = {
        name: torch.zeros_like(p, requires_grad=False) if p.grad is None else p.grad.detach()
        for name, p in trained.items()
    }
    means = average(comm, gradients, compressor, algorithm, nonfinite)
    for name, parameter in trained.items():
        if is_zero(means[name]):
            parameter.grad = None
        elif parameter.grad is None or not is_dense(parameter.grad):
            parameter.grad = means[name]


def average(
    comm: Communicator | Channel,
    gradients: Mapping[str, Any],
    compressor: wc.Compressor | CLTk,
    algorithm: str,
    nonfinite: Literal["raise", "propagate"],
) -> dict[str, Any]:
    """Average torch tensors, dense ones in place, and hold those that are zero everywhere.

    Arguments and errors are those of allreduce. Means are written into the memory of dense gradients. If one
    is not contiguous, as that of a channels-last tensor, the means are copied. A sparse gradient is made
    dense for the exchange, because residuals are.

    Returns:
        {name: mean}: the dense gradients, and sparse tensors for sparse ones, with the rows that are not 0.
    """
    given = {name: each if is_dense(each) else each.to_dense() for name, each in gradients.items()}
    direct = all(each.is_contiguous() for each in given.values())
    settings: dict[str, Any] = {"nonfinite": nonfinite, "hold_zeros": True, "out": given if direct else None}
    means: dict[str, Any]
    if isinstance(compressor, CLTk):
        means = compressor.allreduce(comm, gradients, **settings)
    else:
        means = allreduce(comm, gradients, compressor, algorithm=algorithm, **settings)
    if not direct:
        for name, gradient in given.items():
            gradient.copy_(_as_tensor(means[name], gradient))
    return {
        name: given[name] if is_dense(each) else given[name].to_sparse(each.sparse_dim())
        for name, each in gradients.items()
    }


def is_dense(tensor: Any) -> bool:
    """Return whether a torch tensor is dense."""
    import torch

    return bool(tensor.layout is torch.strided)


def _as_tensor(mean: Any, gradient: Any) -> Any:
    """View a mean as a tensor of the gradient's type; it is one already if the gradient is on a GPU."""
    import torch

    if isinstance(mean, torch.Tensor):
        return mean
    bits = mean.view(np.int16) if mean.dtype.name == "bfloat16" else mean
    return torch.from_numpy(bits).view(gradient.dtype)
