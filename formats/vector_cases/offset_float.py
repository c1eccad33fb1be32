"""offset-float: every width, mantissa and rounding at its limits, and each check of the page."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from formats.reference import OffsetFloat, Tensor
from formats.reference.floats import BY_NAME, pack_elements
from formats.reference.packed_codes import pack_codes
from formats.vector_cases.case import Case, bad, exact, number, sparse, spread, valid, values_of
from formats.vector_cases.parts import of_values


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield from _figure()
    yield from _sizes()
    yield from _parameters()
    yield from _corners()
    yield from _foreign()
    yield from _bad_heads()
    yield from _bad_ranges()
    yield from _bad_codes()


def _all(id: str, about: str, value: OffsetFloat, bits: Sequence[int], dtype: str = "float32") -> Case:
    """Return a tensor of one dimension, with every element present, from the elements' bits."""
    size = len(bits)
    t = Tensor("0", dtype, (size,), range(size), pack_elements(list(bits), BY_NAME[dtype].itemsize))
    return exact(f"offset-float-{id}", about, [t], value=value)


def _numbers(id: str, about: str, value: OffsetFloat, numbers: Sequence[float]) -> Case:
    """Return the same from binary32 numbers."""
    words = [int.from_bytes(struct.pack("<f", x), "little") for x in numbers]
    return _all(id, about, value, words)


def _figure() -> Iterator[Case]:
    paper = OffsetFloat(8, 3, -2.0, 2.0, 0.125)
    about = "The paper's example, 0.256 as code 9, its mirror image, zeros, eps/2, and the ends."
    numbers = [0.256, -0.256, 0.0, -0.0, 0.125, 0.0625, -0.0625, 0.062, 2.0, -2.0, 2.5, -1e30]
    yield _numbers("figure-8", about, paper, numbers)
    ties = [0.1328125, 0.1484375, -0.1328125, 1.0625, 1.9375, 1.96875]
    yield _numbers("ties", "Halfway between two codes: away from zero.", paper, ties)


def _sizes() -> Iterator[Case]:
    for dtype in ("float32", "float16", "bfloat16", "float64"):
        t = sparse("0", 40, spread(37, 40), dtype)
        yield exact(f"offset-float-{dtype}", f"{dtype} elements.", [t], "bitmap", OffsetFloat(6))
        t = sparse("0", 40, [7], dtype, first=4)
        yield exact(f"offset-float-{dtype}-r1", "One value.", [t], "raw-index", OffsetFloat())
    for r in (2, 16, 511, 512, 513, 600):
        t = sparse("0", r + 1, range(r), first=5 * r)
        about = f"{r} values{', of which 512 choose the mantissa' if r > 512 else ''}."
        yield exact(f"offset-float-r{r}", about, [t], "bitmap", OffsetFloat(5))
    t = sparse("0", 1030, range(1030), first=3)
    yield exact("offset-float-r1030", "Two blocks and a rest.", [t], value=OffsetFloat(3))
    for bits in (*range(2, 10), 12, 15, 16):
        t = sparse("0", 70, range(70), first=bits)
        yield exact(f"offset-float-bits{bits}", f"{bits} bits.", [t], value=OffsetFloat(bits))
    three = [sparse(name, 30, range(30), first=40 * n) for n, name in enumerate("abc")]
    yield exact("offset-float-keys", "Three keys.", three, value=OffsetFloat(), many=True)


def _parameters() -> Iterator[Case]:
    numbers = [number(n) for n in range(60)]
    for m in (0, 1, 7, 8, 22, 23):
        for rounding in ("nearest", "stochastic"):
            value = OffsetFloat(7, m, rounding=rounding)
            about = f"{m} bits of mantissa; rounding {rounding}."
            yield _numbers(f"mantissa{m}-{rounding}", about, value, numbers)
    about = "Rounded at random, the mantissa chosen; three keys, three streams."
    tensors = [sparse(name, 40, range(40), first=40 * n) for n, name in enumerate("abc")]
    yield exact(
        "offset-float-stochastic",
        about,
        tensors,
        value=OffsetFloat(4, rounding="stochastic"),
        many=True,
        seed=77,
    )
    t = sparse("0", 530, range(530))
    about = "Draws of a second block."
    yield exact(
        "offset-float-stochastic-r530", about, [t], value=OffsetFloat(3, rounding="stochastic"), seed=2**63
    )
    for id, about, value in (
        ("max", "A largest value is given.", OffsetFloat(6, max=1.0)),
        ("min", "A least value is given.", OffsetFloat(6, min=-1.0)),
        ("max-0", "No positive codes.", OffsetFloat(6, max=0.0)),
        ("min-0", "No negative codes.", OffsetFloat(6, min=0.0)),
        ("both-0", "No codes but that of zero.", OffsetFloat(6, min=0.0, max=0.0)),
        ("eps", "eps is given, the mantissa chosen.", OffsetFloat(6, eps=0.25)),
        ("eps-many", "An eps for which the codes do not suffice.", OffsetFloat(4, 5, eps=2.0**-9)),
        ("eps-large", "An eps above all values.", OffsetFloat(4, eps=1e30)),
        ("cut", "A largest value between two codes is cut, not rounded.", OffsetFloat(6, 1, max=1.9)),
    ):
        yield _numbers(id, about, value, numbers)
    about = "An eps for which the codes do not suffice, and hardly any negative ones are needed."
    yield _numbers("eps-uneven", about, OffsetFloat(4, 5, eps=0.25), [1.0, 3.0, 7.0, -0.25, -0.3])


