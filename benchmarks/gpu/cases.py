"""Cases whose bandwidth is measured, and their times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["DENSITY", "SCHEME", "SECTOR", "SENT_BYTES", "TOPK_BYTES", "Case", "KernelTime"]

DENSITY = 0.01
SCHEME = f"topk({DENSITY:g}) | rice | qsgd(bits=4)"
SENT_BYTES = 8 * DENSITY
"""Bytes per element of the sent indices and values."""
TOPK_BYTES = 4 + SENT_BYTES
"""Least traffic of an exact top-k per element: one read, which a right guess allows, and the output."""
SECTOR = 32
"""Bytes of the smallest transfer between the device's memory and its cache."""


@dataclass(frozen=True)
class Case:
    """Call to time.

    Attributes:
        name: its name in the table.
        traffic: bytes per element that it must read and write.
        call: the function.
    """

    name: str
    traffic: float
    call: Callable[[], object]


@dataclass(frozen=True)
class KernelTime:
    """Time of a case.

    Attributes:
        name: of the case.
        elements: of the gradient.
        traffic: bytes per element that it must read and write.
        ms: median time.
        copy_ms: of a copy of the gradient, in the same run.
    """

    name: str
    elements: int
    traffic: float
    ms: float
    copy_ms: float

    @property
    def copies(self) -> float:
        """Time as a multiple of that of a copy."""
        return self.ms / self.copy_ms

    @property
    def fraction(self) -> float:
        """Fraction of the bandwidth of a copy, which reads and writes 8 bytes per element."""
        return self.traffic / 8 / self.copies
