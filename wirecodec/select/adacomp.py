"""``adacomp``: what matters in its neighbourhood (Chen et al., AdaComp, 2018, Algorithm 2).

With G = residual + gradient and H = residual + factor · gradient, in bins of T elements: an element is sent
where |H| is at least the bin's greatest |G|, as sign(G) times one scale a tensor, the mean of the bins'
greatest |G|. So quiet bins send their one or two, busy ones more, and nobody sets a ratio. Two gaps of the
paper are closed here: a bin of zeros sends nothing, where its comparison would send all of it, and an element
of G = 0 has no sign to send.

The paper's rates are those of long feedback: G grows much larger than one gradient, and few elements are
within reach of their bin's greatest. Without a residual every element of at least 1/factor of it is sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from wirecodec.arrays import Array, bits_of, read_only
from wirecodec.errors import EncodeError
from wirecodec.select.base import Selection, require_finite
from wirecodec.select.threshold_common import widen
from wirecodec.sparse import index_dtype
from wirecodec.validation import as_integer, as_real, settle

__all__ = ["AdaComp"]

_ELEMENTS_PER_CALL = 2**18
"""Elements that a kernel is given at once, about."""


@dataclass(frozen=True)
class AdaComp:
    """Bins of ``bin`` elements, the last one perhaps shorter; ``factor`` of 1 or more.

    Two reads: of x, and of the gradient. Where no gradient is given, x is its own: there is no residual then.
    """

    name: ClassVar[str] = "adacomp"
    bin: int = 50
    factor: float = 2.0

    def __post_init__(self) -> None:
        settle(
            self,
            bin=as_integer(self.bin, "adacomp: bin"),
            factor=as_real(self.factor, "adacomp: factor"),
        )
        if self.bin < 1:
            raise EncodeError(f"adacomp: bin is {self.bin}; it must be 1 or more")
        if not 1 <= self.factor <= np.finfo(np.float32).max:
            raise EncodeError(f"adacomp: factor is {self.factor!r}; it must be 1 or more, and a float32")

    def select(
        self, x: Array, *, gradient: Array | None = None, state: Any = None, seed: int = 0
    ) -> Selection:
        """The elements that are sent, and the scale they are all sent with.

        Arithmetic is binary32, or binary64 for float64: H = G + (factor - 1) · gradient, each operation
        rounded. The scale is summed in binary64 in a fixed order. EncodeError names the first NaN or Inf.
        """
        if gradient is not None and (gradient.shape != x.shape or gradient.dtype != x.dtype):
            raise EncodeError(f"the gradient is {gradient.dtype} {gradient.shape}; x is {x.dtype} {x.shape}")
        wide, steps = widen(x), widen(x if gradient is None else gradient)
        found, mean = _select_bins(wide, steps, min(self.bin, max(x.size, 1)), self.factor - 1)
        if found is None:
            require_finite(x, self.name)
            raise EncodeError("the tensor changed while it was read")
        return Selection(None if found.size == x.size else found, scale=mean)


def _select_bins(x: Array, gradient: Array, width: int, ahead: float) -> tuple[Array | None, float]:
    """Indices, None where an element is not finite, and the mean of the bins' greatest magnitudes."""
    from wirecodec.kernels.cpu.select import adacomp

    step = (
        width * adacomp.PARTIAL_SUMS * -(-_ELEMENTS_PER_CALL // (width * adacomp.PARTIAL_SUMS))
    )  # whole rounds of the partial sums
    infinity = bits_of(np.array([np.inf], x.dtype))[0]
    sums = np.zeros(adacomp.PARTIAL_SUMS, np.float64)
    out = np.empty(min(step, x.size) + 64, index_dtype(x.size))
    pieces = [out[:0]]
    for start in range(0, x.size, step):
        size = min(step, x.size - start)
        readable = size + 63  # the last block begins before the end
        part, steps = (_pad(one[start : start + readable], readable) for one in (x, gradient))
        bits, factor = bits_of(part), x.dtype.type(ahead)
        count = adacomp.fill_bins(part, steps, bits, size, width, factor, infinity, out, sums)
        if count == adacomp.NOT_FINITE:
            return None, 0.0
        pieces.append(out[:count] + out.dtype.type(start))
    with np.errstate(over="ignore"):
        for half in (8, 4, 2, 1):
            sums[:half] += sums[half : 2 * half]
    return np.concatenate(pieces), float(sums[0]) / max(1, -(-x.size // width))


def _pad(x: Array, size: int) -> Array:
    """``x`` and zeros behind it, so that kernels may read ``size`` elements."""
    if x.size == size:
        return x
    longer = np.zeros(size, x.dtype)
    longer[: x.size] = x
    return read_only(longer)
