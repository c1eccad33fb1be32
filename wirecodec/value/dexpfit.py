"""``dexpfit``: two exponentials per sign, fitted to sorted values (formats/spec/value/dexpfit.md)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.errors import Invalid, Malformed
from wirecodec.limits import DecodeLimits
from wirecodec.value.base import OrderedValueCodec
from wirecodec.value.curve_fit import (
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

_BINS = 512
"""Largest number of bins to which a curve is fitted."""
_BACKWARDS_FLAG = 1 << 24
"""Bit of a head that is set if the curve runs backwards."""
_MAX_RATE = 64.0
"""Largest rate of a valid section."""
_MAX_FACTOR = 2.0**900
"""Largest magnitude of a factor in a valid section."""


@dataclass(frozen=True)
class DExpFit(OrderedValueCodec):
    """Double-exponential curve fit (Fit-DExp) value codec.

    Sorted values of each sign are approximated by a·e^(bx) + c·e^(dx), fitted on at most 512 bins.
    Jacquelin's integral equation gives the start, and Levenberg-Marquardt steps refine it. A curve takes 36
    bytes, and a chunk has at most three: negative, zero and positive values. The map of the original order
    takes ⌈log2 r⌉ bits per value. The values are stored unchanged if that is smaller. Not unbiased; a curve's
    error never exceeds that of zeros.

    It has no parameters. The paper sends a, b, c and d once, for the magnitudes of both signs. Here each sign
    has its own four, as float64: one curve for both would have the larger error of the two, and 36 bytes are
    less than the map of 30 values.

    Source: Xu et al., *DeepReduce*, 2021, section 5; formats/spec/value/dexpfit.md.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> x = np.exp(-5 * np.linspace(0, 1, 1000)).astype(np.float32)
        >>> y = wc.decode(wc.encode(x, "all | raw-index | dexpfit")).values
        >>> bool(np.abs(y - x).max() < 1e-3)
        True
    """

    name: ClassVar[str] = "dexpfit"
    wire_id: ClassVar[int] = 10
    carries_nonfinite: ClassVar[bool] = False

    def encode(self, values: Array, stream: int) -> Bytes:
        """Encode ascending values as curves, or unchanged if that is smaller."""
        y, exponent = scale_values(values)
        edges = split_by_sign(y)
        n = edges.size - 1
        if 36 * n >= values.nbytes or exponent > 800:
            return write_raw(values)
        lengths, parameters = np.diff(edges), np.zeros((n, 4))
        backwards = y[edges[:-1]] >= 0
        for curve, (start, stop) in enumerate(pairwise(edges)):
            part = y[start:stop]
            if part[0] == part[-1]:
                parameters[curve, 0] = part[0]
            else:
                parameters[curve] = _fit_curve(part, bool(backwards[curve]))
        parameters[:, ::2] = np.ldexp(parameters[:, ::2], exponent)
        parameters[~np.isfinite(parameters).all(1)] = 0.0
        for constants in (average_pieces, zero_pieces):
            wrong = find_worse_than_zeros(
                y, exponent, _evaluate(lengths, backwards, parameters, values.dtype), lengths
            )
            if not wrong.any():
                break
            parameters[wrong] = 0.0
            parameters[wrong, 0] = constants(y, exponent, lengths)[wrong]
        return write_section(
            (lengths - 1 | backwards * _BACKWARDS_FLAG).astype("<u4"), parameters.astype("<f8")
        )

    def max_bytes(self, r: int, dtype: np.dtype[Any]) -> int:
        """Return the maximum number of bytes of a section of at most r values of ``dtype``."""
        return 4 + r * dtype.itemsize

    @classmethod
    def decode(cls, section: Bytes, r: int, dtype: np.dtype[Any], limits: DecodeLimits) -> Array:
        """Evaluate the curves in float64 and round once."""
        from wirecodec.kernels.cpu.value import dexpfit

        heads = read_heads(section, r, "dexpfit")
        if not heads.size:
            return read_raw(section, r, dtype, "dexpfit")
        if section.size != 4 + 36 * heads.size:
            raise Malformed("dexpfit-length", f"{section.size} bytes for {heads.size} curves")
        parameters = section[4 + heads.nbytes :].copy().view("<f8").reshape(-1, 4)
        lengths, backwards = np.empty(heads.size, np.int64), np.empty(heads.size, np.bool_)
        fault, total = dexpfit.read_heads(
            heads, parameters, r, _BACKWARDS_FLAG, _MAX_FACTOR, _MAX_RATE, lengths, backwards
        )
        if fault == dexpfit.BAD_HEAD:
            raise Malformed("dexpfit-curve", "a reserved bit of a head is set")
        if fault == dexpfit.BAD_SUM:
            raise Invalid("dexpfit-sum", f"the curves have {total} of {r} values")
        if fault == dexpfit.BAD_PARAMETER:
            raise Invalid("dexpfit-parameter", "a factor or a rate is not finite, or too large")
        return _evaluate(lengths, backwards, parameters, dtype)


def _fit_curve(part: Array, backwards: bool) -> Array:
    """Fit a curve to values of one sign, from the largest magnitude to the smallest."""
    from wirecodec.kernels.cpu.value import dexpfit

    n = part.size
    if n > _BINS:
        edges = np.unique(np.concatenate([[0], np.geomspace(1, n, _BINS).round().astype(np.int64)]))
    else:
        edges = np.arange(n + 1)
    bins = np.empty(edges.size - 1)
    dexpfit.bin_means(part, edges, backwards, bins)
    unit = float(np.abs(bins).max())
    curve: Array = dexpfit.fit((edges[:-1] + edges[1:]) / (2 * n), bins / unit, np.diff(edges) / n)
    curve[::2] *= unit
    return curve


def _evaluate(lengths: Array, backwards: Array, parameters: Array, dtype: np.dtype[Any]) -> Array:
    """Evaluate the curves in an element type."""
    from wirecodec.kernels.cpu.value import dexpfit

    wide = np.ascontiguousarray(parameters)
    return evaluate_curve(
        lambda largest, out: dexpfit.evaluate(lengths, backwards, wide, largest, out),
        int(lengths.sum()),
        dtype,
    )
