"""What communication and computation cost: four numbers that the ranks of a channel share."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Rates"]


@dataclass(frozen=True)
class Rates:
    """Seconds: a message (alpha), a byte (beta), an element of a dense sum (gamma), a stored one (delta)."""

    alpha: float
    beta: float
    gamma: float
    delta: float
