"""``adacomp``: the elements that are large compared with their neighbours.

The paper's rates assume long feedback: the residual grows much larger than one gradient, and few elements
come near the maximum of their bin. Without a residual, every element of at least 1/factor of it is sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from wirecodec.arrays import Array, bits_of, index_dtype, read_only
from wirecodec.errors import EncodeError
from wirecodec.select.base import Selection, Selector, require_finite
from wirecodec.select.threshold_common import widen
from wirecodec.validation import as_integer, as_real, set_fields

_ELEMENTS_PER_CALL = 2**18
"""Approximate number of elements per kernel call."""


@dataclass(frozen=True)
class AdaComp(Selector):
    """Selector of the elements that reach the maximum of their bin if the gradient is added again.

    With G = x = residual + gradient and H = G + (factor - 1) · gradient, it selects {i : G_i ≠ 0, |H_i| ≥ max
    |G| over the bin of i}. All values are sent as sign(G_i) · s, with s the mean of the bins' maxima. Quiet
    bins send one or two elements and busy ones more; there is no ratio.

    Cost: one read of x and one of the gradient.

    With ``factor=1``, H is G, and the maximum of each bin is sent: the paper's baseline Local Selection.

    Source: Chen et al., AdaComp, AAAI 2018, Algorithm 2. The paper studied factors of 1.5 to 3 and chose 2.
    Its bins have 50 elements of convolutions and 500 of FC and LSTM layers; a Compressor takes one scheme per
    layer.

    Two cases differ from the printed algorithm, which sends an element if |H| ≥ max |G|: a bin of zeros sends
    nothing, and an element with G = 0 is not sent because it has no sign.

    Args:
        bin: elements per bin, 1 or more; the last bin may be shorter.
        factor: weight of the gradient in H, 1 or more and within float32's range.

    Raises:
        EncodeError: if ``bin`` or ``factor`` is out of range.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> wc.selectors.AdaComp(bin=2).select(np.array([0.1, -3.0, 2.0, 0.5], np.float32)).scale
        2.5
    """

    name: ClassVar[str] = "adacomp"
    reads_gradient: ClassVar[bool] = True
    bin: int = 50
    factor: float = 2.0

    def __post_init__(self) -> None:
        set_fields(
            self,
            bin=as_integer(self.bin, "adacomp: bin"),
            factor=as_real(self.factor, "adacomp: factor"),
        )
        if self.bin < 1:
            raise EncodeError(f"adacomp: bin is {self.bin}; it must be 1 or more")
        if not 1 <= self.factor <= np.finfo(np.float32).max:
            raise EncodeError(
                f"adacomp: factor is {self.factor!r}; it must be 1 or more and finite in float32"
            )

    def select(
        self, x: Array, *, gradient: Array | None = None, state: Any = None, seed: int = 0
    ) -> Selection:
        """Select elements, and the scale of their signs.

        Arithmetic is binary32, or binary64 if x is float64; each operation is rounded. The scale is summed in
        binary64 in a fixed order.

        Args:
            x: (n,) any element type; gradient + residual.
            gradient: (n,) of x's type; None if there is no residual, and x is used.

        Returns a Selection with a scale.

        Raises EncodeError at the first NaN or Inf, and if the gradient's shape or dtype is not x's.
        """
        if gradient is not None and (gradient.shape != x.shape or gradient.dtype != x.dtype):
            raise EncodeError(
                f"adacomp: gradient is {gradient.dtype} {gradient.shape}; it must be {x.dtype} {x.shape}"
            )
        wide, steps = widen(x), widen(x if gradient is None else gradient)
        indices, mean = _select_bins(wide, steps, min(self.bin, max(x.size, 1)), self.factor - 1)
        if indices is None:
            require_finite(x, self.name)
            raise EncodeError("the tensor changed while it was read")
        return Selection(None if indices.size == x.size else indices, scale=mean)


def _select_bins(x: Array, gradient: Array, width: int, ahead: float) -> tuple[Array | None, float]:
    """Return the indices and the mean of the bins' maxima.

    The indices are None if an element is not finite.
    """
    from wirecodec.kernels.cpu.select import adacomp

    step = (
        width * adacomp.PARTIAL_SUMS * -(-_ELEMENTS_PER_CALL // (width * adacomp.PARTIAL_SUMS))
    )  # a multiple of all partial sums
    infinity = bits_of(np.array([np.inf], x.dtype))[0]
    sums = np.zeros(adacomp.PARTIAL_SUMS, np.float64)
    out = np.empty(min(step, x.size) + 64, index_dtype(x.size))
    pieces = [out[:0]]
    for start in range(0, x.size, step):
        size = min(step, x.size - start)
        readable = size + 63  # kernels read blocks of 64
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
    """Append zeros to ``x``, so that kernels may read ``size`` elements."""
    if x.size == size:
        return x
    longer = np.zeros(size, x.dtype)
    longer[: x.size] = x
    return read_only(longer)
