"""Value codecs: valid containers of every codec, element type and size at which a section changes.

Exact ones include the input from which an encoder must make the same bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from formats.reference import Qsgd, Raw, Rice, Row, Tensor, assemble
from formats.reference.floats import BY_NAME, pack_elements
from formats.vector_cases.case import Case, exact, number, sparse, spread, valid, values_for, values_of
from formats.vector_cases.index_codecs import INDEX

SPECIALS = {
    "float32": [
        0x80000000,
        1,
        0x807FFFFF,
        0x00800000,
        0x7F7FFFFF,
        0x7F800000,
        0xFF800000,
        0x7FC00001,
        0xFF800001,
    ],
    "float16": [0x8000, 1, 0x83FF, 0x0400, 0x7BFF, 0x7C00, 0xFC00, 0x7E01, 0xFC01],
    "bfloat16": [0x8000, 1, 0x807F, 0x0080, 0x7F7F, 0x7F80, 0xFF80, 0x7FC1, 0xFF81],
    "float64": [
        *(1 << 63, 1, 0x800FFFFFFFFFFFFF, 0x0010000000000000, 0x7FEFFFFFFFFFFFFF),
        *(0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000001, 0xFFF0000000000001),
    ],
}
"""-0, least, largest subnormal, least normal, largest, both infinities, a quiet and a signalling NaN."""
NARROWED = {
    ("float16", "float32"): [
        *(0x80000000, 0x33000000, 0x33000001, 0x33800000, 0x387FC000, 0x387FE000, 0x3F801000, 0x3F803000),
        *(0x477FE000, 0x477FEFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0xFFFFFFFF, 0x00000001),
    ],
    ("bfloat16", "float32"): [
        *(0x80000000, 0x00008000, 0x00018000, 0x0000FFFF, 0x3F808000, 0x3F818000, 0x3F808001, 0x7F7F7FFF),
        *(0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0xFFFFFFFF, 0x00000001),
    ],
    ("float16", "float64"): [
        *(1 << 63, 0x3E60000000000000, 0x3E60000000000001, 0x3FF0020000000000, 0x3FF0020000000001),
        *(0x40EFFDFFFFFFFFFF, 0x7FF0000000000000, 0xFFF0000000000001, 0x7FF8000000000000, 1),
    ],
    ("bfloat16", "float64"): [
        *(1 << 63, 0x3FF0100000000000, 0x3FF0100000000001, 0x37A0000000000000, 0x3790000000000000),
        *(0x47EFEFFFFFFFFFFF, 0x7FF0000000000000, 0xFFF0000000000001, 0x7FF8000000000000, 1),
    ],
}
"""Ties, both sides of a tie, subnormal results, the largest without overflow, infinities, NaNs."""


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield from _raw()
    yield from _narrow()
    yield from _qsgd()
    yield from _qsgd_scales()


def _raw() -> Iterator[Case]:
    for dtype, bits in SPECIALS.items():
        t = Tensor("0", dtype, (9,), range(9), pack_elements(bits, BY_NAME[dtype].itemsize))
        yield exact(f"raw-specials-{dtype}", "-0, subnormals, infinities and NaNs, bit for bit.", [t])
        for name, index in INDEX.items():
            some = sparse("0", 21, [0, 5, 20], dtype)
            yield exact(f"raw-{dtype}-{name}", f"raw {dtype} values at {name} indices.", [some], index)
    zero = Tensor("0", "float32", (5,), [1, 2], bytes(8))
    yield exact("raw-zeros", "Zeros that are present stay present.", [zero])


def _narrow() -> Iterator[Case]:
    narrow: tuple[Raw, Raw] = (Raw("float16"), Raw("bfloat16"))
    for value in narrow:
        for dtype in ("float32", "float64"):
            bits = NARROWED[str(value.dtype), dtype]
            t = Tensor(
                "0", dtype, (len(bits),), range(len(bits)), pack_elements(bits, BY_NAME[dtype].itemsize)
            )
            about = f"{dtype} narrowed to {value.dtype}: ties, subnormals, the largest, NaNs."
            yield exact(f"raw-{value.dtype}-of-{dtype}", about, [t], value=value)
            one = sparse("0", 9, [4], dtype)
            yield exact(f"raw-{value.dtype}-of-{dtype}-r1", "One value.", [one], Rice(), value)
            codec = 2 if value.dtype == "float16" else 3
            section = pack_elements(SPECIALS[str(value.dtype)], 2)
            row = Row(0, 0, 9, 9, BY_NAME[dtype].id, 1, codec, value_section=section)
            about = f"{value.dtype} widened to {dtype}, a signalling NaN among them."
            yield valid(f"raw-{value.dtype}-specials-{dtype}", about, assemble([row]))


def _qsgd() -> Iterator[Case]:
    for bits in range(2, 9):
        for norm in ("max", "l2"):
            value = Qsgd(bits=bits, bucket=16, norm="max" if norm == "max" else "l2")
            t = sparse("0", 50, spread(45, 50, bits), first=100 * bits)
            about = f"{bits} bits, {norm}, three buckets of 16, the last of 13."
            yield exact(f"qsgd-bits{bits}-{norm}", about, [t], Rice(), value, seed=bits)
        lanes = sparse("0", 520, range(520), "float16", first=999 * bits)
        yield exact(f"qsgd-lanes-bits{bits}", "A block in lanes and a tail.", [lanes], value=Qsgd(bits=bits))
    for dtype in ("float32", "float16", "bfloat16", "float64"):
        t = sparse("0", 40, spread(37, 40), dtype)
        yield exact(f"qsgd-{dtype}", f"{dtype} elements.", [t], "bitmap", Qsgd(bucket=16), seed=2**64 - 1)
        t = sparse("0", 40, [7], dtype)
        yield exact(f"qsgd-{dtype}-r1", "One value: the scale itself.", [t], "raw-index", Qsgd(bits=8))
    for r in (2, 31, 32, 33, 511, 512, 513, 1024, 1025):
        t = sparse("0", r, range(r), "bfloat16", first=7 * r)
        value = Qsgd(bits=3, bucket=48 if r < 512 else 512)
        yield exact(f"qsgd-r{r}", f"{r} values.", [t], value=value, seed=r)
    three = [sparse(name, 30, range(30), first=40 * n) for n, name in enumerate("abc")]
    about = "Three keys, three streams."
    yield exact("qsgd-keys", about, three, value=Qsgd(bits=4, bucket=2**24), many=True, seed=12_345)


def _qsgd_scales() -> Iterator[Case]:
    zero = Tensor(
        "0", "float32", (48,), range(48), values_of([number(n) for n in range(16)], "float32") + bytes(64)
    )
    zero.values += values_for(16, "float32", 16)
    yield exact("qsgd-zero-bucket", "A bucket of zeros between two others.", [zero], value=Qsgd(bucket=16))
    minus = Tensor("0", "float32", (16,), range(16), b"\0\0\0\x80" * 16)
    yield exact("qsgd-minus-zero", "Negative zeros come back as zeros.", [minus], value=Qsgd(bucket=16))
    below = struct.pack("<2I", 0x0D7FFFFF, 0x8D7FFFFF)
    t = Tensor("0", "float32", (2,), range(2), below)
    yield exact(
        "qsgd-scale-to-zero", "A scale just below 2^-100 is written as 0.", [t], value=Qsgd(bucket=16)
    )
    t = Tensor("0", "float32", (3,), range(3), struct.pack("<3I", 0x0D800000, 0x8D800000, 0x0D000000))
    yield exact("qsgd-scale-least", "The smallest scale, 2^-100.", [t], value=Qsgd(bits=8, bucket=16))
    t = Tensor("0", "float32", (3,), range(3), struct.pack("<3I", 0x7F7FFFFF, 0xFF7FFFFF, 0x7E7FFFFF))
    yield exact("qsgd-scale-most", "The largest scale.", [t], value=Qsgd(bits=8, bucket=16))
    yield exact(
        "qsgd-l2-most", "An l2 norm beyond binary32: cut.", [t], value=Qsgd(bits=8, bucket=16, norm="l2")
    )
    t = Tensor("0", "float16", (3,), range(3), struct.pack("<3H", 0x7BFF, 0xFBFF, 0x7800))
    yield exact(
        "qsgd-l2-float16", "An l2 norm beyond binary16: cut.", [t], value=Qsgd(bits=5, bucket=16, norm="l2")
    )
    t = Tensor("0", "bfloat16", (3,), range(3), struct.pack("<3H", 0x7F7F, 0xFF7F, 0x7F00))
    yield exact(
        "qsgd-l2-bfloat16", "An l2 norm beyond bfloat16: cut.", [t], value=Qsgd(bits=5, bucket=16, norm="l2")
    )
    t = Tensor("0", "float64", (3,), range(3), struct.pack("<3d", 3e38, -3e38, 1e38))
    about = "An l2 norm of float64 elements beyond binary32: cut to binary32's largest."
    yield exact("qsgd-l2-float64", about, [t], value=Qsgd(bits=5, bucket=16, norm="l2"))
    t = Tensor("0", "float64", (4,), range(4), struct.pack("<4d", 1e-300, 1.0 + 2**-40, -(1.0 + 2**-24), 0.1))
    yield exact(
        "qsgd-float64-rounded", "float64 elements are rounded to binary32 first.", [t], value=Qsgd(bits=8)
    )
    small = Tensor(
        "0", "float16", (8,), range(8), struct.pack("<8H", 1, 0x8001, 2, 0x8003, 3, 0, 0x8000, 0x8002)
    )
    about = "Results that are subnormal in binary16, ties among them."
    yield exact("qsgd-float16-subnormal", about, [small], value=Qsgd(bits=3, bucket=16))
    section = struct.pack("<BBHII", 3, 0, 0, 16, 0x0D800000) + struct.pack("<I", 0b110_101_011_001_000)
    row = Row(0, 0, 5, 5, 2, 1, 4, value_section=section)
    about = "Levels too small for binary16: zeros of either sign, and +0 at level 0."
    yield valid("qsgd-float16-underflow", about, assemble([row]))
    codes = struct.pack("<Q", int("edcba9876543210", 16))
    for id, dtype, step in (
        ("float16-subnormal", 2, 2.0**-25),
        ("float16-even", 2, 1 + 2.0**-11),
        ("float16-odd", 2, 1 + 3 * 2.0**-11),
        ("bfloat16-even", 3, 1 + 2.0**-8),
        ("bfloat16-odd", 3, 1 + 3 * 2.0**-8),
    ):
        section = struct.pack("<BBHIf", 4, 0, 0, 16, 7 * step) + codes
        row = Row(0, 0, 15, 15, dtype, 1, 4, value_section=section)
        about = "All levels of 4 bits; level 1 is halfway between two numbers of the element type."
        yield valid(f"qsgd-tie-{id}", about, assemble([row]))
    section = struct.pack("<BBHII", 2, 1, 0, 2**24, 0x3F800000) + struct.pack("<I", 0b10_01_00)
    about = "The largest bucket, norm l2."
    yield valid("qsgd-bucket-most", about, assemble([Row(0, 0, 3, 3, 1, 1, 4, value_section=section)]))
