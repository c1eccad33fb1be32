"""Invalid extension blocks, rows 28-41 of SPEC section 7: the frame of the block, and its records."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from formats.reference import Record, Row, assemble, reseal
from formats.reference.table import CHUNK
from formats.reference.writing.assembly import write_extension_block
from formats.reference.writing.records import write_fused, write_names, write_shape
from formats.vector_cases.case import UNKNOWN_RECORD, Case, bad, patch

FUSED, NAMES, SHAPES, TAG = 1, 2, 3, 5
MAX32 = 2**32 - 1


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield from _frame()
    yield from _fused_record()
    yield from _fused()
    yield from _keys()
    yield from _names()
    yield from _shapes_record()
    yield from _shapes()
    yield bad("tag-record", "An empty tag.", "Malformed", "tag-record", _tensors([1], Record(TAG, 0, b"")))


def _tensors(sizes: Sequence[int], *records: Record) -> bytes:
    """Return a container with these records, and empty tensors of these sizes with the keys 0, 1, …."""
    rows = [Row(key, 0, d, 0, 1, 1, 1) for key, d in enumerate(sizes)]
    return assemble(rows, write_extension_block(records))


def _block(*parts: bytes, n_records: int) -> bytes:
    """Return a container without tensors and with a block of these bytes."""
    body = b"".join(parts)
    return assemble([], struct.pack("<II", 8 + len(body), n_records) + body)


def _head(kind: int, flags: int, length: int) -> bytes:
    return struct.pack("<HHI", kind, flags, length)


def _frame() -> Iterator[Case]:
    kind, code = "Malformed", "extension-record"
    tag = _head(TAG, 0, 3) + b"abc" + bytes(5)
    for id, about, data in (
        ("none", "A block without records.", _block(bytes(8), n_records=0)),
        ("none-and-tag", "n_records = 0 before a record.", _block(tag, n_records=0)),
        ("many", "Two records are announced, one is there.", _block(tag, n_records=2)),
        ("most", "2^32 - 1 records are announced.", _block(tag, n_records=MAX32)),
        ("few", "A record beyond the announced ones.", _block(tag, _head(UNKNOWN_RECORD, 0, 0), n_records=1)),
        ("long", "A record runs a byte past the block.", _block(_head(TAG, 0, 9) + bytes(8), n_records=1)),
        ("longest", "A record of 2^32 - 1 bytes.", _block(_head(TAG, 0, MAX32) + bytes(8), n_records=1)),
        ("padding", "Padding after a record.", _block(tag[:-1] + b"\1", n_records=1)),
        ("reserved", "A reserved flag of a known type.", _tensors([1], Record(TAG, 2, b"t"))),
        ("reserved-high", "The highest reserved flag.", _tensors([1], Record(TAG, 0x8000, b"t"))),
        (
            "reserved-unknown",
            "A reserved flag of an unknown type.",
            _tensors([1], Record(UNKNOWN_RECORD, 2, b"t")),
        ),
        ("flags-tag", "A critical tag.", _tensors([1], Record(TAG, 1, b"t"))),
        ("flags-names", "Critical names.", _tensors([1], Record(NAMES, 1, write_names([b"a"])))),
        ("flags-shapes", "Critical shapes.", _tensors([2], Record(SHAPES, 1, write_shape(0, (1, 2))))),
    ):
        yield bad(f"extension-record-{id}", about, kind, code, data)
    rows = [Row(0, 0, 3, 0, 1, 1, 1)]
    data = assemble(rows, write_extension_block([Record(FUSED, 0, write_fused([[(0, 1), (1, 2)]]))]))
    yield bad("extension-record-flags-fused", "A fused record that is not critical.", kind, code, data)
    kind, code = "Invalid", "extension-order"
    two = [Record(NAMES, 0, write_names([b"a"])), Record(TAG, 0, b"t")]
    yield bad("extension-order", "The tag before the names.", kind, code, _tensors([1], *two[::-1]))
    yield bad("extension-order-twice", "Two tags.", kind, code, _tensors([1], two[1], two[1]))
    unknown = [Record(UNKNOWN_RECORD + 1, 0, b""), Record(UNKNOWN_RECORD, 0, b"")]
    yield bad(
        "extension-order-unknown", "Unknown types are ordered, too.", kind, code, _tensors([1], *unknown)
    )
    many = [Record(UNKNOWN_RECORD, 0, b"")] * 600
    about = "600 records of one type, in a block of more than 4096 bytes."
    yield bad("extension-order-600", about, kind, code, _tensors([1], *many))
    about = "600 records of one type: the structure of the last is checked before their order."
    data = _tensors([1], *many[1:], Record(UNKNOWN_RECORD, 2, b""))
    yield bad("extension-record-600", about, "Malformed", "extension-record", data)
    for critical in (UNKNOWN_RECORD, 0xFFFF):
        data = _tensors([1], Record(critical, 1, b"12345678"))
        yield bad(
            f"extension-{critical}",
            f"The unknown type {critical} is critical.",
            "Unsupported",
            "extension",
            data,
        )
    order = [Record(UNKNOWN_RECORD + 1, 1, b""), Record(UNKNOWN_RECORD, 0, b"")]
    about = "The order is checked before what is critical."
    yield bad("extension-order-first", about, "Invalid", "extension-order", _tensors([1], *order))


def _with_fused(body: bytes, sizes: Sequence[int] = (3,)) -> bytes:
    return _tensors(sizes, Record(FUSED, 1, body))


def _fused_record() -> Iterator[Case]:
    kind, code = "Malformed", "fused-record"
    good = write_fused([[(0, 1), (1, 2)]])
    for id, about, body in (
        ("empty", "No bytes.", b""),
        ("short", "Four bytes.", bytes(4)),
        ("short-7", "Seven bytes.", write_fused([[(0, 1), (1, 2)]])[:7]),
        ("no-groups", "No groups.", bytes(8)),
        ("reserved", "The reserved word is 1.", patch(good, 4, "I", 1)),
        ("groups", "A group too many is announced.", patch(good, 0, "I", 2)),
        ("groups-most", "2^32 - 1 groups are announced.", patch(good, 0, "I", MAX32)),
        ("surplus", "Bytes after the last group.", good + bytes(8)),
        ("cut", "The last member is cut.", good[:-4]),
        (
            "members-cut",
            "The last of eight members is cut, in a record of seven and a half.",
            write_fused([[(n, 1) for n in range(8)]])[:-4],
        ),
        ("no-members", "A group without members.", struct.pack("<IIII", 1, 0, 0, 0)),
        ("one-member", "A group of one.", struct.pack("<IIIIII", 1, 0, 0, 1, 0, 3)),
        ("members", "A member too many is announced.", patch(good, 12, "I", 3)),
        ("members-most", "2^32 - 1 members are announced.", patch(good, 12, "I", MAX32)),
        ("members-wrapping", "2^29 members: 8 bytes each wrap in 32 bits.", patch(good, 12, "I", 2**29)),
    ):
        yield bad(f"fused-record-{id}", about, kind, code, _with_fused(body))


def _fused() -> Iterator[Case]:
    kind, code = "Invalid", "fused"
    for id, about, groups, sizes in (
        ("sum", "The sizes add up to less than d.", [[(0, 1), (1, 1)]], [3]),
        ("sum-more", "The sizes add up to more than d.", [[(0, 1), (1, 3)]], [3]),
        ("sum-wrapping", "Sizes that add up to d in 32 bits.", [[(0, MAX32), (1, 4)]], [3]),
        ("order", "Members not ascending.", [[(0, 1), (2, 1), (1, 1)]], [3]),
        ("twice", "A member twice.", [[(0, 1), (1, 1), (1, 1)]], [3]),
        ("first-twice", "The first member twice.", [[(0, 1), (0, 2)]], [3]),
        ("no-entry", "No entry of this key.", [[(1, 1), (2, 2)]], [3]),
        ("in-table", "A member that has an entry.", [[(0, 1), (1, 2)]], [3, 2]),
        ("groups-order", "Groups not ascending.", [[(1, 1), (3, 2)], [(0, 1), (2, 2)]], [3, 3]),
        ("group-twice", "A group twice.", [[(0, 1), (1, 2)], [(0, 1), (1, 2)]], [3]),
        (
            "group-again",
            "An entry of two groups, whose further members have no elements: all else would fit.",
            [[(0, 3), (1, 0)], [(0, 3), (2, 0)]],
            [3],
        ),
        ("two-groups", "A member of two groups.", [[(0, 1), (2, 2)], [(1, 1), (2, 2)]], [3, 3]),
    ):
        yield bad(f"fused-{id}", about, kind, code, _with_fused(write_fused(groups), sizes))
    other = patch(write_fused([[(0, 1), (1, 2)]]), 8, "I", 1)
    yield bad(
        "fused-first", "The first member is not the entry's key.", kind, code, _with_fused(other, [3, 3])
    )
    about = "The entry's key is that of the second member; all else would fit."
    alone = assemble([Row(1, 0, 3, 0, 1, 1, 1)], write_extension_block([Record(FUSED, 1, other)]))
    yield bad("fused-first-alone", about, kind, code, alone)
    absent = patch(write_fused([[(2, 1), (3, 2)]]), 8, "I", 1)
    about = "The entry's key is not among its members."
    yield bad("fused-first-absent", about, kind, code, _with_fused(absent, [3, 3]))
    rows = [Row(0, 0, CHUNK, 0, 1, 1, 1), Row(0, CHUNK, 2, 0, 1, 1, 1)]
    body = write_fused([[(0, 1), (1, CHUNK + 1)]])
    data = assemble(rows, write_extension_block([Record(FUSED, 1, body)]))
    yield bad("fused-chunks", "An entry that is not the sole chunk.", kind, code, data)

    kind, code = "LimitExceeded", "max-entries"
    two = [Row(key, 0, 3, 0, 1, 1, 1) for key in (0, 2)]
    body = write_fused([[(0, 1), (1, 2)], [(2, 1), (3, 1), (4, 1)]])
    data = assemble(two, write_extension_block([Record(FUSED, 1, body)]))
    about = "Two entries, and three members besides their first ones, where four are allowed."
    yield bad("max-entries-fused", about, kind, code, data, limits={"max_entries": 4})
    body = write_fused([[(0, 1), (0, 2)], [(2, 1), (3, 1), (4, 1)]])
    data = assemble(two, write_extension_block([Record(FUSED, 1, body)]))
    one = assemble(
        [Row(0, 0, 6, 0, 1, 1, 1)],
        write_extension_block([Record(FUSED, 1, write_fused([[(0, 1), (1, 2), (2, 3)]]))]),
    )
    about = "An entry of three members, where two are allowed."
    yield bad("max-entries-fused-one", about, kind, code, one, limits={"max_entries": 2})
    about = "The limit comes before what is wrong with the members."
    yield bad("max-entries-fused-first", about, kind, code, data, limits={"max_entries": 4})


def _keys() -> Iterator[Case]:
    kind, code = "Invalid", "keys"
    yield bad("keys-from-1", "The only key is 1.", kind, code, assemble([Row(1, 0, 2, 0, 1, 1, 1)]))
    rows = [Row(0, 0, 2, 0, 1, 1, 1), Row(2, 0, 2, 0, 1, 1, 1)]
    yield bad("keys-gap", "Keys 0 and 2.", kind, code, assemble(rows))
    yield bad("keys-most", "Key 2^32 - 1.", kind, code, assemble([Row(MAX32, 0, 2, 0, 1, 1, 1)]))
    body = write_fused([[(0, 1), (2, 2)]])
    yield bad("keys-fused", "Fused keys 0 and 2.", kind, code, _with_fused(body))


def _names() -> Iterator[Case]:
    def named(body: bytes, n: int = 2) -> bytes:
        return _tensors([1] * n, Record(NAMES, 0, body))

    kind, code = "Malformed", "names-record"
    good = write_names([b"a", b"bc"])
    for id, about, body in (
        ("empty", "No bytes.", b""),
        ("short", "Three bytes.", bytes(3)),
        ("count-0", "No names.", bytes(4)),
        ("cut", "The last name is cut.", good[:-1]),
        ("surplus", "A byte after the last name.", good + b"d"),
        ("count-more", "A name too many is announced.", patch(good, 0, "I", 3)),
        ("count-most", "2^32 - 1 names are announced.", patch(good, 0, "I", MAX32)),
        ("count-wrapping", "2^31 names: 2 bytes each wrap in 32 bits.", patch(good, 0, "I", 2**31)),
        ("length-most", "A name of 65,535 bytes is announced.", patch(good, 6, "H", 65_535)),
    ):
        yield bad(f"names-record-{id}", about, kind, code, named(body))
    data = _tensors([], Record(NAMES, 0, bytes(4)))
    yield bad("names-record-no-tensors", "No tensors, and a names record of none.", kind, code, data)
    kind, code = "Invalid", "names"
    for id, about, names in (
        ("few", "One name of two tensors.", [b"a"]),
        ("many", "Three names of two tensors.", [b"a", b"b", b"c"]),
        ("order", "Not ascending.", [b"b", b"a"]),
        ("twice", "One name twice.", [b"a", b"a"]),
        ("order-prefix", "A name before its beginning.", [b"ab", b"a"]),
        ("order-utf16", "In the order of UTF-16.", ["\U00010000".encode(), "\uffff".encode()]),
        ("utf8", "Not UTF-8.", [b"a", b"\xff"]),
        ("utf8-cut", "A character is cut.", [b"a", b"\xe2\x82"]),
        ("utf8-long", "Not the shortest form.", [b"a", b"\xc1\xa1"]),
        ("utf8-surrogate", "A surrogate.", [b"a", b"\xed\xa0\x80"]),
        ("utf8-range", "Beyond U+10FFFF.", [b"a", b"\xf4\x90\x80\x80"]),
        ("utf8-split", "A character across two names.", [b"a\xc3", b"\xa4"]),
    ):
        yield bad(f"names-{id}", about, kind, code, named(write_names(names)))


def _shapes_record() -> Iterator[Case]:
    kind, code = "Malformed", "shapes-record"
    good = write_shape(0, (2, 3))
    wide = struct.pack("<IBBHHH", 0, 2, 2, 0, 2, 3)
    for id, about, body in (
        ("empty", "No row.", b""),
        ("short", "A row of four bytes.", bytes(4)),
        ("cut", "The last dimension is missing.", good[:-1]),
        ("surplus", "A byte after the last row.", good + b"\0"),
        ("padded", "Rows are not padded.", good + bytes(6)),
        ("head-cut", "Seven of the eight bytes before the dimensions of a second row.", good + bytes(7)),
        ("ndim-1", "One dimension needs no row.", struct.pack("<IBBHB", 0, 1, 1, 0, 6)),
        ("ndim-33", "33 dimensions.", struct.pack("<IBBH", 0, 33, 1, 0) + b"\6" + b"\1" * 32),
        ("ndim-255", "255 dimensions are announced.", patch(good, 4, "B", 255)),
        ("width-0", "Width 0.", struct.pack("<IBBH", 0, 2, 0, 0)),
        ("width-3", "Width 3.", struct.pack("<IBBH", 0, 2, 3, 0) + b"\2\0\0\3\0\0"),
        ("width-16", "Width 16.", struct.pack("<IBBH", 0, 0, 16, 0)),
        ("width-2", "Two bytes where one is enough.", wide),
        ("width-4", "Four bytes where one is enough.", struct.pack("<IBBHII", 0, 2, 4, 0, 2, 3)),
        ("width-8", "Eight bytes where four are enough.", struct.pack("<IBBHQQ", 0, 2, 8, 0, 0, MAX32)),
        ("width-0d", "No dimensions and width 2.", struct.pack("<IBBH", 0, 0, 2, 0)),
        ("width-0d-0", "No dimensions and width 0.", struct.pack("<IBBH", 0, 0, 0, 0)),
        ("reserved", "The reserved bytes are not zero.", patch(good, 6, "H", 0x100)),
    ):
        yield bad(f"shapes-record-{id}", about, kind, code, _tensors([6], Record(SHAPES, 0, body)))


def _shapes() -> Iterator[Case]:
    kind, code = "Invalid", "shapes"
    two, three = write_shape(0, (2, 3)), write_shape(1, (3, 2))
    for id, about, sizes, body in (
        ("size", "A product of 6 for 7 elements.", [7], two),
        ("size-0d", "No dimensions for 6 elements.", [6], write_shape(0, ())),
        ("size-0", "A product of 0 for 6 elements.", [6], write_shape(0, (0, 6))),
        ("not-0", "A product of 6 for no element.", [0], two),
        ("order", "Rows not ascending.", [6, 6], three + two),
        ("twice", "A row twice.", [6], two + two),
        ("key", "A row for a key that no tensor has.", [6], two + three),
        ("wrapping", "A product that is 6 modulo 2^64.", [6], write_shape(0, (2**63, 2, 6))),
        ("wrapping-0", "A product that is 0 modulo 2^64.", [0], write_shape(0, (2**32, 2**32))),
        ("product", "Dimensions other than 0 that multiply to 2^57.", [0], write_shape(0, (2**57, 0))),
        ("product-after-0", "The same after a 0.", [0], write_shape(0, (0, 2**28, 2**29))),
        ("product-just", "A product of 2^56 + 1.", [0], write_shape(0, (0, 2**56 + 1))),
    ):
        yield bad(f"shapes-{id}", about, kind, code, _tensors(sizes, Record(SHAPES, 0, body)))
    data = assemble([], write_extension_block([Record(SHAPES, 0, write_shape(0, ()))]))
    yield bad("shapes-no-tensors", "A row where there is no tensor.", kind, code, reseal(data))
