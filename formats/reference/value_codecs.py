"""The value codecs: raw, raw-float16, raw-bfloat16 (spec/value/raw.md), and the table of all.

Each decoder makes its checks in its page's order. Everything runs on integers: no float type touches the
bits.
"""

from __future__ import annotations

from collections.abc import Callable

from .deflate import decode_deflate
from .dexpfit import decode_dexpfit
from .error_bounded import decode_error_bounded
from .errors import Invalid, Malformed
from .floats import BFLOAT16, FLOAT16, Format, convert, element_bytes, elements
from .mean import decode_mean
from .offset_float import decode_offset_float
from .polyfit import decode_polyfit
from .qsgd import decode_qsgd
from .sign_scale import decode_sign_scale
from .sketchml import decode_sketchml
from .terngrad import decode_terngrad
from .three_lc import decode_three_lc
from .zstd import Decompress, decode_zstd


def decode_raw(section: bytes, r: int, dtype: Format) -> bytes:
    """Codec 1: the elements themselves.

    Args:
        section: the bytes of the value section.
        r: the number of values, not 0.
        dtype: the element type.

    Returns the elements' little-endian bytes.

    Raises Malformed.
    """
    if len(section) != r * dtype.itemsize:
        raise Malformed("raw-length", f"{len(section)} bytes of {r} values")
    return section


def decode_raw_float16(section: bytes, r: int, dtype: Format) -> bytes:
    """Codec 2: binary16, widened.

    Args:
        section: the bytes of the value section.
        r: the number of values, not 0.
        dtype: the element type.

    Returns the elements' little-endian bytes.

    Raises Invalid, Malformed.
    """
    return _widen(section, r, FLOAT16, dtype)


def decode_raw_bfloat16(section: bytes, r: int, dtype: Format) -> bytes:
    """Codec 3: bfloat16, widened.

    Args:
        section: the bytes of the value section.
        r: the number of values, not 0.
        dtype: the element type.

    Returns the elements' little-endian bytes.

    Raises Invalid, Malformed.
    """
    return _widen(section, r, BFLOAT16, dtype)


def _widen(section: bytes, r: int, narrow: Format, dtype: Format) -> bytes:
    if dtype in (FLOAT16, BFLOAT16):
        raise Invalid("raw-dtype", f"{narrow.name} values of {dtype.name} elements")
    if len(section) != r * narrow.itemsize:
        raise Malformed("raw-length", f"{len(section)} bytes of {r} values")
    wide = [convert(bits, narrow, dtype) for bits in elements(section, narrow.itemsize)]
    return element_bytes(wide, dtype.itemsize)


VALUE_CODECS: dict[int, Callable[[bytes, int, Format], bytes]] = {
    1: decode_raw,
    2: decode_raw_float16,
    3: decode_raw_bfloat16,
    4: decode_qsgd,
    5: decode_sign_scale,
    6: decode_deflate,
    7: decode_zstd,
    8: decode_offset_float,
    9: decode_polyfit,
    10: decode_dexpfit,
    11: decode_terngrad,
    12: decode_three_lc,
    13: decode_sketchml,
    14: decode_error_bounded,
    15: decode_mean,
}
ORDERED = frozenset({9, 10})
"""The codecs whose values are stored in order, and whose entries have a map."""


ZSTD = 7
"""The codec that takes a decompressor besides."""


def decode_value(codec: int, section: bytes, r: int, dtype: Format, zstd: Decompress | None = None) -> bytes:
    """The elements of an entry; none where r is 0, whatever the codec.

    Args:
        codec: the id of a known value codec.
        section: the bytes of the value section.
        r: the number of values.
        dtype: the element type.
        zstd: gives the content of a Zstandard frame, or None.

    Returns the elements' little-endian bytes.

    Raises WireError as the codec's page says.
    """
    if r == 0:
        return b""
    return decode_zstd(section, r, dtype, zstd) if codec == ZSTD else VALUE_CODECS[codec](section, r, dtype)
