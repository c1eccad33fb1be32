"""Search of the rate at which a scheme takes given bits, or has a given error.

The rate is the selector's ratio, or the bits of ``budget``. Neither bits nor error need be monotonic in it: a
codec of signs has its least error somewhere in between. So a grid of rates is measured first, and then every
interval whose ends enclose the goal is bisected. The same gradient always gives the same rate.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

from wirecodec.comparison.measurement import EncodedGradient
from wirecodec.errors import EncodeError
from wirecodec.select.budget.selector import Budget
from wirecodec.settings.scheme import Scheme
from wirecodec.validation import as_real

TOLERANCE = 0.01
"""Relative difference to the goal at which a rate is accepted."""
_ENOUGH = 0.002
"""Relative difference at which a bisection ends."""
_DECADES = 6
_DIGITS = 4
"""Significant digits of a rate, so that a row's scheme can be written as it was measured."""
_STEPS = 16
"""Bisections at most: a fraction of 10^½ becomes one of 10^-_DIGITS."""


@dataclass(frozen=True)
class Goal:
    """Bits per element, or a relative error, that all schemes of a comparison shall have.

    Attributes:
        value: above 0.
        is_error: whether it is a relative error.
    """

    value: float
    is_error: bool

    @classmethod
    def of(cls, bits: float | None, error: float | None) -> Goal | None:
        """Return the goal of two arguments of which one may be given; None if neither is.

        Raises:
            EncodeError: both are given, or one is not a positive number.
        """
        if bits is not None and error is not None:
            raise EncodeError("bits and error exclude each other; give one of them")
        for name, given in (("bits", bits), ("error", error)):
            if given is not None:
                value = as_real(given, name)
                if not 0 < value < math.inf:
                    raise EncodeError(f"{name} is {given!r}; it must be above 0 and finite")
                return cls(value, name == "error")
        return None

    def format(self, value: float) -> str:
        """Format a number of bits or an error.

        Examples:
            >>> Goal(0.25, False).format(0.5), Goal(0.25, True).format(0.5)
            ('0.5 bits', 'an error of 0.5')
        """
        if self.is_error:
            return f"an error of {value:.3g}"
        return f"{value:.3g} {'bit' if value == 1 else 'bits'}"


@dataclass(frozen=True)
class _Sample:
    """Measurement at one rate.

    Attributes:
        scheme, rate: as measured.
        value: the quantity of the goal, bits or error.
        other: the other one of the two.
    """

    scheme: Scheme
    rate: float
    value: float
    other: float


def reach(
    goal: Goal, scheme: Scheme, elements: int, encode: Callable[[Scheme], EncodedGradient]
) -> Scheme | str:
    """Find the rate at which a scheme reaches a goal.

    Of several such rates, the one with the least error is taken, or with the fewest bits.

    Args:
        goal: reached within ``TOLERANCE``.
        scheme: its rate is replaced.
        elements: of the gradient; a ratio below one element is not tried.
        encode: encodes the gradient by a scheme.

    Returns:
        The scheme with that rate, or a sentence why it has none.

    Raises:
        EncodeError: the scheme refuses the gradient at all rates.
    """

    def sample(at: Scheme, rate: float) -> _Sample:
        encoded = encode(at)
        pair = encoded.bits, encoded.error
        return _Sample(at, rate, *(reversed(pair) if goal.is_error else pair))

    most = find_highest_rate(scheme)
    if most is None:
        samples = [sample(scheme, math.nan)]
    else:
        samples = _measure_grid(lambda rate: sample(set_rate(scheme, rate), rate), most, elements)
    samples = [one for one in samples if math.isfinite(one.value)]
    if not samples:
        return "its error is not finite"
    intervals = (
        _bisect(goal.value, ends, lambda rate: sample(set_rate(scheme, rate), rate))
        for ends in pairwise(samples)
    )
    nearest = [one for one in (*intervals, *samples[:1], *samples[-1:]) if one is not None]
    reached = [one for one in nearest if _distance(one, goal.value) <= TOLERANCE]
    if reached:
        return min(reached, key=lambda one: one.other).scheme
    return _explain(goal, [one.value for one in (*samples, *nearest)], most is None)


def _measure_grid(sample: Callable[[float], _Sample], most: float, elements: int) -> list[_Sample]:
    """Measure two rates per decade from the highest one down; raise EncodeError if all are refused."""
    fractions = (max(10 ** (-step / 2), 1 / max(elements, 1)) for step in range(2 * _DECADES + 1))
    samples, refusals = [], []
    for rate in dict.fromkeys(_round(most * fraction) for fraction in fractions):
        try:
            samples.append(sample(rate))
        except EncodeError as error:
            refusals.append(error)
    if not samples:
        raise refusals[0]
    return samples


def _bisect(
    value: float, ends: tuple[_Sample, _Sample], sample: Callable[[float], _Sample]
) -> _Sample | None:
    """Return the nearest rate between two that enclose a value; None if they do not."""
    low, high = sorted(ends, key=lambda one: one.value)
    if not low.value <= value <= high.value:
        return None
    for _ in range(_STEPS):
        rate = _round(math.sqrt(low.rate * high.rate))
        if rate in (low.rate, high.rate) or min(_distance(low, value), _distance(high, value)) <= _ENOUGH:
            break
        try:
            middle = sample(rate)
        except EncodeError:
            break
        low, high = (middle, high) if middle.value < value else (low, middle)
    return min(low, high, key=lambda one: _distance(one, value))


def _distance(sample: _Sample, value: float) -> float:
    return abs(sample.value / value - 1)


def _explain(goal: Goal, values: list[float], fixed: bool) -> str:
    """Return the sentence for a goal that none of the values reaches."""
    if fixed:
        return f"has neither ratio nor budget; {'has' if goal.is_error else 'takes'} {goal.format(values[0])}"
    if goal.value < min(values):
        return f"cannot go below {goal.format(min(values))}"
    if goal.value > max(values):
        return f"cannot go above {goal.format(max(values))}"
    nearest = min(values, key=lambda value: abs(value - goal.value))
    return f"comes no nearer than {goal.format(nearest)}"


def find_rate(scheme: Scheme) -> float | None:
    """Return the ratio or the budget of a scheme; None if it has none.

    Examples:
        >>> find_rate(Scheme.parse("budget(0.25) | rice | error-bounded"))
        0.25
    """
    rate: float | None = getattr(scheme.select, _name_rate(scheme), None)
    return rate


def find_highest_rate(scheme: Scheme) -> float | None:
    """Return the highest rate of a scheme; None if it has none."""
    if find_rate(scheme) is None:
        return None
    return float(Budget.MAX_BITS) if isinstance(scheme.select, Budget) else 1.0


def set_rate(scheme: Scheme, rate: float) -> Scheme:
    """Replace the ratio or the budget of a scheme that has one.

    Examples:
        >>> str(set_rate(Scheme.parse("budget(0.25) | rice | error-bounded"), 0.5))
        'budget(0.5) | rice | error-bounded'
    """
    return replace(scheme, select=replace(scheme.select, **{_name_rate(scheme): rate}))  # type: ignore[type-var]


def _name_rate(scheme: Scheme) -> str:
    return "bits" if isinstance(scheme.select, Budget) else "ratio"


def _round(rate: float) -> float:
    return float(f"{rate:.{_DIGITS}g}")
