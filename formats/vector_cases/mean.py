"""mean: numbers of every element type, and each check of the page."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from formats.reference import Mean, Rice, Tensor
from formats.reference.floats import BY_NAME, pack_elements
from formats.vector_cases.case import Case, bad, exact, number, sparse, spread, valid, values_of
from formats.vector_cases.parts import of_values


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield from _valid()
    yield from _foreign()
    yield from _bad()


def _all(id: str, about: str, dtype: str, bits: Sequence[int]) -> Case:
    """Return a tensor of one dimension, with every element present, from the elements' bits."""
    size = len(bits)
    t = Tensor("0", dtype, (size,), range(size), pack_elements(list(bits), BY_NAME[dtype].itemsize))
    return exact(f"mean-{id}", about, [t], value=Mean())


def _valid() -> Iterator[Case]:
    for dtype in ("float32", "float16", "bfloat16", "float64"):
        t = sparse("0", 40, spread(37, 40), dtype)
        yield exact(f"mean-{dtype}", f"{dtype} elements.", [t], "bitmap", Mean())
        yield exact(f"mean-{dtype}-r1", "One value.", [sparse("0", 40, [7], dtype)], "raw-index", Mean())
    for r in (2, 63, 64, 65, 129):
        t = sparse("0", r + 1, range(r), first=5 * r)
        yield exact(f"mean-r{r}", f"{r} values.", [t], "bitmap", Mean())
    ones = Tensor("0", "float32", (1000,), spread(100, 1000), values_of([1.0] * 100, "float32"))
    yield exact("mean-ones", "A set of indices: 100 times 1.", [ones], Rice(), Mean())
    third = 0x3FD5555555555555
    yield _all("alike-float64", "Alike: no sum that would round.", "float64", [third] * 49)
    yield _all("minus-zero", "-0, thrice.", "float32", [1 << 31] * 3)
    yield _all("zeros", "Zeros of either sign sum to +0.", "float32", [0, 1 << 31, 0])
    most = BY_NAME["float64"].infinity - 1
    yield _all("most-float64", "A sum beyond binary64: taken of v · 2^-64.", "float64", [most, most, 1])
    least = [most | 1 << 63, most | 1 << 63, most]
    yield _all("least-float64", "A sum beyond binary64 below zero.", "float64", least)
    order = values_of([number(n) * 2.0 ** (n % 40 - 20) for n in range(200)], "float32")
    t = Tensor("0", "float32", (200,), range(200), order)
    yield exact("mean-order", "Values far apart: the order of the sum decides.", [t], value=Mean())


def _row(dtype: int, section: bytes, r: int = 9) -> bytes:
    return of_values(15, dtype, r, section)


def _foreign() -> Iterator[Case]:
    about = "-0: a mean that no sum gives."
    yield valid("mean-foreign-minus-zero", about, _row(1, struct.pack("<f", -0.0)))
    about = "A mean that is subnormal in bfloat16, rounded to even."
    yield valid("mean-subnormal-bfloat16", about, _row(3, struct.pack("<I", 0x00018000)))
    about = "A mean halfway between two numbers of float16."
    yield valid("mean-halfway-float16", about, _row(2, struct.pack("<f", 1 + 2.0**-11)))
    about = "The smallest number of float16 elements."
    yield valid("mean-least-float16", about, _row(2, struct.pack("<f", -65504.0)))


def _bad() -> Iterator[Case]:
    kind, code = "Malformed", "mean-length"
    for id, about, dtype, section in (
        ("short", "Three bytes.", 1, bytes(3)),
        ("long", "Five bytes.", 1, bytes(5)),
        ("narrow", "A binary32 mean of float64 elements.", 4, bytes(4)),
        ("wide", "A binary64 mean of float16 elements.", 2, bytes(8)),
    ):
        yield bad(f"mean-length-{id}", about, kind, code, _row(dtype, section))
    kind, code = "Invalid", "mean-number"
    for id, about, dtype, word in (
        ("nan", "NaN.", 1, 0x7FC00000),
        ("minus-nan", "NaN with a sign.", 1, 0xFFC00000),
        ("infinite", "Infinity.", 1, 0x7F800000),
        ("minus-infinite", "-infinity.", 1, 0xFF800000),
        ("float16", "The number above 65,504, of float16 elements.", 2, 0x477FE001),
        ("minus-float16", "The number below -65,504, of float16 elements.", 2, 0xC77FE001),
        ("bfloat16", "The number above bfloat16's largest.", 3, 0x7F7F0001),
    ):
        yield bad(f"mean-number-{id}", about, kind, code, _row(dtype, struct.pack("<I", word)))
    section = struct.pack("<Q", 0x7FF0000000000000)
    yield bad("mean-number-float64", "Infinity, of float64 elements.", kind, code, _row(4, section))
