"""Brute-force definitions: short, slow, and written from the papers and the specification, never from the
library.

A test that holds the library against one of these says what is right; a round trip only says that two halves
agree.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def top_k(x: Array, k: int) -> list[int]:
    """The k elements of largest magnitude, ties to the lower index, ascending."""
    order = sorted(range(x.size), key=lambda i: (-abs(float(x[i])), i))
    return sorted(order[:k])


def top_k_sorted(x: Array, k: int) -> Array:
    """The same for larger arrays, by a stable sort."""
    return np.sort(np.argsort(-np.abs(x.astype(np.float64)), kind="stable")[:k])


def kept(ratio: str, size: int) -> int:
    """⌊ratio · size⌋ in exact decimal, at least one of a tensor that has elements."""
    return max(1, int(Decimal(ratio) * size)) if size else 0


def entropy_bits(d: int, r: int) -> float:
    """log2 C(d, r): the bits that no coder of uniform supports can stay below."""
    return (math.lgamma(d + 1) - math.lgamma(r + 1) - math.lgamma(d - r + 1)) / math.log(2)


def best_rice_parameter(gaps: list[int]) -> int:
    """The least b in 0 … 24 of least size."""
    return min(range(25), key=lambda b: (len(gaps) * b + sum(g >> b for g in gaps), b))


def rank_ordered_sum(vectors: list[Array]) -> Array:
    """Σ in order from +0, one rounding an addition."""
    total = np.zeros_like(vectors[0])
    for vector in vectors:
        total = total + vector
    return total


def sidco_threshold(x: Array, ratio: float, sid: str, stages: int, first: float = 0.25) -> float:
    """SIDCo's threshold in its paper's stages, with SciPy's quantiles: equations 6 to 11, 14, 27 and 28.

    Zeros are no part of any fit, and δ is k over those that are left.
    """
    from scipy import stats

    g = np.abs(x.astype(np.float64))
    g = g[g > 0]
    k = kept(repr(ratio), x.size)
    if k >= g.size:
        return 0.0
    middle = max(k, min(int(first * x.size), g.size))
    if middle == k:
        stages = 1
    threshold = 0.0
    for stage in range(1, stages + 1):
        y = g[g >= threshold] - threshold
        if y.size == 0:
            break
        share = (k if stages == 1 else middle) / g.size if stage == 1 else (k / middle) ** (1 / (stages - 1))
        mean, variance = y.mean(), y.var()
        if sid == "exponential":
            threshold += stats.expon.isf(share, scale=mean)
        elif sid == "gamma-gp" and stage == 1:
            s = np.log(mean) - np.log(y).mean()
            shape = (3 - s + np.sqrt((s - 3) ** 2 + 24 * s)) / (12 * s)
            threshold += stats.gamma.isf(share, shape, scale=mean / shape)
        else:
            shape = np.clip((1 - mean**2 / variance) / 2, -0.5, 0.5)
            threshold += stats.genpareto.isf(share, shape, scale=mean * (1 - shape))
    return float(threshold)


def sidco_stages(
    ratios: list[float], most: int, *, begin: int = 1, window: int = 5, tolerance: float = 0.2
) -> list[int]:
    """The stages that each step takes, step i keeping ``ratios[i]`` times k (Algorithm 1, Adapt_Stages).

    All counts of a window are averaged; the direction is turned where the last move made the error grow, and
    where it would lead out of 1 … ``most``.
    """
    taken, stages, sign, before = [], min(begin, most), 1, math.inf
    for end, _ in enumerate(ratios, 1):
        taken.append(stages)
        if end % window:
            continue
        error = sum(ratios[end - window : end]) / window - 1
        if abs(error) <= tolerance:
            before = math.inf
            continue
        if abs(error) > before:
            sign = -sign
        step = -sign if error > tolerance else sign
        if stages + step < 1 or stages + step > most:
            sign, step = -sign, -step
        stages, before = max(1, min(most, stages + step)), abs(error)
    return taken
