"""Invalid value sections: each check of the codecs' pages, with correct checksums and padding."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from formats.reference import Row, assemble
from formats.reference.bits import pack_stream
from formats.reference.floats import BY_ID
from formats.reference.writing.value.qsgd import write_qsgd
from formats.vector_cases.case import Case, bad, patch, values_for


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield from _raw()
    yield from _qsgd()
    yield from _qsgd_content()


def _values(codec: int, dtype: int, r: int, section: bytes) -> bytes:
    return assemble([Row(0, 0, r, r, dtype, 1, codec, value_section=section)])


def _raw() -> Iterator[Case]:
    for codec, name in ((2, "float16"), (3, "bfloat16")):
        for dtype in (2, 3):
            about = f"raw-{name} of {BY_ID[dtype].name} elements."
            data = _values(codec, dtype, 2, bytes(4))
            yield bad(f"raw-dtype-{name}-of-{BY_ID[dtype].name}", about, "Invalid", "raw-dtype", data)
    data = _values(2, 2, 2, bytes(3))
    yield bad(
        "raw-dtype-first", "The element type is checked before the length.", "Invalid", "raw-dtype", data
    )
    kind, code = "Malformed", "raw-length"
    for dtype, name in ((1, "float32"), (2, "float16"), (3, "bfloat16"), (4, "float64")):
        size = BY_ID[dtype].itemsize
        data = _values(1, dtype, 2, bytes(2 * size - 1))
        yield bad(f"raw-length-{name}-short", "One byte is missing.", kind, code, data)
        yield bad(
            f"raw-length-{name}-long", "A value too many.", kind, code, _values(1, dtype, 2, bytes(3 * size))
        )
    for codec, name in ((2, "float16"), (3, "bfloat16")):
        yield bad(
            f"raw-{name}-length", "Values as wide as elements.", kind, code, _values(codec, 1, 2, bytes(8))
        )
    data = assemble([Row(0, 0, 3, 1, 1, 1, 1, struct.pack("<H", 3), bytes(3))])
    about = "The index codec is checked before the value codec."
    yield bad("index-before-value", about, "Invalid", "index-range", data)


def _section(bits: int, norm: int, reserved: int, bucket: int, scales: Sequence[int], codes: bytes) -> bytes:
    return struct.pack(f"<BBHI{len(scales)}I", bits, norm, reserved, bucket, *scales) + codes


ONE = 0x3F800000


def _qsgd() -> Iterator[Case]:
    good = write_qsgd(values_for(20, "float32"), BY_ID[1], bits=4, bucket=16, norm=0, stream=0)
    kind, code = "Malformed", "qsgd-length"
    for id, about, section in (
        ("head", "Seven bytes.", good[:7]),
        ("scales", "The parameters alone.", good[:8]),
        ("codes", "No codes.", good[:16]),
        ("short", "One byte is missing.", good[:-1]),
        ("long", "A word too many.", good + bytes(4)),
    ):
        yield bad(f"qsgd-length-{id}", about, kind, code, _values(4, 1, 20, section))
    yield bad(
        "qsgd-length-bucket",
        "Scales for buckets of 16 where there is one of 32.",
        kind,
        code,
        _values(4, 1, 20, patch(good, 4, "I", 32)),
    )
    yield bad(
        "qsgd-length-bits",
        "Codes of 4 bits where 5 are stated.",
        kind,
        code,
        _values(4, 1, 20, patch(good, 0, "B", 5)),
    )
    kind, code = "Malformed", "qsgd-parameter"
    for bits in (0, 1, 9, 255):
        data = _values(4, 1, 20, patch(good, 0, "B", bits))
        yield bad(f"qsgd-bits-{bits}", f"{bits} bits.", kind, code, data)
    for norm in (2, 255):
        data = _values(4, 1, 20, patch(good, 1, "B", norm))
        yield bad(f"qsgd-norm-{norm}", f"Norm {norm}.", kind, code, data)
    data = _values(4, 1, 20, patch(good, 2, "H", 0x100))
    yield bad("qsgd-reserved", "The reserved bytes are not zero.", kind, code, data)
    for bucket in (0, 8, 15, 17, 2**24 + 16, 2**32 - 16, 2**32 - 1):
        data = _values(4, 1, 20, patch(good, 4, "I", bucket))
        yield bad(f"qsgd-bucket-{bucket}", f"Buckets of {bucket}.", kind, code, data)
    data = _values(4, 1, 20, patch(good[:9], 0, "B", 9))
    yield bad("qsgd-parameter-first", "Parameters are checked before the exact length.", kind, code, data)


def _qsgd_content() -> Iterator[Case]:
    kind, code = "Invalid", "qsgd-scale"
    middle = struct.pack("<I", 0b01_01)
    for id, about, dtype, scale in (
        ("nan", "NaN.", 1, 0x7FC00000),
        ("infinite", "Infinity.", 1, 0x7F800000),
        ("infinite-float64", "Infinity, of float64 elements.", 4, 0x7F800000),
        ("negative", "-1.", 1, 0xBF800000),
        ("minus-zero", "-0.", 1, 0x80000000),
        ("below", "The number below 2^-100.", 1, 0x0D7FFFFF),
        ("subnormal", "The smallest subnormal number.", 1, 1),
        ("float16", "The number above 65,504, of float16 elements.", 2, 0x477FE001),
        ("bfloat16", "The number above bfloat16's largest.", 3, 0x7F7F0001),
    ):
        data = _values(4, dtype, 2, _section(2, 0, 0, 16, [scale], middle))
        yield bad(f"qsgd-scale-{id}", about, kind, code, data)
    codes = struct.pack("<I", 0x55555555) + struct.pack("<I", 0b01_01)
    data = _values(4, 1, 18, _section(2, 0, 0, 16, [ONE, 0x7FC00000], codes))
    yield bad("qsgd-scale-last", "The scale of the last bucket is NaN.", kind, code, data)
    kind, code = "Malformed", "qsgd-padding"
    for bit in (4, 31):
        data = _values(4, 1, 2, _section(2, 0, 0, 16, [ONE], struct.pack("<I", 0b01_01 | 1 << bit)))
        yield bad(f"qsgd-padding-{bit}", f"Bit {bit} after two codes of 2 bits.", kind, code, data)
    data = _values(4, 1, 2, _section(2, 0, 0, 16, [ONE], struct.pack("<I", 0b1_11_11)))
    yield bad("qsgd-padding-first", "The padding is checked before the codes.", kind, code, data)
    kind, code = "Invalid", "qsgd-code"
    for bits in range(2, 9):
        last = (1 << bits) - 1
        stream = pack_stream([0, last], bits, 4)
        data = _values(4, 1, 2, _section(bits, 0, 0, 16, [ONE], stream))
        yield bad(f"qsgd-code-bits{bits}", f"Code {last} of {bits} bits.", kind, code, data)
    data = _values(4, 1, 2, _section(2, 0, 0, 16, [0], struct.pack("<I", 0b01_10)))
    yield bad("qsgd-code-zero-bucket", "Level 1 in a bucket of scale 0.", kind, code, data)
    data = _values(4, 1, 2, _section(2, 0, 0, 16, [0], bytes(4)))
    yield bad("qsgd-code-zero-codes", "Codes of 0, level -1, in a bucket of scale 0.", kind, code, data)
    block = struct.pack("<32I", *[0x55555555] * 31, 0xD5555555)
    data = _values(4, 1, 512, _section(2, 0, 0, 512, [ONE], block))
    yield bad("qsgd-code-lanes", "The last code of a block in lanes.", kind, code, data)
