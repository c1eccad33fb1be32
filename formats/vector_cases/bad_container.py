"""Invalid containers, rows 1-14 of SPEC section 7: the prefix, and how the parts fill the bytes.

Each breaks one rule. If it breaks others as well, the stated rule comes first in the specification's order,
and the case tests that order.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from formats.reference import Row, assemble, reseal, write
from formats.reference.table import CHUNK
from formats.vector_cases.case import Case, bad, patch, sparse

TABLE = 24
KEY, CRC, BASE, D, R, INDEX_LEN, VALUE_LEN, MAP_LEN = (TABLE + n for n in (0, 4, 8, 16, 20, 24, 28, 32))
DTYPE, INDEX, VALUE, MAP = (TABLE + n for n in (36, 37, 38, 39))
MAX32 = 2**32 - 1


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield from _frame()
    yield from _lengths()


def one_entry() -> bytes:
    """Return a container with one entry and no extension: 24 + 40 bytes, 8 of indices, 8 of values."""
    return write([sparse("0", 10, [2, 5])], names=False)


def _frame() -> Iterator[Case]:
    one = one_entry()
    named = write([sparse("a", 10, [2, 5])])
    yield bad("prefix-empty", "No bytes at all.", "Truncated", "prefix", b"")
    yield bad("prefix-23", "A byte of the prefix is missing.", "Truncated", "prefix", one[:23])
    yield bad("prefix-and-magic", "Too short comes before another magic.", "Truncated", "prefix", b"PK\3\4")
    yield bad("magic", "The last byte of the magic differs.", "Malformed", "magic", patch(one, 3, "B", 0x1B))
    yield bad("magic-zeros", "Zeros.", "Malformed", "magic", bytes(64))
    yield bad(
        "magic-resealed",
        "Another magic with right checksums.",
        "Malformed",
        "magic",
        reseal(patch(one, 0, "B", 0)),
    )
    yield bad("major-255", "A version never to be.", "Unsupported", "major", reseal(patch(one, 4, "B", 255)))
    yield bad("major-0", "A version that never was.", "Unsupported", "major", reseal(patch(one, 4, "B", 0)))
    data = reseal(patch(one, 6, "H", 1 << 7))
    yield bad("flags-bit7", "Flag bit 7 is unknown and must not be ignored.", "Unsupported", "flags", data)
    data = patch(one, 16, "Q", 2**31 + 8)
    yield bad("max-bytes", "More than 2^31 bytes are announced.", "LimitExceeded", "max-bytes", data)
    data = patch(one, 16, "Q", 2**64 - 1)
    yield bad(
        "max-bytes-2p64",
        "The largest total_len; not a multiple of 8, but the limit comes first.",
        "LimitExceeded",
        "max-bytes",
        data,
    )
    limits = {"max_bytes": len(one) - 1}
    yield bad(
        "max-bytes-limit",
        "One byte above the reader's limit.",
        "LimitExceeded",
        "max-bytes",
        one,
        limits=limits,
    )
    for total in (0, 16, 23, len(one) - 1, len(one) + 1):
        data = patch(one, 16, "Q", total)
        yield bad(f"total-length-{total}", f"total_len is {total}.", "Malformed", "total-length", data)
    yield bad("truncated-7", "7 bytes are missing.", "Truncated", "container", one[:-7])
    yield bad("truncated-payload", "The payload is missing.", "Truncated", "container", one[:64])
    yield bad("truncated-table", "The table is missing.", "Truncated", "container", one[:24])
    yield bad("trailing-1", "A byte after the container.", "Malformed", "trailing", one + b"\0")
    yield bad("trailing-container", "A second container after the first.", "Malformed", "trailing", one + one)
    data = patch(one, 8, "I", MAX32)
    yield bad("max-entries", "2^32 - 1 entries are announced.", "LimitExceeded", "max-entries", data)
    yield bad(
        "max-entries-limit",
        "One entry where none is allowed.",
        "LimitExceeded",
        "max-entries",
        one,
        limits={"max_entries": 0},
    )
    data = patch(one, 12, "I", struct.unpack_from("<I", one, 12)[0] ^ 1)
    yield bad("head-checksum", "The checksum itself differs.", "ChecksumMismatch", "head-checksum", data)
    yield bad(
        "head-checksum-minor",
        "A bit of the minor version.",
        "ChecksumMismatch",
        "head-checksum",
        patch(one, 5, "B", 1),
    )
    yield bad(
        "head-checksum-table",
        "A bit of the table.",
        "ChecksumMismatch",
        "head-checksum",
        patch(one, D, "I", 11),
    )
    data = patch(named, 86, "B", 0xFF)
    yield bad("head-checksum-extension", "A bit of the names.", "ChecksumMismatch", "head-checksum", data)


def _lengths() -> Iterator[Case]:
    one = one_entry()
    data = reseal(patch(one, 8, "I", 2))
    yield bad("table-length", "A table of two entries does not fit.", "Malformed", "table-length", data)
    bare = write([])
    data = patch(bare, 6, "H", 1)
    yield bad("table-length-extension", "No room for the block's length.", "Malformed", "table-length", data)
    data = patch(bare, 8, "I", 1)
    yield bad("table-length-bare", "One entry in 24 bytes.", "Malformed", "table-length", data)
    tagged = write([], tag=b"8 bytes.")
    for ext_len in (0, 8, 15, 17, 32, MAX32, MAX32 - 7):
        data = reseal(patch(tagged, 24, "I", ext_len))
        yield bad(
            f"extension-length-{ext_len}",
            f"ext_len is {ext_len}, not 24.",
            "Malformed",
            "extension-length",
            data,
        )
    data = assemble([], struct.pack("<II", 8, 0))
    about = "A block of 8 bytes, which fills the container."
    yield bad("extension-length-filled", about, "Malformed", "extension-length", data)
    for field, name in ((INDEX_LEN, "index"), (VALUE_LEN, "value"), (MAP_LEN, "map")):
        for length in (9, MAX32):
            data = reseal(patch(one, field, "I", length))
            yield bad(f"layout-{name}-{length}", f"{name}_len is {length}.", "Malformed", "layout", data)
    data = reseal(patch(one, INDEX_LEN, "III", MAX32, MAX32, MAX32))
    yield bad("layout-wrapping", "Lengths whose sum wraps in 32 bits.", "Malformed", "layout", data)
    data = reseal(patch(one + bytes(8), 16, "Q", len(one) + 8))
    yield bad("layout-gap", "8 bytes that belong to nothing.", "Malformed", "layout", data)
    data = reseal(patch(tagged, 6, "H", 0))
    yield bad("layout-no-flag", "An extension block without its flag.", "Malformed", "layout", data)
    rows = [Row(1, 0, 2, 0, 1, 1, 1), Row(0, 0, 2, 0, 1, 1, 1)]
    yield bad("table-order", "Keys 1, 0.", "Invalid", "table-order", assemble(rows))
    rows = [Row(0, 0, 2, 0, 1, 1, 1), Row(0, 0, 2, 0, 1, 1, 1)]
    yield bad("table-order-twice", "One entry twice.", "Invalid", "table-order", assemble(rows))
    rows = [Row(0, CHUNK, 2, 0, 1, 1, 1), Row(0, 0, CHUNK, 0, 1, 1, 1)]
    yield bad(
        "table-order-chunks", "The second chunk before the first.", "Invalid", "table-order", assemble(rows)
    )
