"""Model of ``budget``: histograms of magnitudes, and the count whose predicted bytes spend a budget.

A histogram has a bin per exponent and three bits of the mantissa. Positions take about the entropy of the
density. Values take a sign and the entropy of their cells of width Δ = ratio · T above the threshold T, where
the ratio depends on the density. The sums are binary64 in a fixed order, and the logarithm has no library
call, so that the result is the same on every machine.
"""

from __future__ import annotations

import math

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, inline_without_refcounts, kernel
from wirecodec.kernels.cpu.simd.memory import prefetch

U64 = np.uint64
BINS_PER_OCTAVE = 8
MAX_EDGES = 1024
"""Bins of which a search knows the edges: 128 octaves below the largest magnitude."""
CELLS = 16
"""Cells above the threshold whose counts are interpolated; beyond them, a bin is taken as uniform."""
INDEX_OVERHEAD, VALUE_OVERHEAD = 1.02, 1.03
"""Bits of the codecs over entropy, on independent values."""
SEGMENTS_AHEAD = 16
"""Segments whose first cache line is requested before it is needed."""
STEPS = 12
"""Bisections within a bin."""
LN2_INVERSE = 1.4426950408889634
ROOT_HALF = 0.7071067811865476


@inline
def log2(x: float) -> float:
    """Compute log2 of a number above 0 to about 1e-8, by a series of (m - 1) / (m + 1)."""
    m, e = math.frexp(x)
    if m < ROOT_HALF:
        m, e = 2 * m, e - 1
    z = (m - 1) / (m + 1)
    w = z * z
    series = 1 + w * (1 / 3 + w * (1 / 5 + w * (1 / 7 + w * (1 / 9))))
    return e + 2 * LN2_INVERSE * z * series


@kernel
def count_bins(bits: Array, starts: Array, length: int, shift: int, counts: Array) -> None:
    """Count the magnitudes above 0 of segments of an array.

    Args:
        bits: (n,) unsigned, the elements.
        starts: (m,) i64, first elements of the segments.
        length: elements of each.
        shift: bits of an element below its bin's number.
        counts: (bins,) i64, incremented.
    """
    ones = (U64(1) << U64(8 * bits.itemsize - 1)) - U64(1)
    others = np.zeros_like(counts)  # two tables: neighbours often share a bin, whose count would be awaited
    for number in range(starts.size):
        if number + SEGMENTS_AHEAD < starts.size:
            prefetch(bits, starts[number + SEGMENTS_AHEAD], 1)
        start = starts[number]
        stop = start + length
        for i in range(start, stop - 1, 2):
            key, other = U64(bits[i]) & ones, U64(bits[i + 1]) & ones
            counts[key >> U64(shift)] += np.int64(key != U64(0))
            others[other >> U64(shift)] += np.int64(other != U64(0))
        if length % 2:
            key = U64(bits[stop - 1]) & ones
            counts[key >> U64(shift)] += np.int64(key != U64(0))
    for i in range(counts.size):
        counts[i] += others[i]


