"""Weights of the ranks in a sum or a mean."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from collectives.errors import CollectiveError


@dataclass(frozen=True)
class Weights:
    """Factors of the ranks' values, and the divisor of their sum.

    Attributes:
        divisor: above 0.
        factors: by rank; empty if all are 1. Of a rank with factor 0, nothing is added.
    """

    divisor: float = 1.0
    factors: tuple[float, ...] = ()

    @classmethod
    def of(cls, weights: Sequence[float], *, mean: bool) -> Weights | None:
        """Return the factors for weights, or None if all are 0.

        Equal weights have the bits of a sum without weights. Other ones are scaled by a power of 2 for a
        mean, so that no product is twice as large as its value.

        Args:
            weights: one per rank, finite and not negative.
            mean: whether the sum is divided by the sum of the weights.
        """
        largest = max(weights)
        if largest == 0:
            return None
        if min(weights) == 1 == largest:
            return cls(float(len(weights)) if mean else 1.0)
        taking_part = len(weights) - weights.count(0)
        if mean and {*weights} <= {0, largest}:
            factors = tuple([float(weight > 0) for weight in weights])
        else:
            exponent = 1 - math.frexp(largest)[1] if mean else 0
            factors = tuple([math.ldexp(weight, exponent) for weight in weights])
        has_factors = factors.count(1) < len(factors)
        divisor = (math.fsum(factors) if has_factors else taking_part) if mean else 1
        return cls(float(divisor), factors if has_factors else ())

    @property
    def largest(self) -> float:
        """The largest factor."""
        return max(self.factors, default=1.0)

    def of_rank(self, rank: int) -> float:
        """Return the factor of a rank."""
        return self.factors[rank] if self.factors else 1.0


def weigh(weights: Sequence[float], *, mean: bool) -> Weights:
    """Return the factors for the weights in the headers of an agreement, as ``Weights.of``.

    Raises CollectiveError on all ranks if all weights are 0.
    """
    found = Weights.of(weights, mean=mean)
    if found is None:
        raise CollectiveError(
            "all ranks have weight 0, so nobody sends: at least one must have another weight",
            ranks=range(len(weights)),
            reason="argument",
        )
    return found


def check_weight(weight: float) -> float:
    """Return a rank's weight as a float; raise ValueError if it is not finite or is negative."""
    number = float(weight)
    if not (math.isfinite(number) and number >= 0):
        raise ValueError(f"weight is {weight!r}; it must be a finite number, 0 or more")
    return number
