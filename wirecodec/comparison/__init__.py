"""Schemes side by side on one's own gradients: sizes, errors and times."""

from wirecodec.comparison.compare import compare
from wirecodec.comparison.table import Comparison, ComparisonTable

__all__ = ["Comparison", "ComparisonTable", "compare"]
