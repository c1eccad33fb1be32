"""The reference decoder: slow and plain, standard library only, written from SPEC.md and its codec pages.

``decode`` makes all checks in the order of SPEC section 7 and returns plain lists and bytes. ``write`` is its
counterpart. It is independent of the library's encoder and makes the golden vectors, including unusual forms
that are valid. ``reseal`` recomputes the checksums of modified bytes. To port the decoder, read in this
order:

    container     container, table, extension, records, annotations, tensors, limits, errors
    index/        codecs, then a file per codec; varint
    value/        codecs, then a file per codec; byte_shuffle, curves, error_bounded_{model,levels}
    map/          packed
    transform/    coefficients, inverse, rfft, dct, cosines
    shared        floats, bits, packed_codes, prng

``writing/`` mirrors these folders with the writers.
"""

from formats.reference.annotations import Meta
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
    "Meta",
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
