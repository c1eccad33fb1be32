"""Kernels of dexpfit (formats/spec/value/dexpfit.md): binning, fitting and evaluating two exponentials.

The exponential is the spec page's sequence of sums and products, because those of mathematical libraries
differ in the last bit. Encoder and decoder share it.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, kernel
from wirecodec.kernels.cpu.simd.memory import copy_elements
from wirecodec.kernels.cpu.simd.words import float_from_bits

U64 = np.uint64
INVERSE_LN2 = float.fromhex("0x1.71547652b82fep+0")
LN2_HIGH = float.fromhex("0x1.62e42feep-1")
LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
MIN_EXPONENT = -340.0
"""Lower bound of the exponents; a product of two exponentials is then a normal binary64 number."""
MAX_RATE = 64.0
"""Largest rate that a section may hold, and hence the largest exponent."""
STEPS, TRIES = 10, 6
"""Levenberg-Marquardt steps, and damping factors tried per step."""
BLOCK = 64
"""Points per block; a block's exponentials are products of the first block's."""
BAD_HEAD, BAD_SUM, BAD_PARAMETER = 1, 2, 3
"""Error codes of ``read_heads``."""

C2, C3, C4, C5, C6 = 1 / 2, 1 / 6, 1 / 24, 1 / 120, 1 / 720
C7, C8, C9, C10, C11 = 1 / 5040, 1 / 40320, 1 / 362880, 1 / 3628800, 1 / 39916800


@inline
def evaluate_exponential(t: float) -> float:
    """Compute e^t for -340 <= t <= 64 with the operations of the spec page."""
    k = np.floor(t * INVERSE_LN2 + 0.5)
    f = (t - k * LN2_HIGH) - k * LN2_LOW
    p = C11 * f + C10
    p = p * f + C9
    p = p * f + C8
    p = p * f + C7
    p = p * f + C6
    p = p * f + C5
    p = p * f + C4
    p = p * f + C3
    p = p * f + C2
    p = p * f + 1.0
    p = p * f + 1.0
    return p * float_from_bits(U64((np.int64(k) + 1023) << 52))


@kernel
def evaluate(lengths: Array, backwards: Array, parameters: Array, largest: float, out: Array) -> None:
    """Evaluate the curves in float32 or float64.

    Args:
        lengths: (n,) points per curve; their sum is the size of ``out``.
        backwards: (n,) bool, True if the curve runs from its last point to its first.
        parameters: (n, 4) float64: a, b, c, d of a·e^(bx) + c·e^(dx).
        largest: bound to which magnitudes are clamped.
        out: written.
    """
    offsets, block = np.empty((2, BLOCK)), np.empty(BLOCK)
    start = 0
    for curve in range(lengths.size):
        n = np.int64(lengths[curve])
        a, b, c, d = parameters[curve]
        for j in range(min(BLOCK, n)):
            offsets[0, j] = evaluate_exponential(_clamp_exponent(b, np.float64(j), n))
            offsets[1, j] = evaluate_exponential(_clamp_exponent(d, np.float64(j), n))
        for first in range(0, n, BLOCK):
            e = evaluate_exponential(_clamp_exponent(b, np.float64(first) + 0.5, n))
            f = evaluate_exponential(_clamp_exponent(d, np.float64(first) + 0.5, n))
            m = min(BLOCK, n - first)
            for j in range(m):
                v = a * (e * offsets[0, j]) + c * (f * offsets[1, j])
                v = v if v < largest else largest
                block[j] = v if v > -largest else -largest
            if backwards[curve]:
                for j in range(m):
                    out[start + n - 1 - first - j] = block[j]
            else:
                for j in range(m):
                    out[start + first + j] = block[j]
        start += n


@inline
def _clamp_exponent(rate: float, place: float, n: int) -> float:
    t = rate * (place / np.float64(n))
    return t if t > MIN_EXPONENT else MIN_EXPONENT


@kernel
def bin_means(y: Array, edges: Array, backwards: bool, out: Array) -> None:
    """Compute the mean of y[edges[i] : edges[i + 1]] for each bin.

    Args:
        y: (n,) sorted values of one sign.
        edges: (m + 1,) int64, counted from the end of y if ``backwards``.
        backwards: True if the largest magnitude is last.
        out: (m,) float64, written.
    """
    lanes = np.empty(8)
    for n in range(out.size):
        start, stop = edges[n], edges[n + 1]
        if backwards:
            start, stop = y.size - stop, y.size - start
        lanes[:] = 0.0
        whole = start + ((stop - start) & ~7)
        for i in range(start, whole, 8):
            for j in range(8):
                lanes[j] += np.float64(y[i + j])
        for i in range(whole, stop):
            lanes[0] += np.float64(y[i])
        out[n] = lanes.sum() / np.float64(stop - start)


@inline
def _solve_system(matrix: Array, right: Array, n: int) -> bool:
    """Solve a linear system in place by Gaussian elimination; return False if it is singular."""
    for column in range(n):
        pivot = column
        for row in range(column + 1, n):
            if abs(matrix[row, column]) > abs(matrix[pivot, column]):
                pivot = row
        if not abs(matrix[pivot, column]) > 0.0:
            return False
        for k in range(n):
            matrix[column, k], matrix[pivot, k] = matrix[pivot, k], matrix[column, k]
        right[column], right[pivot] = right[pivot], right[column]
        for row in range(column + 1, n):
            factor = matrix[row, column] / matrix[column, column]
            for k in range(column, n):
                matrix[row, k] -= factor * matrix[column, k]
            right[row] -= factor * right[column]
    for row in range(n - 1, -1, -1):
        for k in range(row + 1, n):
            right[row] -= matrix[row, k] * right[k]
        right[row] /= matrix[row, row]
    return bool(np.isfinite(right[:n]).all())


@inline
def _solve_linear(
    x: Array, y: Array, w: Array, b: float, d: float, terms: Array
) -> tuple[float, float, float]:
    """Solve for a and c given the rates b and d; return a, c and the weighted squared error.

    The rows of ``terms`` receive e^(bx), e^(dx) and the residuals.
    """
    ee = ef = ff = ey = fy = 0.0
    for i in range(x.size):
        e, f = (
            evaluate_exponential(max(b * x[i], MIN_EXPONENT)),
            evaluate_exponential(max(d * x[i], MIN_EXPONENT)),
        )
        terms[0, i], terms[1, i] = e, f
        ee += w[i] * e * e
        ef += w[i] * e * f
        ff += w[i] * f * f
        ey += w[i] * e * y[i]
        fy += w[i] * f * y[i]
    determinant = ee * ff - ef * ef
    if determinant > 1e-13 * ee * ff:
        a = (ey * ff - fy * ef) / determinant
        c = (fy * ee - ey * ef) / determinant
    else:
        a, c = (ey / ee if ee > 0.0 else 0.0), 0.0
    cost = 0.0
    for i in range(x.size):
        terms[2, i] = a * terms[0, i] + c * terms[1, i] - y[i]
        cost += w[i] * terms[2, i] * terms[2, i]
    return a, c, cost


@inline
def _clamp_rate(rate: float) -> float:
    return min(max(rate, -1e7), MAX_RATE)


@inline
def _guess_rates(x: Array, y: Array, w: Array) -> tuple[float, float]:
    """Guess both rates by Jacquelin's integral equation.

    If y = A ∫∫y + B ∫y + C x + D, the rates are the roots of z² - B z - A.
    """
    matrix, right, row = np.zeros((4, 4)), np.zeros(4), np.empty(4)
    single = double = 0.0
    for i in range(x.size):
        if i > 0:
            step = x[i] - x[i - 1]
            before = single
            single += 0.5 * (y[i] + y[i - 1]) * step
            double += 0.5 * (single + before) * step
        row[0], row[1], row[2], row[3] = double, single, x[i], 1.0
        for j in range(4):
            for k in range(4):
                matrix[j, k] += w[i] * row[j] * row[k]
            right[j] += w[i] * row[j] * y[i]
    if not _solve_system(matrix, right, 4):
        return -8.0, -1.0
    inner = max(right[1] * right[1] + 4.0 * right[0], 0.0)
    b, d = _clamp_rate(0.5 * (right[1] - np.sqrt(inner))), _clamp_rate(0.5 * (right[1] + np.sqrt(inner)))
    if d - b <= 1e-6 * abs(b):
        b = b - 0.5 - 0.5 * abs(b)
    return b, d


@inline
def _refine_fit(x: Array, y: Array, w: Array, rates: tuple[float, float], terms: Array, best: Array) -> float:
    """Refine a fit by Levenberg-Marquardt steps; return its weighted squared error.

    Args:
        x, y, w: (n,) points and weights.
        rates: initial b and d.
        terms: (3, n) scratch, as in ``_solve_linear``.
        best: (4,) written: a, b, c, d.
    """
    b, d = rates
    a, c, cost = _solve_linear(x, y, w, b, d, terms)
    damping = 1e-3
    matrix, right, slopes = np.empty((4, 4)), np.empty(4), np.empty(4)
    normal, gradient = np.empty((4, 4)), np.empty(4)
    trial_terms = np.empty_like(terms)
    for _ in range(STEPS):
        normal[:], gradient[:] = 0.0, 0.0
        for i in range(x.size):
            slopes[0], slopes[1] = terms[0, i], terms[1, i]
            slopes[2], slopes[3] = a * x[i] * terms[0, i], c * x[i] * terms[1, i]
            for j in range(4):
                for k in range(j + 1):
                    normal[j, k] += w[i] * slopes[j] * slopes[k]
                gradient[j] -= w[i] * slopes[j] * terms[2, i]
        for j in range(4):
            for k in range(j):
                normal[k, j] = normal[j, k]
        before = cost
        for _try in range(TRIES):
            for j in range(4):
                right[j] = gradient[j]
                for k in range(4):
                    matrix[j, k] = normal[j, k]
            for j in range(4):
                matrix[j, j] += damping * normal[j, j] + 1e-300
            if _solve_system(matrix, right, 4):
                b2, d2 = _clamp_rate(b + right[2]), _clamp_rate(d + right[3])
                a2, c2, cost2 = _solve_linear(x, y, w, b2, d2, trial_terms)
                if cost2 < cost:
                    a, b, c, d, cost = a2, b2, c2, d2, cost2
                    copy_elements(trial_terms.ravel(), 0, terms.size, terms.ravel(), 0)
                    damping = max(damping * 0.1, 1e-12)
                    break
            damping *= 8.0
        if not cost < before * (1.0 - 1e-9):
            break
    best[0], best[1], best[2], best[3] = a, b, c, d
    return cost


@kernel
def fit(x: Array, y: Array, w: Array) -> Array:
    """Fit a·e^(bx) + c·e^(dx) to weighted points from two starts, and return the better fit.

    Args:
        x: (n,) ascending, from 0 to 1.
        y: (n,) at most 1 in magnitude.
        w: (n,) positive weights.

    Returns:
        (4,) float64: a, b, c, d.
    """
    terms = np.empty((3, x.size))
    first, second = np.zeros(4), np.zeros(4)
    cost = _refine_fit(x, y, w, _guess_rates(x, y, w), terms, first)
    if _refine_fit(x, y, w, (-40.0, -1.5), terms, second) < cost:
        return second
    return first


@kernel
def read_heads(
    heads: Array,
    parameters: Array,
    r: int,
    flag: int,
    max_factor: float,
    max_rate: float,
    lengths: Array,
    backwards: Array,
) -> tuple[int, int]:
    """Split the heads of curves into fields, and validate heads, lengths and parameters in this order.

    Args:
        heads: (n,) u32.
        parameters: (n, 4) float64.
        r: number of values.
        flag: head bit that is set if the curve runs backwards; the lower bits hold the length minus 1.
        max_factor: largest magnitude of a factor.
        max_rate: largest rate.
        lengths: (n,) i64, written.
        backwards: (n,) bool, written.

    Returns:
        0 or the first error code, and the sum of the lengths.
    """
    total = np.int64(0)
    beyond = False
    for curve in range(heads.size):
        head = np.int64(heads[curve])
        beyond |= head >= 2 * flag
        backwards[curve] = head & flag != 0
        lengths[curve] = (head & (flag - 1)) + 1
        total += lengths[curve]
    if beyond:
        return BAD_HEAD, total
    if total != r:
        return BAD_SUM, total
    for curve in range(heads.size):
        for k in range(0, 4, 2):
            factor, rate = parameters[curve, k], parameters[curve, k + 1]
            if not (abs(factor) <= max_factor and -np.inf < rate <= max_rate):
                return BAD_PARAMETER, total
    return 0, total
