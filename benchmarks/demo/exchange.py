"""Two ways to the mean gradient over all ranks, with the bytes that each rank sent for it.

Dense is MPI's own Allreduce of the flat float32 gradient. MPI does not tell what it sends, so what is counted
is the least that any dense all-reduce sends on n ranks: 2(n-1)/n of the gradient.

Compressed is collectives.allreduce with a Compressor. What is counted is what the Channel really sent:
payloads and headers. Every rank's container travels to every other, so its bytes grow with n-1, and the ratio
of dense to compressed falls as 1/n.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

import collectives as co
import wirecodec as wc
from benchmarks.demo.model import Params

__all__ = ["FUSE", "SCHEMES", "Compressed", "Dense", "Exchange", "warm_up"]

_SMALL = "all | raw-index | qsgd(bits=4)"
SCHEMES = {
    "*.bias": _SMALL,  # every output hangs on its bias, and there are few: send all of them, rounded
    "conv1.*": _SMALL,
    "dense1.weight": "topk(0.0005) | rice | qsgd(bits=4)",  # nearly all parameters are here
    "*": "topk(0.005) | rice | qsgd(bits=4)",
}
"""How each tensor is compressed: the first pattern that matches its name.

Measured on 4 ranks, 400 steps, 8 seeds: test accuracy, mean ± standard deviation; how many times fewer bytes
than dense; the step at which the training loss first falls below 0.1, mean.

    dense                                                      97.9 ± 0.3 %      1      35
    these                                                      98.2 ± 0.6 %    480     100
    these, but values, biases and conv1 raw                    98.2 ± 0.7 %    129      96
    topk(0.001) | rice | qsgd(bits=4) for all but biases       97.9 ± 0.5 %    439     157
    topk(0.01) | rice | qsgd(bits=4), biases raw               98.3 ± 0.3 %     80      78
"""

FUSE = 65536  # elements: smaller tensors of one scheme share one entry of the container


class Exchange(Protocol):
    """The mean gradient over all ranks, and the bytes sent for it."""

    @property
    def bytes_sent(self) -> float:
        """Bytes that this rank has sent so far."""
        ...

    def mean(self, grads: Params) -> Params:
        """Every rank's gradients in, their mean out, named and shaped alike. All ranks call this together."""
        ...


class Dense:
    """MPI's Allreduce of all gradients as one float32 vector.

    Args:
        comm: an mpi4py communicator.
    """

    def __init__(self, comm: Any) -> None:
        self._comm = comm
        self._bytes = 0.0

    @property
    def bytes_sent(self) -> float:
        """2(n-1)/n of the gradient's bytes a step: the least that a dense all-reduce can send."""
        return self._bytes

    def mean(self, grads: Params) -> Params:
        """The mean over the ranks, in MPI's order of summation."""
        flat = np.concatenate([grad.reshape(-1) for grad in grads.values()])
        total = np.empty_like(flat)
        self._comm.Allreduce(flat, total)
        self._bytes += 2 * (self._comm.size - 1) / self._comm.size * flat.nbytes
        total /= total.dtype.type(self._comm.size)
        ends = np.cumsum([grad.size for grad in grads.values()])
        parts = np.split(total, ends[:-1])
        return {name: part.reshape(grads[name].shape) for name, part in zip(grads, parts, strict=True)}


class Compressed:
    """collectives.allreduce of compressed gradients; error feedback adds what a step left out to the next.

    Args:
        comm: an mpi4py communicator.
        seed: of the stochastic rounding.
    """

    def __init__(self, comm: Any, *, seed: int) -> None:
        self._channel = co.Channel(comm)
        self._compressor = wc.Compressor(
            SCHEMES,
            feedback=wc.ErrorFeedback(),
            seed=seed,
            names=False,  # receivers know the names: their own gradients have the same
            fuse=FUSE,
        )

    @property
    def bytes_sent(self) -> float:
        """Payloads and headers, as the Channel counted them."""
        return float(self._channel.bytes_sent)

    def mean(self, grads: Params) -> Params:
        """The mean of what the ranks' containers decode to: the same bits on every rank."""
        return co.allreduce(self._channel, grads, self._compressor)


def warm_up(comm: Any, params: Params) -> None:
    """Compress once, alone: compiles the kernels, or loads them, before anything is timed.

    Args:
        comm: a communicator of this rank only.
        params: any arrays with the gradients' names and shapes.
    """
    Compressed(comm, seed=0).mean(params)
