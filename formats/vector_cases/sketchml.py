"""sketchml: buckets, means and both forms, other valid forms, and each check of the page."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from formats.reference import SketchML, Tensor
from formats.reference.bits import pack_stream
from formats.reference.floats import BY_NAME, pack_elements
from formats.reference.writing.value.sketchml import write_sketchml_section
from formats.vector_cases.case import Case, bad, exact, number, patch, sparse, spread, valid, values_of
from formats.vector_cases.parts import of_values

TYPES = ("float32", "float16", "bfloat16", "float64")


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield from _sizes()
    yield from _values()
    yield from _forms()
    yield from _foreign()
    yield from _bad_head()
    yield from _bad_means()
    yield from _bad_packed()
    yield from _bad_huffman()
    yield from _bad_spans()


def _all(id: str, about: str, dtype: str, bits: Sequence[int], buckets: int = 4) -> Case:
    """Return a tensor of one dimension, with every element present, from the elements' bits."""
    size = len(bits)
    t = Tensor("0", dtype, (size,), range(size), pack_elements(list(bits), BY_NAME[dtype].itemsize))
    return exact(f"sketchml-{id}", about, [t], value=SketchML(buckets))


def _numbers(id: str, about: str, numbers: Sequence[float], buckets: int) -> Case:
    t = Tensor("0", "float32", (len(numbers),), range(len(numbers)), values_of(numbers, "float32"))
    return exact(f"sketchml-{id}", about, [t], value=SketchML(buckets))


def _sizes() -> Iterator[Case]:
    for dtype in TYPES:
        t = sparse("0", 110, spread(100, 110), dtype)
        yield exact(f"sketchml-{dtype}", f"{dtype} elements.", [t], "bitmap", SketchML(8))
        t = sparse("0", 40, [7], dtype, first=4)
        yield exact(f"sketchml-{dtype}-r1", "One value: its own mean.", [t], "raw-index", SketchML())
    for buckets in (2, 3, 5, 16, 17, 64, 128, 256):
        t = sparse("0", 300, range(300), first=buckets)
        yield exact(f"sketchml-b{buckets}", f"{buckets} buckets.", [t], value=SketchML(buckets))
    for r in (2, 3, 31, 33, 63, 64, 65, 511, 512, 513):
        t = sparse("0", r + 1, range(r), "bfloat16", first=5 * r)
        yield exact(f"sketchml-r{r}", f"{r} values.", [t], "bitmap", SketchML(6))
    three = [sparse(name, 30, range(30), first=40 * n) for n, name in enumerate("abc")]
    yield exact("sketchml-keys", "Three keys.", three, value=SketchML(3), many=True)


