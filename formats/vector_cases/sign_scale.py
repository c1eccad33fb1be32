"""sign-scale: sections of every size and element type, and each check of the page."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from formats.reference import SignScale, Tensor
from formats.reference.floats import BY_ID, BY_NAME, pack_elements
from formats.reference.writing.value.sign_scale import write_sign_scale
from formats.vector_cases.case import Case, bad, exact, number, sparse, spread, valid, values_for, values_of
from formats.vector_cases.parts import of_values

ONE = struct.pack("<f", 1.0)


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield from _sizes()
    yield from _scales()
    yield from _foreign()
    yield from _bad_length()
    yield from _bad_scale()
    yield from _bad_padding()


def _all(id: str, about: str, dtype: str, bits: Sequence[int]) -> Case:
    """Return a tensor of one dimension, with every element present, from the elements' bits."""
    size = len(bits)
    t = Tensor("0", dtype, (size,), range(size), pack_elements(list(bits), BY_NAME[dtype].itemsize))
    return exact(f"sign-scale-{id}", about, [t], value=SignScale())


def _sizes() -> Iterator[Case]:
    for dtype in ("float32", "float16", "bfloat16", "float64"):
        t = sparse("0", 40, spread(37, 40), dtype)
        yield exact(f"sign-scale-{dtype}", f"{dtype} elements.", [t], "bitmap", SignScale())
        t = sparse("0", 40, [7], dtype, first=4)
        about = "One value: its own magnitude."
        yield exact(f"sign-scale-{dtype}-r1", about, [t], "raw-index", SignScale())
    for r in (2, 7, 8, 9, 63, 64, 65, 127, 128, 129, 1000):
        t = sparse("0", r + 1, range(r), first=5 * r)
        yield exact(f"sign-scale-r{r}", f"{r} values.", [t], "bitmap", SignScale())
    three = [sparse(name, 30, range(30), first=40 * n) for n, name in enumerate("abc")]
    yield exact("sign-scale-keys", "Three keys, three scales.", three, value=SignScale(), many=True)


