"""Average torch gradients in place, with a Compressor or CLT-k."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import wirecodec as wc
from collectives.call import counted
from collectives.channel import Channel, find_ends
from collectives.cltk.allreduce import CLTk
from collectives.communicator import Communicator
from collectives.exchange.encoding import Inputs
from collectives.methods import Method
from collectives.sites.sites import Sites
from collectives.torch.arguments import check_compressor, name_parameters, require_ranks
from collectives.torch.layouts import SparseLayouts, find_sparse, is_dense
from collectives.torch.optimizer import find_momentum, warn_of_momentum
from collectives.torch.scaling import LossScale, check_scaler, warn_of_changed_scale
from wirecodec.interop import describe_overlap, find_zeros, local_shard


@counted(lambda comm, *_, **__: find_ends(comm), replaces="comm")
def average_gradients(
    comm: Communicator | Channel | Sites,
    named_parameters: Iterable[tuple[str, Any]],
    compressor: wc.Compressor | CLTk,
    *,
    algorithm: str = "auto",
    nonfinite: Literal["raise", "propagate"] = "propagate",
    optimizer: Any = None,
    scaler: Any = None,
    weight: float = 1.0,
) -> None:
    """Replace the gradients of parameters by their means over the ranks, in place, in one exchange.

    It is for programs without DistributedDataParallel: over MPI, with gradient accumulation, or with several
    models. Call it after ``backward()`` and before ``optimizer.step()``, on all ranks.

    A parameter without a gradient, or with a gradient of zeros, is held: nothing of it is sent, and its
    residual does not change. If another rank has a gradient for it, this rank also gets the mean. If the mean
    is zero everywhere, the gradient becomes None on all ranks, so that their optimizers do the same.

    A sparse gradient, as of ``nn.Embedding(sparse=True)``, is replaced by a sparse mean with the rows that
    any rank has sent. Other ranks get a sparse mean, too, from the first step on in which a rank has a sparse
    gradient for this parameter, also if theirs is dense or missing. The residual is dense.
    A scheme with a transform is an error for a sparse gradient. Of a DTensor, this rank's shard is averaged:
    the ranks of ``comm`` are those with the same shard.

    Args:
        comm: a communicator, its Channel, or Sites.
        named_parameters: ``model.named_parameters()``, with the same names on all ranks. Parameters that need
            no gradient are left out.
        compressor: this rank's compressor, with the same settings on all ranks; one per set of parameters.
        algorithm: as for allreduce; CLT-k ignores it.
        nonfinite: as for allreduce. With "propagate", all gradients are NaN if one is NaN or Inf on any rank.
            ``torch.amp.GradScaler`` then skips the step.
        optimizer: the one that applies the means, to be checked by ``check_optimizer``; None for no check.
        scaler: the ``torch.amp.GradScaler`` whose scale the gradients have, the same on all ranks. Residuals,
            momenta, thresholds, limits and ``clip`` are then in the gradients' true unit, and the means have
            the scale again. Call this before ``scaler.unscale_`` and ``scaler.step``. None for gradients
            without a scale.
        weight: of this rank's gradients in the mean, as for allreduce; for batches of different sizes.

    Raises:
        ImportError: torch is missing.
        TypeError: comm, compressor or named_parameters is of another kind; the message names the right one.
        CollectiveError: as for allreduce.
        Timeout: a rank does not take part.

    Examples:
        >>> import collectives as co, wirecodec as wc
        >>> compressor = wc.Compressor("topk(0.01) | rice | qsgd")
        >>> loss.backward()  # doctest: +SKIP
        >>> co.average_gradients(comm, model.named_parameters(), compressor)  # doctest: +SKIP
        >>> optimizer.step()  # doctest: +SKIP
    """
    require_ranks(comm)
    check_compressor(compressor)
    check_scaler(scaler)
    if optimizer is not None:
        warn_of_momentum("the optimizer", find_momentum(optimizer), compressor, stacklevel=3)
    named = name_parameters(named_parameters)
    trained = {name: p for name, p in named.items() if p.requires_grad}

    def collect() -> Gradients:
        if scaler is None:
            warn_of_changed_scale(compressor)
        compressor.require_names(named)
        gradients = {name: _get_gradient(p) for name, p in trained.items()}
        _require_separate(gradients)
        layouts.announce(gradients)
        return Gradients(gradients, LossScale.of(scaler, optimizer))

    ends: Any = comm
    layouts = SparseLayouts(ends, trained)
    means = average(ends, collect, compressor, algorithm, nonfinite, weight)
    layouts.learn()
    unused = find_zeros({name: means[name] for name in trained})
    means = layouts.apply(means)
    for name, parameter in trained.items():
        if name in unused:
            parameter.grad = None
        elif parameter.grad is None or not (is_dense(parameter.grad) and is_dense(means[name])):
            parameter.grad = _like(parameter, means[name])


def _get_gradient(parameter: Any) -> Any:
    """Return a parameter's gradient without its graph, or zeros if it has none; of a DTensor, the shard."""
    import torch

    if parameter.grad is None:
        return torch.zeros_like(local_shard(parameter.detach()))
    return local_shard(parameter.grad.detach())


