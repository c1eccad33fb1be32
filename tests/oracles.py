"""Brute-force definitions, written from the papers and the specification, independently of the library.

A comparison with an oracle tests correctness; a round trip only tests that two halves agree.
"""

from __future__ import annotations

import contextlib
import math
import statistics
import warnings
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from formats.reference.floats import BY_NAME, FLOAT64, convert, to_float
from formats.reference.prng import draw32, mix

Array = npt.NDArray[Any]


def top_k(x: Array, k: int) -> list[int]:
    """Return the k elements of largest magnitude, ascending; ties go to the lower index."""
    order = sorted(range(x.size), key=lambda i: (-abs(float(x[i])), i))
    return sorted(order[:k])


def top_k_sorted(x: Array, k: int) -> Array:
    """Return ``top_k`` of a larger array, by a stable sort."""
    return np.sort(np.argsort(-np.abs(x.astype(np.float64)), kind="stable")[:k])


def selected_count(ratio: str, size: int) -> int:
    """Return ⌊ratio · size⌋ in exact decimal, at least 1 if there are elements."""
    return max(1, int(Decimal(ratio) * size)) if size else 0


def entropy_bits(d: int, r: int) -> float:
    """Return log2 C(d, r), the entropy of a uniform support in bits."""
    return (math.lgamma(d + 1) - math.lgamma(r + 1) - math.lgamma(d - r + 1)) / math.log(2)


def best_rice_parameter(gaps: list[int]) -> int:
    """Return the smallest b in 0 … 24 of minimum size."""
    return min(range(25), key=lambda b: (len(gaps) * b + sum(g >> b for g in gaps), b))


def rank_ordered_sum(vectors: list[Array]) -> Array:
    """Add the vectors in order from +0, with one rounding per addition."""
    total = np.zeros_like(vectors[0])
    for vector in vectors:
        total = total + vector
    return total


def lane_sum(numbers: list[float], lanes: int) -> float:
    """Add partial sums by index modulo ``lanes``, then fold them in halves."""
    sums = [0.0] * lanes
    for i, number in enumerate(numbers):
        sums[i % lanes] += number
    while lanes > 1:
        lanes //= 2
        sums = [sums[j] + sums[j + lanes] for j in range(lanes)]
    return sums[0]


def round_to(number: float, dtype: Any) -> float:
    """Round a binary64 number once to an element type, to nearest, ties to even."""
    target = BY_NAME[np.dtype(dtype).name]
    return to_float(convert(int(np.float64(number).view(np.uint64)), FLOAT64, target), target)


def threshold_indices(x: Array, threshold: float) -> list[int]:
    """Return the nonzero elements of magnitude ``threshold`` or more, compared in the type of x."""
    minimum = round_to(threshold, x.dtype)
    return [i for i in range(x.size) if x[i] != 0 and abs(float(x[i])) >= minimum]


def random_k(size: int, k: int, seed: int) -> list[int]:
    """Return the k elements with the smallest random draws."""
    stream = mix(seed)
    return sorted(sorted(range(size), key=lambda i: draw32(stream, i))[:k])


