"""binned: bins at which the width of a record changes, empty bins, and each check of the page."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from formats.reference import Binned, Qsgd, Row, assemble
from formats.reference.bits import pack_stream
from formats.reference.floats import BY_ID
from formats.reference.writing.value.qsgd import write_qsgd
from formats.vector_cases.case import Case, bad, exact, sparse, spread
from formats.vector_cases.parts import ones

ONES = Qsgd(bits=2, bucket=2**24)


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield from _exact()
    yield from _bad()


def _exact() -> Iterator[Case]:
    for r in (1, 2, 18, 19):
        t = sparse("0", 19, spread(r, 19, r))
        yield exact(f"binned-r{r}", f"binned, {r} of 19 elements.", [t], Binned(5))
    for size in (1, 2, 3, 31, 32, 63, 64, 255, 256, 8191, 8192, 16_383):
        t = ones(20_000, [*spread(7, 300, size), 299, 300, 19_999] if size > 8 else spread(7, 300, size))
        about = f"Bins of {size}: records of {size.bit_length() + 1} bits."
        yield exact(f"binned-bin{size}", about, [t], Binned(size), ONES)
    for id, about, d, indices in (
        (
            "full-bins",
            "Every element of two bins, none of the one between.",
            31,
            [*range(10), *range(20, 30)],
        ),
        ("first-empty", "The first bins are empty.", 100, [42]),
        ("one-each", "One element of each bin.", 200, [10 * i + 7 * i % 10 for i in range(20)]),
        ("ragged", "The last bin has 3 elements, all present.", 33, [30, 31, 32]),
        ("beyond", "Bins of more elements than there are.", 8, [1, 7]),
    ):
        yield exact(f"binned-{id}", about, [ones(d, indices)], Binned(10), ONES)


def _section(size: int, records: Sequence[tuple[int, int]]) -> bytes:
    """Return a section of records (position, last)."""
    w = size.bit_length()
    return struct.pack("<H", size) + pack_stream([number | last << w for number, last in records], w + 1, 1)


def _bad() -> Iterator[Case]:
    def broken(section: bytes, r: int = 3) -> bytes:
        values = write_qsgd(bytes(2 * r), BY_ID[2], bits=2, bucket=2**24, norm=0, stream=0)
        return assemble([Row(0, 0, 35, r, 2, 8, 4, section, values)])

    good = [(3, 0), (7, 1), (10, 1), (4, 1)]  # elements 3, 7 and 24 of 35, bins of 10; 20 bits
    kind, code = "Malformed", "binned-length"
    yield bad("binned-length-bin", "One byte.", kind, code, broken(b"\x0a"))
    yield bad("binned-length-bin-0", "One byte, 0.", kind, code, broken(b"\0"))
    yield bad("binned-length-none", "No records.", kind, code, broken(b"\x0a\0"))
    about = "Empty bins beyond the last element have no element out of range; then the section ends."
    beyond = _section(10, [(3, 1), (3, 1), *[(10, 1)] * 6])
    yield bad("binned-length-beyond", about, kind, code, broken(beyond))
    yield bad("binned-length-few", "An element too few.", kind, code, broken(_section(10, good[:3])))
    yield bad("binned-length-long", "One extra byte.", kind, code, broken(_section(10, good) + b"\0"))
    about = "A record too many, of an empty bin."
    yield bad("binned-length-empty", about, kind, code, broken(_section(10, [*good, (10, 1)])))
    kind, code = "Malformed", "binned-bin"
    for size in (0, 16_384, 65_535):
        section = struct.pack("<H", size) + _section(10, good)[2:]
        yield bad(f"binned-bin-{size}", f"Bins of {size}.", kind, code, broken(section))
    yield bad("binned-bin-alone", "Bins of 0, and no records.", kind, code, broken(bytes(2)))
    kind, code = "Malformed", "binned-number"
    for number in (11, 15):
        records = [(3, 0), (number, 1), (4, 1)]
        about = f"Number {number} in a bin of 10."
        yield bad(f"binned-number-{number}", about, kind, code, broken(_section(10, records)))
    kind, code = "Malformed", "binned-empty"
    for id, about, records in (
        ("within", "An empty bin before its bin ends.", [(3, 0), (10, 1), (4, 1), (5, 1)]),
        ("open", "An empty bin that is not ended.", [(3, 1), (10, 0), (4, 0), (5, 1)]),
    ):
        yield bad(f"binned-empty-{id}", about, kind, code, broken(_section(10, records)))
    kind, code = "Invalid", "index-order"
    for id, about, records in (
        ("repeated", "Number 3 twice.", [(3, 0), (3, 1), (4, 1)]),
        ("descending", "2 after 3.", [(3, 0), (2, 1), (4, 1)]),
    ):
        yield bad(f"binned-{id}", about, kind, code, broken(_section(10, records)))
    kind, code = "Invalid", "index-range"
    for id, about, records in (
        ("d", "Element d, in the last bin.", [(3, 1), (3, 1), (10, 1), (5, 1)]),
        ("bins", "An element of a bin beyond the chunk.", [(3, 1), (3, 1), *[(10, 1)] * 9, (0, 1)]),
    ):
        yield bad(f"binned-range-{id}", about, kind, code, broken(_section(10, records)))
    kind, code = "Malformed", "binned-last"
    yield bad(
        "binned-last", "The last bin is not ended.", kind, code, broken(_section(10, [*good[:3], (4, 0)]))
    )
    kind, code = "Malformed", "binned-padding"
    whole = _section(10, good)
    for bit in (4, 7):
        section = whole[:-1] + bytes([whole[-1] | 1 << bit])
        yield bad(f"binned-padding-{bit}", f"Bit {bit} of the last byte.", kind, code, broken(section))
    for size in (63, 255):
        one = _section(size, [(3, 1)])
        section = one[:-1] + bytes([one[-1] | 0x80])
        about = f"The last bit after a record of {size.bit_length() + 1} bits."
        yield bad(f"binned-padding-of-{size}", about, kind, code, broken(section, 1))
