"""``dexpfit``: a sum of two exponentials for each sign's sorted values (formats/spec/value/dexpfit.md).

After Fit-DExp of DeepReduce (Xu et al., 2021): a·e^(bx) + c·e^(dx), found on 512 bins by Jacquelin's integral
equation and a few Levenberg-Marquardt steps. The values themselves are sent where that is smaller; no curve
is farther from its values than zeros would be.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.errors import Invalid, Malformed
from wirecodec.limits import DecodeLimits
from wirecodec.value.curve_fit import (
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

__all__ = ["DExpFit"]

_BINS = 512
_BACKWARDS = 1 << 24
_MOST_RATE = 64.0
_MOST_FACTOR = 2.0**900


@dataclass(frozen=True)
class DExpFit:
    """a·e^(bx) + c·e^(dx) of the negative values, and of the positive ones."""

    name: ClassVar[str] = "dexpfit"
    wire_id: ClassVar[int] = 10
    carries_nonfinite: ClassVar[bool] = False
    ordered: ClassVar[bool] = True

    def encode(self, values: Array, stream: int) -> Bytes:
        """Four numbers a curve, or the values where those are smaller."""
        y, exponent = scaled(values)
        edges = parts_of(y)
        n = edges.size - 1
        if 36 * n >= values.nbytes or exponent > 800:
            return raw_form(values)
        lengths, parameters = np.diff(edges), np.zeros((n, 4))
        backwards = y[edges[:-1]] >= 0
        for curve, (start, stop) in enumerate(pairwise(edges)):
            part = y[start:stop]
            if part[0] == part[-1]:
                parameters[curve, 0] = part[0]
            else:
                parameters[curve] = _fitted(part, bool(backwards[curve]))
        parameters[:, ::2] = np.ldexp(parameters[:, ::2], exponent)
        parameters[~np.isfinite(parameters).all(1)] = 0.0
        for constants in (means, zeros):
            wrong = worse(y, exponent, _evaluated(lengths, backwards, parameters, values.dtype), lengths)
            if not wrong.any():
                break
            parameters[wrong] = 0.0
            parameters[wrong, 0] = constants(y, exponent, lengths)[wrong]
        return section_of((lengths - 1 | backwards * _BACKWARDS).astype("<u4"), parameters.astype("<f8"))

    def max_bytes(self, r: int, dtype: np.dtype[Any]) -> int:
        """Return the most bytes of a section of at most r values of ``dtype``."""
        return 4 + r * dtype.itemsize

    @classmethod
    def decode(cls, section: Bytes, r: int, dtype: np.dtype[Any], limits: DecodeLimits) -> Array:
        """The curves, in float64, rounded once."""
        from wirecodec.kernels.cpu.value import dexpfit

        heads = heads_of(section, r, "dexpfit")
        if not heads.size:
            return raw_values(section, r, dtype, "dexpfit")
        if section.size != 4 + 36 * heads.size:
            raise Malformed("dexpfit-length", f"{section.size} bytes of {heads.size} curves")
        parameters = section[4 + heads.nbytes :].copy().view("<f8").reshape(-1, 4)
        lengths, backwards = np.empty(heads.size, np.int64), np.empty(heads.size, np.bool_)
        fault, total = dexpfit.check(
            heads, parameters, r, _BACKWARDS, _MOST_FACTOR, _MOST_RATE, lengths, backwards
        )
        if fault == dexpfit.BAD_HEAD:
            raise Malformed("dexpfit-curve", "a reserved bit is set")
        if fault == dexpfit.BAD_SUM:
            raise Invalid("dexpfit-sum", f"the curves have {total} of {r} values")
        if fault == dexpfit.BAD_PARAMETER:
            raise Invalid("dexpfit-parameter", "a factor or a rate is not finite, or too large")
        return _evaluated(lengths, backwards, parameters, dtype)


def _fitted(part: Array, backwards: bool) -> Array:
    """The parameters for values of one sign, from the greatest magnitude to the least."""
    from wirecodec.kernels.cpu.value import dexpfit

    n = part.size
    if n > _BINS:
        edges = np.unique(np.concatenate([[0], np.geomspace(1, n, _BINS).round().astype(np.int64)]))
    else:
        edges = np.arange(n + 1)
    bins = np.empty(edges.size - 1)
    dexpfit.means(part, edges, backwards, bins)
    unit = float(np.abs(bins).max())
    found: Array = dexpfit.fit((edges[:-1] + edges[1:]) / (2 * n), bins / unit, np.diff(edges) / n)
    found[::2] *= unit
    return found


def _evaluated(lengths: Array, backwards: Array, parameters: Array, dtype: np.dtype[Any]) -> Array:
    from wirecodec.kernels.cpu.value import dexpfit

    wide = np.ascontiguousarray(parameters)
    return drawn(
        lambda most, out: dexpfit.evaluate(lengths, backwards, wide, most, out), int(lengths.sum()), dtype
    )
