"""Supports to measure index codecs on, each with the bits that nothing can beat on average over its kind.

Five kinds: ``uniform``; ``rows`` of an embedding, of which a batch touches a few; ``runs``, as a Markov chain
makes them; ``layered``, the largest elements of layers that differ in scale; and ``gradient``, of given
values. All are seeded, ascend and are unique.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = [
    "CHUNK",
    "Support",
    "layered",
    "log2_binomial",
    "nonzero_of",
    "rows",
    "runs",
    "top_of",
    "uniform",
]

Indices = npt.NDArray[np.uint32]
Floats = npt.NDArray[np.float32]

CHUNK = 2**24
"""Elements that the library codes at a time."""


@dataclass(frozen=True, eq=False)
class Support:
    """Which of ``d`` elements are present.

    Args:
        kind: what made it.
        d: all elements.
        indices: (r,) u32, ascending.
        bound: bits an index that supports of this kind take at the least, on average.
    """

    kind: str
    d: int
    indices: Indices
    bound: float

    @property
    def r(self) -> int:
        """Elements that are present."""
        return int(self.indices.size)

    def chunks(self) -> Iterator[tuple[Indices, int]]:
        """Indices within each chunk, and its elements; chunks that are empty or full take no bytes."""
        bases = np.arange(0, self.d, CHUNK)
        cuts = np.searchsorted(self.indices, [*bases, self.d])
        for base, start, stop in zip(bases.tolist(), cuts, cuts[1:], strict=False):
            d = min(CHUNK, self.d - base)
            if 0 < stop - start < d:
                yield self.indices[start:stop] - np.uint32(base), d


def log2_binomial(n: int, k: int) -> float:
    """log2 of the ways to choose ``k`` of ``n``."""
    return (math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)) / math.log(2)


def uniform(d: int, r: int, *, seed: int = 0) -> Support:
    """``r`` of ``d``, every choice equally likely."""
    indices = np.random.default_rng(seed).choice(d, r, replace=False, shuffle=False)
    return Support("uniform", d, np.sort(indices.astype(np.uint32)), log2_binomial(d, r) / r)


def rows(d: int, r: int, *, width: int = 64, seed: int = 0) -> Support:
    """Whole rows of ``width``, ⌊r/width⌋ but at least one, the first ones likelier as in a vocabulary.

    Row i is drawn with weight (i + 1)^-0.9; the bound is that of rows drawn alike, so a codec may pass it.
    """
    rng = np.random.default_rng(seed)
    height, count = d // width, max(1, r // width)
    keys = rng.gumbel(size=height) - 0.9 * np.log(np.arange(1, height + 1))
    drawn = np.sort(np.argpartition(-keys, count - 1)[:count])
    indices = (drawn[:, None] * width + np.arange(width)).ravel().astype(np.uint32)
    return Support("rows", d, indices, log2_binomial(height, count) / indices.size)


def runs(d: int, r: int, *, mean: int = 8, seed: int = 0) -> Support:
    """``r`` of ``d`` in ⌈r/mean⌉ runs, every such support equally likely.

    It is a two-state Markov chain, given how many elements and how many runs it yields.
    """
    rng = np.random.default_rng(seed)
    count = -(-r // mean)
    ends = np.append(np.sort(rng.choice(r - 1, count - 1, replace=False)) + 1, r)
    slots = np.sort(rng.choice(d - r + 1, count, replace=False))  # absent elements before each run
    indices = np.arange(r) + np.repeat(slots, np.diff(ends, prepend=0))
    bound = log2_binomial(r - 1, count - 1) + log2_binomial(d - r + 1, count)
    return Support("runs", d, indices.astype(np.uint32), bound / r)


def layered(d: int, r: int, *, layers: int = 160, seed: int = 0) -> Support:
    """The ``r`` largest of Laplace values in layers of log-uniform sizes (1 : 400) and log-normal scales.

    The bound knows the layers and how many elements of each are present.
    """
    rng = np.random.default_rng(seed)
    weights = np.exp(rng.uniform(0, 6, layers))
    edges = np.rint(np.cumsum(weights) / weights.sum() * d).astype(np.int64)
    sizes = np.diff(edges, prepend=0)
    values = rng.laplace(size=d).astype(np.float32)
    values *= np.repeat(np.exp(rng.normal(size=layers)).astype(np.float32), sizes)
    indices = _largest(values, r)
    counts = np.diff(np.searchsorted(indices, edges), prepend=0)
    bits = sum(log2_binomial(n, k) for n, k in zip(sizes.tolist(), counts.tolist(), strict=True))
    return Support("layered", d, indices, bits / r)


def top_of(values: Floats, ratio: float) -> Support:
    """The ⌊ratio·d⌋ elements of greatest magnitude; the bound is the uniform one, which a codec may pass."""
    indices = _largest(values, max(1, int(ratio * values.size)))
    return Support("gradient", values.size, indices, log2_binomial(values.size, indices.size) / indices.size)


def nonzero_of(values: Floats) -> Support:
    """The elements that are not zero, if any; the bound is the uniform one."""
    indices = np.flatnonzero(values).astype(np.uint32)
    return Support(
        "gradient", values.size, indices, log2_binomial(values.size, indices.size) / max(indices.size, 1)
    )


def _largest(values: Floats, r: int) -> Indices:
    return np.sort(np.argpartition(-np.abs(values), r - 1)[:r].astype(np.uint32))
