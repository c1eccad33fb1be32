"""Borders found after the release of version 1.0, by mutants that no vector noticed.

Among them are states, weights and probabilities of the entropy coders that differ by one unit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from formats.reference import Context, ErrorBounded, Mean, Record, Row, assemble, reseal, write
from formats.reference.floats import BY_NAME
from formats.reference.index.bloom import element_bits
from formats.reference.value.error_bounded_model import BINS, NONE, STATE, frequencies
from formats.reference.value.zstd import REPEATED, STORED
from formats.reference.writing.assembly import write_extension_block
from formats.reference.writing.records import write_fused, write_names, write_shape
from formats.reference.writing.value.error_bounded import Op, push
from formats.reference.writing.value.qsgd import write_qsgd
from formats.reference.writing.value.zstd import write_block_header, write_frame_header
from formats.vector_cases.case import (
    UNKNOWN_RECORD,
    Case,
    bad,
    patch,
    sparse,
    spread,
    valid,
    values_for,
    values_of,
)
from formats.vector_cases.parts import of_index, of_values, ones

ROWS = (
    *(
        "3d0025 1",
        "07201c00 1",
        "012522 0",
        "25010102 1",
        "25010102 1",
        "02311225 0",
        "3a1503 1",
        "14033e09 1",
    ),
    *("000435 0", "20043c13 1", "1e000505 1", "053a00 1", "3b1e062f 1", "272a06 1", "3c070b 1", "2625073d 0"),
    *("2c2508 0", "0201082c 1", "08093c24 0", "093625 0", "053f0a 0", "330a1e12 1", "1e3b090b 2", "070b3c 0"),
    *("090c211a 0", "1b0d1a0c 0", "1b1c0e0d 1", "1417070d 1", "0e233231 0", "162f080e 0", "1c130f28 1"),
    "2c330f 1",
)
"""Levels, and a symbol whose frequency or start changes if one of 16 weights is one unit more, or less."""
SIGN: Op = (2048, 0)
"""A sign that repeats the previous one, at its initial probability."""


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield from _error_bounded()
    yield from _index()
    yield from _records()
    yield from _error_bounded_checks()
    yield from _words()
    yield from _zstd()
    yield from _spans()


def _error_bounded() -> Iterator[Case]:
    entries = []
    for key, row in enumerate(ROWS):
        text, symbol = row.split()
        section = one_lane(1, bytes.fromhex(text), 255, [(int(symbol), True)])
        entries.append(Row(key, 0, 1, 1, 1, 1, 14, value_section=section))
    about = "Rows whose frequencies change if one of 16 weights is one unit more, or one less."
    yield valid("error-bounded-weights", about, assemble(entries))

    weak = bytes([254, *[0] * 7])
    section = one_lane(2, weak, 0, [(0, False), (5, True)])
    assert struct.unpack_from("<I", section, 17 + 2 + 8 + 5) == (STATE,)
    about = "The state at the start of the block is 2^16, its least value."
    yield valid("error-bounded-state-least", about, of_values(14, 1, 2, section))
    at = 17 + 2 + 8 + 5
    section = section[:at] + struct.pack("<I", STATE - 1) + section[at + 4 :]
    about = "The same block with a state that is one less."
    yield bad(
        "error-bounded-state-below", about, "Invalid", "error-bounded-state", of_values(14, 1, 2, section)
    )

    form = BY_NAME["float16"]
    for r, lanes in ((16_383, 4), (16_384, 32)):
        values = values_of([1.0 + n % 2 for n in range(r)], "float16")
        section = ErrorBounded(step=0.75).write_section(values, form, 0)
        about = f"{r} values, in {lanes} lanes."
        yield valid(f"error-bounded-lanes-{r}", about, of_values(14, form.id, r, section))


def _index() -> Iterator[Case]:
    d = 200_000
    t = sparse("0", d, [i for i in range(d) if i not in (26, 30, 34)], "float16")
    t.values = b"\0\x3c" * (d - 3)
    data = write([t], Context(0), Mean(), names=False)
    about = "Three elements are absent, so delta is above its upper limit. One unit of it changes the code."
    yield valid("context-density-most", about, data)
    d = 3 * 128 + 20
    data = write([ones(d, [100, d - 1])], Context(128), Mean(), names=False)
    about = "The last row ends within a block: the last element is promised, and takes no bit."
    yield valid("context-foreign-row-cut", about, data)
    about = "33 low bits take two words, so two words have no room for the high bits."
    data = of_index(7, 33, 99, bytes(8))
    yield bad("elias-fano-length-33", about, "Malformed", "elias-fano-length", data)
    section = bytes([0b101_00_1_00, 4, 2])
    about = "All grains are listed under complement: the first part and the last part are present."
    yield valid("structured-foreign-complement-whole", about, of_index(10, 3, 11, section))

    about = "Policy p2: the lengths of the doubtful lists have the sum 5·300 + 4096, the greatest."
    yield valid("bloom-conflicts-most", about, _p2(596))
    about = "Policy p2: the sum is one more than 5·300 + 4096."
    yield bad("bloom-conflicts-more", about, "Invalid", "bloom-conflicts", _p2(156))


def _p2(salt: int) -> bytes:
    """Return a container with a filter of 300 of 1200 elements; ``salt`` selects them."""
    r, d, k, length = 300, 1200, 10, 160
    bits = 0
    for x in spread(r, d, salt):
        for bit in element_bits(x, k, length):
            bits |= 1 << bit
    header = struct.pack("<QIBBH", 7, r, k, 3, 0)
    return of_index(9, r, d, header + bits.to_bytes(length, "little"))


def _records() -> Iterator[Case]:
    shapes = Record(3, 0, write_shape(0, (1,) * 30) + write_shape(1, (1, 3)))
    rows = [Row(0, 0, 1, 0, 1, 1, 1), Row(1, 0, 3, 0, 1, 1, 1)]
    for id, what, names in (
        ("order", "The names do not ascend", [b"b", b"a"]),
        ("twice", "One name twice", [b"a", b"a"]),
        ("utf8", "A name is not UTF-8", [b"a", b"\xff"]),
    ):
        block = write_extension_block([Record(2, 0, write_names(names)), shapes])
        data = assemble(rows, block)
        about = f"{what}, beside a shape of 30 dimensions."
        yield bad(f"names-{id}-beside-shapes", about, "Invalid", "names", data)
    block = write_extension_block([Record(2, 0, write_names([b"a", b"b"])), shapes])
    about = "Two names beside a shape of 30 dimensions."
    yield valid("names-beside-shapes", about, assemble(rows, block))
    body = write_fused([[(0, 1), (1, 2)]]) + struct.pack("<II", 2, 2)[:7]
    block = write_extension_block([Record(1, 1, b"\3" + body[1:])])
    about = "The second of three groups ends after seven bytes, before its members."
    data = assemble([Row(0, 0, 3, 0, 1, 1, 1)], block)
    yield bad("fused-record-cut-7", about, "Malformed", "fused-record", data)
    block = write_extension_block([Record(3, 0, write_shape(0, (2, 2)) + write_shape(2, (2, 2)))])
    data = assemble([Row(key, 0, 4, 0, 1, 1, 1) for key in (0, 1)], block)
    about = "The second row of shapes is for the key after the last, in 16 bytes per tensor at most."
    yield bad("shapes-key-after", about, "Invalid", "shapes", data)
    yield from _frame()


def _frame() -> Iterator[Case]:
    kind, code = "Malformed", "extension-record"
    tag = struct.pack("<IIHHI8s", 24, 1, 5, 0, 1, b"t" + bytes(6) + b"\1")
    about = "Padding after a record of one byte."
    yield bad("extension-record-padding-1", about, kind, code, assemble([], tag))
    records = [*[Record(UNKNOWN_RECORD, 0, b"")] * 600, Record(5, 1, b"t")]
    data = assemble([Row(0, 0, 1, 0, 1, 1, 1)], write_extension_block(records))
    about = "600 records of one type: the flags of the tag after them are checked before their order."
    yield bad("extension-record-600-flags", about, kind, code, data)
    whole = assemble([Row(0, 0, 34, 34, 1, 1, 1, value_section=values_of([1.0] * 34, "float32"))])
    data = reseal(patch(whole, 16, "Q", 72)[:72])
    about = "The section has the length of the container and the header together, 72 + 64 bytes."
    yield bad("layout-header-twice", about, "Malformed", "layout", data)


def one_lane(form: int, levels: bytes, escape: int, values: Sequence[tuple[int, bool]]) -> bytes:
    """Return a section of one lane that always uses row 0.

    Args:
        form: 1 or 2.
        levels: levels of the first bins of row 0.
        escape: level of the escape.
        values: symbol of each value, below 8, and whether it has a sign, which repeats the previous one.
    """
    f = frequencies([*levels, *[NONE] * (BINS - len(levels)), escape])
    ops = []
    for symbol, signed in values:
        ops += [(f[symbol], sum(f[:symbol])), *([SIGN] if signed else [])]
    states, words = [STATE], list[int]()
    for op in reversed(ops):
        push(states, [op], words)
    head = struct.pack("<B3fI", form, 1.0, 1.0, 0.5, 1) + bytes([len(levels), escape]) + levels
    return head + struct.pack(f"<BII{len(words)}H", 0, len(words), *states, *words)


def _error_bounded_checks() -> Iterator[Case]:
    head = struct.pack("<BI2fI", 1, 0x7F7FFFFF, 2.0**-126, 1.0, 0)
    section = head + struct.pack("<BII", 57, 0, 0)
    about = "First, step, place and start are the most, or least, that are allowed. The state is not."
    yield bad(
        "error-bounded-state-after-borders",
        about,
        "Invalid",
        "error-bounded-state",
        of_values(14, 1, 1, section),
    )
    about = "One value, of which neither a word nor the state tells: the state is that of the end."
    section = struct.pack("<B3fIBII", 1, 1.0, 1.0, 0.5, 0, 0, 0, 2**16)
    yield bad(
        "error-bounded-code-at-end", about, "Invalid", "error-bounded-code", of_values(14, 1, 1, section)
    )
    f = frequencies([0, *[NONE] * (BINS - 1), 16])
    states, words = [STATE] * 4, list[int]()
    for lanes in (1, *[4] * 1024):
        push(states, [(f[0], 0)] * lanes, words)
    section = struct.pack("<B3fI", 2, 1.0, 1.0, 0.5, 1) + bytes([1, 16, 0])
    section += struct.pack(f"<BI4I{len(words)}H", 0, len(words), *states, *words)
    about = "4097 zeros, and a row that has the level of the escape."
    yield valid("error-bounded-row-long", about, of_values(14, 1, 4097, section))


def _words() -> Iterator[Case]:
    about = "5 bytes: the section does not consist of words."
    yield bad("rice-length-5", about, "Malformed", "rice-length", of_index(3, 2, 9, bytes(5)))
    good = write_qsgd(values_for(3, "float32"), BY_NAME["float32"], bits=4, bucket=16, norm=0, stream=0)
    about = "15 bytes: the section does not consist of words."
    yield bad("qsgd-length-15", about, "Malformed", "qsgd-length", of_values(4, 1, 3, good[:15]))


def _zstd() -> Iterator[Case]:
    size, window = 4096, 1024
    frame = write_frame_header(size, window=0)
    for repeats in (*[window] * (size // window), 1):
        frame += write_block_header(False, REPEATED, repeats) + b"\1"
    frame += write_block_header(True, STORED, 0)
    about = "A block of one byte after the content of 4096 bytes, and an empty one."
    data = of_values(7, 1, size // 4, b"\0" + frame)
    yield bad("zstd-content-block-more", about, "Malformed", "zstd-content", data)


def _spans() -> Iterator[Case]:
    """Yield spans of a symbol without bits: the byte after the head is more than its span takes."""
    d, span, range_ = 8194, "huffman-span", "index-range"
    for id, about, code, bases, sizes in (
        ("range-before-span", "The second span exceeds the chunk, the third", range_, (d - 1, d), (0, 0)),
        ("span-before-range", "The second span exceeds the chunk, the first", span, (d,), (1,)),
        ("span-at-range", "The last index is d, and its span", span, (d,), (0,)),
    ):
        section = bytes(3) + struct.pack(f"<{len(bases)}I{len(sizes)}H", *bases, *sizes) + b"\0"
        row = Row(0, 0, d, 4096 * len(bases) + 1, 1, 6, 15, section, struct.pack("<f", 1))
        kind = "Invalid" if code == range_ else "Malformed"
        yield bad(f"huffman-{id}", f"{about} has a byte more.", kind, code, assemble([row]))
