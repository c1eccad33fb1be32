"""Selectors: which elements of a tensor go on the wire.

One file a selector; ``base`` says what one must offer.
"""

from wirecodec.select.adacomp import AdaComp
from wirecodec.select.all import All
from wirecodec.select.base import Selection, Selector
from wirecodec.select.chunk_topk import ChunkTopK
from wirecodec.select.dgc import DGC
from wirecodec.select.gaussiank import GaussianK
from wirecodec.select.nonzero import NonZero
from wirecodec.select.randomk import RandomK
from wirecodec.select.redsync import RedSync
from wirecodec.select.sidco import SIDCo
from wirecodec.select.threshold import Threshold
from wirecodec.select.topk import TopK

__all__ = [
    "DGC",
    "AdaComp",
    "All",
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
