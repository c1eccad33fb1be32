"""Index codecs: ascending element numbers as bytes. One file a codec; ``base`` says what one must offer."""

from wirecodec.index.auto import AutoIndex
from wirecodec.index.base import IndexChoice, IndexCodec
from wirecodec.index.bitmap import Bitmap
from wirecodec.index.bloom import Bloom
from wirecodec.index.raw import RawIndex
from wirecodec.index.rice import Rice

__all__ = ["AutoIndex", "Bitmap", "Bloom", "IndexChoice", "IndexCodec", "RawIndex", "Rice"]
