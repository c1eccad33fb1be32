"""What communication and computation cost: three numbers that the ranks of a channel share."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Rates"]


@dataclass(frozen=True)
class Rates:
    """Seconds a message (alpha), a byte (beta) and a touched element (gamma)."""

    alpha: float
    beta: float
    gamma: float
