"""Several entries of the same codecs: a reader that decodes them together gives what it gives one by one.

Each fault is in the second of four entries, and the others are valid.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace

from formats.reference import Record, Rice, Row, assemble, reseal
from formats.reference.floats import BY_NAME, Format
from formats.reference.writing.assembly import write_extension_block
from formats.reference.writing.value.qsgd import write_qsgd
from formats.vector_cases.case import Case, bad, patch, spread, valid, values_for
from formats.vector_cases.parts import index_row

RICE, RAW, QSGD = 3, 1, 4
SIZES = ((1, 9), (3, 40), (7, 100), (5, 5), (0, 3), (6, 65))
"""(r, d) of the entries: rice sections of several lengths, a full support and an empty one."""
R, D = SIZES[1]
AT = 24 + 40 * 4
"""Offset of the payload of a container with four entries."""


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield from _valid()
    yield from _mixed()
    yield from _damaged()
    yield from _bad_sections()


def _rice(r: int, d: int) -> bytes:
    return Rice().write_section(spread(r, d), d) if 0 < r < d else b""


def _value(codec: int, r: int, form: Format, bits: int = 4, bucket: int = 16) -> bytes:
    values = values_for(r, form.name, r)
    if codec == RAW or not r:
        return values
    return write_qsgd(values, form, bits=bits, bucket=bucket, norm=0, stream=7)


def _row(key: int, codec: int, form: Format, r: int, d: int, **options: int) -> Row:
    section = _value(codec, r, form, **options)
    return Row(key, 0, d, r, form.id, RICE, codec, _rice(r, d), section)


def _valid() -> Iterator[Case]:
    for codec, name in ((RAW, "raw"), (QSGD, "qsgd")):
        for form in BY_NAME.values():
            rows = [_row(key, codec, form, r, d) for key, (r, d) in enumerate(SIZES)]
            about = f"Six entries of rice and {name}, {form.name}."
            yield valid(f"several-{name}-{form.name}", about, assemble(rows))
    form = BY_NAME["float32"]
    bits = [_row(key, QSGD, form, 20, 50, bits=2 + key, bucket=16 << key % 3) for key in range(7)]
    yield valid("several-qsgd-bits", "Entries of qsgd with 2 to 8 bits, and several buckets.", assemble(bits))
    full = [_row(key, codec, form, r, r) for key, (codec, r) in enumerate(((RAW, 3), (QSGD, 5)) * 3)]
    yield valid("several-full", "Full supports, of raw and of qsgd in turn.", assemble(full))


def _mixed() -> Iterator[Case]:
    form = BY_NAME["float16"]
    rows = [_row(key, (RAW, QSGD)[key % 2], form, r, d) for key, (r, d) in enumerate(SIZES * 2)]
    rows[3] = index_row(2, 3, 10, b"\x0d\0", 3)
    rows[6] = replace(rows[6], dtype=1, value_section=values_for(rows[6].r, "float32"))
    about = "Twelve entries: two value codecs in turn, a bitmap, and a float32 tensor among float16 ones."
    yield valid("several-mixed", about, assemble(rows))
    plain = Row(0, 0, 100, 2, 1, RICE, RAW, _rice(2, 100), values_for(2, "float32"))
    dct = Row(1, 0, 4, 1, 0x21, RICE, RAW, _rice(1, 4), values_for(1, "float32"))
    block = write_extension_block([Record(4, 1, struct.pack("<IIQ", 1, 0, 4))])
    data = assemble([plain, dct], block)
    about = "A plain tensor stores 2 of 100 elements, a transformed one all 4."
    yield valid("dct-max-elements-beside-plain", about, data, limits={"max_elements": 6}, within=(0.0, 1e-5))
    yield bad(
        "dct-max-elements-beside-plain-5",
        "The same, where 5 elements are allowed.",
        "LimitExceeded",
        "max-elements",
        data,
        limits={"max_elements": 5},
    )


def _four(row: Row, codec: int = RAW) -> bytes:
    """Return a container of four entries, of which this is the second."""
    form = BY_NAME["float32"]
    rows = [_row(key, codec, form, 2 + key, 30 + key) for key in range(4)]
    rows[1] = replace(row, key=1)
    return assemble(rows)


def _damaged() -> Iterator[Case]:
    kind, code = "ChecksumMismatch", "entry-checksum"
    good = _row(1, RAW, BY_NAME["float16"], 3, 40)
    rows = [replace(good, key=key) for key in range(4)]
    whole = assemble(rows)
    step = (len(whole) - AT) // 4
    for id, offset in (("index", 4), ("value", 16), ("padding", step - 1), ("last", 4 * step - step - 1)):
        data = patch(whole, AT + step + offset, "B", whole[AT + step + offset] ^ 1)
        yield bad(f"several-checksum-{id}", f"A bit of an entry: {id}.", kind, code, data)
    kind, code = "Malformed", "padding"
    index = len(good.index_section)
    for id, offset in (
        ("index", index),
        ("index-last", index + 3),
        ("value", step - 2),
        ("value-last", step - 1),
    ):
        data = reseal(patch(whole, AT + step + offset, "B", 0x80))
        yield bad(
            f"several-padding-{id}", f"Padding of the second entry is not zero: {id}.", kind, code, data
        )
    for r in (1, 2, 3):
        entry = _row(1, RAW, BY_NAME["float16"], r, r)
        rows = [replace(entry, key=key) for key in range(4)]
        data = reseal(patch(assemble(rows), AT + 8 + 2 * r, "B", 1))
        about = f"The first of {8 - 2 * r} bytes of padding is not zero."
        yield bad(f"several-padding-{8 - 2 * r}", about, kind, code, data)


def _bad_sections() -> Iterator[Case]:
    form = BY_NAME["float32"]
    good = _row(1, RAW, form, R, D)
    words = good.index_section
    for code, kind, section in (
        ("rice-length", "Malformed", words[:4]),
        ("rice-length", "Malformed", words + b"\0"),
        ("rice-padding", "Malformed", patch(words, 0, "B", words[0] | 0x20)),
        ("rice-parameter", "Malformed", patch(words, 0, "B", 25)),
        ("rice-unary", "Malformed", words + bytes(4)),
        ("rice-unary", "Malformed", patch(words, len(words) - 4, "I", 1)),
        ("index-range", "Invalid", struct.pack("<4I", 3, 0x1FF, 7 << 20, 0)[:12]),
    ):
        data = _four(replace(good, index_section=section))
        id = f"several-{code}-{len(section)}" if code != "rice-unary" else f"several-{code}-{section[-4]}"
        yield bad(id, f"The second of four entries is invalid: {code}.", kind, code, data)
    for size in (4 * R - 4, 4 * R + 4, 4 * R - 1):
        data = _four(replace(good, value_section=bytes(size)))
        about = f"The second of four entries has {size} bytes for {R} values."
        yield bad(f"several-raw-length-{size}", about, "Malformed", "raw-length", data)

    good = _row(1, QSGD, form, 20, 50)
    section = good.value_section
    for id, code, kind, wrong in (
        ("short", "qsgd-length", "Malformed", section[:4]),
        ("bits-1", "qsgd-parameter", "Malformed", patch(section, 0, "B", 1)),
        ("bits-9", "qsgd-parameter", "Malformed", patch(section, 0, "B", 9)),
        ("norm", "qsgd-parameter", "Malformed", patch(section, 1, "B", 2)),
        ("reserved", "qsgd-parameter", "Malformed", patch(section, 2, "B", 1)),
        ("bucket-0", "qsgd-parameter", "Malformed", patch(section, 4, "I", 0)),
        ("bucket-24", "qsgd-parameter", "Malformed", patch(section, 4, "I", 24)),
        ("bucket-most", "qsgd-parameter", "Malformed", patch(section, 4, "I", 2**24 + 16)),
        ("cut", "qsgd-length", "Malformed", section[:-4]),
        ("long", "qsgd-length", "Malformed", section + bytes(4)),
        ("nan", "qsgd-scale", "Invalid", patch(section, 8, "I", 0x7FC00000)),
        ("minus", "qsgd-scale", "Invalid", patch(section, 12, "I", 0x80000000)),
        ("small", "qsgd-scale", "Invalid", patch(section, 8, "I", 0x0D7FFFFF)),
        ("stray", "qsgd-padding", "Malformed", section[:-1] + bytes([section[-1] | 0x80])),
        ("code", "qsgd-code", "Invalid", patch(section, 16, "B", 0xFF)),
        ("zero", "qsgd-code", "Invalid", patch(section, 8, "I", 0)),
    ):
        about = f"The second of four entries is invalid: {code}."
        yield bad(f"several-{code}-{id}", about, kind, code, _four(replace(good, value_section=wrong), QSGD))
    half = BY_NAME["float16"]
    rows = [_row(key, QSGD, half, 20, 50) for key in range(4)]
    rows[1] = replace(rows[1], value_section=patch(rows[1].value_section, 8, "I", 0x477FE001))
    about = "A scale above the largest float16, in the second of four entries."
    yield bad("several-qsgd-scale-float16", about, "Invalid", "qsgd-scale", assemble(rows))