def _values() -> Iterator[Case]:
    yield _all("zeros", "Zeros of either sign: two buckets, -0 and +0.", "float32", [0, 1 << 31, 0, 1 << 31])
    yield _all(
        "close", "Negative numbers one bit apart.", "float32", [0xBF800001, 0xBF800000, 0xBF800002] * 2
    )
    yield _all("plus-zeros", "+0 alone: one bucket, no codes.", "float32", [0] * 9)
    yield _all("minus-zeros", "-0 alone.", "float32", [1 << 31] * 9)
    yield _numbers("constant", "One value, 700 times: a section of 8 bytes.", [-0.1] * 700, 64)
    yield _numbers("signs", "One negative value among 99: a bucket of its own.", [-0.5, *range(1, 100)], 2)
    yield _numbers("one-positive", "One positive value among 99.", [0.5, *range(-99, 0)], 2)
    negative = [-1.0 - n for n in range(50)]
    yield _numbers("negative", "Negative values have all buckets.", negative, 5)
    many = [0.0] * 60 + [number(n) for n in range(60)]
    yield _numbers("half-zeros", "Half of them +0: a bucket of zeros.", many, 8)
    few = [0.0, *(number(n) for n in range(60))]
    yield _numbers("few-zeros", "A zero shares a bucket with small values.", few, 4)
    yield _numbers("distinct", "Each value its own mean.", [number(n) for n in range(20)], 256)
    ties = [(-2.0, -1.0, 0.5, 3.0)[n * n % 7 % 4] for n in range(90)]
    yield _numbers("ties", "Four values, many times each.", ties, 3)
    wide = [number(n) * 2.0 ** (n * 37 % 200 - 100) for n in range(200)]
    yield _numbers("wide", "Magnitudes far apart: wide cells.", wide, 16)
    near = [1.0 + n * n % 97 * 2.0**-23 for n in range(97)]
    yield _numbers("near", "Magnitudes 2^-23 apart: cells of one key.", near, 8)
    for span in (32_767, 65_535):  # one key more is in the same cells and gives the same bytes
        above = [0, span - 1, span, *(331 * n for n in range(97))]
        bits = [0x3F800000 + n for n in above]
        yield _all(f"span{span}", f"Keys {span} apart: the width of a cell.", "float32", bits, 7)
    for span in (32_766, 32_767, 65_533, 65_534):
        bits = [0x3F800000 + n for n in (0, span - 2, span - 1, span, 7, 9)]
        about = f"Keys {span} apart: cells on either side of the border between two widths."
        yield _all(f"border{span}", about, "float32", bits, 256)
    low = [1 << 31, 0, 1, 2, 3, (1 << 31) + 1, 0x00000400, 0x00800000, 0x3F800000, 0xBF800000]
    yield _all("least", "Zeros and the smallest magnitudes share the first cell.", "float32", low, 6)
    for dtype in TYPES[:3]:
        most = BY_NAME[dtype].infinity - 1
        bits = [most, most | BY_NAME[dtype].sign, most - 1, most, 1, 0]
        yield _all(f"most-{dtype}", "The largest finite numbers.", dtype, bits, 2)
    tiny = [1, 0x8680000000000000, 0x3FF << 52]
    yield _all("tiny-float64", "float64 that binary32 takes for 0.", "float64", tiny)
    order = [number(n) * 2.0 ** (n % 40 - 20) for n in range(200)]
    yield _numbers("order", "A bucket of magnitudes far apart: the order of the sums decides.", order, 2)


def _forms() -> Iterator[Case]:
    yield _numbers("huffman", "Uneven buckets: Huffman code.", _uneven(300), 16)
    about = "40 buckets: 5.4 bits in place of 6."
    yield _numbers("huffman40", about, [number(n * n) for n in range(900)], 40)
    yield _numbers("spans", "Two spans, of codes of one bit.", [-1.5, 2.5] * 2050, 2)


def _uneven(r: int) -> list[float]:
    return [float((n * n + 7 * n) % 128 & -((n * n + 7 * n) % 128) or 3) for n in range(r)]


def _row(dtype: int, r: int, section: bytes) -> bytes:
    return of_values(13, dtype, r, section)


def _section(form: int, means: Sequence[int], body: bytes) -> bytes:
    """Return a section from the bits of means."""
    return struct.pack(f"<BBH{len(means)}I", form, len(means) - 1, 0, *means) + body


