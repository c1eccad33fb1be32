"""The reference decoder: slow, plain, standard library only, written from SPEC.md and its codec pages.

``decode`` checks everything in the order of SPEC section 7 and returns plain lists and bytes. ``write`` is
the counterpart, independent of any library's encoder, that makes the golden vectors; it can also write forms
that are legal and unusual, and ``reseal`` makes the checksums of tampered bytes right again. To port the
decoder, read in this order:

    containers    container, table, extension, records, tensors, limits, errors
    indices       index_codecs, varint, rice, rle, delta, huffman, elias_fano, binned, bloom, structured,
                  context
    values        value_codecs, qsgd, sign_scale, deflate, zstd, planes, offset_float, curves, polyfit,
                  dexpfit, terngrad, three_lc, sketchml, error_bounded, bounded_levels, mean
    maps          packed
    transforms    transforms, circle
    shared        floats, bits, packing, draws
"""

from .binned import Binned
from .bloom_writer import Bloom
from .container import decode
from .context import Context
from .deflate import Deflate
from .delta import Delta
from .dexpfit import DExpFit
from .elias_fano import EliasFano
from .error_bounded_writer import ErrorBounded
from .errors import (
    ChecksumMismatch,
    Invalid,
    LimitExceeded,
    Malformed,
    SchemaMismatch,
    Truncated,
    Unsupported,
    WireError,
)
from .huffman_writer import Huffman
from .limits import DEFAULT_LIMITS, Limits, Schema
from .mean import Mean
from .offset_float import OffsetFloat
from .polyfit import PolyFit
from .rle import Rle
from .sealing import Record, Row, assemble, reseal
from .sign_scale import SignScale
from .sketchml import SketchML
from .structured import Structured
from .tensors import Decoded, Tensor
from .terngrad import TernGrad
from .three_lc import ThreeLC
from .transforms import Spectrum
from .writer import Qsgd, Raw, Rice, write
from .zstd import Zstd

__all__ = [
    "DEFAULT_LIMITS",
    "Binned",
    "Bloom",
    "ChecksumMismatch",
    "Context",
    "DExpFit",
    "Decoded",
    "Deflate",
    "Delta",
    "EliasFano",
    "ErrorBounded",
    "Huffman",
    "Invalid",
    "LimitExceeded",
    "Limits",
    "Malformed",
    "Mean",
    "OffsetFloat",
    "PolyFit",
    "Qsgd",
    "Raw",
    "Record",
    "Rice",
    "Rle",
    "Row",
    "Schema",
    "SchemaMismatch",
    "SignScale",
    "SketchML",
    "Spectrum",
    "Structured",
    "Tensor",
    "TernGrad",
    "ThreeLC",
    "Truncated",
    "Unsupported",
    "WireError",
    "Zstd",
    "assemble",
    "decode",
    "reseal",
    "write",
]
