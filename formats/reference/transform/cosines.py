"""Cosines for the inverse transforms, computed with integers to within one unit in the last place.

A library's ``cos`` may differ between machines in its last bit. With these cosines, the values in the golden
vectors do not.
"""

from __future__ import annotations

ONE = 1 << 200
"""1 in fixed point."""


def cosines(n: int) -> list[float]:
    """Return the cosine of t/n of a turn, for t = 0 … n-1."""
    angle = 2 * _pi() // n
    step_cos, step_sin = _series(angle, 0), _series(angle, 1)
    result = []
    cosine, sine = ONE, 0
    for _ in range(n):
        result.append(cosine / ONE)
        cosine, sine = (
            (cosine * step_cos - sine * step_sin) // ONE,
            (cosine * step_sin + sine * step_cos) // ONE,
        )
    return result


def _series(x: int, first: int) -> int:
    """Return the cosine (``first`` 0) or sine (1) of a fixed-point number by its Taylor series."""
    power = total = x if first else ONE
    n, sign = first, 1
    while power:
        n, sign = n + 2, -sign
        power = power * x // ONE * x // ONE // (n * (n - 1))
        total += sign * power
    return total


def _pi() -> int:
    """Return π by Machin's formula."""
    return 4 * (4 * _arctan(5) - _arctan(239))


def _arctan(x: int) -> int:
    """Return the arc tangent of 1/x."""
    power = total = ONE // x
    n, sign = 1, 1
    while power:
        power //= x * x
        n, sign = n + 2, -sign
        total += sign * (power // n)
    return total
