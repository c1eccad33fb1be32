"""How alike the ranks' residuals and choices are: what CLT-k lives on (ScaleCom, section 3 and Figure 2).

Measured on demand, at the price of two dense all-reduces a tensor; nothing changes by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from collectives.channel import Channel
from collectives.cltk.allreduce import CLTk, on_host
from collectives.communicator import Communicator
from collectives.exchange import ONLY
from collectives.transport.alltoall import exchange_counts
from collectives.transport.reduce import Dense, sum_dense

__all__ = ["Similarity", "similarity"]


@dataclass(frozen=True)
class Similarity:
    """Of one tensor, alike on all ranks.

    Attributes:
        cosine_distance: 1 - the mean cosine between two ranks' residuals, from 0 (alike) to 2; NaN where a
            rank holds nothing back.
        hamming: for each rank, d/k: the share of its own top k that is not in the top k of the mean of
            gradient + residual. That of the leader bounds the contraction (ScaleCom, Lemma 1).
    """

    cosine_distance: float
    hamming: tuple[float, ...]


def similarity(comm: Communicator | Channel, cltk: CLTk, grad: Any) -> Similarity | dict[str, Similarity]:
    """What the next step of ``cltk`` with this gradient would find, by name where names are given.

    Args:
        comm: a communicator or its Channel; all ranks call this together, with tensors of the same names,
            shapes and types, all finite.
        cltk: whose residuals and ratios count.
        grad: as for ``CLTk.allreduce``; what lies on a GPU is copied to the host.

    The ranks exchange no headers first. So any error closes this rank's channel, an EncodeError for its own
    gradient included, and the others raise Timeout.
    """
    channel = Channel.of(comm)
    with channel.collective(begun=True) as call:
        named = grad if isinstance(grad, Mapping) else {ONLY: grad}
        found = {name: _of_one(channel, cltk, name, named[name]) for name in sorted(named, key=str.encode)}
        call.delivered = True
    return found if isinstance(grad, Mapping) else found[ONLY]


def _of_one(channel: Channel, cltk: CLTk, name: str, grad: Any) -> Similarity:
    """Of one tensor.

    Args:
        channel: open.
        cltk: whose residuals and ratios count.
        name: the tensor's.
        grad: its gradient.
    """
    x = cltk.accumulated(name, grad)
    residual = on_host(cltk.residual(name))
    selector = cltk.selector(name)
    distance = _cosine_distance(channel, np.zeros_like(x) if residual is None else residual)
    mean = sum_dense(channel, x, channel.size)
    if selector is None:
        return Similarity(distance, (0.0,) * channel.size)
    mine, best = selector.select(x).indices, selector.select(mean).indices
    missed, k = 0, x.size
    if mine is not None and best is not None:
        missed, k = int(np.setdiff1d(mine, best, assume_unique=True).size), mine.size
    counts = exchange_counts(channel, [missed])
    return Similarity(distance, tuple(row[0] / max(k, 1) for row in counts))


def _cosine_distance(channel: Channel, residual: Dense) -> float:
    """From the sum of unit vectors: |Σu|² = n + Σ of the cosines of all ordered pairs."""
    n = channel.size
    wide = residual.astype(np.float64)
    length = float(np.sqrt(np.sum(wide * wide)))
    unit = wide / length if length > 0 else np.full_like(wide, np.nan)
    total = sum_dense(channel, unit, 1)
    if n == 1:
        return 0.0 if length > 0 else float("nan")
    return 1 - (float(np.sum(total * total)) - n) / (n * (n - 1))