def _scales() -> Iterator[Case]:
    f32, f16, b16, f64 = (BY_NAME[n] for n in ("float32", "float16", "bfloat16", "float64"))
    yield _all("zeros", "Zeros of either sign: scale 0, all plus.", "float32", [0, 1 << 31, 0, 1 << 31])
    about = "A zero of either sign is plus, and comes back as the scale."
    yield _all("zero-among", about, "float32", [0x3F800000, 1 << 31, 0xBF800000, 0])
    tenth = 0x3DCCCCCD
    yield _all(
        "alike",
        "300 values of one magnitude: it comes back exactly.",
        "float32",
        [tenth] * 299 + [tenth | 1 << 31],
    )
    third = 0x3FD5555555555555
    about = "100 binary64 values of one magnitude, whose sum would round."
    yield _all("alike-float64", about, "float64", [third, third | 1 << 63] * 50)
    about = "One of them has another magnitude: the mean, of sums that round."
    yield _all("unlike-float64", about, "float64", [third] * 99 + [third + 1])
    yield _all("least", "The smallest magnitudes: their mean rounds to even, to 0.", "float32", [1, 1 << 31])
    yield _all("least-minus", "A mean that rounds to 0, and a minus.", "float32", [(1 << 31) + 1, 0, 0, 0])
    most = f32.infinity - 1
    yield _all("most", "The largest magnitudes, and a zero.", "float32", [most, most | 1 << 31, 0])
    most = f64.infinity - 1
    about = "A sum beyond binary64: taken of |v| · 2^-64."
    yield _all("most-float64", about, "float64", [most, most | 1 << 63, most, 1, most >> 1])
    for form in (f16, b16):
        most = form.infinity - 1
        yield _all(
            f"most-{form.name}",
            "The largest, but for one.",
            form.name,
            [most, most, most | form.sign, most - 1],
        )
        about = "A mean halfway between two numbers of the element type."
        yield _all(f"tie-{form.name}", about, form.name, [form.infinity // 2, form.infinity // 2 + 1])
        yield _all(f"least-{form.name}", "Subnormal magnitudes.", form.name, [1, 2, form.sign + 3, 0, 1])
    order = values_of([number(n) * 2.0 ** (n % 40 - 20) for n in range(200)], "float32")
    t = Tensor("0", "float32", (200,), range(200), order)
    yield exact(
        "sign-scale-order", "Magnitudes far apart: the order of the sum decides.", [t], value=SignScale()
    )


def _row(dtype: int, r: int, section: bytes) -> bytes:
    return of_values(5, dtype, r, section)


def _foreign() -> Iterator[Case]:
    """Yield sections that decode to values from which no exact writer makes them."""
    about = "A scale of 0 with signs: zeros of either sign."
    yield valid("sign-scale-minus-zero", about, _row(1, 3, bytes(4) + b"\x05"))
    about = "A scale that is 0 in binary16."
    yield valid("sign-scale-underflow-float16", about, _row(2, 3, struct.pack("<f", 2.0**-26) + b"\x02"))
    about = "A scale that is subnormal in bfloat16, rounded to even."
    yield valid("sign-scale-subnormal-bfloat16", about, _row(3, 2, struct.pack("<I", 0x00018000) + b"\x01"))
    for dtype, name, scale in ((2, "float16", 65504.0), (3, "bfloat16", float.fromhex("0x1.fep127"))):
        about = f"The largest scale of {name} elements."
        yield valid(f"sign-scale-greatest-{name}", about, _row(dtype, 2, struct.pack("<f", scale) + b"\x01"))
    for dtype, name, step in ((2, "float16", 2.0**-11), (3, "bfloat16", 2.0**-8)):
        for id, scale in (("even", 1 + step), ("odd", 1 + 3 * step)):
            section = struct.pack("<f", scale) + b"\x02"
            about = f"A scale halfway between two numbers of {name}."
            yield valid(f"sign-scale-halfway-{name}-{id}", about, _row(dtype, 2, section))
    yield valid(
        "sign-scale-least-float64", "The smallest scale of binary64.", _row(4, 1, struct.pack("<QB", 1, 1))
    )


def _bad_length() -> Iterator[Case]:
    kind, code = "Malformed", "sign-scale-length"
    for dtype in (1, 2, 3, 4):
        name = BY_ID[dtype].name
        good = write_sign_scale(values_for(9, name), BY_ID[dtype])
        for id, about, section in (
            ("short", "One byte is missing.", good[:-1]),
            ("long", "One extra byte.", good + bytes(1)),
        ):
            yield bad(f"sign-scale-length-{name}-{id}", about, kind, code, _row(dtype, 9, section))
    yield bad("sign-scale-length-scale", "A scale alone.", kind, code, _row(1, 9, ONE))
    yield bad("sign-scale-length-part", "Three bytes.", kind, code, _row(1, 9, ONE[:3]))
    about = "A binary32 scale of float64 elements."
    yield bad("sign-scale-length-narrow", about, kind, code, _row(4, 9, ONE + bytes(2)))
    about = "A binary64 scale of float32 elements."
    yield bad("sign-scale-length-wide", about, kind, code, _row(1, 9, struct.pack("<d", 1.0) + bytes(2)))
    about = "The length is checked before the scale."
    yield bad("sign-scale-length-first", about, kind, code, _row(1, 9, b"\xff" * 5))


def _bad_scale() -> Iterator[Case]:
    kind, code = "Invalid", "sign-scale-scale"
    for id, about, dtype, scale in (
        ("nan", "NaN.", 1, 0x7FC00000),
        ("signalling", "A signalling NaN.", 1, 0x7F800001),
        ("infinite", "Infinity.", 1, 0x7F800000),
        ("minus-infinite", "-infinity.", 1, 0xFF800000),
        ("negative", "-1.", 1, 0xBF800000),
        ("minus-zero", "-0.", 1, 0x80000000),
        ("float16", "The number above 65,504, of float16 elements.", 2, 0x477FE001),
        ("bfloat16", "The number above bfloat16's largest.", 3, 0x7F7F0001),
    ):
        section = struct.pack("<I", scale) + bytes(2)
        yield bad(f"sign-scale-scale-{id}", about, kind, code, _row(dtype, 9, section))
    for id, about, wide in (
        ("nan", "NaN, of float64 elements.", 0x7FF8000000000000),
        ("infinite", "Infinity, of float64 elements.", 0x7FF0000000000000),
        ("negative", "-1, of float64 elements.", 0xBFF0000000000000),
        ("minus-zero", "-0, of float64 elements.", 1 << 63),
    ):
        section = struct.pack("<Q", wide) + bytes(2)
        yield bad(f"sign-scale-scale-{id}-float64", about, kind, code, _row(4, 9, section))
    about = "The scale is checked before the padding."
    section = struct.pack("<I", 0x7FC00000) + b"\xff\xff"
    yield bad("sign-scale-scale-first", about, kind, code, _row(1, 9, section))


def _bad_padding() -> Iterator[Case]:
    kind, code = "Malformed", "sign-scale-padding"
    for r, bit in ((1, 1), (1, 7), (4, 4), (7, 7), (65, 1), (65, 7)):
        signs = bytearray(-(-r // 8))
        signs[-1] = 1 << bit
        about = f"Bit {bit} of the last byte, of {r} values."
        yield bad(f"sign-scale-padding-{r}-{bit}", about, kind, code, _row(1, r, ONE + bytes(signs)))
    about = "A padding bit, of float64 elements."
    section = struct.pack("<d", 1.0) + b"\x08"
    yield bad("sign-scale-padding-float64", about, kind, code, _row(4, 3, section))
