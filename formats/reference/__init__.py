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

from formats.reference.container import decode
from formats.reference.errors import (
    ChecksumMismatch,
    Invalid,
    LimitExceeded,
    Malformed,
    SchemaMismatch,
    Truncated,
    Unsupported,
    WireError,
)
from formats.reference.limits import DEFAULT_LIMITS, Limits, Schema
from formats.reference.tensors import Decoded, Tensor
from formats.reference.writing.assembly import Record, Row, assemble, reseal
from formats.reference.writing.container import write
from formats.reference.writing.index.binned import Binned
from formats.reference.writing.index.bloom import Bloom
from formats.reference.writing.index.context import Context
from formats.reference.writing.index.delta import Delta
from formats.reference.writing.index.elias_fano import EliasFano
from formats.reference.writing.index.huffman import Huffman
from formats.reference.writing.index.rice import Rice
from formats.reference.writing.index.rle import Rle
from formats.reference.writing.index.structured import Structured
from formats.reference.writing.transform.coefficients import Spectrum
from formats.reference.writing.value.deflate import Deflate
from formats.reference.writing.value.dexpfit import DExpFit
from formats.reference.writing.value.error_bounded import ErrorBounded
from formats.reference.writing.value.mean import Mean
from formats.reference.writing.value.offset_float import OffsetFloat
from formats.reference.writing.value.polyfit import PolyFit
from formats.reference.writing.value.qsgd import Qsgd
from formats.reference.writing.value.raw import Raw
from formats.reference.writing.value.sign_scale import SignScale
from formats.reference.writing.value.sketchml import SketchML
from formats.reference.writing.value.terngrad import TernGrad
from formats.reference.writing.value.three_lc import ThreeLC
from formats.reference.writing.value.zstd import Zstd

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