def _foreign() -> Iterator[Case]:
    """Yield sections that decode to values from which no exact writer makes them."""
    means = [-3.0, -1.0, -0.0, 0.0, 2.0]
    codes = [n * n % 5 for n in range(30)]
    about = "Means of zero, of either sign; buckets without values."
    yield valid("sketchml-any-means", about, _row(1, 30, write_sketchml_section(means, codes, huffman=False)))
    codes = [0, 1, 1, 2, 4, 4, 4, 4, 4, 4] * 3
    section = write_sketchml_section(means, codes, huffman=True)
    yield valid("sketchml-no-code", "A bucket without a code.", _row(1, 30, section))
    codes = [0, 1, 0, 4, *[3] * 8, 2]
    about = "Huffman codes that are longer than packed ones."
    yield valid("sketchml-longer", about, _row(1, 13, write_sketchml_section(means, codes, huffman=True)))
    about = "256 means, one code."
    section = write_sketchml_section([float(n) for n in range(256)], [255], huffman=False)
    yield valid("sketchml-many-means", about, _row(1, 1, section))
    lengths = [*range(1, 13), 12]
    bits = pack_stream([0] + [1] * 12 + [0], 1, 1)
    body = pack_stream(lengths, 4, 1) + bits
    about = "A code of 12 bits."
    yield valid("sketchml-longest-code", about, _row(1, 3, _section(1, range(13), body)))
    f16 = [2.0**-26, 2.0**-25, 1 + 2.0**-11, 1 + 3 * 2.0**-11, 65504.0]
    section = write_sketchml_section(f16, [0, 1, 2, 3, 4], huffman=False)
    about = "Means that are 0, tie, or are the largest in float16."
    yield valid("sketchml-rounded-float16", about, _row(2, 5, section))
    b16 = [1 + 2.0**-8, 1 + 3 * 2.0**-8, float.fromhex("0x1.fep127")]
    section = write_sketchml_section(b16, [0, 1, 2], huffman=False)
    yield valid("sketchml-rounded-bfloat16", "Means that tie, or are the largest.", _row(3, 3, section))


MEANS = [0xBF800000, 0x00000000, 0x3F800000]
PACKED = _section(0, MEANS, pack_stream([0, 1, 2, 1], 2, 4))
CODED = _section(1, MEANS, pack_stream([1, 2, 2], 4, 1) + pack_stream([0, 1, 0, 1, 1, 1, 0], 1, 1))
"""Values -1, 0, 1, 0."""


def _bad_head() -> Iterator[Case]:
    kind, code = "Malformed", "sketchml-length"
    for n in (1, 3):
        yield bad(f"sketchml-length-{n}", f"{n} bytes.", kind, code, _row(1, 4, b"\xff" * n))
    for id, about, section in (
        ("head", "The head alone.", PACKED[:4]),
        ("means", "Two means of three.", PACKED[:12]),
        ("part", "A byte of the last mean is missing.", PACKED[:15]),
        ("many", "256 buckets, and three means.", patch(PACKED, 1, "B", 255)),
        ("no-codes", "No packed codes.", PACKED[:16]),
        ("short", "One byte is missing.", PACKED[:-1]),
        ("long", "A word too many.", PACKED + bytes(4)),
        ("one", "Codes of one bucket, which have no bits.", _section(0, MEANS[1:2], bytes(4))),
        ("huffman-none", "No lengths of codes.", CODED[:16]),
        ("huffman-short", "One byte of two with lengths.", CODED[:17]),
    ):
        yield bad(f"sketchml-length-{id}", about, kind, code, _row(1, 4, section))
    about = "A packed code is missing, of a block in lanes."
    section = _section(0, MEANS, bytes(128 - 4))
    yield bad("sketchml-length-lanes", about, kind, code, _row(1, 512, section))
    section = CODED[:18] + b"\x00"
    yield bad(
        "sketchml-length-sizes", "One byte of the length of a span.", kind, code, _row(1, 4097, section)
    )
    kind, code = "Malformed", "sketchml-form"
    for form in (2, 255):
        data = _row(1, 4, patch(PACKED, 0, "B", form))
        yield bad(f"sketchml-form-{form}", f"Form {form}.", kind, code, data)
    for reserved in (1, 0x8000):
        data = _row(1, 4, patch(PACKED, 2, "H", reserved))
        yield bad(f"sketchml-reserved-{reserved}", "The reserved bytes are not zero.", kind, code, data)
    about = "Huffman code of one bucket."
    yield bad("sketchml-form-one", about, kind, code, _row(1, 4, _section(1, MEANS[:1], b"\x00")))
    about = "The form is checked before the length."
    yield bad("sketchml-form-first", about, kind, code, _row(1, 4, b"\x02\xff\x00\x00"))


