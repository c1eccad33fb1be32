"""The reference decoder: slow, plain, standard library only, written from SPEC.md and its codec pages.

``decode`` checks everything in the order of SPEC section 7 and returns plain lists and bytes. ``write`` is
the counterpart, independent of any library's encoder, that makes the golden vectors; it can also write forms
that are legal and unusual, and ``reseal`` makes the checksums of tampered bytes right again. To port the
decoder, read in this order: container, table, extension, records, tensors, index_codecs, rice, varint,
rle, delta, huffman, elias_fano, binned, bloom, structured, context, value_codecs, qsgd, sign_scale,
transforms, circle, floats, bits.
"""

from .binned import Binned
from .bloom_writer import Bloom
from .container import decode
from .context import Context
from .delta import Delta
from .elias_fano import EliasFano
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
from .rle import Rle
from .sealing import Record, Row, assemble, reseal
from .sign_scale import SignScale
from .structured import Structured
from .tensors import Decoded, Tensor
from .transforms import Spectrum
from .writer import Qsgd, Raw, Rice, write

__all__ = [
    "DEFAULT_LIMITS",
    "Binned",
    "Bloom",
    "ChecksumMismatch",
    "Context",
    "Decoded",
    "Delta",
    "EliasFano",
    "Huffman",
    "Invalid",
    "LimitExceeded",
    "Limits",
    "Malformed",
    "Qsgd",
    "Raw",
    "Record",
    "Rice",
    "Rle",
    "Row",
    "Schema",
    "SchemaMismatch",
    "SignScale",
    "Spectrum",
    "Structured",
    "Tensor",
    "Truncated",
    "Unsupported",
    "WireError",
    "assemble",
    "decode",
    "reseal",
    "write",
]
