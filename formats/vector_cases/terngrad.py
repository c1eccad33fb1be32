"""terngrad: sections of every size and element type, and each check of the page."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from formats.reference import Tensor, TernGrad
from formats.reference.floats import BY_ID, BY_NAME, pack_elements
from formats.reference.writing.value.terngrad import pack_digits, write_terngrad
from formats.vector_cases.case import (
    Case,
    bad,
    exact,
    number,
    patch,
    sparse,
    spread,
    valid,
    values_for,
    values_of,
)
from formats.vector_cases.parts import of_values

ONE = struct.pack("<f", 1.0)
LEAST, BELOW = 0x0D800000, 0x0D7FFFFF
"""2^-100, and the next lower number."""


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield from _sizes()
    yield from _scales()
    yield from _clipped()
    yield from _foreign()
    yield from _bad_length()
    yield from _bad_scale()
    yield from _bad_digits()


def _all(id: str, about: str, dtype: str, bits: Sequence[int], clip: float | None = None) -> Case:
    """Return a tensor of one dimension, with every element present, from the elements' bits."""
    size = len(bits)
    t = Tensor("0", dtype, (size,), range(size), pack_elements(list(bits), BY_NAME[dtype].itemsize))
    return exact(f"terngrad-{id}", about, [t], value=TernGrad(clip), seed=len(bits))


def _sizes() -> Iterator[Case]:
    for dtype in ("float32", "float16", "bfloat16", "float64"):
        t = sparse("0", 40, spread(37, 40), dtype)
        yield exact(f"terngrad-{dtype}", f"{dtype} elements.", [t], "bitmap", TernGrad(), seed=2**64 - 1)
        t = sparse("0", 40, [7], dtype, first=4)
        about = "One value: the scale itself."
        yield exact(f"terngrad-{dtype}-r1", about, [t], "raw-index", TernGrad())
    for r in (2, 4, 5, 6, 9, 10, 11, 31, 32, 33, 64, 319, 320, 321, 325, 512, 640, 1000):
        t = sparse("0", r + 1, range(r), "bfloat16", first=5 * r)
        yield exact(f"terngrad-r{r}", f"{r} values.", [t], "bitmap", TernGrad(), seed=r)
    three = [sparse(name, 30, range(30), first=40 * n) for n, name in enumerate("abc")]
    about = "Three keys, three scales, three streams."
    yield exact("terngrad-keys", about, three, value=TernGrad(), many=True, seed=12_345)


def _scales() -> Iterator[Case]:
    yield _all("zeros", "Zeros of either sign: scale 0.", "float32", [0, 1 << 31] * 3)
    one = 0x3F800000
    yield _all("alike", "Equal magnitudes are all sent.", "float32", [one, one | 1 << 31] * 20)
    yield _all("zero-among", "Zeros are never sent.", "float32", [one, 0, 1 << 31] * 9)
    yield _all("least", "The smallest scale, 2^-100.", "float32", [LEAST, LEAST | 1 << 31, LEAST - (1 << 23)])
    yield _all("below", "A scale below it: 0.", "float32", [BELOW, BELOW | 1 << 31, 1])
    for dtype in ("float32", "float16", "bfloat16"):
        form = BY_NAME[dtype]
        most = form.infinity - 1
        bits = [most, most | form.sign, most - 1, most >> 1, 1, form.sign | 1]
        yield _all(f"most-{dtype}", f"The largest {dtype} magnitudes, and the smallest.", dtype, bits)
    values = struct.unpack("<4Q", struct.pack("<4d", 1e-300, 1.0 + 2**-40, -(1.0 + 2**-24), 0.1))
    yield _all("float64-rounded", "float64 elements are rounded to binary32 first.", "float64", values)
    ties = [65_536.0, *((n + 0.5) * (-1) ** n for n in range(100))]
    words = values_of(ties, "float32")
    t = Tensor("0", "float32", (101,), range(101), words)
    about = "Chances halfway between two numbers of 65,536, rounded to even."
    yield exact("terngrad-ties", about, [t], value=TernGrad(), seed=3)


def _clipped() -> Iterator[Case]:
    for id, clip in (("2.5", 2.5), ("1", 1.0), ("tenth", 0.1), ("least", 1e-40), ("most", 1e300)):
        t = sparse("0", 200, spread(200, 200), first=77)
        yield exact(f"terngrad-clip-{id}", f"clip {clip}.", [t], value=TernGrad(clip), seed=9)
    for dtype in ("float16", "bfloat16", "float64"):
        t = sparse("0", 40, spread(37, 40), dtype)
        about = f"{dtype} elements, cut: the scale is no number of theirs."
        yield exact(f"terngrad-clip-{dtype}", about, [t], "bitmap", TernGrad(0.7), seed=5)
    order = values_of([number(n) * 2.0 ** (n % 40 - 20) for n in range(200)], "float32")
    t = Tensor("0", "float32", (200,), range(200), order)
    about = "Magnitudes far apart: the order of the sum decides."
    yield exact("terngrad-clip-order", about, [t], value=TernGrad(1.5))
    most = BY_NAME["float32"].infinity - 1
    yield _all("clip-float32", "The largest magnitudes, cut.", "float32", [most, 1, most | 1 << 31], 0.5)
    yield _all("clip-zeros", "Zeros, cut.", "float32", [0, 1 << 31], 2.5)


def _row(dtype: int, r: int, section: bytes) -> bytes:
    return of_values(11, dtype, r, section)


