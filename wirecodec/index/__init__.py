"""Index codecs: ascending element numbers as bytes. One file a codec; ``base`` says what one must offer."""

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
