"""Two ways to average the gradients of all ranks, with the bytes that each rank sends.

Dense is MPI's Allreduce of the flat float32 gradient. MPI does not report its bytes. The demo counts the
minimum of any dense all-reduce on n ranks: 2(n-1)/n of the gradient.

Compressed is collectives.allreduce with a Compressor, or CLT-k. The demo counts the bytes that the Channel
sent: payloads and headers. Every rank's container is sent to every other rank. Its bytes grow with n-1, and
the ratio of dense to compressed falls as 1/n. Those of CLT-k stay constant.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

import collectives as co
from benchmarks.demo.choices import DEFAULT, Choice
from benchmarks.demo.model import Params

__all__ = ["Compressed", "Dense", "Exchange", "warm_up"]


class Exchange(Protocol):
    """Average of the gradients of all ranks, with a count of the bytes sent."""

    @property
    def bytes_sent(self) -> float:
        """Return the bytes that this rank has sent."""
        ...

    def mean(self, grads: Params) -> Params:
        """Average the gradients of all ranks, by name; all ranks call this together."""
        ...


class Dense:
    """Allreduce of MPI for all gradients as one float32 vector.

    Args:
        comm: an mpi4py communicator.
    """

    def __init__(self, comm: Any) -> None:
        self._comm = comm
        self._bytes = 0.0

    @property
    def bytes_sent(self) -> float:
        """Return 2(n-1)/n of the gradient's bytes per step, the minimum of a dense all-reduce."""
        return self._bytes

    def mean(self, grads: Params) -> Params:
        """Average the gradients in MPI's order of summation."""
        flat = np.concatenate([grad.reshape(-1) for grad in grads.values()])
        total = np.empty_like(flat)
        self._comm.Allreduce(flat, total)
        self._bytes += 2 * (self._comm.size - 1) / self._comm.size * flat.nbytes
        total /= total.dtype.type(self._comm.size)
        ends = np.cumsum([grad.size for grad in grads.values()])
        parts = np.split(total, ends[:-1])
        return {name: part.reshape(grads[name].shape) for name, part in zip(grads, parts, strict=True)}


class Compressed:
    """Compressed all-reduce, with error feedback if the choice has it.

    Args:
        comm: an mpi4py communicator.
        seed: seed of the stochastic rounding.
        choice: the compression.
    """

    def __init__(self, comm: Any, *, seed: int, choice: Choice = DEFAULT) -> None:
        self._channel = co.Channel(comm)
        self._compressor = choice.build(seed)

    @property
    def bytes_sent(self) -> float:
        """Return the bytes of payloads and headers, as counted by the Channel."""
        return float(self._channel.bytes_sent)

    def mean(self, grads: Params) -> Params:
        """Average the decoded gradients of all ranks; the result has the same bits on every rank."""
        if isinstance(self._compressor, co.CLTk):
            return self._compressor.allreduce(self._channel, grads)
        return co.allreduce(self._channel, grads, self._compressor)


def warm_up(comm: Any, params: Params, choice: Choice = DEFAULT) -> None:
    """Compress once on this rank alone, to compile or load the kernels before anything is timed.

    Args:
        comm: a communicator of this rank only.
        params: arrays with the names and shapes of the gradients.
        choice: the compression.
    """
    Compressed(comm, seed=0, choice=choice).mean(params)
