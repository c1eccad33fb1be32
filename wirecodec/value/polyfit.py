"""``polyfit``: piecewise polynomials, fitted to sorted values (formats/spec/value/polyfit.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.errors import EncodeError, Invalid, Malformed
from wirecodec.limits import DecodeLimits
from wirecodec.validation import as_integer, as_real, set_fields
from wirecodec.value.base import OrderedValueCodec
from wirecodec.value.curve_fit import (
    MAX_LENGTH_FIELD,
    average_pieces,
    evaluate_curve,
    find_worse_than_zeros,
    read_heads,
    read_raw,
    scale_values,
    split_by_sign,
    write_raw,
    write_section,
    zero_pieces,
)

_MAX_DEGREE = 8
"""Largest degree of a piece."""


@dataclass(frozen=True)
class PolyFit(OrderedValueCodec):
    """Piecewise polynomial curve fit (Fit-Poly) value codec.

    Sorted values are approximated by least-squares polynomials. Pieces are split at the point farthest from
    the piece's chord, and a piece contains values of one sign. A piece takes 4 + 4 · (degree + 1) bytes, or 4
    + 8 · (degree + 1) for float64. The map of the original order takes ⌈log2 r⌉ bits per value. The values
    are stored unchanged if that is smaller. Not unbiased; a piece's error never exceeds that of zeros.

    The paper takes ⌈2√M⌉ pieces for a curvature M, which is 1 if the values are small. Here the number
    follows from ``error``, which scales with the values; ``pieces=8`` is the paper's Figure 5.

    Source: Xu et al., *DeepReduce*, 2021, section 5, with Gram polynomials; formats/spec/value/polyfit.md.

    Args:
        degree: degree of the polynomials, 0 to 8. 1 and 0 are the paper's piecewise linear and constant fits
            (Lemmas 10 and 9). Pieces are split by chords at every degree, which suits 1 and more.
        pieces: maximum number of pieces, or None to derive it from ``error`` and the curvature.
        error: target error relative to the root mean square of the values, 1e-9 to 1. It is not a bound.

    Raises:
        EncodeError: if a parameter is out of range.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> x = np.linspace(-1, 1, 1000, dtype=np.float32) ** 3
        >>> y = wc.decode(wc.encode(x, "all | raw-index | polyfit(degree=3)")).values
        >>> bool(np.abs(y - x).max() < 1e-6)
        True
    """

    name: ClassVar[str] = "polyfit"
    wire_id: ClassVar[int] = 9
    carries_nonfinite: ClassVar[bool] = False
    degree: int = 5
    pieces: int | None = None
    error: float = 0.01

    def __post_init__(self) -> None:
        set_fields(
            self,
            degree=as_integer(self.degree, "polyfit: degree"),
            error=as_real(self.error, "polyfit: error"),
        )
        if not 0 <= self.degree <= _MAX_DEGREE:
            raise EncodeError(f"polyfit: degree is {self.degree}; it must be 0 to {_MAX_DEGREE}")
        if not 1e-9 <= self.error <= 1:
            raise EncodeError(f"polyfit: error is {self.error!r}; it must be 1e-9 to 1")
        if self.pieces is not None:
            set_fields(self, pieces=as_integer(self.pieces, "polyfit: pieces"))
            if not 1 <= self.pieces <= MAX_LENGTH_FIELD + 1:
                raise EncodeError(f"polyfit: pieces is {self.pieces}; it must be 1 to {MAX_LENGTH_FIELD + 1}")

    def encode(self, values: Array, stream: int) -> Bytes:
        """Encode ascending values as pieces, or unchanged if that is smaller."""
        from wirecodec.kernels.cpu.value import polyfit

        kind = _coefficient_type(values.dtype)
        y, exponent = scale_values(values)
        edges = split_by_sign(y)
        affordable = values.nbytes // (4 + kind.itemsize * (self.degree + 1))
        tolerance = self.error * math.sqrt(float(np.einsum("i,i", y, y, dtype=np.float64)) / y.size)
        count = _count_pieces if self.degree else _count_steps
        requested = self.pieces or sum(count(y[a:b], tolerance) for a, b in pairwise(edges))
        budget = max(min(requested, affordable), edges.size - 1)
        lengths = polyfit.segment(y, edges, budget, self.degree + 1)
        starts = np.cumsum(lengths) - lengths
        degrees = np.minimum(self.degree, lengths - 1)
        flat = y[starts] == y[starts + lengths - 1]
        degrees[flat] = 0
        if 4 + 4 * lengths.size + kind.itemsize * int((degrees + 1).sum()) >= 4 + values.nbytes:
            return write_raw(values)
        coefficients = np.empty(int((degrees + 1).sum()))
        polyfit.fit(y, lengths, degrees, coefficients)
        coefficients[(np.cumsum(degrees + 1) - 1)[flat]] = y[starts[flat]]
        with np.errstate(over="ignore"):
            sent = np.ldexp(coefficients, exponent).astype(kind)
        for constants in (average_pieces, zero_pieces):
            wrong = find_worse_than_zeros(
                y, exponent, _evaluate(lengths, degrees, sent, values.dtype), lengths
            )
            first = np.cumsum(degrees + 1) - degrees - 1
            wrong |= ~np.logical_and.reduceat(np.isfinite(sent), first)
            if not wrong.any():
                break
            sent, degrees = _replace_by_constants(
                wrong, constants(y, exponent, lengths).astype(kind), sent, degrees
            )
        return write_section((lengths - 1 | degrees << 24).astype("<u4"), sent)

    def max_bytes(self, r: int, dtype: np.dtype[Any]) -> int:
        """Return the maximum number of bytes of a section of at most r values of ``dtype``."""
        return 4 + r * dtype.itemsize

    @classmethod
    def decode(cls, section: Bytes, r: int, dtype: np.dtype[Any], limits: DecodeLimits) -> Array:
        """Evaluate the polynomials in float64 and round once."""
        from wirecodec.kernels.cpu.value import polyfit

        heads = read_heads(section, r, "polyfit")
        if not heads.size:
            return read_raw(section, r, dtype, "polyfit")
        lengths, degrees = np.empty(heads.size, np.int64), np.empty(heads.size, np.int64)
        fits, total, count = polyfit.read_heads(heads, lengths, degrees)
        if not fits:
            raise Malformed("polyfit-piece", "a degree is above 8, or not below its piece's length")
        if total != r:
            raise Invalid("polyfit-sum", f"the pieces have {total} of {r} values")
        kind = _coefficient_type(dtype)
        body = 4 + heads.nbytes
        if section.size != body + kind.itemsize * count:
            raise Malformed("polyfit-length", f"{section.size} bytes for {heads.size} pieces")
        coefficients = section[body:].copy().view(kind)
        if not np.isfinite(coefficients).all():
            raise Invalid("polyfit-coefficient", "a coefficient is NaN or infinite")
        return _evaluate(lengths, degrees, coefficients, dtype)


def _count_pieces(part: Array, tolerance: float) -> int:
    """Estimate the pieces of a linear spline for a tolerance, from the slopes at both ends of a part."""
    if part.size < 3 or tolerance == 0:
        return 1
    first, second, third, last = (float(part[i]) for i in (0, 1, -2, -1))
    turn = abs((second - first) - (last - third))
    return max(1, math.ceil(min(math.sqrt(2 * turn / tolerance), MAX_LENGTH_FIELD)))


def _count_steps(part: Array, tolerance: float) -> int:
    """Estimate the constants for a tolerance: steps of width w have a root mean square error of w/√12."""
    if tolerance == 0:
        return 1
    steps = float(part[-1] - part[0]) / (math.sqrt(12) * tolerance)
    return max(1, math.ceil(min(steps, MAX_LENGTH_FIELD)))


def _coefficient_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the wire type of coefficients."""
    return np.dtype("<f8" if dtype == np.float64 else "<f4")


def _evaluate(lengths: Array, degrees: Array, coefficients: Array, dtype: np.dtype[Any]) -> Array:
    """Evaluate the pieces in an element type."""
    from wirecodec.kernels.cpu.value import polyfit

    wide = coefficients.astype(np.float64)
    return evaluate_curve(
        lambda largest, out: polyfit.evaluate(lengths, degrees, wide, largest, out), int(lengths.sum()), dtype
    )


def _replace_by_constants(
    wrong: Array, constants: Array, coefficients: Array, degrees: Array
) -> tuple[Array, Array]:
    """Replace the polynomials of some pieces by constants.

    Args:
        wrong: (n,) bool, the pieces to replace.
        constants: (n,) constants of the coefficients' type.
        coefficients: degree + 1 per piece.
        degrees: (n,) degree of each piece.

    Returns:
        The new coefficients and degrees.
    """
    if not wrong.any():
        return coefficients, degrees
    count = degrees + 1
    first = np.cumsum(count) - count
    keep = ~np.repeat(wrong, count)
    keep[first] = True
    replaced = coefficients.copy()
    replaced[first[wrong]] = constants[wrong]
    return replaced[keep], np.where(wrong, 0, degrees)
