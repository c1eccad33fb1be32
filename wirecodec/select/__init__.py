"""Selectors: they choose the elements of a tensor that are sent.

One file per selector; ``base`` defines the interface. ``SELECTORS`` is the only list of the built-in ones,
and the registry derives from it.
"""

from wirecodec.select.all import All
from wirecodec.select.base import Selection, Selector
from wirecodec.select.budget.selector import Budget
from wirecodec.select.nonzero import NonZero
from wirecodec.select.papers.adacomp import AdaComp
from wirecodec.select.papers.chunk_topk import ChunkTopK
from wirecodec.select.papers.dgc import DGC
from wirecodec.select.papers.gaussiank import GaussianK
from wirecodec.select.papers.redsync import RedSync
from wirecodec.select.papers.sidco.selector import SIDCo
from wirecodec.select.randomk import RandomK
from wirecodec.select.threshold import Threshold
from wirecodec.select.topk import TopK

__all__ = [
    "DGC",
    "SELECTORS",
    "AdaComp",
    "All",
    "Budget",
    "ChunkTopK",
    "GaussianK",
    "NonZero",
    "RandomK",
    "RedSync",
    "SIDCo",
    "Selection",
    "Selector",
    "Threshold",
    "TopK",
]

SELECTORS: tuple[type[Selector], ...] = (
    *(All, NonZero, TopK, Budget, RandomK, Threshold),
    *(DGC, RedSync, GaussianK, ChunkTopK, AdaComp, SIDCo),
)
"""Every built-in selector, in the order in which documents list them."""
