"""The interface of selectors, and the check for NaN and Inf that they share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from wirecodec.arrays import BFLOAT16, Array, bits_of, read_only
from wirecodec.errors import EncodeError


@dataclass(frozen=True, eq=False)
class Selection:
    """Elements that a selector chose.

    Attributes:
        indices: (k,) int32 or int64, ascending; None for every element.
        state: an ndarray for the tensor's next step, or None.
        scale: one magnitude for all values, if the selector fixes it; else None.
        values: (k,) the elements of x at ``indices``, if the selector has read them; else None.
        finite: whether the values are known to be finite.
        step: width of the value codec's cells, if the selector chooses it; else None.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> wc.NonZero().select(np.array([0.0, 2.0, 0.0], np.float32)).indices
        array([1], dtype=int32)
    """

    indices: Array | None
    state: Any = None
    scale: float | None = None
    values: Array | None = None
    step: float | None = None
    finite: bool = False


@dataclass(frozen=True, eq=False)
class BatchSelection:
    """Elements that a selector chose in each of many arrays of one type.

    Attributes:
        members: (m,) i64, numbers of the arrays that it took, ascending. The others are selected one by one.
        cuts: (m + 1,) i64, the place of each member's elements in ``indices`` and ``values``.
        indices: int32, each member's ascending; at least one and not all of its elements.
        values: the elements there, all finite.
    """

    members: Array
    cuts: Array
    indices: Array
    values: Array


class Costs(Protocol):
    """Protocol of the bytes that a selection takes.

    Attributes:
        overhead: bytes of the container that do not depend on the selection.
        takes_step: True if the value codec takes the selection's step.
    """

    overhead: int
    takes_step: bool

    def measure(self, indices: Array | None, values: Array, size: int, step: float | None) -> int:
        """Return the bytes of the sections of ``values`` at ``indices`` (None for all) of ``size``."""
        ...


@runtime_checkable
class Selector(Protocol):
    """Interface of selectors: frozen dataclasses whose fields are their parameters.

    A selector that can select while gradient and residual are added also has ``select_sum``; see ``TopK``.
    One that can select from many tensors in one call has ``select_batch`` and ``select_sum_batch``, with the
    same results. They get the arrays' addresses and sizes, and return a ``BatchSelection``.
    ``select_sum_batch`` also gets what it has found in the last step. One whose choice depends on the bytes
    that its codecs write has ``select_within``; see ``Budget``.

    Attributes:
        name: how schemes spell it; lower-case letters, digits and hyphens.
    """

    name: ClassVar[str]

    def select(
        self, x: Array, *, gradient: Array | None = None, state: Any = None, seed: int = 0
    ) -> Selection:
        """Select elements of flat ``x``.

        Args:
            x: (n,) float32, float16, bfloat16 or float64; gradient + residual if there is error feedback.
            gradient: (n,) this step's gradient alone, of x's type; None if there is no residual.
            state: the ``state`` of this tensor's last Selection, or None.
            seed: of all random choices of this step; ranks with equal seeds draw the same numbers.

        Returns a Selection.

        Raises EncodeError at the first NaN or Inf if the selection depends on the order of magnitudes.
        """
        ...


INFINITY_BITS: dict[np.dtype[Any], Any] = {
    np.dtype(np.float16): np.uint16(0x7C00),
    BFLOAT16: np.uint16(0x7F80),
    np.dtype(np.float32): np.uint32(0x7F800000),
    np.dtype(np.float64): np.uint64(0x7FF << 52),
}
"""The bits of Inf, which are the mask of the exponent."""


def find_nonfinite(x: Array) -> int:
    """Return the position of the first NaN or Inf of flat ``x``, or -1."""
    from wirecodec.kernels.cpu.support import find_nonfinite as find

    return int(find(read_only(bits_of(x)), INFINITY_BITS[x.dtype]))


def all_finite(x: Array) -> bool:
    """Return whether flat ``x`` has no NaN and no Inf; one read."""
    return find_nonfinite(x) < 0


def is_zero(x: Array) -> bool:
    """Return whether all elements of flat ``x`` are +0 or -0. The search ends near the first other one."""
    bits = bits_of(x)
    start, stop = 0, 1024
    while start < x.size:
        if (bits[start:stop] << bits.dtype.type(1)).any():  # without the sign
            return False
        start, stop = stop, stop + 65_536
    return True


def require_finite(x: Array, what: str) -> None:
    """Raise EncodeError at the first NaN or Inf of flat ``x``.

    Args:
        x: (n,) any element type.
        what: the selector or codec that cannot carry it, for the message.
    """
    if (at := find_nonfinite(x)) >= 0:
        raise EncodeError(f"{what} cannot carry {float(x[at])}", position=at)
