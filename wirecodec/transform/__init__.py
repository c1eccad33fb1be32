"""Transforms: a tensor into the coefficients among which the selector chooses, and back.

None is defined by version 1.0 of the wire format. ``Transform`` is what one must offer: the name a scheme
calls it by, the domain that marks its entries (formats/SPEC.md, 2.2), and the two directions.
"""

from __future__ import annotations

from typing import ClassVar, Protocol, runtime_checkable

from wirecodec.arrays import Array

__all__ = ["Transform"]


@runtime_checkable
class Transform(Protocol):
    """A frozen dataclass whose fields are its parameters."""

    name: ClassVar[str]
    domain: ClassVar[int]

    def forward(self, x: Array) -> Array:
        """The coefficients of flat ``x``."""
        ...

    def inverse(self, coefficients: Array, size: int) -> Array:
        """The ``size`` elements that these coefficients stand for."""
        ...
