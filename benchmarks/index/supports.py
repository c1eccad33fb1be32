"""Synthetic supports for index codecs, each with an entropy bound for its kind.

There are five kinds. ``uniform`` draws every support with equal probability. ``rows`` selects whole rows of
an embedding. ``runs`` is a two-state Markov chain. ``layered`` selects the largest elements of layers of
different scale. ``gradient`` comes from given values. All supports are seeded, ascending and unique.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchmarks.common.inputs import CHUNK

__all__ = [
    "Support",
    "draw_layered",
    "draw_rows",
    "draw_runs",
    "draw_uniform",
    "log2_binomial",
    "select_nonzero",
    "select_top",
]

Indices = npt.NDArray[np.uint32]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Support:
    """Set of present elements of a tensor of ``d`` elements.

    Attributes:
        kind: name of the generator.
        d: number of elements.
        indices: (r,) uint32, ascending.
        bound: smallest average number of bits per index for supports of this kind.
    """

    kind: str
    d: int
    indices: Indices
    bound: float

    @property
    def r(self) -> int:
        """Return the number of present elements."""
        return int(self.indices.size)

    def chunks(self) -> Iterator[tuple[Indices, int]]:
        """Yield the indices relative to each chunk, and the chunk's number of elements.

        Empty and full chunks are skipped, because they need no index bytes.
        """
        bases = np.arange(0, self.d, CHUNK)
        cuts = np.searchsorted(self.indices, [*bases, self.d])
        for base, start, stop in zip(bases.tolist(), cuts, cuts[1:], strict=False):
            d = min(CHUNK, self.d - base)
            if 0 < stop - start < d:
                yield self.indices[start:stop] - np.uint32(base), d


def log2_binomial(n: int, k: int) -> float:
    """Return log2 of the binomial coefficient of ``n`` and ``k``."""
    return (math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)) / math.log(2)


def draw_uniform(d: int, r: int, *, seed: int = 0) -> Support:
    """Draw ``r`` of ``d`` elements, every support with equal probability."""
    indices = np.random.default_rng(seed).choice(d, r, replace=False, shuffle=False)
    return Support("uniform", d, np.sort(indices.astype(np.uint32)), log2_binomial(d, r) / r)


def draw_rows(d: int, r: int, *, width: int = 64, seed: int = 0) -> Support:
    """Draw ⌊r/width⌋ whole rows, at least one, with Zipf-like frequencies as in a vocabulary.

    Row i has weight (i + 1)^-0.9. The bound assumes equal weights, so a codec may be below it.
    """
    rng = np.random.default_rng(seed)
    height, count = d // width, max(1, r // width)
    keys = rng.gumbel(size=height) - 0.9 * np.log(np.arange(1, height + 1))
    drawn = np.sort(np.argpartition(-keys, count - 1)[:count])
    indices = (drawn[:, None] * width + np.arange(width)).ravel().astype(np.uint32)
    return Support("rows", d, indices, log2_binomial(height, count) / indices.size)


def draw_runs(d: int, r: int, *, mean: int = 8, seed: int = 0) -> Support:
    """Draw ``r`` of ``d`` elements in ⌈r/mean⌉ runs, every such support with equal probability.

    This is a two-state Markov chain, conditioned on its numbers of elements and runs.
    """
    rng = np.random.default_rng(seed)
    count = -(-r // mean)
    ends = np.append(np.sort(rng.choice(r - 1, count - 1, replace=False)) + 1, r)
    slots = np.sort(rng.choice(d - r + 1, count, replace=False))  # number of absent elements before each run
    indices = np.arange(r) + np.repeat(slots, np.diff(ends, prepend=0))
    bound = log2_binomial(r - 1, count - 1) + log2_binomial(d - r + 1, count)
    return Support("runs", d, indices.astype(np.uint32), bound / r)


def draw_layered(d: int, r: int, *, layers: int = 160, seed: int = 0) -> Support:
    """Select the ``r`` largest of Laplace values in layers of different scale.

    Layer sizes are log-uniform (1 : 400) and scales are log-normal. The bound is for a code that knows the
    layers and the number of present elements of each.
    """
    rng = np.random.default_rng(seed)
    weights = np.exp(rng.uniform(0, 6, layers))
    edges = np.rint(np.cumsum(weights) / weights.sum() * d).astype(np.int64)
    sizes = np.diff(edges, prepend=0)
    values = rng.laplace(size=d).astype(np.float32)
    values *= np.repeat(np.exp(rng.normal(size=layers)).astype(np.float32), sizes)
    indices = _find_largest(values, r)
    counts = np.diff(np.searchsorted(indices, edges), prepend=0)
    bits = sum(log2_binomial(n, k) for n, k in zip(sizes.tolist(), counts.tolist(), strict=True))
    return Support("layered", d, indices, bits / r)


def select_top(values: Floats, ratio: float) -> Support:
    """Select the ⌊ratio·d⌋ elements of largest magnitude.

    The bound is the uniform one, so a codec may be below it.
    """
    indices = _find_largest(values, max(1, int(ratio * values.size)))
    return Support("gradient", values.size, indices, log2_binomial(values.size, indices.size) / indices.size)


def select_nonzero(values: Floats) -> Support:
    """Select the nonzero elements; the bound is the uniform one."""
    indices = np.flatnonzero(values).astype(np.uint32)
    return Support(
        "gradient", values.size, indices, log2_binomial(values.size, indices.size) / max(indices.size, 1)
    )


def _find_largest(values: Floats, r: int) -> Indices:
    """Return the ascending indices of the ``r`` largest magnitudes."""
    return np.sort(np.argpartition(-np.abs(values), r - 1)[:r].astype(np.uint32))
