"""The table of value codecs."""

from __future__ import annotations

from collections.abc import Callable

from formats.reference.element_types import ElementType
from formats.reference.value.deflate import decode_deflate
from formats.reference.value.dexpfit import decode_dexpfit
from formats.reference.value.error_bounded import decode_error_bounded
from formats.reference.value.mean import decode_mean
from formats.reference.value.offset_float import decode_offset_float
from formats.reference.value.polyfit import decode_polyfit
from formats.reference.value.qsgd import decode_qsgd
from formats.reference.value.raw import decode_raw, decode_raw_bfloat16, decode_raw_float16
from formats.reference.value.sign_scale import decode_sign_scale
from formats.reference.value.sketchml import decode_sketchml
from formats.reference.value.terngrad import decode_terngrad
from formats.reference.value.three_lc import decode_three_lc
from formats.reference.value.zstd import Decompress, decode_zstd

VALUE_CODECS: dict[int, Callable[..., bytes]] = {
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
"""Codecs that order values; their entries have a map."""
OF_ANY_TYPE = frozenset({1, 6, 7})
"""Codecs of bytes of any width, which also carry the element types of the record ``types`` (SPEC 4.2)."""
STEPS, STEPS_ZSTD = 16, 17
"""Codecs that need the old elements (spec/patch.md); readers of patches alone support them."""
ZSTD = 7
"""The codec that also needs a decompressor."""


def decode_value(
    codec: int, section: bytes, r: int, dtype: ElementType, zstd: Decompress | None = None
) -> bytes:
    """Decode the elements of an entry; there are none if r is 0, whatever the codec.

    Args:
        codec: id of a known value codec.
        section: bytes of the value section.
        r: number of values.
        dtype: the element type.
        zstd: returns the content of a Zstandard frame, or None.

    Returns:
        The elements' little-endian bytes.

    Raises:
        WireError: as the codec's page defines.
    """
    if r == 0:
        return b""
    return decode_zstd(section, r, dtype, zstd) if codec == ZSTD else VALUE_CODECS[codec](section, r, dtype)