def _bad_means() -> Iterator[Case]:
    kind, code = "Invalid", "sketchml-mean"
    for id, about, dtype, means in (
        ("nan", "NaN.", 1, [0, 0x7FC00000]),
        ("minus-nan", "NaN with a sign.", 1, [0xFFC00000, 0]),
        ("signalling", "A signalling NaN.", 1, [0, 0x7F800001]),
        ("infinite", "Infinity.", 1, [0, 0x7F800000]),
        ("minus-infinite", "-infinity.", 1, [0xFF800000, 0]),
        ("infinite-float64", "Infinity, of float64 elements.", 4, [0, 0x7F800000]),
        ("float16", "The number above 65,504, of float16 elements.", 2, [0, 0x477FE001]),
        ("minus-float16", "The number below -65,504, of float16 elements.", 2, [0xC77FE001, 0]),
        ("bfloat16", "The number above bfloat16's largest.", 3, [0, 0x7F7F0001]),
        ("equal", "The same mean twice.", 1, [0x3F800000, 0x3F800000]),
        ("zeros", "+0 before -0.", 1, [0, 0x80000000]),
        ("falling", "Positive means that fall.", 1, [0x3F800001, 0x3F800000]),
        ("falling-negative", "Negative means that fall.", 1, [0xBF800000, 0xBF800001]),
        ("signs", "A negative mean after a positive one.", 1, [0x3F800000, 0xBF800000]),
    ):
        section = _section(0, means, pack_stream([0, 1, 0, 1], 1, 4))
        yield bad(f"sketchml-mean-{id}", about, kind, code, _row(dtype, 4, section))
    data = _row(1, 4, _section(0, [0x7FC00000], b""))
    yield bad("sketchml-mean-one", "One bucket, whose mean is NaN.", kind, code, data)
    data = _row(1, 4, _section(0, [*range(254), 300, 299], pack_stream([0] * 4, 8, 4)))
    yield bad("sketchml-mean-last", "The last two of 256 means fall.", kind, code, data)
    data = _row(1, 4, _section(0, [1, 1], bytes(5)))
    yield bad("sketchml-mean-first", "Means are checked before the exact length.", kind, code, data)


def _bad_packed() -> Iterator[Case]:
    kind, code = "Malformed", "sketchml-padding"
    for bit in (8, 31):
        section = _section(0, MEANS, struct.pack("<I", 0b01_10_01_00 | 1 << bit))
        yield bad(f"sketchml-padding-{bit}", f"Bit {bit} after four codes.", kind, code, _row(1, 4, section))
    section = _section(0, MEANS, struct.pack("<I", 0b1_01_11_01_00))
    yield bad(
        "sketchml-padding-first", "The padding is checked before codes.", kind, code, _row(1, 4, section)
    )
    kind, code = "Invalid", "sketchml-bucket"
    for at in range(4):
        section = _section(0, MEANS, pack_stream([3 if n == at else 0 for n in range(4)], 2, 4))
        yield bad(f"sketchml-bucket-{at}", f"Value {at} in bucket 3 of 3.", kind, code, _row(1, 4, section))
    section = _section(0, range(200), pack_stream([199, 200], 8, 4))
    yield bad("sketchml-bucket-200", "Bucket 200 of 200.", kind, code, _row(1, 2, section))
    section = _section(0, MEANS, struct.pack("<32I", *[0] * 31, 0xC0000000))
    yield bad(
        "sketchml-bucket-lanes", "The last code of a block in lanes.", kind, code, _row(1, 512, section)
    )


def _coded(lengths: Sequence[int], codes: bytes = b"\x00", odd: int = 0) -> bytes:
    """Return a section of Huffman form; means are 0, 1, 2 … units in the last place."""
    packed = bytearray(pack_stream(lengths, 4, 1))
    packed[-1] |= odd << 4
    return _section(1, range(len(lengths)), bytes(packed) + codes)


