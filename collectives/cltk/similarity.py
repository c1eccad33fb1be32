"""Similarity of the ranks' residuals and selections, on which CLT-k depends (ScaleCom, sections 2 and 3).

A measurement costs two dense all-reduces per tensor. It changes no state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from collectives.call import exclusive
from collectives.channel import Channel
from collectives.cltk.allreduce import CLTk
from collectives.cltk.residuals import on_host
from collectives.communicator import Communicator
from collectives.exchange.specs import ONLY
from collectives.transport.alltoall import exchange_counts
from collectives.transport.reduce import Dense, sum_dense
from collectives.transport.weights import Weights

_BINS = 48
"""Bins of a histogram of magnitudes, four per factor of ten, which end at the largest magnitude."""
_BINS_PER_DECADE = 4


@dataclass(frozen=True)
class MagnitudeHistogram:
    """Histogram of the magnitudes of the ranks' mean of gradient + residual (ScaleCom, Figure 2b and 2d).

    Magnitudes are relative to the largest. 0 and the magnitudes below the first edge are in the first bin.

    Attributes:
        edges: ascending powers of 10, one more than there are bins; the last is 1.
        all: elements per bin.
        top: elements of the true top k per bin.
        selected: per rank, elements per bin of those that the rank selects.

    Examples:
        >>> import numpy as np, collectives as co
        >>> grad = np.array([1, -4, 2, 0], np.float32)
        >>> found = co.simulate(1, lambda comm: co.similarity(comm, co.CLTk(0.25), grad))[0]
        >>> sum(found.histogram.all), found.histogram.top[-1]
        (4, 1)
    """

    edges: tuple[float, ...]
    all: tuple[int, ...]
    top: tuple[int, ...]
    selected: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Similarity:
    """Similarity of one tensor on all ranks; the same on every rank.

    Attributes:
        cosine_distance: 1 - the mean cosine between two ranks' residuals, from 0 (equal directions) to 2;
            NaN if a rank has no residual.
        hamming: per rank, the fraction d/k of its own top k that is not in the top k of the mean of
            gradient + residual. The leader's value bounds the contraction.
        contraction: per rank, ‖y - y at the rank's top k‖² / ‖y‖², where y is the mean. It is the leader's
            contraction in the next step.
        top_contraction: the same for the top k of y (the paper's γ₀), the smallest possible value.
        histogram: of the magnitudes of y, or None if the tensor is sent whole.

    Source:
        Chen et al., 2020, ScaleCom, section 2, Figure 2, and section 3, Lemma 1 and Figure 3.

    Examples:
        >>> import collectives as co
        >>> co.Similarity(0.1, (0.0, 0.25), top_contraction=0.4).bounds
        (0.4, 0.55)
    """

    cosine_distance: float
    hamming: tuple[float, ...]
    contraction: tuple[float, ...] = ()
    top_contraction: float = 0.0
    histogram: MagnitudeHistogram | None = field(default=None, repr=False)

    @property
    def bounds(self) -> tuple[float, ...]:
        """Per rank, the paper's bound of the expected contraction: d/k + (1 - d/k) · γ₀ (equation 7)."""
        return tuple(missed + (1 - missed) * self.top_contraction for missed in self.hamming)


@exclusive
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
        Chen et al., 2020, ScaleCom, sections 2 and 3.

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
    mean = sum_dense(channel, x, Weights(channel.size))
    if selector is None:
        return Similarity(distance, (0.0,) * channel.size, (0.0,) * channel.size)
    own, best = (_select(selector, vector) for vector in (x, mean))
    missed = int(np.setdiff1d(own, best, assume_unique=True).size)
    squares = np.square(mean.astype(np.float64))
    energy = float(np.sum(squares))
    bins = _find_bins(np.abs(mean.astype(np.float64)))
    counts = _count(bins[own])
    row = [missed, _to_bits(_lose(squares, own, energy)), *counts]
    rows = exchange_counts(channel, row)
    return Similarity(
        distance,
        tuple(row[0] / max(own.size, 1) for row in rows),
        tuple(_from_bits(row[1]) for row in rows),
        _lose(squares, best, energy),
        MagnitudeHistogram(_EDGES, _count(bins), _count(bins[best]), tuple(tuple(row[2:]) for row in rows)),
    )


_EDGES = tuple(10 ** ((i - _BINS) / _BINS_PER_DECADE) for i in range(_BINS + 1))


def _select(selector: Any, vector: Dense) -> Any:
    """Return the indices that a selector selects."""
    indices = selector.select(vector).indices
    return np.arange(vector.size) if indices is None else indices


def _lose(squares: Any, kept: Any, energy: float) -> float:
    """Return the fraction of the energy that is lost if ``kept`` is sent; 0 if the energy is 0."""
    return max(1 - float(np.sum(squares[kept])) / energy, 0.0) if energy > 0 else 0.0


def _find_bins(magnitudes: Any) -> Any:
    """Return the bin of each magnitude."""
    largest = float(magnitudes.max(initial=0.0))
    bins = np.searchsorted(np.array(_EDGES) * largest, magnitudes, side="right") - 1
    return np.clip(bins, 0, _BINS - 1)


def _count(bins: Any) -> tuple[int, ...]:
    return tuple(np.bincount(bins, minlength=_BINS).tolist())


def _to_bits(number: float) -> int:
    return int(np.float64(number).view(np.uint64))


def _from_bits(raw: int) -> float:
    return float(np.uint64(raw).view(np.float64))


def _measure_cosine_distance(channel: Channel, residual: Dense) -> float:
    """Compute the distance from the sum of unit vectors: |Σu|² = n + Σ of all ordered pairs' cosines."""
    n = channel.size
    wide = residual.astype(np.float64)
    length = float(np.sqrt(np.sum(wide * wide)))
    unit = wide / length if length > 0 else np.full_like(wide, np.nan)
    total = sum_dense(channel, unit, Weights())
    if n == 1:
        return 0.0 if length > 0 else float("nan")
    return 1 - (float(np.sum(total * total)) - n) / (n * (n - 1))
