"""Kernels of polyfit (formats/spec/value/polyfit.md): splitting, fitting and evaluating pieces.

Polynomials are sums of monic Gram polynomials, which are orthogonal on equally spaced points. Each
coefficient is therefore one dot product and independent of the others. All arithmetic is binary64 with one
rounding per operation. The spec page fixes the operations of ``evaluate`` and their order.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, kernel

MAX_DEGREE = 8
"""Largest degree of a piece."""
BLOCK = 64
"""Points evaluated together."""
LANES = 8
"""Partial sums of ``_measure_deviation``."""


@inline
def _compute_betas(n: int, degree: int, betas: Array) -> None:
    """Compute the coefficients of the recurrence for n points; the first is 0."""
    betas[0] = 0.0
    for k in range(1, degree):
        above = np.float64(k * k) * np.float64(n * n - k * k)
        below = np.float64(4 * k * k - 1) * (np.float64(n - 1) * np.float64(n - 1))
        betas[k] = above / below


@inline
def _start_basis(n: int, first: int, m: int, basis: Array) -> None:
    """Set the rows of ``basis`` for m points from ``first``: x, 0 and the polynomial of degree 0."""
    step = 1.0 / np.float64(n - 1) if n > 1 else 0.0
    for j in range(m):
        basis[0, j] = np.float64(2 * (first + j) - (n - 1)) * step
        basis[1, j] = 0.0
        basis[2, j] = 1.0


@inline
def _advance_basis(beta: float, m: int, basis: Array) -> None:
    """Step the recurrence: row 2 becomes the next polynomial, row 1 the current one."""
    for j in range(m):
        following = basis[0, j] * basis[2, j] - beta * basis[1, j]
        basis[1, j] = basis[2, j]
        basis[2, j] = following


@kernel
def evaluate(lengths: Array, degrees: Array, coefficients: Array, largest: float, out: Array) -> None:
    """Evaluate the pieces in float32 or float64.

    Args:
        lengths: (n,) points per piece; their sum is the size of ``out``.
        degrees: (n,) degree of each piece, 0 to 8.
        coefficients: float64, degree + 1 per piece, concatenated.
        largest: bound to which magnitudes are clamped.
        out: written.
    """
    basis, betas, total = np.empty((3, BLOCK)), np.empty(MAX_DEGREE + 1), np.empty(BLOCK)
    start = used = 0
    for piece in range(lengths.size):
        n, degree = np.int64(lengths[piece]), np.int64(degrees[piece])
        _compute_betas(n, degree, betas)
        for first in range(0, n, BLOCK):
            m = min(BLOCK, n - first)
            _start_basis(n, first, m, basis)
            total[:m] = coefficients[used]
            for k in range(degree):
                _advance_basis(betas[k], m, basis)
                c = coefficients[used + k + 1]
                for j in range(m):
                    total[j] = total[j] + c * basis[2, j]
            for j in range(m):
                v = total[j]
                v = v if v < largest else largest
                out[start + first + j] = v if v > -largest else -largest
        start += n
        used += degree + 1


@kernel
def fit(y: Array, lengths: Array, degrees: Array, coefficients: Array) -> None:
    """Fit each piece by least squares.

    A coefficient is the dot product with its polynomial, divided by the polynomial's squared norm.

    Args:
        y: (r,) values whose squares are finite in float64.
        lengths: (n,) points per piece; their sum is r.
        degrees: (n,) degree of each piece, below its length.
        coefficients: float64, degree + 1 per piece, written.
    """
    basis, betas, sums = np.empty((3, BLOCK)), np.empty(MAX_DEGREE + 1), np.empty((MAX_DEGREE + 1, BLOCK))
    start = used = 0
    for piece in range(lengths.size):
        n, degree = np.int64(lengths[piece]), np.int64(degrees[piece])
        _compute_betas(n, degree, betas)
        sums[:] = 0.0
        for first in range(0, n, BLOCK):
            m = min(BLOCK, n - first)
            _start_basis(n, first, m, basis)
            for k in range(degree + 1):
                for j in range(m):
                    sums[k, j] += basis[2, j] * np.float64(y[start + first + j])
                if k < degree:
                    _advance_basis(betas[k], m, basis)
        square = np.float64(n)
        for k in range(degree + 1):
            if k > 0:
                square *= _norm_ratio(n, k)
            coefficients[used + k] = sums[k].sum() / square
        start += n
        used += degree + 1


@inline
def _norm_ratio(n: int, k: int) -> float:
    """Compute the ratio of the squared norms of the k-th and the (k - 1)-th Gram polynomial on n points."""
    return (
        np.float64(k * k)
        * np.float64(n * n - k * k)
        / (np.float64(4 * k * k - 1) * (np.float64(n - 1) * np.float64(n - 1)))
    )


@inline
def _measure_deviation(y: Array, start: int, stop: int) -> tuple[float, int]:
    """Measure how far a piece is from its chord.

    Returns:
        The largest distance times the l2 norm of all distances, and the position of the largest.
    """
    n = stop - start
    if n < 3:
        return 0.0, start
    low = np.float64(y[start])
    slope = (np.float64(y[stop - 1]) - low) / np.float64(n - 1)
    tops, sums = np.empty(LANES), np.zeros(LANES)
    greatest, block = 0.0, 0
    for first in range(0, n, BLOCK):
        m = min(BLOCK, n - first)
        tops[:] = 0.0
        whole = m & ~(LANES - 1)
        for i in range(first, first + whole, LANES):
            for j in range(LANES):
                d = abs(low + slope * np.float64(i + j) - y[start + i + j])
                tops[j] = d if d > tops[j] else tops[j]
                sums[j] += d * d
        for i in range(first + whole, first + m):
            d = abs(low + slope * np.float64(i) - y[start + i])
            tops[0] = d if d > tops[0] else tops[0]
            sums[0] += d * d
        top = tops.max()
        if top > greatest:
            greatest, block = top, first
    for i in range(block, min(block + BLOCK, n)):
        if abs(low + slope * np.float64(i) - y[start + i]) == greatest:
            return greatest * np.sqrt(sums.sum()), start + i
    return greatest * np.sqrt(sums.sum()), start + block


@inline
def _sift_up(heap: Array, keys: Array, at: int) -> None:
    """Restore the heap's order from an entry upwards."""
    while at > 0 and keys[heap[(at - 1) >> 1]] < keys[heap[at]]:
        heap[at], heap[(at - 1) >> 1] = heap[(at - 1) >> 1], heap[at]
        at = (at - 1) >> 1


