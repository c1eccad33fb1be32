"""Selectors: the stage of a scheme that chooses which elements are stored, as classes.

A scheme's text names the same stage: ``topk(0.01)`` is ``selectors.TopK(0.01)``. Each class has a file in
``wirecodec/select``.
"""

from wirecodec.select import (
    DGC,
    AdaComp,
    All,
    Budget,
    ChunkTopK,
    GaussianK,
    NonZero,
    RandomK,
    RedSync,
    SIDCo,
    Threshold,
    TopK,
)

__all__ = [
    "DGC",
    "AdaComp",
    "All",
    "Budget",
    "ChunkTopK",
    "GaussianK",
    "NonZero",
    "RandomK",
    "RedSync",
    "SIDCo",
    "Threshold",
    "TopK",
]