def _bad_huffman() -> Iterator[Case]:
    for kind, code, id, about, section in (
        ("Malformed", "sketchml-padding", "lengths", "A bit after three lengths.", _coded([1, 2, 2], odd=1)),
        (
            "Malformed",
            "sketchml-padding",
            "lengths-first",
            "It is checked first.",
            _coded([13, 13, 13], odd=8),
        ),
        ("Malformed", "sketchml-code-length", "13", "A length of 13.", _coded([*range(1, 14), 13])),
        ("Malformed", "sketchml-code-length", "15", "A length of 15.", _coded([1, 1, 15])),
        ("Malformed", "sketchml-code-length", "first", "It is checked before the ends.", _coded([0, 1, 15])),
        ("Malformed", "sketchml-window", "low", "The first bucket has no code.", _coded([0, 1, 1])),
        ("Malformed", "sketchml-window", "high", "The last bucket has no code.", _coded([1, 1, 0])),
        ("Malformed", "sketchml-window", "none", "No bucket has a code.", _coded([0, 0])),
        ("Malformed", "sketchml-window", "before-code", "Checked before the sum.", _coded([0, 1, 1, 1])),
        ("Malformed", "sketchml-code", "over", "Three codes of one bit.", _coded([1, 1, 1])),
        (
            "Malformed",
            "sketchml-code",
            "over-longest",
            "One code word of 12 bits too many.",
            _coded([1, 1, 12]),
        ),
        ("Malformed", "sketchml-code", "under", "Codes of one and of two bits.", _coded([1, 2])),
        ("Malformed", "sketchml-code", "under-longest", "One of 12 bits is free.", _coded([*range(1, 13)])),
        ("Malformed", "sketchml-code", "all-ones", "256 codes of one bit.", _coded([1] * 256)),
    ):
        yield bad(f"{code}-{id}", about, kind, code, _row(1, 4, section))


def _bad_spans() -> Iterator[Case]:
    kind, code = "Malformed", "sketchml-span"
    for id, about, section in (
        ("none", "No codes.", CODED[:18]),
        ("long", "A byte after the codes.", CODED + b"\x00"),
        ("beyond", "The last code runs past the end.", _coded([1, 2, 2], b"\xff")),
        ("first", "The end is checked before the padding.", CODED + b"\x80"),
    ):
        r = 5 if id == "beyond" else 4
        yield bad(f"sketchml-span-{id}", about, kind, code, _row(1, r, section))
    about = "Codes of 12 bits, far past the end of a byte."
    longest = _coded([*range(1, 13), 12], b"\xff")
    yield bad("sketchml-span-far", about, kind, code, _row(1, 4096, longest))
    section = _coded([1, 1], struct.pack("<H", 511) + bytes(513))
    about = "The first of two spans is a byte short."
    yield bad("sketchml-span-inner", about, kind, code, _row(1, 4097, section))
    section = _coded([1, 1], struct.pack("<H", 513) + bytes(514))
    yield bad("sketchml-span-inner-long", "It is a byte too long.", kind, code, _row(1, 4097, section))
    kind, code = "Malformed", "sketchml-length"
    section = _coded([1, 1], struct.pack("<H", 65_535) + bytes(513))
    yield bad("sketchml-span-length", "A span longer than the section.", kind, code, _row(1, 4097, section))
    kind, code = "Malformed", "sketchml-padding"
    section = CODED[:-1] + bytes([CODED[-1] | 0x80])
    yield bad("sketchml-padding-span", "A bit after the last code.", kind, code, _row(1, 4, section))
    section = _coded([1, 1], struct.pack("<H", 512) + bytes(512) + b"\x02")
    yield bad(
        "sketchml-padding-last", "A bit after the codes of the last span.", kind, code, _row(1, 4097, section)
    )