def _foreign() -> Iterator[Case]:
    """Yield sections that decode to values from which no exact writer makes them."""
    digits = [0, 1, 2, 0, 0, 2, 1]
    about = "A scale of 0 with digits: zeros of either sign."
    yield valid("terngrad-minus-zero", about, _row(1, 7, bytes(4) + pack_digits(digits)))
    about = "A scale of binary32 that is subnormal."
    yield valid("terngrad-subnormal", about, _row(1, 7, struct.pack("<I", 1) + pack_digits(digits)))
    about = "A scale that is 0 in binary16."
    yield valid(
        "terngrad-underflow-float16", about, _row(2, 7, struct.pack("<f", 2.0**-26) + pack_digits(digits))
    )
    for dtype, name, step in ((2, "float16", 2.0**-11), (3, "bfloat16", 2.0**-8)):
        for id, scale in (("even", 1 + step), ("odd", 1 + 3 * step)):
            about = f"A scale halfway between two numbers of {name}."
            data = _row(dtype, 7, struct.pack("<f", scale) + pack_digits(digits))
            yield valid(f"terngrad-halfway-{name}-{id}", about, data)
    for dtype, name, most in ((2, "float16", 65504.0), (3, "bfloat16", float.fromhex("0x1.fep127"))):
        about = f"The largest scale of {name} elements."
        data = _row(dtype, 7, struct.pack("<f", most) + pack_digits(digits))
        yield valid(f"terngrad-greatest-{name}", about, data)
    about = "The largest scale of float64 elements."
    data = _row(4, 7, struct.pack("<I", 0x7F7FFFFF) + pack_digits(digits))
    yield valid("terngrad-greatest-float64", about, data)
    for byte in (0, 121, 242):
        data = _row(2, 325, ONE + bytes([byte] * 65))
        yield valid(f"terngrad-byte-{byte}", f"Bytes of {byte}.", data)
    data = _row(
        3, 243, ONE + pack_digits([n // place % 3 for place in (81, 27, 9, 3, 1) for n in range(49)][:243])
    )
    yield valid("terngrad-places", "Bytes of every value up to 48: 49 a place.", data)


def _bad_length() -> Iterator[Case]:
    kind, code = "Malformed", "terngrad-length"
    for dtype in (1, 2, 3, 4):
        name = BY_ID[dtype].name
        good = write_terngrad(values_for(9, name), BY_ID[dtype], clip=None, stream=0)
        for id, about, section in (
            ("short", "One byte is missing.", good[:-1]),
            ("long", "One extra byte.", good + b"\x79"),
        ):
            yield bad(f"terngrad-length-{name}-{id}", about, kind, code, _row(dtype, 9, section))
    yield bad("terngrad-length-scale", "A scale alone.", kind, code, _row(1, 9, ONE))
    yield bad("terngrad-length-part", "Three bytes.", kind, code, _row(1, 9, ONE[:3]))
    data = _row(4, 9, struct.pack("<d", 1.0) + b"\x79\x79")
    yield bad("terngrad-length-wide", "A binary64 scale.", kind, code, data)
    data = _row(1, 9, patch(ONE, 0, "I", 0x7FC00000) + b"\xff")
    yield bad("terngrad-length-first", "The length is checked first.", kind, code, data)


def _bad_scale() -> Iterator[Case]:
    kind, code = "Invalid", "terngrad-scale"
    for id, about, dtype, scale in (
        ("nan", "NaN.", 1, 0x7FC00000),
        ("infinite", "Infinity.", 1, 0x7F800000),
        ("infinite-float64", "Infinity, of float64 elements.", 4, 0x7F800000),
        ("negative", "-1.", 1, 0xBF800000),
        ("minus-zero", "-0.", 1, 0x80000000),
        ("float16", "The number above 65,504, of float16 elements.", 2, 0x477FE001),
        ("bfloat16", "The number above bfloat16's largest.", 3, 0x7F7F0001),
    ):
        data = _row(dtype, 2, struct.pack("<I", scale) + pack_digits([0, 2]))
        yield bad(f"terngrad-scale-{id}", about, kind, code, data)
    data = _row(1, 2, struct.pack("<IB", 0x7FC00000, 255))
    yield bad("terngrad-scale-first", "The scale is checked before the bytes.", kind, code, data)


def _bad_digits() -> Iterator[Case]:
    kind, code = "Invalid", "terngrad-byte"
    good = bytes([121] * 130)
    for at in (0, 63, 64, 127, 128, 129):
        for byte in (243, 255):
            data = _row(2, 650, ONE + patch(good, at, "B", byte))
            yield bad(f"terngrad-byte-{byte}-at-{at}", f"Byte {at} is {byte}.", kind, code, data)
    data = _row(1, 4, ONE + b"\xff")
    yield bad("terngrad-byte-first", "Bytes are checked before what is left over.", kind, code, data)
    kind, code = "Malformed", "terngrad-padding"
    for r, left, digit in ((1, 1, 0), (1, 4, 2), (4, 1, 0), (4, 1, 2), (6, 4, 0), (6, 1, 2), (321, 1, 0)):
        span = -(-(r % 320) // 5)
        digits = [1] * (5 * span)
        digits[r % 320 - 1 + left] = digit
        section = ONE + bytes([121] * (r // 320 * 64)) + pack_digits(digits)
        about = f"After {r} values, digit {left} of those left over is {digit}."
        yield bad(f"terngrad-padding-{r}-{left}-{digit}", about, kind, code, _row(2, r, section))
