"""Selectors: which elements of a tensor go on the wire.

One file a selector; ``base`` says what one must offer.
"""

from wirecodec.select.base import Selection, Selector
from wirecodec.select.every import All
from wirecodec.select.nonzero import NonZero
from wirecodec.select.sidco import SIDCo
from wirecodec.select.topk import TopK

__all__ = ["All", "NonZero", "SIDCo", "Selection", "Selector", "TopK"]