@inline_without_refcounts
def _find_edge(number: int, unit: int) -> float:
    """Return the lower edge of a bin in units of 2^(exponent of bin ``unit``)."""
    exponent, part = number // BINS_PER_OCTAVE, number % BINS_PER_OCTAVE
    base = part / BINS_PER_OCTAVE * 2 if exponent == 0 else 1 + part / BINS_PER_OCTAVE
    return base * math.ldexp(1.0, exponent - unit // BINS_PER_OCTAVE)


@inline_without_refcounts
def _count_from(a: float, edges: Array, sums: Array, bins: int) -> float:
    """Return the number of magnitudes of ``a`` or more, interpolated."""
    if a >= edges[0]:
        return 0.0
    low, high = 0, bins  # edges[low] > a >= edges[high]
    if a <= edges[bins]:
        return sums[bins]
    while high - low > 1:
        middle = (low + high) >> 1
        if edges[middle] > a:
            low = middle
        else:
            high = middle
    return sums[low] + (sums[high] - sums[low]) * (edges[low] - a) / (edges[low] - edges[high])


@inline_without_refcounts
def _predict_bits(
    threshold: float,
    scale: float,
    size: float,
    index_cost: float,
    ratios: tuple[float, float],
    edges: Array,
    sums: Array,
    bins: int,
) -> float:
    """Predict the bits of all magnitudes from ``threshold`` on."""
    count = _count_from(threshold, edges, sums, bins)
    if count <= 0:
        return 0.0
    density = min(count * scale / size, 1.0)
    step = threshold * min(ratios[0] + density, ratios[1])
    entropy, above, begin = 0.0, count, threshold
    for _ in range(CELLS):
        begin += step
        rest = _count_from(begin, edges, sums, bins)
        if above > rest:
            entropy += (above - rest) * log2(count / (above - rest))
        above = rest
        if rest <= 0:
            break
    if above > 0:
        for i in range(bins):
            n = min(sums[i + 1], above) - sums[i]
            if n > 0:
                entropy += n * (log2(count / n) + max(0.0, log2((edges[i] - edges[i + 1]) / step)))
            if sums[i + 1] >= above:
                break
    index = 0.0
    if density < 1:
        entropy_of_density = -density * log2(density) - (1 - density) * log2(1 - density)
        index = index_cost * size * min(1.0, INDEX_OVERHEAD * entropy_of_density)
    return index + VALUE_OVERHEAD * scale * (count + entropy)


@inline_without_refcounts
def _find_top(counts: Array) -> int:
    """Return the number of the last bin that is not empty, or 0."""
    top = counts.size - 1
    while top > 0 and counts[top] == 0:
        top -= 1
    return top


@inline_without_refcounts
def _sum_bins(counts: Array, top: int, unit: int, edges: Array, sums: Array) -> int:
    """Fill the bins' edges from the largest magnitude down, and the counts above them.

    Returns the bins down to the last one that is not empty.
    """
    bottom, least = top, max(top + 1 - MAX_EDGES, 0)
    for number in range(least, top):
        if counts[number]:
            bottom = number
            break
    bins = top + 1 - bottom
    edges[0], sums[0] = _find_edge(top + 1, unit), 0.0
    for i in range(bins):
        number = top - i
        edges[i + 1] = _find_edge(number, unit)
        sums[i + 1] = sums[i] + counts[number]
    if edges[bins] == 0:
        edges[bins] = edges[bins - 1] / 2
    return bins


@inline_without_refcounts
def _find_threshold(number: float, edges: Array, sums: Array, bins: int) -> float:
    """Return the magnitude that ``number`` magnitudes reach, interpolated."""
    i = 0
    while i < bins - 1 and sums[i + 1] < number:
        i += 1
    part = (number - sums[i]) / max(sums[i + 1] - sums[i], 1.0)
    return edges[i] - min(part, 1.0) * (edges[i] - edges[i + 1])


@inline_without_refcounts
def _measure_gain(
    threshold: float,
    scale: float,
    size: float,
    ratios: tuple[float, float],
    edges: Array,
    sums: Array,
    bins: int,
) -> float:
    """Predict by how much the magnitudes from ``threshold`` on lower the squared error.

    Each is replaced by a number at the mean place in its cell.
    """
    count = _count_from(threshold, edges, sums, bins)
    step = threshold * min(ratios[0] + min(count * scale / size, 1.0), ratios[1])
    energy = fractions = squares = 0.0
    for i in range(bins):
        n = min(sums[i + 1], count) - sums[i]
        if n > 0:
            begin = max(edges[i + 1], threshold)
            middle, width = (edges[i] + begin) / 2, edges[i] - begin
            energy += n * middle * middle
            place = (middle - threshold) / step if step > 0 else 0.0
            place = 0.5 if width >= step else place - math.floor(place)
            part = min(width / step, 1.0) if step > 0 else 0.0
            fractions += n * place
            squares += n * (place * place + part * part / 12)
        if sums[i + 1] >= count:
            break
    variance = squares - fractions * fractions / max(count, 1e-300)  # of the place in a cell, in cells
    return scale * (energy - variance * step * step)


@kernel
def predict_bits(
    counts: Array,
    scale: float,
    size: float,
    count: float,
    index_cost: float,
    low_ratio: float,
    high_ratio: float,
) -> float:
    """Predict the bits of the ``count`` largest magnitudes; other arguments as for ``find_count``."""
    edges, sums = np.empty(MAX_EDGES + 1), np.empty(MAX_EDGES + 1)
    top = _find_top(counts)
    bins = _sum_bins(counts, top, top, edges, sums)
    threshold = _find_threshold(count / scale, edges, sums, bins)
    return _predict_bits(threshold, scale, size, index_cost, (low_ratio, high_ratio), edges, sums, bins)


@kernel
def predict_curve(
    counts: Array,
    scale: float,
    size: float,
    unit: int,
    index_cost: float,
    low_ratio: float,
    high_ratio: float,
    thresholds: Array,
    out: Array,
) -> None:
    """Predict bytes and squared error for several thresholds.

    Args:
        counts, scale, size, index_cost, low_ratio, high_ratio: as for ``find_count``.
        unit: number of a bin; magnitudes are in units of 2^(its exponent).
        thresholds: (m,) f64.
        out: (m, 3) f64, written: bits, number of elements, and by how much they lower the squared error.
    """
    edges, sums = np.empty(MAX_EDGES + 1), np.empty(MAX_EDGES + 1)
    bins = _sum_bins(counts, _find_top(counts), unit, edges, sums)
    ratios = low_ratio, high_ratio
    for j in range(thresholds.size):
        threshold = thresholds[j]
        out[j, 0] = _predict_bits(threshold, scale, size, index_cost, ratios, edges, sums, bins)
        out[j, 1] = _count_from(threshold, edges, sums, bins) * scale
        out[j, 2] = _measure_gain(threshold, scale, size, ratios, edges, sums, bins)


@kernel
def find_count(
    counts: Array,
    scale: float,
    size: float,
    budget: float,
    index_cost: float,
    low_ratio: float,
    high_ratio: float,
) -> tuple[float, float]:
    """Return how many elements, from the largest on, have the predicted bits of a budget.

    Args:
        counts: (bins,) i64, a histogram.
        scale: elements of the tensor per element of the histogram.
        size: elements of the tensor.
        budget: bits.
        index_cost: bits of the positions, divided by those of independent ones.
        low_ratio: Δ/T at density 0; it grows by the density.
        high_ratio: the largest Δ/T.

    Returns:
        The number; that of all magnitudes above 0 if their prediction is within the budget. Second, the
        predicted squared error, in squared magnitudes of the tensor's largest exponent.
    """
    edges, sums = np.empty(MAX_EDGES + 1), np.empty(MAX_EDGES + 1)
    top = _find_top(counts)
    bins = _sum_bins(counts, top, top, edges, sums)
    ratios = low_ratio, high_ratio
    low, high = 0, bins  # bins that fit, and that do not
    if _predict_bits(edges[bins], scale, size, index_cost, ratios, edges, sums, bins) <= budget:
        return sums[bins] * scale, 0.0
    while high - low > 1:
        middle = (low + high) >> 1
        if _predict_bits(edges[middle], scale, size, index_cost, ratios, edges, sums, bins) <= budget:
            low = middle
        else:
            high = middle
    fits, exceeds = edges[low], edges[high]
    for _ in range(STEPS):
        threshold = (fits + exceeds) / 2
        if _predict_bits(threshold, scale, size, index_cost, ratios, edges, sums, bins) <= budget:
            fits = threshold
        else:
            exceeds = threshold
    total = _measure_gain(edges[bins], scale, size, (0.0, 0.0), edges, sums, bins)
    error = total - _measure_gain(fits, scale, size, ratios, edges, sums, bins)
    return _count_from(fits, edges, sums, bins) * scale, error


@kernel
def find_smallest_key(bits: Array) -> int:
    """Return the smallest magnitude of (n,) elements as bits, n > 0."""
    ones = (U64(1) << U64(8 * bits.itemsize - 1)) - U64(1)
    least = ones
    for i in range(bits.size):
        least = min(least, U64(bits[i]) & ones)
    return np.int64(least)
