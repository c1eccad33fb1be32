"""Schemes side by side on one's own gradients: sizes, errors and times."""

from wirecodec.comparison.compare import Comparison, compare

__all__ = ["Comparison", "compare"]
