"""Forms of the sums of which the top k are selected, and the columns of a table of their terms.

    IDENTITY     x = g
    SUM          x = g + v
    PLAIN        x = decay * v + factor * g
    HEAVY_BALL   x = decay * v + u'                           u' = keep * u + factor * g
    NESTEROV     x = decay * v + (keep * u' + factor * g)     u' = keep * u + factor * g

g, u and v are gradient, momentum and residual. Each product and each sum is rounded. SUM gives the bits of
PLAIN with factors of 1. IDENTITY writes nothing; the other forms write x, and u' if they have it.
"""

from __future__ import annotations

IDENTITY, SUM, PLAIN, HEAVY_BALL, NESTEROV = 0, 1, 2, 3, 4
SUM_NAMES = {SUM: "sum", PLAIN: "plain", HEAVY_BALL: "heavy_ball", NESTEROV: "nesterov"}
FORM_NAMES = {IDENTITY: "identity", **SUM_NAMES}
"""Names of the forms that write sums, and of all forms."""

KEEP, FACTOR, DECAY = 0, 1, 2
"""Places of the factors, which are float64 numbers and are rounded to the elements' type."""
GRADIENT, MOMENTUM, RESIDUAL, AFTER, TOTAL = 0, 1, 2, 3, 4
"""Columns of the table of addresses."""
TENSOR, START, STOP = 0, 1, 2
"""Columns of the table of pieces: a range of a tensor's elements."""
