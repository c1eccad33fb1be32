"""Similarity of the ranks' residuals and selections, on which CLT-k depends (ScaleCom, section 3, Figure 2).

A measurement costs two dense all-reduces per tensor. It changes no state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from collectives.channel import Channel
from collectives.cltk.allreduce import CLTk
from collectives.cltk.residuals import on_host
from collectives.communicator import Communicator
from collectives.exchange.specs import ONLY
from collectives.transport.alltoall import exchange_counts
from collectives.transport.reduce import Dense, sum_dense

__all__ = ["Similarity", "similarity"]


@dataclass(frozen=True)
class Similarity:
    """Similarity of one tensor on all ranks; the same on every rank.

    Attributes:
        cosine_distance: 1 - the mean cosine between two ranks' residuals, from 0 (equal directions) to 2;
            NaN if a rank has no residual.
        hamming: per rank, the fraction d/k of its own top k that is not in the top k of the mean of
            gradient + residual. The leader's value bounds the contraction.

    Source:
        Chen et al., 2020, ScaleCom, section 3, Lemma 1.

    Examples:
        >>> import collectives as co
        >>> co.Similarity(cosine_distance=0.1, hamming=(0.0, 0.25))
        Similarity(cosine_distance=0.1, hamming=(0.0, 0.25))
    """

    cosine_distance: float
    hamming: tuple[float, ...]


def similarity(comm: Communicator | Channel, cltk: CLTk, grad: Any) -> Similarity | dict[str, Similarity]:
    """Measure the similarity of the ranks before the next step of CLT-k.

    The ranks exchange no headers. So any error, including an EncodeError for this rank's own gradient, closes
    this rank's channel, and the others raise Timeout.

    Args:
        comm: a communicator or its Channel; all ranks call this together.
        cltk: this rank's CLTk, with the residuals and the ratios; it is not changed.
        grad: a finite array, or {name: array}. Names, shapes and types must be the same on all ranks. Arrays
            on a GPU are copied to the host.

    Returns:
        A Similarity, or {name: Similarity} if names were passed.

    Raises:
        EncodeError: this rank's gradient is not finite, or its residual has another size.
        Timeout: a rank does not take part.

    Source:
        Chen et al., 2020, ScaleCom, section 3.

    Examples:
        >>> import numpy as np, collectives as co
        >>> grad = np.array([1, -4, 2, 0], np.float32)
        >>> co.simulate(2, lambda comm: co.similarity(comm, co.CLTk(0.25), grad).hamming)[0]
        (0.0, 0.0)
    """
    channel = Channel.of(comm)
    with channel.collective(headerless=True) as call:
        named = grad if isinstance(grad, Mapping) else {ONLY: grad}
        results = {name: _measure(channel, cltk, name, named[name]) for name in sorted(named, key=str.encode)}
        call.is_delivered = True
    return results if isinstance(grad, Mapping) else results[ONLY]


def _measure(channel: Channel, cltk: CLTk, name: str, grad: Any) -> Similarity:
    """Measure one tensor.

    Args:
        channel: open.
        cltk: with the residuals and the ratios.
        name: of the tensor.
        grad: the tensor's gradient.
    """
    x = cltk.add_residual(name, grad)
    residual = on_host(cltk.residual(name))
    selector = cltk.selector(name)
    distance = _measure_cosine_distance(channel, np.zeros_like(x) if residual is None else residual)
    mean = sum_dense(channel, x, channel.size)
    if selector is None:
        return Similarity(distance, (0.0,) * channel.size)
    own, best = selector.select(x).indices, selector.select(mean).indices
    missed, k = 0, x.size
    if own is not None and best is not None:
        missed, k = int(np.setdiff1d(own, best, assume_unique=True).size), own.size
    counts = exchange_counts(channel, [missed])
    return Similarity(distance, tuple(row[0] / max(k, 1) for row in counts))


def _measure_cosine_distance(channel: Channel, residual: Dense) -> float:
    """Compute the distance from the sum of unit vectors: |Σu|² = n + Σ of all ordered pairs' cosines."""
    n = channel.size
    wide = residual.astype(np.float64)
    length = float(np.sqrt(np.sum(wide * wide)))
    unit = wide / length if length > 0 else np.full_like(wide, np.nan)
    total = sum_dense(channel, unit, 1)
    if n == 1:
        return 0.0 if length > 0 else float("nan")
    return 1 - (float(np.sum(total * total)) - n) / (n * (n - 1))