def sample(size: int, n: int, seed: int) -> list[int]:
    """Draw one element of each of n ranges."""
    stream = mix(seed)
    edges = [q * size // n for q in range(n + 1)]
    return [a + (draw32(stream, q) * (b - a) >> 32) for q, (a, b) in enumerate(pairwise(edges))]


def dgc(x: Array, ratio: str, seed: int, share: str) -> list[int]:
    """Select by DGC: the threshold of a sample's top k, then the top k of the elements that reach it."""
    sampled = x[sample(x.size, selected_count(share, x.size), seed)]
    threshold = min(abs(float(sampled[i])) for i in top_k(sampled, selected_count(ratio, sampled.size)))
    found = threshold_indices(x, threshold)
    return [found[i] for i in top_k(x[found], selected_count(ratio, x.size))]


def redsync(x: Array, k: int, rounds: int) -> list[int]:
    """Select by RedSync: bisection between the mean and the largest magnitude."""
    y = x.astype(np.float64 if x.dtype == np.float64 else np.float32)
    magnitudes = [abs(float(v)) for v in y]
    greatest = max(magnitudes)
    mean = min(lane_sum(magnitudes, 64) / y.size, greatest)
    low, high, found = 0.0, 1.0, []
    for _ in range(rounds):
        r = (low + high) / 2
        found = threshold_indices(y, mean + r * (greatest - mean))
        if k <= len(found) <= 2 * k:
            break
        low, high = (r, high) if len(found) > 2 * k else (low, r)
    return found


def gaussiank(x: Array, k: int, ratio: float) -> list[int]:
    """Select by GaussianK: μ + zσ, with up to three corrections."""
    y = x.astype(np.float64 if x.dtype == np.float64 else np.float32)
    numbers = [float(v) for v in y]
    mean = lane_sum(numbers, 64) / y.size
    variance = lane_sum([v * v for v in numbers], 64) / y.size - mean * mean
    threshold = mean + statistics.NormalDist().inv_cdf(ratio / 2) * -math.sqrt(max(0.0, variance))
    for _ in range(3):
        count = len(threshold_indices(y, threshold))
        if count < 2 * k / 3:
            threshold *= 0.5
        elif count > 4 * k / 3:
            threshold *= 1.5
        else:
            break
    return threshold_indices(y, threshold)


def chunk_top_k(x: Array, ratio: str, chunk: int) -> list[int]:
    """Return the top fraction of each chunk."""
    starts = range(0, x.size, chunk)
    parts = [x[start : start + chunk] for start in starts]
    return [
        s + i
        for s, part in zip(starts, parts, strict=True)
        for i in top_k(part, selected_count(ratio, part.size))
    ]


def adacomp(x: Array, gradient: Array, bin: int, factor: float) -> tuple[list[int], float]:
    """Select by AdaComp, Algorithm 2; also return the mean of the bins' largest magnitudes."""
    wide = np.float64 if x.dtype == np.float64 else np.float32
    sent, tops = [], []
    for start in range(0, x.size, bin):
        members = range(start, min(start + bin, x.size))
        top = max(abs(float(x[i])) for i in members)
        tops.append(top)
        for i in members:
            ahead = abs(wide(x[i]) + wide(factor - 1) * wide(gradient[i]))
            if top > 0 and x[i] != 0 and float(ahead) >= top:
                sent.append(i)
    return sent, lane_sum(tops, 16) / len(tops) if tops else 0.0


def sidco_threshold(x: Array, ratio: float, sid: str, stages: int, first: float = 0.25) -> float:
    """Compute SIDCo's threshold in stages: equations 6 to 11, 15, 27 and 28.

    Fits leave zeros out, and δ is k per nonzero element.
    """
    from scipy import special, stats

    g = np.abs(x.astype(np.float64))
    g = g[g > 0]
    k = selected_count(repr(ratio), x.size)
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
            threshold += max(-mean / shape * (np.log(share) + special.gammaln(shape)), 0)
        else:
            shape = np.clip((1 - mean**2 / variance) / 2, -0.5, 0.5)
            threshold += stats.genpareto.isf(share, shape, scale=mean * (1 - shape))
    return float(threshold)


def sidco_stages(
    ratios: list[float], most: int, *, begin: int = 1, window: int = 5, high: float = 0.2, low: float = 0.2
) -> list[int]:
    """Return the stages of each step if step i keeps ``ratios[i]`` · k elements (Algorithm 1, lines 20-26).

    The counts of a window are averaged, as in section 3; line 6 of the algorithm drops one of them.
    """

    def adapt_stages(M: int, k_avg: float, k: float = 1.0) -> int:
        if k_avg > k * (1 + high):
            M = M - 1
        if k_avg < k * (1 - low):
            M = M + 1
        return min(max(M, 1), most)

    history, M, total = [], begin, 0.0
    for i, k_hat in enumerate(ratios, 1):
        history.append(M)
        total += k_hat
        if i % window == 0:
            M, total = adapt_stages(M, total / window), 0.0
    return history


def chord_fit(values: Array, edges: Array, pieces: int, degree: int) -> Array:
    """Fit by DeepReduce's Fit-Poly (section 5) with NumPy's polyfit, in float64.

    Each segment is split at the point farthest from the line between its ends, until there are ``pieces``
    segments. No split leaves fewer than degree + 1 points.
    """
    v = values.astype(np.float64)
    open_: list[tuple[int, int]] = list(pairwise(edges.tolist()))
    done: list[tuple[int, int]] = []
    while open_ and len(open_) + len(done) < pieces:
        a, b = open_.pop(0)
        at = a + int(np.argmax((np.linspace(v[a], v[b - 1], b - a) - v[a:b]) ** 2))
        if min(at - a, b - at) < degree + 1:
            done.append((a, b))
        else:
            open_ += [(a, at), (at, b)]
    fitted = np.empty(v.size)
    for a, b in [*open_, *done]:
        x = np.linspace(-1, 1, b - a) if b - a > 1 else np.zeros(1)
        fitted[a:b] = np.polyval(np.polyfit(x, v[a:b], min(degree, b - a - 1)), x)
    return fitted


def double_exponential(values: Array) -> float:
    """Return the smallest l2 error of a·e^(bx) + c·e^(dx) by SciPy's curve_fit from several starts."""
    from scipy.optimize import OptimizeWarning, curve_fit

    y = values.astype(np.float64) / np.abs(values).max()
    x = (np.arange(y.size) + 0.5) / y.size
    best = float(np.linalg.norm(y))
    for start in ((1, -5, 0.5, -0.5), (1, -1, 0.1, -20), (1, -3, -0.1, 1), (0.5, -100, 0.5, -1)):
        with contextlib.suppress(RuntimeError), warnings.catch_warnings():
            warnings.simplefilter("ignore", OptimizeWarning)
            warnings.simplefilter("ignore", RuntimeWarning)
            found, _ = curve_fit(_two_exponentials, x, y, p0=start, maxfev=20_000, ftol=1e-12, xtol=1e-12)
            best = min(best, float(np.linalg.norm(_two_exponentials(x, *found) - y)))
    return best * float(np.abs(values).max())


def _two_exponentials(x: Array, a: float, b: float, c: float, d: float) -> Array:
    y: Array = a * np.exp(b * x) + c * np.exp(d * x)
    return y


def is_within_error(values: Array, read: Array, error: float) -> bool:
    """Return whether ‖v - w‖ ≤ error · ‖v‖, in exact arithmetic if binary64 is too coarse."""
    wide = values.astype(np.float64)
    with np.errstate(over="ignore", under="ignore"):
        distance, allowed = float(((wide - read) ** 2).sum()), float(error**2 * (wide**2).sum())
    if 1e-280 < allowed < 1e300 and abs(distance - allowed) > 1e-9 * allowed:
        return distance < allowed
    v, w = ([Fraction(float(x)) for x in part] for part in (values, read))
    return sum((a - b) ** 2 for a, b in zip(v, w, strict=True)) <= Fraction(error) ** 2 * sum(
        a * a for a in v
    )
