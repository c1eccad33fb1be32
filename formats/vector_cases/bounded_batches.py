"""Several entries of error-bounded: unchanged elements, and cells in all numbers of lanes.

Mutants of a decoder that reads such entries together led to these cases (tests/fuzz/MUTANTS.md).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from formats.reference import ErrorBounded, Row, assemble
from formats.reference.floats import BY_NAME
from formats.reference.value.error_bounded_model import BINS, NONE, STATE, frequencies
from formats.reference.writing.value.error_bounded import push
from formats.vector_cases.batches import RAW, full_tensors
from formats.vector_cases.borders_later import one_lane
from formats.vector_cases.case import Case, bad, valid, values_for, values_of

BOUNDED = 14


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield from _unchanged()
    yield from _lanes()


def _unchanged() -> Iterator[Case]:
    kind, code = "Malformed", "error-bounded-length"
    zero = bytes(5)
    about = "Two entries of one unchanged element each."
    one = b"\0" + struct.pack("<f", 1)
    yield valid("several-error-bounded-unchanged", about, full_tensors(BOUNDED, [one, one], r=1))
    for id, size in (("less", 6), ("byte", 7), ("more", 9)):
        about = f"The second of two entries has {size} bytes of elements for 2 of 4 bytes."
        data = full_tensors(BOUNDED, [b"\0" + bytes(8), b"\0" + bytes(size)], r=2)
        yield bad(f"several-error-bounded-length-{id}", about, kind, code, data)
    rows = [
        *(Row(key, 0, 1, 1, 1, 1, BOUNDED, b"", one) for key in range(2)),
        Row(2, 0, 20, 20, 1, 1, RAW, b"", bytes(80)),
        *(Row(key, 0, 9, 0, 1, 1, RAW) for key in range(3, 6)),
    ]
    about = "The same, and zero bytes at three quarters, and at five quarters, of their places."
    yield valid("several-error-bounded-places", about, assemble(rows))
    rows = [
        Row(0, 0, 9, 0, 1, 1, RAW),
        *(Row(key, 0, 1, 1, 1, 1, BOUNDED, b"", one) for key in (1, 2)),
        Row(3, 0, 9, 0, 1, 1, RAW),
    ]
    about = "The same, and zero bytes at a quarter of their places plus 4."
    yield valid("several-error-bounded-places-quarter", about, assemble(rows))
    infinite = b"\0" + struct.pack("<I", 0x7F800000)
    for id, sections in (("first", [infinite, zero]), ("last", [zero, infinite])):
        about = f"An element is infinite: the {id} of two entries."
        data = full_tensors(BOUNDED, sections, r=1)
        yield bad(f"several-error-bounded-value-{id}", about, "Invalid", "error-bounded-value", data)


def _lanes() -> Iterator[Case]:
    kind, code = "Malformed", "error-bounded-length"
    for r, lanes in ((1024, 4), (16_384, 32)):
        section = one_lane(2, b"\0", 255, [(0, False)] * r)
        about = f"Two entries of {r} values, in one lane. They must have {lanes}."
        yield bad(
            f"several-error-bounded-length-{r}", about, kind, code, full_tensors(BOUNDED, [section] * 2, r=r)
        )
    r = 16_384
    about = "Two entries of 16,384 values whose sections end after the mask."
    head = struct.pack("<B3fI", 1, 1.0, 1.0, 0.5, 0)
    yield bad("several-error-bounded-length-head", about, kind, code, full_tensors(BOUNDED, [head] * 2, r=r))
    kind, code = "Invalid", "error-bounded-code"
    about = "Two entries of 16,384 zeros: 8 of 32 lanes have the right state, and the others that of the end."
    data = full_tensors(BOUNDED, [_zeros(r // 32, 8)] * 2, r=r)
    yield bad("several-error-bounded-code-lanes", about, kind, code, data)
    about = "Two entries of 16,384 zeros; the section of the second has 49,152."
    data = full_tensors(BOUNDED, [_zeros(r // 32), _zeros(3 * r // 32)], r=r)
    yield bad("several-error-bounded-code-count", about, kind, code, data)
    form = BY_NAME["float16"]
    long = ErrorBounded(step=0.75).write_section(
        values_of([1.0 + n % 2 for n in range(r)], "float16"), form, 0
    )
    plain = b"\0" + values_for(3, "float16")
    short = ErrorBounded(step=0.75).write_section(values_of([1.0] * 40, "float16"), form, 0)
    sizes = (r, 3, r, 40)
    sections = [long, plain, long, short]
    about = "Two entries of 16,384 values in cells, one of unchanged elements, and one of 40 values."
    yield valid("several-error-bounded-lanes", about, _mixed(sizes, sections))
    sections[2] = long[:-1] + bytes([long[-1] ^ 1])
    about = "The same, where the last word of the third entry is another."
    yield bad("several-error-bounded-code", about, kind, code, _mixed(sizes, sections))


def _mixed(sizes: Sequence[int], sections: Sequence[bytes]) -> bytes:
    """Return a container of full float16 tensors of these sizes."""
    parts = enumerate(zip(sizes, sections, strict=True))
    form = BY_NAME["float16"]
    return assemble([Row(key, 0, n, n, form.id, 1, BOUNDED, b"", section) for key, (n, section) in parts])


def _zeros(steps: int, lanes: int = 32) -> bytes:
    """Return a section of 32 lanes without words, of which the first ``lanes`` hold so many zeros each."""
    f = frequencies([0, *[NONE] * BINS])
    states, words = [STATE], list[int]()
    for _ in range(steps):
        push(states, [(f[0], 0)], words)
    assert not words
    head = struct.pack("<B3fI", 2, 1.0, 1.0, 0.5, 1) + bytes([1, NONE, 0])
    return head + struct.pack("<BI32I", 0, 0, *states * lanes, *[STATE] * (32 - lanes))
