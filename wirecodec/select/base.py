"""The interface of selectors, and the check for NaN and Inf that they share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from wirecodec.arrays import Array, bits_of, read_only
from wirecodec.element_types import BFLOAT16
from wirecodec.errors import EncodeError
from wirecodec.select.term_table import TermTable


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
        >>> wc.selectors.NonZero().select(np.array([0.0, 2.0, 0.0], np.float32)).indices
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


class Selector(ABC):
    """Base class of selectors: frozen dataclasses whose fields are their parameters.

    A subclass defines ``select``. The other methods are optional.

    Attributes:
        name: how schemes spell it; lower-case letters, digits and hyphens.
        needs_costs: True if ``select_within`` is called in place of ``select``.
        of_any_type: True if ``select`` takes arrays of any element type, not only of the four floats.
        reads_gradient: True if ``select`` reads its argument ``gradient``.
        selects_sums: True if ``select_each`` and ``select_joint`` may return a selection.

    Examples:
        >>> import wirecodec as wc
        >>> isinstance(wc.selectors.TopK(0.01), wc.Selector), wc.selectors.TopK(0.01).count_range(500)
        (True, (5, 5))
    """

    name: ClassVar[str]
    needs_costs: ClassVar[bool] = False
    of_any_type: ClassVar[bool] = False
    reads_gradient: ClassVar[bool] = False
    selects_sums: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        """Do not inherit faster forms of another ``select``."""
        super().__init_subclass__(**options)
        if "select" in vars(cls) and "select_each" not in vars(cls):
            cls.selects_sums = False
            type.__setattr__(cls, "takes_joint", Selector.takes_joint)

    @abstractmethod
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

    def select_within(self, x: Array, costs: Costs) -> Selection:
        """Select elements of flat ``x`` by the bytes that their codecs write, which ``costs`` measures."""
        return self.select(x)

    def select_each(self, table: TermTable, guesses: Array | None = None) -> BatchSelection | None:
        """Select from each of many sums of one type while their terms are added, as ``select`` does.

        Args:
            table: the terms. All sums and momenta are written; the selected elements of a sum do not matter.
            guesses: (n,) u64, 0 or what the last step's call has written; overwritten. They affect only the
                time.

        Returns None if no sum can be selected in this way: a sum may not be finite, or adding first may be as
        fast.
        """
        return None

    def takes_joint(self, size: int) -> bool:
        """Tell whether ``select_joint`` and ``select_rounded`` can select from so many elements."""
        return False

    def select_joint(self, table: TermTable) -> Selection | None:
        """Select from all sums, joined as one vector, while their terms are added, as ``select`` does.

        The table's sums and momenta are written, with +0 at the selected elements. Returns None, with
        undefined sums and momenta, if it cannot.
        """
        return None

    def select_rounded(self, gradient: Array, residual: Array, out: Array) -> Selection | None:
        """Add a float32 residual to a 16-bit gradient, and select from the sum as rounded to 16 bits.

        Args:
            gradient: (n,) float16 or bfloat16.
            residual: (n,) float32.
            out: (n,) float32, aligned to 64 bytes; receives the sum.

        Returns None, with undefined contents of ``out``, if it cannot.
        """
        return None

    def count_range(self, size: int) -> tuple[int, int]:
        """Return the fewest and the most of ``size`` elements that are selected."""
        return 0, size

    def max_bytes(self, size: int) -> int | None:
        """Return the most bytes of a container of ``size`` elements; None if its codecs decide."""
        return None


INFINITY_BITS: dict[np.dtype[Any], Any] = {
    np.dtype(np.float16): np.uint16(0x7C00),
    BFLOAT16: np.uint16(0x7F80),
    np.dtype(np.float32): np.uint32(0x7F800000),
    np.dtype(np.float64): np.uint64(0x7FF << 52),
}
"""The bits of Inf, which are the mask of the exponent."""

HUGE_BITS: dict[np.dtype[Any], Any] = {
    np.dtype(np.float32): np.uint32(0x78000000),
    np.dtype(np.float64): np.uint64(0x7F0 << 52),
}
"""Bits that all magnitudes from 2^113 (float32) or 2^1009 (float64) on have in common.

Sums of fewer than 2^15 other elements are finite.
"""


def find_nonfinite(x: Array) -> int:
    """Return the position of the first NaN or Inf of flat ``x``, or -1."""
    if x.dtype not in INFINITY_BITS:
        wrong = ~np.isfinite(x)
        return int(wrong.argmax()) if wrong.any() else -1
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
