"""Several entries of the same codecs, with faults in the first or in all of them, and codecs that differ.

Mutants of decoders that read such entries together led to these cases (tests/fuzz/MUTANTS.md).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from formats.reference import Record, Row, Structured, assemble
from formats.reference.floats import BY_NAME
from formats.reference.writing.assembly import pad, write_extension_block
from formats.reference.writing.index.huffman import write_huffman
from formats.reference.writing.index.rle import write_rle
from formats.reference.writing.value.qsgd import write_qsgd
from formats.vector_cases.case import Case, bad, spread, valid, values_for
from formats.vector_cases.parts import index_row

RAW, FLOAT16, BFLOAT16, QSGD, MEAN = 1, 2, 3, 4, 15


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield from _first()
    yield from _raw()
    yield from _qsgd()
    yield from _indices()
    yield from _places()


def full_tensors(codec: int, sections: Sequence[bytes], dtype: str = "float32", r: int = 3) -> bytes:
    """Return a container of full tensors of r elements, with these value sections."""
    form = BY_NAME[dtype]
    rows = [Row(key, 0, r, r, form.id, 1, codec, b"", section) for key, section in enumerate(sections)]
    return assemble(rows)


def _first() -> Iterator[Case]:
    good = struct.pack("<f", 1)
    about = "The value section of the first of two entries has a byte more."
    data = full_tensors(MEAN, [good + b"\0", good])
    yield bad("several-mean-length-first", about, "Malformed", "mean-length", data)
    about = "The index section of the first of two entries has a byte more."
    data = assemble([index_row(2, 2, 9, bytes([3, 0, 0]), 0), index_row(2, 2, 9, bytes([3, 0]), 1)])
    yield bad("several-bitmap-length-first", about, "Malformed", "bitmap-length", data)


def _raw() -> Iterator[Case]:
    kind, code = "Malformed", "raw-length"
    about = "Each of two entries has 6 bytes for 2 values of 4 bytes."
    yield bad("several-raw-length-all", about, kind, code, full_tensors(RAW, [bytes(6)] * 2, r=2))
    for codec, name in ((FLOAT16, "float16"), (BFLOAT16, "bfloat16")):
        values = values_for(6, name)
        for dtype in ("float32", "float64"):
            about = f"Two entries of {dtype} that are stored as {name}; the second has a signalling NaN."
            odd = values[6:10] + struct.pack("<H", 0x7F81)
            data = full_tensors(codec, [values[:6], odd], dtype)
            yield valid(f"several-raw-{name}-of-{dtype}", about, data)
        for size in (3, 5, 9):
            about = f"Each of two entries has {size} bytes for 3 values of 2 bytes."
            data = full_tensors(codec, [bytes(size)] * 2)
            yield bad(f"several-raw-{name}-length-{size}", about, kind, code, data)
        about = "The second of two entries has a value more."
        data = full_tensors(codec, [values[:6], values[:8]])
        yield bad(f"several-raw-{name}-length", about, kind, code, data)
        about = f"Two entries of float16 that are stored as {name}."
        data = full_tensors(codec, [values[:6], values[6:]], "float16")
        yield bad(f"several-raw-{name}-dtype", about, "Invalid", "raw-dtype", data)


def _qsgd() -> Iterator[Case]:
    form = BY_NAME["float32"]
    good = write_qsgd(values_for(3, "float32"), form, bits=4, bucket=16, norm=0, stream=0)
    kind, code = "Malformed", "qsgd-length"
    about = "Each of two entries ends after its parameters."
    yield bad("several-qsgd-length-all", about, kind, code, full_tensors(QSGD, [good[:8]] * 2))
    about = "The second of two entries ends after its parameters."
    yield bad("several-qsgd-length-last", about, kind, code, full_tensors(QSGD, [good, good[:8]]))


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
