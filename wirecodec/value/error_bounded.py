"""``error-bounded``: as few bits as an error allows (formats/spec/value/error-bounded.md).

A uniform quantiser whose step is found by measuring, and an entropy coder that learns: each value's context
is the mean magnitude of those before it, its sign's whether signs stay.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from wirecodec.arrays import Array, Bytes, bits_of
from wirecodec.errors import EncodeError, Invalid, Malformed
from wirecodec.limits import DecodeLimits
from wirecodec.validation import as_real, settle
from wirecodec.value.error_bounded_cells import Values
from wirecodec.value.error_bounded_section import Section, coded, decoded

__all__ = ["ErrorBounded"]

_EXACT = 0
"""The form of elements as they are."""


@dataclass(frozen=True)
class ErrorBounded:
    """No chunk's values v come back with an l2 error above ``error`` times ‖v‖₂.

    Args:
        error: above 0 and below 1.
    """

    name: ClassVar[str] = "error-bounded"
    wire_id: ClassVar[int] = 14
    carries_nonfinite: ClassVar[bool] = False
    error: float = 0.01

    def __post_init__(self) -> None:
        settle(self, error=as_real(self.error, "error-bounded: error"))
        if not 0 < self.error < 1:
            raise EncodeError(f"error-bounded: error is {self.error!r}; it must be above 0 and below 1")

    def encode(self, values: Array, stream: int) -> Bytes:
        """The values in cells if that is smaller than the values themselves."""
        found = Values(values, self.error)
        cells = found.cells()
        if cells is not None:
            section = coded(found.bits, cells)
            if section.size < 1 + values.nbytes:
                return section
        return np.concatenate([np.array([_EXACT], np.uint8), values.view(np.uint8)])

    def max_bytes(self, r: int, dtype: np.dtype[Any]) -> int:
        """Return the most bytes of a section of at most r values of ``dtype``."""
        return 1 + r * dtype.itemsize

    @classmethod
    def decode(cls, section: Bytes, r: int, dtype: np.dtype[Any], limits: DecodeLimits) -> Array:
        """The values, each near the middle of its cell."""
        if section[0] == _EXACT:
            return _exact(section[1:], r, dtype)
        return decoded(Section(section, r, dtype))


def _exact(elements: Bytes, r: int, dtype: np.dtype[Any]) -> Array:
    if elements.size != r * dtype.itemsize:
        raise Malformed("error-bounded-length", f"{elements.size} bytes for {r} values of {dtype.itemsize}")
    values: Array = elements.copy().view(dtype)
    infinity = bits_of(np.array([np.inf], dtype))[0]
    if ((bits_of(values) << 1) >= infinity << 1).any():
        raise Invalid("error-bounded-value", "an element is not finite")
    return values
