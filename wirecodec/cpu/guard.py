"""Checks of decoded values before they are added to a model, for updates from strangers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.cpu.norm import BLOCK, Norm, is_reliable, measure
from wirecodec.cpu.select import find_array
from wirecodec.errors import Invalid, LimitExceeded
from wirecodec.select.base import INFINITY_BITS, find_nonfinite
from wirecodec.support import DecodedChunk
from wirecodec.validation import as_flag, as_real

_ROUNDING = 2.0**-51
"""Largest relative difference of two sums of squares per element, in any orders."""


@dataclass(frozen=True)
class Guard:
    """Conditions on the values of a container.

    Attributes:
        finite: whether scale * value must be finite in the type of the array that it is added to.
        max_norm: largest L2 norm of all values of the container, before scaling; None for any.
    """

    finite: bool = False
    max_norm: float | None = None

    def __post_init__(self) -> None:
        as_flag(self.finite, "finite")
        if self.max_norm is not None and not as_real(self.max_norm, "max_norm") >= 0:
            raise ValueError(f"max_norm is {self.max_norm!r}; it must be 0 or more, or None")

    @property
    def is_active(self) -> bool:
        """Whether there is anything to check."""
        return self.finite or self.max_norm is not None

    def check(
        self, decoded: Mapping[int, Sequence[DecodedChunk]], dtypes: Sequence[np.dtype[Any]], scale: float
    ) -> None:
        """Check all tensors of a container on the host.

        Args:
            decoded: {key: chunks}.
            dtypes: type of the array that each tensor is added to, by key.
            scale: factor of the values.

        Raises:
            Invalid: code "nonfinite": a value is NaN or Inf, or becomes Inf in the array's type.
            LimitExceeded: code "max-norm": the norm is above ``max_norm``.
        """
        if not self.is_active or (scale == 1 and self.max_norm is None and _are_finite(decoded, dtypes)):
            return
        squares = 0.0
        for key, dtype in enumerate(dtypes):
            for part in decoded[key]:
                squares += self._check_part(part, dtype.type(scale), key)
        if self.max_norm is not None:
            self._check_norm(squares, [part.values for key in range(len(dtypes)) for part in decoded[key]])

    def _check_part(self, part: DecodedChunk, factor: Any, key: int) -> float:
        """Return the sum of a chunk's squares, or 0 without ``max_norm``. Raises Invalid."""
        squares = 0.0
        with np.errstate(all="ignore"):
            for start in range(0, part.values.size, BLOCK):
                values = part.values[start : start + BLOCK]
                if self.finite:
                    added: Array = values.astype(factor.dtype) * factor
                    if (at := find_nonfinite(added)) >= 0:
                        raise Invalid(
                            "nonfinite", f"tensor {key}: stored value {start + at} adds {float(added[at])}"
                        )
                if self.max_norm is not None:
                    squares += _sum_squares(values.astype(np.float64, copy=False))
        return squares

    def _check_norm(self, squares: float, values: Sequence[Array]) -> None:
        """Raise LimitExceeded if the norm is above ``max_norm``."""
        assert self.max_norm is not None
        exact = Norm(math.sqrt(squares)) if is_reliable(squares) else measure(values, _sum_squares)
        norm, limit = exact.value, float(self.max_norm)
        count = sum(part.size for part in values)
        if abs(norm - limit) <= limit * (count + 2) * _ROUNDING:
            # The order of a sum depends on the machine. At the limit, all machines add in the same order.
            norm = _measure_in_order(values)
        if not norm <= limit:
            raise LimitExceeded("max-norm", f"the values have norm {norm!r}; the limit is {limit!r}")


def _are_finite(decoded: Mapping[int, Sequence[DecodedChunk]], dtypes: Sequence[np.dtype[Any]]) -> bool:
    """Return whether all values have the types of the arrays that they are added to, and are finite."""
    values = []
    for key, dtype in enumerate(dtypes):
        for part in decoded[key]:
            if part.values.dtype != dtype:
                return False
            values.append(part.values)
    return find_array(values, INFINITY_BITS) < 0


def _measure_in_order(values: Sequence[Array]) -> float:
    """Return the norm from Σ x² in the order of the elements; as ``measure`` if that is not reliable."""
    with np.errstate(all="ignore"):
        squares = _sum_in_order(values)
        if is_reliable(squares):
            return math.sqrt(squares)
        exponent = measure(values, _sum_squares).exponent
        return Norm(math.sqrt(_sum_in_order(values, exponent)), exponent).value


def _sum_in_order(values: Sequence[Array], exponent: int = 0) -> float:
    """Return Σ (x / 2^exponent)² in binary64, in the order of elements, each product and sum rounded."""
    total = 0.0
    for part in values:
        for start in range(0, part.size, BLOCK):
            wide = np.ldexp(part[start : start + BLOCK].astype(np.float64), -exponent)
            wide *= wide
            wide[0] += total
            total = float(np.add.accumulate(wide)[-1])
    return total


def _sum_squares(wide: Array) -> float:
    """Return Σ x² of binary64 numbers, in any order."""
    return float(np.dot(wide, wide))
