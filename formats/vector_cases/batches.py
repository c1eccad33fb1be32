"""Several entries of the same codecs, with faults in the first or in all of them, and codecs that differ.

Mutants of decoders that read such entries together led to these cases (tests/fuzz/MUTANTS.md).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from formats.reference import ErrorBounded, Record, Row, Structured, assemble
from formats.reference.floats import BY_NAME
from formats.reference.value.error_bounded_model import BINS, NONE, STATE, frequencies
from formats.reference.value.zstd import REPEATED
from formats.reference.writing.assembly import pad, write_extension_block
from formats.reference.writing.index.huffman import write_huffman
from formats.reference.writing.index.rle import write_rle
from formats.reference.writing.value.error_bounded import push
from formats.reference.writing.value.qsgd import write_qsgd
from formats.reference.writing.value.zstd import write_block_header, write_frame_header
from formats.vector_cases.borders_later import one_lane
from formats.vector_cases.case import Case, bad, spread, valid, values_for, values_of
from formats.vector_cases.parts import index_row, of_index, of_values

RAW, FLOAT16, BFLOAT16, QSGD, BOUNDED, MEAN = 1, 2, 3, 4, 14, 15


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield from _first()
    yield from _raw()
    yield from _qsgd()
    yield from _error_bounded()
    yield from _sections()
    yield from _zstd()
    yield from _indices()
    yield from _places()
    yield from _spans()


def _full(codec: int, sections: Sequence[bytes], dtype: str = "float32", r: int = 3) -> bytes:
    """Return a container of full tensors of r elements, with these value sections."""
    form = BY_NAME[dtype]
    rows = [Row(key, 0, r, r, form.id, 1, codec, b"", section) for key, section in enumerate(sections)]
    return assemble(rows)


def _first() -> Iterator[Case]:
    good = struct.pack("<f", 1)
    about = "The value section of the first of two entries has a byte more."
    data = _full(MEAN, [good + b"\0", good])
    yield bad("several-mean-length-first", about, "Malformed", "mean-length", data)
    about = "The index section of the first of two entries has a byte more."
    data = assemble([index_row(2, 2, 9, bytes([3, 0, 0]), 0), index_row(2, 2, 9, bytes([3, 0]), 1)])
    yield bad("several-bitmap-length-first", about, "Malformed", "bitmap-length", data)


def _raw() -> Iterator[Case]:
    kind, code = "Malformed", "raw-length"
    about = "Each of two entries has 6 bytes for 2 values of 4 bytes."
    yield bad("several-raw-length-all", about, kind, code, _full(RAW, [bytes(6)] * 2, r=2))
    for codec, name in ((FLOAT16, "float16"), (BFLOAT16, "bfloat16")):
        values = values_for(6, name)
        for dtype in ("float32", "float64"):
            about = f"Two entries of {dtype} that are stored as {name}; the second has a signalling NaN."
            odd = values[6:10] + struct.pack("<H", 0x7F81)
            data = _full(codec, [values[:6], odd], dtype)
            yield valid(f"several-raw-{name}-of-{dtype}", about, data)
        for size in (3, 5, 9):
            about = f"Each of two entries has {size} bytes for 3 values of 2 bytes."
            data = _full(codec, [bytes(size)] * 2)
            yield bad(f"several-raw-{name}-length-{size}", about, kind, code, data)
        about = "The second of two entries has a value more."
        data = _full(codec, [values[:6], values[:8]])
        yield bad(f"several-raw-{name}-length", about, kind, code, data)
        about = f"Two entries of float16 that are stored as {name}."
        data = _full(codec, [values[:6], values[6:]], "float16")
        yield bad(f"several-raw-{name}-dtype", about, "Invalid", "raw-dtype", data)


def _qsgd() -> Iterator[Case]:
    form = BY_NAME["float32"]
    good = write_qsgd(values_for(3, "float32"), form, bits=4, bucket=16, norm=0, stream=0)
    kind, code = "Malformed", "qsgd-length"
    about = "Each of two entries ends after its parameters."
    yield bad("several-qsgd-length-all", about, kind, code, _full(QSGD, [good[:8]] * 2))
    about = "The second of two entries ends after its parameters."
    yield bad("several-qsgd-length-last", about, kind, code, _full(QSGD, [good, good[:8]]))
    about = "15 bytes: the section does not consist of words."
    yield bad("qsgd-length-15", about, kind, code, of_values(QSGD, 1, 3, good[:15]))


def _error_bounded() -> Iterator[Case]:
    kind, code = "Malformed", "error-bounded-length"
    zero = bytes(5)
    about = "Two entries of one unchanged element each."
    one = b"\0" + struct.pack("<f", 1)
    yield valid("several-error-bounded-unchanged", about, _full(BOUNDED, [one, one], r=1))
    for id, size in (("less", 6), ("byte", 7), ("more", 9)):
        about = f"The second of two entries has {size} bytes of elements for 2 of 4 bytes."
        data = _full(BOUNDED, [b"\0" + bytes(8), b"\0" + bytes(size)], r=2)
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
        data = _full(BOUNDED, sections, r=1)
        yield bad(f"several-error-bounded-value-{id}", about, "Invalid", "error-bounded-value", data)
    for r, lanes in ((1024, 4), (16_384, 32)):
        section = one_lane(2, b"\0", 255, [(0, False)] * r)
        about = f"Two entries of {r} values, in one lane. They must have {lanes}."
        yield bad(f"several-error-bounded-length-{r}", about, kind, code, _full(BOUNDED, [section] * 2, r=r))
    r = 16_384
    about = "Two entries of 16,384 values whose sections end after the mask."
    head = struct.pack("<B3fI", 1, 1.0, 1.0, 0.5, 0)
    yield bad("several-error-bounded-length-head", about, kind, code, _full(BOUNDED, [head] * 2, r=r))
    kind, code = "Invalid", "error-bounded-code"
    about = "Two entries of 16,384 zeros: 8 of 32 lanes have the right state, and the others that of the end."
    data = _full(BOUNDED, [_zeros(r // 32, 8)] * 2, r=r)
    yield bad("several-error-bounded-code-lanes", about, kind, code, data)
    about = "Two entries of 16,384 zeros; the section of the second has 49,152."
    data = _full(BOUNDED, [_zeros(r // 32), _zeros(3 * r // 32)], r=r)
    yield bad("several-error-bounded-code-count", about, kind, code, data)
    form = BY_NAME["float16"]
    long = ErrorBounded(step=0.75).write_section(
        values_of([1.0 + n % 2 for n in range(r)], "float16"), form, 0
    )
    plain = b"\0" + values_for(3, "float16")
    short = ErrorBounded(step=0.75).write_section(values_of([1.0] * 40, "float16"), form, 0)
    sizes = (r, 3, r, 40)
    for id, second in (("valid", long), ("code", long[:-1] + bytes([long[-1] ^ 1]))):
        sections = (long, plain, second, short)
        rows = [
            Row(key, 0, n, n, form.id, 1, BOUNDED, b"", section)
            for key, (n, section) in enumerate(zip(sizes, sections, strict=True))
        ]
        data = assemble(rows)
        if id == "valid":
            about = "Two entries of 16,384 values in cells, one of unchanged elements, and one of 40 values."
            yield valid("several-error-bounded-lanes", about, data)
        else:
            about = "The same, where the last word of the third entry is another."
            yield bad("several-error-bounded-code", about, "Invalid", "error-bounded-code", data)


def _zeros(steps: int, lanes: int = 32) -> bytes:
    """Return a section of 32 lanes without words, of which the first ``lanes`` hold so many zeros each."""
    f = frequencies([0, *[NONE] * BINS])
    states, words = [STATE], list[int]()
    for _ in range(steps):
        push(states, [(f[0], 0)], words)
    assert not words
    head = struct.pack("<B3fI", 2, 1.0, 1.0, 0.5, 1) + bytes([1, NONE, 0])
    return head + struct.pack("<BI32I", 0, 0, *states * lanes, *[STATE] * (32 - lanes))


def _sections() -> Iterator[Case]:
    head = struct.pack("<BI2fI", 1, 0x7F7FFFFF, 2.0**-126, 1.0, 0)
    section = head + struct.pack("<BII", 57, 0, 0)
    about = "First, step, place and start are the most, or least, that are allowed. The state is not."
    yield bad(
        "error-bounded-state-after-borders",
        about,
        "Invalid",
        "error-bounded-state",
        of_values(BOUNDED, 1, 1, section),
    )
    about = "One value, of which neither a word nor the state tells: the state is that of the end."
    section = struct.pack("<B3fIBII", 1, 1.0, 1.0, 0.5, 0, 0, 0, 2**16)
    yield bad(
        "error-bounded-code-at-end", about, "Invalid", "error-bounded-code", of_values(BOUNDED, 1, 1, section)
    )
    about = "5 bytes: the section does not consist of words."
    yield bad("rice-length-5", about, "Malformed", "rice-length", of_index(3, 2, 9, bytes(5)))
    f = frequencies([0, *[NONE] * (BINS - 1), 16])
    states, words = [STATE] * 4, list[int]()
    for lanes in (1, *[4] * 1024):
        push(states, [(f[0], 0)] * lanes, words)
    section = struct.pack("<B3fI", 2, 1.0, 1.0, 0.5, 1) + bytes([1, 16, 0])
    section += struct.pack(f"<BI4I{len(words)}H", 0, len(words), *states, *words)
    about = "4097 zeros, and a row that has the level of the escape."
    yield valid("error-bounded-row-long", about, of_values(BOUNDED, 1, 4097, section))


def _indices() -> Iterator[Case]:
    """Yield entries of three forms: two that kernels for many tensors read, and one that they leave out."""
    few, runs = spread(7, 90, 1), [*range(3, 30), *range(50, 61)]
    every, dense = range(1, 262, 2), [*range(4099)]
    sections = {
        "structured": (
            Structured(0, False).write_section(few, 90),
            Structured(2, False).write_section(few, 90),
            Structured(0, False).write_section(runs, 90),
        ),
        "rle": (write_rle(few), write_rle(every), write_rle(runs)),
        "huffman": (write_huffman(few, 90), write_huffman(dense, 5000), write_huffman(runs, 90)),
        "huffman-keys": (write_huffman(few, 90), write_huffman(few, 90, keys=True), write_huffman(runs, 90)),
    }
    others = {"rle": (every, 262), "huffman": (dense, 5000)}
    for name, (plain, other, last) in sections.items():
        codec = {"structured": 10, "rle": 4}.get(name, 6)
        r, d = len(others[name][0]) if name in others else 7, others[name][1] if name in others else 90
        parts = ((7, 90, plain), (r, d, other), (7, 90, plain), (38, 90, last), (r, d, other))
        about = f"Entries of {name} in three forms, of which two are often read together."
        yield valid(f"several-{name}", about, _indexed(codec, parts))
        about = f"Two entries of {name} that are often not read together."
        yield valid(f"several-{name}-others", about, _indexed(codec, parts[1:2] * 2))
        code = "huffman-span" if codec == 6 else f"{name}-length"
        for at in range(3):
            bad_parts = [(*part[:2], part[2] + b"\0" * (n == at)) for n, part in enumerate(parts)]
            about = f"The same, where entry {at} has a byte more."
            data = _indexed(codec, bad_parts)
            yield bad(f"several-{name}-length-{at}", about, "Malformed", code, data)


def _places() -> Iterator[Case]:
    """Yield a container with other valid sections where a reader might look that takes words for bytes."""
    plain = index_row(10, 7, 90, Structured(0, False).write_section(spread(7, 90, 1), 90))
    bitmap, other = (Structured(2, False).write_section(spread(7, 90, salt), 90) for salt in (2, 3))
    rows = [plain, index_row(10, 7, 90, bitmap, 1)]
    tag, last = bytearray(512), bytearray(192)
    at_tag = 24 + 3 * 40 + 16
    at = at_tag + len(tag) + len(pad(plain.index_section)) + len(pad(plain.value_section))
    at_last = at + len(pad(bitmap)) + len(pad(plain.value_section))
    for part, place in (
        (tag, at // 4 * 3 - at_tag),
        (tag, at // 4 + 4 - at_tag),
        (last, at // 4 * 5 - at_last),
    ):
        assert place >= 0
        part[place : place + len(other)] = other
    rows.append(Row(2, 0, 48, 48, 1, 1, RAW, value_section=bytes(last)))
    data = assemble(rows, write_extension_block([Record(5, 0, bytes(tag))]))
    assert data[at : at + len(bitmap)] == bitmap
    about = (
        "A bitmap, and others at three quarters and at five quarters of its place, and at a quarter plus 4."
    )
    yield valid("several-structured-places", about, data, tag=bytes(tag))


def _indexed(codec: int, parts: Sequence[tuple[int, int, bytes]]) -> bytes:
    """Return a container of entries, each with r, d and an index section."""
    ones = struct.pack("<f", 1)
    rows = [Row(key, 0, d, r, 1, codec, MEAN, section, ones) for key, (r, d, section) in enumerate(parts)]
    return assemble(rows)


def _zstd() -> Iterator[Case]:
    size, window = 4096, 1024
    frame = write_frame_header(size, window=0)
    for last, repeats in (*[(False, window)] * (size // window), (False, 1), (True, 0)):
        frame += write_block_header(last, REPEATED, repeats) + b"\1"
    about = "A block of one byte after the content of 4096 bytes, and an empty one."
    data = of_values(7, 1, size // 4, b"\0" + frame)
    yield bad("zstd-content-block-more", about, "Malformed", "zstd-content", data)


def _spans() -> Iterator[Case]:
    d, long = 8194, b"\0"  # the symbol has no bits, so a span of a byte does not end in its last byte
    for id, about, code, r, bases, sizes, more in (
        (
            "range-before-span",
            "The second span exceeds the chunk, and the third has a byte more.",
            "index-range",
            8193,
            (d - 1, d),
            (0, 0),
            long,
        ),
        (
            "span-before-range",
            "The first span has a byte more, and the second exceeds the chunk.",
            "huffman-span",
            4097,
            (d,),
            (1,),
            long,
        ),
        (
            "span-at-range",
            "The second span has a byte more, and its index is d.",
            "huffman-span",
            4097,
            (d,),
            (0,),
            long,
        ),
    ):
        section = bytes(3) + struct.pack(f"<{len(bases)}I{len(sizes)}H", *bases, *sizes) + more
        kind = "Invalid" if code == "index-range" else "Malformed"
        yield bad(f"huffman-{id}", about, kind, code, _indexed(6, [(r, d, section)]))
