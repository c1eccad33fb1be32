"""The schemes to measure, by curve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["ALL", "BITS", "GRID", "Family", "budget_family", "build_families", "build_grid"]

BITS = (0.03, 0.06, 0.1, 0.25, 0.64, 1.0, 2.0)
"""Bits per element of the tables."""
DENSITIES = tuple(np.geomspace(0.001, 0.3, 12).round(5).tolist())
ERRORS = tuple(np.geomspace(0.01, 0.7, 8).round(4).tolist())
QUANTIZER_BITS = (2, 4, 8)
INDEX_CODECS = ("rice", "auto-index", "context")
"""Index codecs that ``budget`` is measured with."""
GRID = "best of the grid"
ALL = "all, error-bounded"

SELECTORS = (
    "topk({})",
    "sidco({})",
    "dgc({})",
    "redsync({})",
    "gaussiank({})",
    "chunk-topk({}, chunk=4096)",
    "randomk({})",
)
SELECTOR_TAIL = "rice | error-bounded(error=0.3)"

VALUES: dict[str, Sequence[str]] = {
    "raw": ("raw",),
    "raw, 16 bits": ("raw(bfloat16)",),
    "zstd": ("zstd",),
    "qsgd": ("qsgd(bits=2)", "qsgd(bits=3)", "qsgd(bits=4)", "qsgd(bits=6)", "qsgd(bits=8)"),
    "sign-scale": ("sign-scale",),
    "mean": ("mean",),
    "offset-float": ("offset-float(bits=4)", "offset-float(bits=6)", "offset-float(bits=8)"),
    "polyfit": ("polyfit",),
    "dexpfit": ("dexpfit",),
    "terngrad": ("terngrad",),
    "3lc": ("3lc",),
    "sketchml": ("sketchml(buckets=16)", "sketchml"),
    "auto-value": ("auto-value(error=0.1)",),
}


@dataclass(frozen=True)
class Family:
    """Schemes of one curve.

    Attributes:
        name: name of the curve.
        schemes: each with the bits that were asked for, or None.
    """

    name: str
    schemes: tuple[tuple[str, float | None], ...]


def budget_family(index: str, bits: Sequence[float] = BITS) -> Family:
    """Return ``budget`` with an index codec."""
    schemes = tuple((f"budget(bits={asked:g}) | {index} | error-bounded", asked) for asked in bits)
    return Family(f"budget, {index}", schemes)


def build_grid() -> Family:
    """Return top k of all densities with all errors and numbers of bits."""
    values = [f"error-bounded(error={error:g})" for error in ERRORS]
    values += [f"qsgd(bits={bits})" for bits in QUANTIZER_BITS]
    return _family(GRID, [f"topk({density:g}) | rice | {value}" for density in DENSITIES for value in values])


def build_families(part: slice = slice(None)) -> list[Family]:
    """Return the other curves for a part of the densities: value codecs, selectors, and all elements."""
    densities = DENSITIES[part]
    families = [
        _family(name, [f"topk({density:g}) | rice | {one}" for one in values for density in densities])
        for name, values in VALUES.items()
    ]
    for pattern in SELECTORS:
        schemes = [f"{pattern.format(density)} | {SELECTOR_TAIL}" for density in densities]
        families.append(_family(pattern.partition("(")[0], schemes))
    errors = np.geomspace(0.01, 0.95, 12)
    families.append(_family(ALL, [f"all | raw-index | error-bounded(error={error:.4f})" for error in errors]))
    return families


def _family(name: str, schemes: Sequence[str]) -> Family:
    return Family(name, tuple((scheme, None) for scheme in schemes))