def _corners() -> Iterator[Case]:
    f32 = BY_NAME["float32"]
    most = f32.infinity - 1
    yield _all("zeros", "Zeros of either sign: no codes.", OffsetFloat(), [0, 1 << 31, 0])
    yield _all(
        "positive", "Positive values alone.", OffsetFloat(3), [0x3F800000 + 99999 * i for i in range(20)]
    )
    yield _all(
        "negative", "Negative values alone.", OffsetFloat(3), [0xBF800000 + 99999 * i for i in range(20)]
    )
    yield _all("subnormal", "Subnormal values: kept.", OffsetFloat(8), [1, 2, 3, (1 << 31) + 1, 60, 0])
    about = "Subnormal values, too many: eps is one, and half of it is not a number."
    yield _all("subnormal-coarse", about, OffsetFloat(2, 23), [1, 2, 3, 4, 5, (1 << 31) + 5, 9])
    about = "The smallest values, rounded at random: eps is 2^-100."
    yield _all("least-stochastic", about, OffsetFloat(8, rounding="stochastic"), [1, 0x0C000000, 0x8D000000])
    yield _all(
        "most", "The largest values: not rounded to infinity.", OffsetFloat(4), [most, most | 1 << 31, 1]
    )
    for m in (0, 5):
        about = f"The largest values, {m} bits of mantissa."
        yield _all(f"most-mantissa{m}", about, OffsetFloat(8, m), [most, most | 1 << 31, 0x3F800000])
    for dtype in ("float16", "bfloat16"):
        form = BY_NAME[dtype]
        bits = [form.infinity - 1, form.sign | (form.infinity - 1), 1, form.sign | 2, 0, form.infinity // 2]
        about = f"The largest and the smallest {dtype} numbers."
        yield _all(f"ends-{dtype}", about, OffsetFloat(6), bits, dtype)
        about = f"The largest and the smallest {dtype} numbers; 2 bits of mantissa."
        yield _all(f"ends-{dtype}-mantissa2", about, OffsetFloat(6, 2), bits, dtype)
    about = "float64 elements are rounded to binary32 first."
    t = Tensor("0", "float64", (4,), range(4), struct.pack("<4d", 1e-300, 1.0 + 2**-40, -(1.0 + 2**-24), 0.1))
    yield exact("offset-float-float64-rounded", about, [t], value=OffsetFloat(12))
    about = "Two mantissas have equal errors: the lower one."
    yield _numbers("tie-of-mantissas", about, OffsetFloat(8), [1.0, 2.0, -4.0])
    order = values_of([number(n) * 2.0 ** (n % 40 - 20) for n in range(300)], "float32")
    t = Tensor("0", "float32", (300,), range(300), order)
    yield exact("offset-float-wide", "Magnitudes far apart.", [t], value=OffsetFloat(8))


def _section(
    bits: int = 4,
    m: int = 2,
    positive: int = 7,
    negative: int = 7,
    base: int = 500,
    codes: Sequence[int] = (0, 1, 7, 8, 14),
    reserved: int = 0,
) -> bytes:
    return struct.pack("<BBHHHI", bits, m, reserved, positive, negative, base) + pack_codes(codes, bits)


def _row(section: bytes, r: int = 5, dtype: int = 1) -> bytes:
    return of_values(8, dtype, r, section)


def _foreign() -> Iterator[Case]:
    """Yield sections that decode to values from which no exact writer makes them."""
    yield valid("offset-float-foreign", "A range that the values do not reach.", _row(_section()))
    about = "Fewer codes than the bits allow, more of them positive."
    yield valid("offset-float-uneven", about, _row(_section(positive=9, negative=2, codes=(0, 9, 10, 11, 1))))
    about = "No codes but that of zero."
    yield valid("offset-float-no-codes", about, _row(_section(positive=0, negative=0, codes=(0,) * 5)))
    about = "All 65,535 codes, all negative."
    wide = _section(16, 20, 0, 65_535, 1, (0, 1, 2, 65_534, 65_535))
    yield valid("offset-float-all-negative", about, _row(wide))
    for dtype, name, most in (
        (1, "float32", 0x7F7F_FFFF),
        (2, "float16", 0x477F_E000),
        (3, "bfloat16", 0x7F7F_0000),
    ):
        section = _section(2, 23, 1, 1, most, (0, 1, 2, 1, 2))
        about = f"eps is the largest {name} number."
        yield valid(f"offset-float-greatest-{name}", about, _row(section, dtype=dtype))
    about = "Values that are zeros of either sign in binary16, and that are rounded to even there."
    small = _section(4, 2, 7, 7, 0x33000000 >> 21, (1, 2, 8, 9, 3))
    yield valid("offset-float-underflow", about, _row(small, dtype=2))


def _bad_heads() -> Iterator[Case]:
    good = _section()
    kind, code = "Malformed", "offset-float-length"
    for id, about, section in (
        ("head", "11 bytes.", good[:11]),
        ("head-alone", "The parameters alone.", good[:12]),
        ("short", "One byte is missing.", good[:-1]),
        ("long", "A word too many.", good + bytes(4)),
    ):
        yield bad(f"offset-float-length-{id}", about, kind, code, _row(section))
    about = "The parameters come before the length of the codes."
    yield bad("offset-float-parameter-first", about, kind, "offset-float-parameter", _row(_section(1)[:12]))
    about = "The length comes before the range."
    yield bad("offset-float-length-first", about, kind, code, _row(_section(base=0)[:12]))
    for id, about, section in (
        ("bits-1", "One bit.", _section(1, codes=(0, 1, 0, 1, 0))),
        ("bits-17", "17 bits.", _section(17)),
        ("bits-0", "No bits.", b"\0" + good[1:]),
        ("mantissa", "24 bits of mantissa.", _section(m=24)),
        ("reserved", "A reserved bit.", _section(reserved=0x100)),
    ):
        yield bad(f"offset-float-parameter-{id}", about, kind, "offset-float-parameter", _row(section))


def _bad_ranges() -> Iterator[Case]:
    kind, code = "Invalid", "offset-float-range"
    for id, about, section in (
        ("base-0", "base is 0.", _section(base=0)),
        ("codes", "16 codes and zero, of 4 bits.", _section(positive=8, negative=8)),
        ("codes-one-side", "16 positive codes and zero.", _section(positive=16, negative=0)),
        ("codes-most", "65,535 codes of either sign.", _section(16, 23, 65_535, 65_535)),
        ("infinite", "The largest value is infinity.", _section(base=0x7F800000 // 2**21 - 6)),
        ("beyond", "The largest value has the sign bit.", _section(2, 23, 1, 1, 1 << 31, (0, 1, 2, 1, 2))),
        ("wrapped", "base · 2^s is beyond 32 bits.", _section(2, 0, 1, 1, 2**32 - 1, (0, 1, 2, 1, 2))),
        ("no-codes", "No codes, and eps is infinity.", _section(2, 23, 0, 0, 0x7F800000, (0,) * 5)),
    ):
        yield bad(f"offset-float-range-{id}", about, kind, code, _row(section))
    for dtype, name, most in ((2, "float16", 0x477FE000), (3, "bfloat16", 0x7F7F0000)):
        section = _section(2, 23, 1, 1, most + 1, (0, 1, 2, 1, 2))
        about = f"The largest value is above that of {name}."
        yield bad(f"offset-float-range-{name}", about, kind, code, _row(section, dtype=dtype))
        section = _section(2, 23, 1, 2, most, (0, 1, 2, 3, 2))
        about = f"The smallest value is below that of {name}."
        yield bad(f"offset-float-range-{name}-negative", about, kind, code, _row(section, dtype=dtype))
    about = "The range comes before the padding."
    section = _section(base=0)[:-1] + b"\x80"
    yield bad("offset-float-range-first", about, kind, code, _row(section))


def _bad_codes() -> Iterator[Case]:
    for bit in (20, 31):
        section = bytearray(_section())
        section[12 + bit // 8] |= 1 << bit % 8
        about = f"Bit {bit} of a word of 20."
        yield bad(
            f"offset-float-padding-{bit}", about, "Malformed", "offset-float-padding", _row(bytes(section))
        )
    about = "The padding comes before the codes."
    section = bytearray(_section(codes=(15, 0, 0, 0, 0)))
    section[-1] = 0x80
    yield bad("offset-float-padding-first", about, "Malformed", "offset-float-padding", _row(bytes(section)))
    kind, code = "Invalid", "offset-float-code"
    yield bad("offset-float-code", "Code 15 of 14.", kind, code, _row(_section(codes=(0, 0, 0, 0, 15))))
    none = _section(positive=0, negative=0, codes=(0, 0, 1, 0, 0))
    yield bad("offset-float-code-none", "Code 1 of none.", kind, code, _row(none))
    codes = [0] * 512
    codes[300] = 3
    about = "Code 3 of 2, in a full block."
    yield bad("offset-float-code-block", about, kind, code, _row(_section(2, 2, 1, 1, 500, codes), 512))
