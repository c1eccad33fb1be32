"""Measured costs of communication and computation, which all ranks of a channel share."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rates:
    """Costs in seconds.

    Attributes:
        alpha: per message.
        beta: per byte.
        gamma: per element of a dense sum.
        delta: per stored element that is decoded and added.
    """

    alpha: float
    beta: float
    gamma: float
    delta: float
