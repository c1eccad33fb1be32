"""Inverse of the orthonormal discrete cosine transform (spec/transform/dct.md), term by term in binary64.

The cost is n steps per coefficient. A port would use a fast transform of length m.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from formats.reference.transform.cosines import cosines


def invert_dct(n: int, m: int, indices: Sequence[int], components: Sequence[float]) -> list[float]:
    """Compute the first n of m elements from their coefficients.

    Args:
        n: number of elements to return.
        m: transform length (SPEC section 3.5).
        indices: indices of the coefficients present.
        components: the coefficients' values, one per index.
    """
    circle = cosines(4 * m) if m else []
    terms = [(k, math.sqrt((1 if k == 0 else 2) / m) * c) for k, c in zip(indices, components, strict=True)]
    return [math.fsum(c * circle[(2 * j + 1) * k % (4 * m)] for k, c in terms) for j in range(n)]
