"""Index codecs, value codecs and transforms: the stages of a scheme that write bytes, as classes.

A scheme's text names the same stages: ``rice`` is ``codecs.Rice()``. Each class has a file in
``wirecodec/index``, ``wirecodec/value`` or ``wirecodec/transform``.
"""

from wirecodec.index import (
    RLE,
    AutoIndex,
    Binned,
    Bitmap,
    Bloom,
    ContextIndex,
    Delta,
    EliasFano,
    Huffman,
    RawIndex,
    Rice,
    Structured,
)
from wirecodec.transform import DCT, RFFT, Transform
from wirecodec.value import (
    QSGD,
    AutoValue,
    Deflate,
    DExpFit,
    ErrorBounded,
    Mean,
    OffsetFloat,
    PolyFit,
    Raw,
    SignScale,
    SketchML,
    TernGrad,
    ThreeLC,
    Zstd,
)

__all__ = [
    "DCT",
    "QSGD",
    "RFFT",
    "RLE",
    "AutoIndex",
    "AutoValue",
    "Binned",
    "Bitmap",
    "Bloom",
    "ContextIndex",
    "DExpFit",
    "Deflate",
    "Delta",
    "EliasFano",
    "ErrorBounded",
    "Huffman",
    "Mean",
    "OffsetFloat",
    "PolyFit",
    "Raw",
    "RawIndex",
    "Rice",
    "SignScale",
    "SketchML",
    "Structured",
    "TernGrad",
    "ThreeLC",
    "Transform",
    "Zstd",
]
