"""context: rows, blocks and parts of every length, foreign periods, and each check of the page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from formats.reference import Context, Qsgd, Row, assemble, write
from formats.reference.writing.index.context import write_context
from formats.vector_cases.case import Case, bad, exact, sparse, spread, valid
from formats.vector_cases.parts import index_row, ones

ONES = Qsgd(bits=2, bucket=2**24)


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield from _exact()
    yield from _foreign()
    yield from _bad()


def _columns(columns: Sequence[int], period: int, rows: int, salt: int) -> list[int]:
    """Return two of three elements of these columns, and few others."""
    grid = [period * row + column for row in range(rows) for column in columns]
    kept = [grid[n] for n in spread(2 * len(grid) // 3, len(grid), salt)]
    return sorted({*kept, *spread(rows // 4, period * rows, salt + 1)})


def _exact() -> Iterator[Case]:
    for id, about, d, indices in (
        ("one", "One element.", 19, [7]),
        ("one-of-two", "The smallest chunk with a support.", 2, [1]),
        ("first-of-two", "The walk ends at its first element.", 2, [0]),
        ("first-of-most", "A density of less than 2^-16.", 2**24, [0]),
        ("last-of-part", "Its part's last element is not coded.", 100, [7]),
        ("last-of-block", "Neither the last part's flag nor its last element is coded.", 100, [63]),
        ("last-of-all", "The last block has 36 elements, its last part 4.", 100, [99]),
        ("alone", "The last block has one element.", 129, [3, 128]),
        ("few", "The example of the page.", 100, [3, 70, 71]),
        ("far", "Ten thousand empty blocks.", 640_064, [0, 640_050]),
        ("run", "One run.", 500, list(range(130, 330))),
        ("all-but-one", "One element is absent.", 500, [i for i in range(500) if i != 77]),
        ("even", "Every other element.", 400, list(range(0, 400, 2))),
        ("stripes", "Columns of 100: the period is found.", 6000, _columns([3, 40, 41, 90], 100, 60, 5)),
        ("matrix", "The last of the rows of 333 is cut.", 9900, _columns([0, 170, 332], 333, 29, 6)),
    ):
        yield exact(f"context-{id}", about, [ones(d, indices)], Context(), ONES)
    for d in (97, 100, 104, 70):
        about = f"The last element of {d}, in a block and a part that may be shorter: it takes no bit."
        yield exact(f"context-last-{d}", about, [ones(d, [3, d - 1])], Context(), ONES)
    for r in (20, 200, 1000):
        t = ones(2000, spread(r, 2000, r))
        yield exact(f"context-r{r}", f"{r} of 2000 elements.", [t], Context(), ONES)


def _foreign() -> Iterator[Case]:
    stripes = sparse("0", 2000, _columns([3, 40, 41, 90], 100, 20, 5))
    for period, about in (
        (0, "No rows where rows are smaller."),
        (64, "The smallest period."),
        (65, "Rows whose last block has one element."),
        (200, "Twice the best period."),
        (16_384, "The largest period, one row."),
    ):
        data = write([stripes], Context(period), names=False)
        yield valid(f"context-foreign-{period}", about, data, [stripes])


def _index(r: int, d: int, section: bytes, key: int = 0) -> Row:
    return index_row(11, r, d, section, key)


def _bad() -> Iterator[Case]:
    good = write_context([3, 70, 71], 100, 64)

    def broken(section: bytes, r: int = 3, d: int = 100) -> bytes:
        return assemble([_index(r, d, section)])

    kind, code = "Malformed", "context-length"
    yield bad("context-head", "One byte.", kind, code, broken(b"\0"))
    yield bad("context-head-alone", "A period of 1 and no code.", kind, code, broken(b"\x01\0"))
    dense = write_context(spread(200, 2000), 2000, 0)
    yield bad("context-cut", "The last byte is missing.", kind, code, broken(dense[:-1], 200, 2000))
    yield bad("context-cut-more", "One byte is left.", kind, code, broken(dense[:3], 200, 2000))
    yield bad("context-long", "A zero too many.", kind, code, broken(good + b"\0"))
    yield bad("context-longer", "Bytes after the last index.", kind, code, broken(good + b"\1\2\3\4\5"))
    about = "One byte of twenty elements in the only block."
    yield bad("context-cut-count", about, kind, code, broken(b"\0\0\x05", 20, 64))
    kind, code = "Malformed", "context-period"
    for period in (1, 63, 16_385, 65_535):
        head = period.to_bytes(2, "little")
        yield bad(f"context-period-{period}", f"P = {period}.", kind, code, broken(head + good[2:]))
    kind, code = "Malformed", "context-end"
    higher = good[:-1] + bytes([good[-1] + 1])
    yield bad("context-end", "The last byte is one more than it need be.", kind, code, broken(higher))
    kind, code = "Invalid", "context-count"
    yield bad("context-none", "No element is present.", kind, code, broken(b"\0\0\xff\xff\xff\xff", 1, 2**17))
    kind, code = "LimitExceeded", "max-work"
    two = assemble([_index(3, 100, good), _index(3, 100, good, 1)])
    yield valid("context-work", "Two hundred steps.", two, limits={"max_work": 200})
    full = write([sparse("0", 100, range(100))], Context(0), names=False)
    about = "A full support has no section, and no work."
    yield valid("context-work-full", about, full, limits={"max_work": 0})
    about = "Two hundred steps, a hundred for each entry."
    yield bad("context-work-199", about, kind, code, two, limits={"max_work": 199})
    about = "The period comes before the work."
    data = broken(b"\x01\0" + good[2:])
    yield bad("context-work-later", about, "Malformed", "context-period", data, limits={"max_work": 0})
    about = "The work comes before the code."
    yield bad("context-work-first", about, kind, code, broken(good + b"\0"), limits={"max_work": 99})
