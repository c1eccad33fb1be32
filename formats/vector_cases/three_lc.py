"""3lc: scales, digits and runs of every length, other valid forms, and each check of the page."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from formats.reference import Tensor, ThreeLC
from formats.reference.floats import BY_ID, BY_NAME, pack_elements
from formats.reference.writing.value.three_lc import pack_quartic, write_three_lc_section
from formats.vector_cases.case import Case, bad, exact, number, sparse, spread, valid, values_of
from formats.vector_cases.parts import of_values

ONE = struct.pack("<f", 1.0)
TYPES = ("float32", "float16", "bfloat16", "float64")


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield from _sizes()
    yield from _runs()
    yield from _scales()
    yield from _foreign()
    yield from _bad_length()
    yield from _bad_scale()
    yield from _bad_bytes()


def _all(id: str, about: str, dtype: str, bits: Sequence[int], sparsity: float = 1.0) -> Case:
    """Return a tensor of one dimension, with every element present, from the elements' bits."""
    size = len(bits)
    t = Tensor("0", dtype, (size,), range(size), pack_elements(list(bits), BY_NAME[dtype].itemsize))
    return exact(f"3lc-{id}", about, [t], value=ThreeLC(sparsity))


def _sizes() -> Iterator[Case]:
    for dtype in TYPES:
        t = sparse("0", 40, spread(37, 40), dtype)
        yield exact(f"3lc-{dtype}", f"{dtype} elements.", [t], "bitmap", ThreeLC())
        t = sparse("0", 40, spread(33, 40, 1), dtype)
        yield exact(f"3lc-{dtype}-sparser", "Sparsity 1.75.", [t], "bitmap", ThreeLC(1.75))
        t = sparse("0", 40, [7], dtype, first=4)
        about = "One value: the scale itself."
        yield exact(f"3lc-{dtype}-r1", about, [t], "raw-index", ThreeLC())
    for r in (2, 4, 5, 6, 9, 10, 11, 64, 319, 320, 321, 325, 640, 645):
        t = _levels(r, [(number(i) > 0) - (number(i + 3) > 0) for i in range(r)])
        yield exact(f"3lc-r{r}", f"{r} values of three levels.", [t], value=ThreeLC())
    three = [sparse(name, 30, range(30), first=40 * n) for n, name in enumerate("abc")]
    yield exact("3lc-keys", "Three keys, three scales.", three, value=ThreeLC(1.5), many=True)


def _levels(r: int, levels: Sequence[int]) -> Tensor:
    return Tensor("0", "float32", (r,), range(r), values_of([0.75 * level for level in levels], "float32"))


def _runs() -> Iterator[Case]:
    for n in (1, 2, 3, 13, 14, 15, 16, 28, 29, 30):
        levels = [1, -1, *[0] * (5 * n + 3), 1, *[0] * (5 * n), 0, 0, 0, 0, -1]
        about = f"A run of {n} codes of zeros, twice."
        yield exact(f"3lc-run{n}", about, [_levels(len(levels), levels)], value=ThreeLC())
    for n in (64, 65, 140):
        levels = [1] * 4 + [0] * (5 * n + 1)
        about = f"A run of {n} codes at the end."
        yield exact(f"3lc-tail{n}", about, [_levels(len(levels), levels)], value=ThreeLC())
    levels = [1 if i % 7 == 0 else -1 if i % 31 == 0 else 0 for i in range(700)]
    yield exact(
        "3lc-single", "Single codes of zeros and short runs.", [_levels(700, levels)], value=ThreeLC()
    )
    levels = [1 if i * i % 101 == 0 else 0 for i in range(1000)]
    yield exact("3lc-mixed", "Runs of many lengths.", [_levels(1000, levels)], value=ThreeLC())


def _scales() -> Iterator[Case]:
    yield _all("zeros", "Zeros of either sign: scale 0.", "float32", [0, 1 << 31, 0, 1 << 31, 0, 0])
    yield _all("zero-among", "-0 is level 0.", "float32", [0x3F800000, 1 << 31, 0xBF800000, 0])
    half = [0x3F800000, 0x3F000000, 0x3EFFFFFF, 0xBF000000, 0xBEFFFFFF]
    yield _all("half", "Half of the scale counts, the number below does not.", "float32", half)
    above = [0x3F800000, 0x3F400000, 0x3F3FFFFF]
    yield _all("half-sparser", "The same at sparsity 1.5.", "float32", above, 1.5)
    yield _all("near-2", "The largest sparsity: half is the largest value.", "float32", half, 2 - 2.0**-52)
    about = "The smallest magnitudes: half rounds to 0, and zeros stay zeros."
    yield _all("least", about, "float32", [1, 1 << 31, 0, (1 << 31) + 1, 2, 0], 1.9)
    yield _all("least-alone", "The smallest magnitude and zeros.", "float32", [1, 1 << 31, 0, (1 << 31) + 1])
    for dtype in TYPES[:3]:
        most = BY_NAME[dtype].infinity - 1
        bits = [most, most | BY_NAME[dtype].sign, most >> 1, 0]
        yield _all(f"most-{dtype}", "A scale cut to the largest finite number.", dtype, bits, 1.5)
    yield _all("most-float64", "float64 near binary32's largest.", "float64", [0x47EFFFFFE0000000, 0], 1.25)
    yield _all("tiny-float64", "float64 that binary32 takes for 0.", "float64", [1, 0x3680000000000000], 1.25)
    yield _all("tie-float64", "Rounded to binary32, it is half.", "float64", [1023 << 52, (1022 << 52) - 1])


def _row(dtype: int, r: int, section: bytes) -> bytes:
    return of_values(12, dtype, r, section)