@inline
def _sift_down(heap: Array, keys: Array, n: int) -> None:
    """Restore the heap's order from the root downwards."""
    at = 0
    while 2 * at + 1 < n:
        child = 2 * at + 1
        if child + 1 < n and keys[heap[child + 1]] > keys[heap[child]]:
            child += 1
        if keys[heap[child]] <= keys[heap[at]]:
            break
        heap[at], heap[child] = heap[child], heap[at]
        at = child


@inline
def _rank_piece(
    y: Array, piece: int, starts: Array, stops: Array, keys: Array, points: Array, min_points: int
) -> None:
    """Compute a piece's priority and split point; the priority is -1 if the piece is too short to split."""
    start, stop = starts[piece], stops[piece]
    if stop - start < 2 * min_points:
        keys[piece], points[piece] = -1.0, start
        return
    keys[piece], point = _measure_deviation(y, start, stop)
    points[piece] = min(max(point, start + min_points), stop - min_points)


@kernel
def segment(y: Array, edges: Array, pieces: int, min_points: int) -> Array:
    """Split sorted values into at most ``pieces`` pieces and return their lengths.

    The piece with the largest deviation from its chord is split at the farthest point, repeatedly.

    Args:
        y: (r,) ascending.
        edges: (m + 1,) int64, from 0 to r; no piece spans an edge.
        pieces: maximum number of pieces, at least m.
        min_points: minimum number of points on each side of a split.

    Returns:
        (n,) int64 lengths, in order.
    """
    starts, stops = np.empty(pieces, np.int64), np.empty(pieces, np.int64)
    points, heap = np.empty(pieces, np.int64), np.empty(pieces, np.int64)
    keys = np.empty(pieces, np.float64)
    n = edges.size - 1
    for piece in range(n):
        starts[piece], stops[piece], heap[piece] = edges[piece], edges[piece + 1], piece
        _rank_piece(y, piece, starts, stops, keys, points, min_points)
        _sift_up(heap, keys, piece)
    while n < pieces and keys[heap[0]] > 0.0:
        piece = heap[0]
        starts[n], stops[n], heap[n] = points[piece], stops[piece], n
        stops[piece] = points[piece]
        _rank_piece(y, piece, starts, stops, keys, points, min_points)
        _sift_down(heap, keys, n)
        _rank_piece(y, n, starts, stops, keys, points, min_points)
        _sift_up(heap, keys, n)
        n += 1
    order = np.argsort(starts[:n])
    return (stops[:n] - starts[:n])[order]


@kernel
def read_heads(heads: Array, lengths: Array, degrees: Array) -> tuple[bool, int, int]:
    """Split the heads of pieces into lengths and degrees.

    Args:
        heads: (n,) u32: the length minus 1 in the low 24 bits, the degree above.
        lengths: (n,) i64, written.
        degrees: (n,) i64, written.

    Returns:
        True if each degree is at most MAX_DEGREE and below its length; the sum of the lengths; the number of
        coefficients.
    """
    fits = True
    total = count = np.int64(0)
    for piece in range(heads.size):
        lengths[piece] = (np.int64(heads[piece]) & 0xFFFFFF) + 1
        degrees[piece] = np.int64(heads[piece]) >> 24
        fits &= degrees[piece] <= MAX_DEGREE and degrees[piece] < lengths[piece]
        total += lengths[piece]
        count += degrees[piece] + 1
    return fits, total, count
