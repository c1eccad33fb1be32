"""What a selector is: it looks at a tensor and says which elements go on the wire."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

from wirecodec.arrays import Array, bits_of, read_only
from wirecodec.errors import EncodeError

__all__ = ["Selection", "Selector", "all_finite", "find_nonfinite", "require_finite"]


@dataclass(frozen=True, eq=False)
class Selection:
    """What a selector chose.

    Attributes:
        indices: (k,) ascending, int32 or int64, or None for every element.
        state: an ndarray for the tensor's next step, or None.
        scale: one magnitude for all chosen values, where the selector fixes it.
        values: (k,) the elements of x at ``indices``, where the selector has them at hand; else None.
    """

    indices: Array | None
    state: Any = None
    scale: float | None = None
    values: Array | None = None


@runtime_checkable
class Selector(Protocol):
    """A frozen dataclass whose fields are its parameters.

    One that can choose while gradient and residual are added offers ``select_sum``, too; see ``TopK``.
    """

    name: ClassVar[str]

    def select(
        self, x: Array, *, gradient: Array | None = None, state: Any = None, seed: int = 0
    ) -> Selection:
        """Choose among the elements of flat ``x`` (gradient + residual where feedback is on).

        ``state`` is what the last selection of this tensor returned. EncodeError names the first NaN or Inf
        where the choice needs order.
        """
        ...


_INFINITY = {"float16": 0x7C00, "bfloat16": 0x7F80, "float32": 0x7F800000, "float64": 0x7FF << 52}


def find_nonfinite(x: Array) -> int:
    """Return the position of the first NaN or Inf of flat ``x``, or -1."""
    from wirecodec.kernels.cpu import support

    bits = read_only(bits_of(x))
    return int(support.find_nonfinite(bits, bits.dtype.type(_INFINITY[x.dtype.name])))


def all_finite(x: Array) -> bool:
    """Whether flat ``x`` has no NaN and no Inf; one read."""
    return find_nonfinite(x) < 0


def require_finite(x: Array, what: str) -> None:
    """EncodeError naming the first NaN or Inf of flat ``x``, which ``what`` cannot carry."""
    if (at := find_nonfinite(x)) >= 0:
        raise EncodeError(f"{what} cannot carry {float(x[at])}", position=at)
