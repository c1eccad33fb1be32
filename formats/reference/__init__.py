"""The reference decoder: slow, plain, standard library only, written from SPEC.md and its codec pages.

``decode`` checks everything in the order of SPEC section 7 and returns plain lists and bytes. ``write`` is
the counterpart, independent of any library's encoder, that makes the golden vectors; it can also write forms
that are legal and unusual, and ``reseal`` makes the checksums of tampered bytes right again. To port the
decoder, read in this order: container, table, extension, records, tensors, index_codecs, rice, bloom,
value_codecs, qsgd, sign_scale, floats, bits.
"""

from .bloom_writer import Bloom
from .container import decode
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
from .limits import DEFAULT_LIMITS, Limits, Schema
from .sealing import Record, Row, assemble, reseal
from .sign_scale import SignScale
from .tensors import Decoded, Tensor
from .writer import Qsgd, Raw, Rice, write

__all__ = [
    "DEFAULT_LIMITS",
    "Bloom",
    "ChecksumMismatch",
    "Decoded",
    "Invalid",
    "LimitExceeded",
    "Limits",
    "Malformed",
    "Qsgd",
    "Raw",
    "Record",
    "Rice",
    "Row",
    "Schema",
    "SchemaMismatch",
    "SignScale",
    "Tensor",
    "Truncated",
    "Unsupported",
    "WireError",
    "assemble",
    "decode",
    "reseal",
    "write",
]
