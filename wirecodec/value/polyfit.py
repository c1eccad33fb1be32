"""``polyfit``: piecewise polynomials on the sorted values (formats/spec/value/polyfit.md).

After Fit-Poly of DeepReduce (Xu et al., 2021), with Gram polynomials. Pieces are split where the curve is
farthest from their chords, and never span a change of sign; a fit is sent only where it is smaller than the
values, and no piece is farther from its values than zeros would be.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.errors import EncodeError, Invalid, Malformed
from wirecodec.limits import DecodeLimits
from wirecodec.validation import as_integer, as_real, settle
from wirecodec.value.curve_fit import (
    LENGTH,
    drawn,
    heads_of,
    means,
    parts_of,
    raw_form,
    raw_values,
    scaled,
    section_of,
    worse,
    zeros,
)

__all__ = ["PolyFit"]

_MAX_DEGREE = 8


@dataclass(frozen=True)
class PolyFit:
    """Polynomials of one degree over pieces of the sorted curve.

    Args:
        degree: 1 to 8.
        pieces: how many at most, or None for as many as the curvature asks for at ``error``.
        error: relative to the root mean square of the values; what ``pieces`` is computed for.
    """

    name: ClassVar[str] = "polyfit"
    wire_id: ClassVar[int] = 9
    carries_nonfinite: ClassVar[bool] = False
    ordered: ClassVar[bool] = True
    degree: int = 5
    pieces: int | None = None
    error: float = 0.01

    def __post_init__(self) -> None:
        settle(
            self,
            degree=as_integer(self.degree, "polyfit: degree"),
            error=as_real(self.error, "polyfit: error"),
        )
        if not 1 <= self.degree <= _MAX_DEGREE:
            raise EncodeError(f"polyfit: degree is {self.degree}; it must be from 1 to {_MAX_DEGREE}")
        if not 1e-9 <= self.error <= 1:
            raise EncodeError(f"polyfit: error is {self.error!r}; it must be from 1e-9 to 1")
        if self.pieces is not None:
            settle(self, pieces=as_integer(self.pieces, "polyfit: pieces"))
            if not 1 <= self.pieces <= LENGTH + 1:
                raise EncodeError(f"polyfit: pieces is {self.pieces}; it must be from 1 to {LENGTH + 1}")

    def encode(self, values: Array, stream: int) -> Bytes:
        """Pieces and their coefficients, or the values where those are smaller."""
        from wirecodec.kernels.cpu.value import polyfit

        form = _form(values.dtype)
        y, exponent = scaled(values)
        edges = parts_of(y)
        room = values.nbytes // (4 + form.itemsize * (self.degree + 1))
        tolerance = self.error * math.sqrt(float(np.einsum("i,i", y, y, dtype=np.float64)) / y.size)
        wanted = self.pieces or sum(_pieces(y[a:b], tolerance) for a, b in pairwise(edges))
        budget = max(min(wanted, room), edges.size - 1)
        lengths = polyfit.segment(y, edges, budget, self.degree + 1)
        starts = np.cumsum(lengths) - lengths
        degrees = np.minimum(self.degree, lengths - 1)
        level = y[starts] == y[starts + lengths - 1]
        degrees[level] = 0
        if 4 + 4 * lengths.size + form.itemsize * int((degrees + 1).sum()) >= 4 + values.nbytes:
            return raw_form(values)
        coefficients = np.empty(int((degrees + 1).sum()))
        polyfit.fit(y, lengths, degrees, coefficients)
        coefficients[(np.cumsum(degrees + 1) - 1)[level]] = y[starts[level]]
        with np.errstate(over="ignore"):
            sent = np.ldexp(coefficients, exponent).astype(form)
        for constants in (means, zeros):
            wrong = worse(y, exponent, _evaluated(lengths, degrees, sent, values.dtype), lengths)
            first = np.cumsum(degrees + 1) - degrees - 1
            wrong |= ~np.logical_and.reduceat(np.isfinite(sent), first)
            if not wrong.any():
                break
            sent, degrees = _with_constants(
                wrong, constants(y, exponent, lengths).astype(form), sent, degrees
            )
        return section_of((lengths - 1 | degrees << 24).astype("<u4"), sent)

    def max_bytes(self, r: int, dtype: np.dtype[Any]) -> int:
        """Return the most bytes of a section of at most r values of ``dtype``."""
        return 4 + r * dtype.itemsize

    @classmethod
    def decode(cls, section: Bytes, r: int, dtype: np.dtype[Any], limits: DecodeLimits) -> Array:
        """The pieces' polynomials, in float64, rounded once."""
        from wirecodec.kernels.cpu.value import polyfit

        heads = heads_of(section, r, "polyfit")
        if not heads.size:
            return raw_values(section, r, dtype, "polyfit")
        lengths, degrees = np.empty(heads.size, np.int64), np.empty(heads.size, np.int64)
        fits, total, count = polyfit.check(heads, lengths, degrees)
        if not fits:
            raise Malformed("polyfit-piece", "a degree is above 8, or not below its piece's length")
        if total != r:
            raise Invalid("polyfit-sum", f"the pieces have {total} of {r} values")
        form = _form(dtype)
        body = 4 + heads.nbytes
        if section.size != body + form.itemsize * count:
            raise Malformed("polyfit-length", f"{section.size} bytes of {heads.size} pieces")
        coefficients = section[body:].copy().view(form)
        if not np.isfinite(coefficients).all():
            raise Invalid("polyfit-coefficient", "a coefficient is NaN or infinite")
        return _evaluated(lengths, degrees, coefficients, dtype)


def _pieces(part: Array, tolerance: float) -> int:
    """As many as a spline of lines would take for a tolerance, by the slopes at both ends of a part."""
    if part.size < 3 or tolerance == 0:
        return 1
    first, second, third, last = (float(part[i]) for i in (0, 1, -2, -1))
    turn = abs((second - first) - (last - third))
    return max(1, math.ceil(min(math.sqrt(2 * turn / tolerance), LENGTH)))


def _form(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype("<f8" if dtype == np.float64 else "<f4")


def _evaluated(lengths: Array, degrees: Array, coefficients: Array, dtype: np.dtype[Any]) -> Array:
    from wirecodec.kernels.cpu.value import polyfit

    wide = coefficients.astype(np.float64)
    return drawn(
        lambda most, out: polyfit.evaluate(lengths, degrees, wide, most, out), int(lengths.sum()), dtype
    )


def _with_constants(
    where: Array, constants: Array, coefficients: Array, degrees: Array
) -> tuple[Array, Array]:
    """Coefficients and degrees with one constant in place of each piece that ``where`` names.

    Args:
        where: (n,) bool.
        constants: (n,) of the coefficients' type.
        coefficients: degree + 1 of each piece.
        degrees: (n,).
    """
    if not where.any():
        return coefficients, degrees
    count = degrees + 1
    first = np.cumsum(count) - count
    keep = ~np.repeat(where, count)
    keep[first] = True
    replaced = coefficients.copy()
    replaced[first[where]] = constants[where]
    return replaced[keep], np.where(where, 0, degrees)
