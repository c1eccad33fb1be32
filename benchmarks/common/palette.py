"""Colours of the pictures: Okabe and Ito's, which colour-blind readers tell apart, one per kind of line."""

from __future__ import annotations

__all__ = [
    "BLUE",
    "COLOURS",
    "DARK",
    "DENSE",
    "GREEN",
    "GREY",
    "LIMIT",
    "ORANGE",
    "OTHERS",
    "OURS",
    "PALE",
    "PINK",
    "RED",
    "SKY",
]

RED, GREEN, BLUE, PINK, ORANGE, SKY = "#D55E00", "#009E73", "#0072B2", "#CC79A7", "#E69F00", "#56B4E9"
COLOURS = (BLUE, GREEN, RED, ORANGE, PINK, SKY)
"""Of the lines of a picture that compares no kinds."""
DARK, GREY, PALE = "#333333", "#888888", "#CCCCCC"

OURS = BLUE
"""This library; further lines of it are SKY and GREEN."""
OTHERS = RED
"""Third parties, or the methods that this library is compared with; further lines are ORANGE and PINK."""
DENSE = GREY
"""Without compression."""
LIMIT = DARK
"""Bounds, floors and targets."""
