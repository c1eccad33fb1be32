"""Index codecs, which encode ascending element numbers as bytes. Each has a file; ``base`` has the protocol.

The registry is built from ``CODECS`` and ``CHOICES``. A new codec is imported here and added to ``CODECS``,
and ``wirecodec/codecs.py`` re-exports its class.
"""

from wirecodec.index.auto import AutoIndex
from wirecodec.index.base import IndexChoice, IndexCodec
from wirecodec.index.binned import Binned
from wirecodec.index.bitmap import Bitmap
from wirecodec.index.bloom import Bloom
from wirecodec.index.context import ContextIndex
from wirecodec.index.delta import Delta
from wirecodec.index.elias_fano import EliasFano
from wirecodec.index.huffman import Huffman
from wirecodec.index.raw import RawIndex
from wirecodec.index.rice import Rice
from wirecodec.index.rle import RLE
from wirecodec.index.structured import Structured

__all__ = [
    "CHOICES",
    "CODECS",
    "RLE",
    "AutoIndex",
    "Binned",
    "Bitmap",
    "Bloom",
    "ContextIndex",
    "Delta",
    "EliasFano",
    "Huffman",
    "IndexChoice",
    "IndexCodec",
    "RawIndex",
    "Rice",
    "Structured",
]

CODECS: tuple[type[IndexCodec], ...] = (
    *(RawIndex, Bitmap, Rice, RLE, Delta, Huffman),
    *(EliasFano, Binned, Bloom, Structured, ContextIndex),
)
"""The index codecs, in the order of their wire ids."""

CHOICES: tuple[type[IndexChoice], ...] = (AutoIndex,)
"""The names without a wire id, which choose one of ``CODECS`` for each chunk."""
