"""Inverse of the orthonormal real Fourier transform (spec/transform/rfft.md), term by term in binary64.

The cost is n steps per coefficient. A port would use a fast transform of length m.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from formats.reference.transform.cosines import cosines


def invert_rfft(n: int, m: int, indices: Sequence[int], components: Sequence[float]) -> list[float]:
    """Compute the first n of m elements from their coefficients.

    Args:
        n: number of elements to return.
        m: transform length (SPEC section 3.5).
        indices: indices of the coefficients present.
        components: real and imaginary parts in turn, two per index.
    """
    circle = cosines(4 * m) if m else []
    terms = [
        (k, math.sqrt((1 if k == 0 or 2 * k == m else 2) / m), re, im)
        for k, re, im in zip(indices, components[::2], components[1::2], strict=True)
    ]
    return [
        math.fsum(
            w * (re * circle[4 * j * k % (4 * m)] - im * _sine(circle, j * k % m, m))
            for k, w, re, im in terms
        )
        for j in range(n)
    ]


def _sine(circle: Sequence[float], t: int, m: int) -> float:
    """Return the sine of t/m of a turn: exactly 0 at its zeros, so that unused imaginary parts drop out."""
    return 0.0 if 2 * t % m == 0 else circle[(4 * t - m) % (4 * m)]
