"""What a selector is: it looks at a tensor and says which elements go on the wire."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

from wirecodec.arrays import Array, bits_of
from wirecodec.errors import EncodeError

__all__ = ["Selection", "Selector", "finite_or_raise", "magnitude_bits"]


@dataclass(frozen=True, eq=False)
class Selection:
    """What a selector chose.

    Attributes:
        indices: (k,) ascending, int32 or int64, or None for every element.
        state: an ndarray for the tensor's next step, or None.
        scale: one magnitude for all chosen values, where the selector fixes it.
    """

    indices: Array | None
    state: Any = None
    scale: float | None = None


@runtime_checkable
class Selector(Protocol):
    """A frozen dataclass whose fields are its parameters."""

    name: ClassVar[str]

    def select(
        self, x: Array, *, gradient: Array | None = None, state: Any = None, seed: int = 0
    ) -> Selection:
        """Choose among the elements of flat ``x`` (gradient + residual where feedback is on).

        ``state`` is what the last selection of this tensor returned. EncodeError names the first NaN or Inf
        where the choice needs order.
        """
        ...


def magnitude_bits(x: Array) -> int:
    """How many low bits of an element order by magnitude: all but the sign."""
    return 8 * int(x.dtype.itemsize) - 1


def _exponent_mask(x: Array) -> int:
    mantissa = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}[x.dtype.name]
    return (1 << magnitude_bits(x)) - (1 << mantissa)


def finite_or_raise(x: Array, what: str) -> None:
    """EncodeError naming the first NaN or Inf of flat ``x``, which ``what`` cannot carry."""
    from wirecodec.kernels.cpu import support

    bits = bits_of(x)
    at = support.first_nonfinite(bits, bits.dtype.type(_exponent_mask(x)))
    if at >= 0:
        raise EncodeError(f"{what} cannot carry {float(x[at])}", position=int(at))