def _foreign() -> Iterator[Case]:
    """Yield sections that decode to values from which no exact writer makes them."""
    about = "A scale of 0 with levels: zeros of either sign."
    yield valid("3lc-minus-zero", about, _row(1, 3, bytes(4) + pack_quartic([0, 1, 2])))
    about = "A scale that is 0 in binary16."
    yield valid(
        "3lc-underflow-float16", about, _row(2, 3, struct.pack("<f", 2.0**-26) + pack_quartic([0, 1, 2]))
    )
    about = "A scale that is subnormal in bfloat16, rounded to even."
    section = struct.pack("<I", 0x00018000) + pack_quartic([2, 0])
    yield valid("3lc-subnormal-bfloat16", about, _row(3, 2, section))
    for dtype, scale in ((2, 65504.0), (3, float.fromhex("0x1.fep127"))):
        about = f"The largest scale of {BY_ID[dtype].name} elements."
        section = struct.pack("<f", scale) + pack_quartic([0, 2])
        yield valid(f"3lc-greatest-{BY_ID[dtype].name}", about, _row(dtype, 2, section))
    for dtype, step in ((2, 2.0**-11), (3, 2.0**-8)):
        section = struct.pack("<f", 1 + 3 * step) + pack_quartic([0, 2])
        about = f"A scale halfway between two numbers of {BY_ID[dtype].name}."
        yield valid(f"3lc-halfway-{BY_ID[dtype].name}", about, _row(dtype, 2, section))
    yield valid("3lc-no-levels", "A scale, and no level but 0.", _row(1, 70, ONE + b"\xff"))
    every = [code // power % 3 for code in range(243) for power in (81, 27, 9, 3, 1)]
    section = write_three_lc_section(1.0, pack_quartic(every))
    yield valid("3lc-every-code", "All 243 codes.", _row(1, len(every), section))


def _bad_length() -> Iterator[Case]:
    kind, code = "Malformed", "3lc-length"
    for n in (1, 3):
        yield bad(f"3lc-length-{n}", f"{n} bytes.", kind, code, _row(1, 9, b"\xff" * n))
    kind, code = "Malformed", "3lc-count"
    for id, about, r, tokens in (
        ("none", "A scale alone.", 9, b""),
        ("short", "One code of nine values.", 9, b"\x79"),
        ("long", "Three codes of nine values.", 9, b"\x00\x01\x02"),
        ("run-short", "A run of 13 of 70 values.", 70, b"\xfe"),
        ("run-long", "A run of 14 of 65 values.", 65, b"\xff"),
        ("far", "Many runs of one value.", 1, b"\xff" * 300),
        ("far-short", "Many runs of a few values more.", 300 * 70 + 5, b"\xff" * 300),
        ("first", "The number of codes is checked before runs.", 9, b"\x79\x79\x79"),
    ):
        yield bad(f"3lc-count-{id}", about, kind, code, _row(1, r, ONE + tokens))


def _bad_scale() -> Iterator[Case]:
    kind, code = "Invalid", "3lc-scale"
    for id, about, dtype, scale in (
        ("nan", "NaN.", 1, 0x7FC00000),
        ("signalling", "A signalling NaN.", 1, 0x7F800001),
        ("infinite", "Infinity.", 1, 0x7F800000),
        ("infinite-float64", "Infinity, of float64 elements.", 4, 0x7F800000),
        ("minus-infinite", "-infinity.", 1, 0xFF800000),
        ("negative", "-1.", 1, 0xBF800000),
        ("minus-zero", "-0.", 1, 0x80000000),
        ("float16", "The number above 65,504, of float16 elements.", 2, 0x477FE001),
        ("bfloat16", "The number above bfloat16's largest.", 3, 0x7F7F0001),
    ):
        section = struct.pack("<I", scale) + b"\xf3"
        yield bad(f"3lc-scale-{id}", about, kind, code, _row(dtype, 9, section))
    about = "The scale is checked before the number of codes."
    yield bad("3lc-scale-first", about, kind, code, _row(1, 9, struct.pack("<I", 0x7FC00000)))


def _bad_bytes() -> Iterator[Case]:
    kind, code = "Malformed", "3lc-run"
    for id, about, tokens in (
        ("two", "Two codes of zeros.", b"\x79\x79"),
        ("code-run", "A code of zeros before a run.", b"\x79\xf3"),
        ("run-code", "A run before a code of zeros.", b"\xf3\x79"),
        ("run-run", "A run of 2 before a run of 14.", b"\xf3\xff"),
        ("thirteen", "A run of 13 before a code of zeros.", b"\xfe\x79"),
        ("later", "The second of two runs is short, and a third follows.", b"\xff\xfa\xff\x00"),
        ("far", "Across the 64th byte.", b"\x00" * 63 + b"\x79\x79"),
        ("far-runs", "Across the 128th byte.", b"\xff" * 127 + b"\xf5\x79\x00"),
    ):
        count = sum(token - 241 if token >= 243 else 1 for token in tokens)
        yield bad(f"3lc-run-{id}", about, kind, code, _row(1, 5 * count, ONE + tokens))
    yield bad(
        "3lc-run-first", "Runs are checked before the padding.", kind, code, _row(1, 8, ONE + b"\x79\x79")
    )
    kind, code = "Malformed", "3lc-padding"
    for r, token in ((1, 0), (1, 120), (1, 122), (4, 122), (4, 120), (3, 124), (2, 130), (1, 94)):
        about = f"Code {token} of {r} values."
        yield bad(f"3lc-padding-{r}-{token}", about, kind, code, _row(1, r, ONE + bytes([token])))
    about = "The last digit of a whole block."
    yield bad("3lc-padding-block", about, kind, code, _row(1, 319, ONE + bytes([5] * 64)))