def _require_separate(gradients: Mapping[str, Any]) -> None:
    """Raise ValueError if gradients share memory, into which their means are written.

    Of contiguous gradients on the host, ``Targets`` checks this itself.
    """
    if all(is_dense(x) and x.is_contiguous() for x in gradients.values()):
        return
    shared = describe_overlap(gradients, lambda name: f"the gradient of {name!r}")
    if shared is not None:
        raise ValueError(f"{shared}: each parameter needs a gradient of its own")


def _like(parameter: Any, mean: Any) -> Any:
    """Return a mean as a gradient of a parameter, which may be a DTensor."""
    if not hasattr(parameter, "to_local"):
        return mean
    from torch.distributed.tensor import DTensor

    return DTensor.from_local(
        mean, parameter.device_mesh, parameter.placements, shape=parameter.shape, stride=parameter.stride()
    )


@dataclass(frozen=True, eq=False)
class Gradients:
    """Gradients of a step, and their unit.

    Attributes:
        tensors: {name: torch tensor}, dense or sparse.
        scale: by which they are larger than in their true unit.
    """

    tensors: Mapping[str, Any]
    scale: LossScale

    def to_inputs(self) -> Inputs:
        """Return the inputs of an exchange, in the true unit; dense ones take their means, too."""
        given = self.scale.to_true_unit(self.tensors)
        out = given | {name: _make_dense(tensor) for name, tensor in find_sparse(given).items()}
        return Inputs(given, out, self.scale.unit, self.scale.limits(self.tensors))

    def take(self, means: Mapping[str, Any]) -> dict[str, Any]:
        """Write means into dense gradients; return these, and a sparse mean for each sparse gradient."""
        sparse, taken = find_sparse(self.tensors), dict(self.tensors)
        for name, gradient in self.tensors.items():
            if name in sparse:
                mean = means[name].to_sparse(gradient.sparse_dim())
                scaled = (mean * self.scale.factor).coalesce() if self.scale.unit else mean
                taken[name] = scaled.to(gradient.dtype)
            elif means[name] is not gradient:
                self.scale.write(means[name], gradient)
        return taken


def _make_dense(tensor: Any) -> Any:
    """Return dense memory for the mean of a sparse tensor."""
    import torch

    return torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)


def average(
    channel: Channel | Sites,
    collect: Callable[[], Gradients],
    compressor: wc.Compressor | CLTk,
    algorithm: str,
    nonfinite: Literal["raise", "propagate"],
    weight: float = 1.0,
) -> dict[str, Any]:
    """Average torch tensors, dense ones in place, and hold those that are zero everywhere.

    Args:
        channel: open, or Sites; all ranks call this together.
        collect: returns this rank's gradients; if it raises, all ranks raise CollectiveError.
        compressor, algorithm, nonfinite, weight: as for allreduce.

    Means are written into the memory of dense gradients. Others are copied: of gradients that are scaled, or
    not contiguous, as those of channels-last tensors. A sparse gradient is made dense for the exchange,
    because residuals are.

    Returns:
        {name: mean}: the dense gradients, and sparse tensors for sparse ones, with the rows that are not 0.
    """
    gradients = Gradients({}, LossScale())

    def make() -> Inputs:
        nonlocal gradients
        gradients = collect()
        return gradients.to_inputs()

    settings: dict[str, Any] = {"algorithm": algorithm, "nonfinite": nonfinite, "weight": weight}
    reduce = Method.of(compressor).reduce
    means = reduce(channel, make, compressor, hold_zeros=True, has_out=True, **settings)
    return gradients.take(means)  # those that ``make`` has set
