"""bloom: every policy, sizes and ends of filters, foreign sections, and each check of the page."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from formats.reference import Bloom, Context, Qsgd, Row, assemble
from formats.reference.index.bloom import HEADER, NAIVE, P0, P1, P2, RIGHTMOST, query_all
from formats.reference.writing.index.bloom import POLICIES, write_filter
from formats.vector_cases.case import Case, bad, exact, sparse, spread, valid
from formats.vector_cases.parts import index_row, of_index

ONES = b"\xff" * 8


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield from _policies()
    yield from _sizes()
    yield from _foreign()
    yield from _work()
    yield from _bad_head()
    yield from _bad_filter()


def _policies() -> Iterator[Case]:
    for policy in POLICIES:
        for r in (1, 2, 18):
            t = sparse("0", 19, spread(r, 19, r))
            yield exact(f"bloom-{policy}-r{r}", f"{policy}, {r} of 19 elements.", [t], Bloom(policy), seed=1)
        first = 40 * POLICIES.index(policy)
        t = sparse("0", 19, range(19), first=first)
        yield exact(f"bloom-{policy}-all", f"{policy}, all elements: no section.", [t], Bloom(policy), seed=1)
        t = sparse("0", 500, spread(40, 500), first=7)
        about = f"{policy} among false positives."
        yield exact(f"bloom-{policy}-false", about, [t], Bloom(policy, 0.05), seed=2)
        about = f"{policy}, its values in 4 bits and a wide type."
        t = sparse("0", 200, spread(30, 200, 3), "float64")
        yield exact(f"bloom-{policy}-qsgd", about, [t], Bloom(policy, 0.1), Qsgd(), seed=3)
    t = sparse("0", 130, [n for n in range(130) if n not in (70, 71, 128)])
    about = "Every element is positive: the support is full and needs no section."
    yield exact("bloom-p0-full", about, [t], Bloom("p0", 0.9999999))
    t = sparse("0", 100, spread(30, 100))
    about = "k = 1: each doubtful list draws one item, and others are drawn to make up the number."
    yield exact("bloom-p2-left-over", about, [t], Bloom("p2", 0.6), seed=4)
    two = [sparse("a", 300, spread(30, 300, 5)), sparse("b", 300, spread(30, 300, 5))]
    about = "The same support twice: each entry has a stream of its own."
    for policy in ("p1", "p2"):
        yield exact(f"bloom-{policy}-streams", about, two, Bloom(policy, 0.1), many=True, seed=5)


def _sizes() -> Iterator[Case]:
    for n in (4, 5):
        t = sparse("0", 1000, spread(n, 1000))
        yield exact(f"bloom-words-{n}", f"{n} elements of 14.38 bits: {n - 3} words.", [t], Bloom())
    for name, fpr in (("least", 2.0**-32), ("half", 0.5), ("quarter", 0.25), ("tenth", 0.1)):
        t = sparse("0", 150, spread(20, 150))
        yield exact(f"bloom-fpr-{name}", f"A rate of {fpr!r}.", [t], Bloom("p0", fpr))
    t = sparse("0", 1500, spread(200, 1500))
    yield exact("bloom-fpr-high", "A rate of 0.999.", [t], Bloom("p0", 0.999))
    for d in (63, 64, 65, 127, 128, 129):
        t = sparse("0", d, spread(d // 3, d))
        yield exact(f"bloom-d{d}", f"The last group of {d} elements.", [t], Bloom("p0", 0.7))
    t = sparse("0", 2**22 + 1, [0, 2**22])
    yield exact("bloom-group-65536", "The first and the last of 65,537 groups.", [t], Bloom("p0", 1e-9))
    t = sparse("0", 4000, range(64, 364))
    yield exact("bloom-run", "Whole groups: windows of 64 bits.", [t], Bloom("p2"))


def _section(policy: int, k: int, count: int, filter_: bytes, stream: int = 0, reserved: int = 0) -> bytes:
    return struct.pack(HEADER, stream, count, k, policy, reserved) + filter_


def _row(r: int, d: int, section: bytes, key: int = 0) -> Row:
    return index_row(9, r, d, section, key)


def _one(r: int, d: int, section: bytes) -> bytes:
    return of_index(9, r, d, section)


def _foreign() -> Iterator[Case]:
    few = spread(10, 200)
    for policy in POLICIES:
        number = POLICIES.index(policy)
        for k, words in ((3, 1), (2, 40), (32, 9)):
            filter_ = write_filter(few, k, words)
            r = len(query_all(filter_, k, 200)) if number == P0 else 10
            section = _section(number, k, 10, filter_, 99 if number in (P1, P2) else 0)
            about = f"{policy} with {k} windows into {words} words."
            yield valid(f"bloom-foreign-{policy}-{k}-{words}", about, _one(r, 200, section))
    for number in (NAIVE, P1, *range(P2 + 1, RIGHTMOST + 1)):
        about = f"A filter of ones under {POLICIES[number]}: every element is positive."
        data = _one(7, 100, _section(number, 5, 7, ONES, 2**64 - 1 if number == P1 else 0))
        yield valid(f"bloom-foreign-ones-{POLICIES[number]}", about, data)
    yield valid(
        "bloom-foreign-ones-most", "|P| is as large as p2 takes.", _one(30, 139, _section(P2, 1, 30, ONES))
    )
    both = bytes(a | b for a, b in zip(write_filter(few, 6, 3), write_filter([4, 9], 6, 3), strict=True))
    r = len(query_all(both, 6, 200))
    about = "Two filters united, the count that of one of them."
    yield valid("bloom-foreign-united", about, _one(r, 200, _section(P0, 6, 10, both)))
    odd = write_filter([3, 50, 77], 4, 8)
    bits = bytes(byte | 1 << n % 8 for n, byte in enumerate(odd))
    r = len(query_all(bits, 4, 90))
    about = "Bits that no positive stands for."
    yield valid("bloom-foreign-bits", about, _one(r, 90, _section(P2, 4, r, bits)))


def _work() -> Iterator[Case]:
    filter_ = write_filter([5, 700], 9, 2)
    section = _section(RIGHTMOST, 9, 2, filter_)
    one = _one(2, 1001, section)
    yield valid("bloom-work-least", "The work is 126 · 9.", one, limits={"max_work": 1134})
    kind, code = "LimitExceeded", "max-work"
    yield bad("bloom-work", "A step too many.", kind, code, one, limits={"max_work": 1133})
    drawn = _one(2, 1001, _section(P1, 9, 2, filter_))
    yield valid("bloom-work-draws-least", "p1 may draw for every element.", drawn, limits={"max_work": 2135})
    yield bad("bloom-work-draws", "A step too many.", kind, code, drawn, limits={"max_work": 2134})
    certain = _one(2, 1001, _section(P2, 9, 2, filter_))
    about = "p2 makes five passes over the windows of up to 69 positives: 1134 + 5 · 9 · 69."
    yield valid("bloom-work-p2-least", about, certain, limits={"max_work": 4239})
    yield bad("bloom-work-p2", "A step too many.", kind, code, certain, limits={"max_work": 4238})
    odd = _one(31, 1001, _section(P2, 1, 31, write_filter(spread(31, 1001), 1, 60)))
    about = "r is odd: of 141.5 positives 141 count, which makes 126 + 5 · 141."
    yield valid("bloom-work-p2-odd-least", about, odd, limits={"max_work": 831})
    yield bad("bloom-work-p2-odd", "A step too many.", kind, code, odd, limits={"max_work": 830})
    short = _one(30, 100, _section(P2, 1, 30, ONES))
    about = "No more than d elements are positive: 13 + 5 · 100."
    yield valid("bloom-work-p2-all-least", about, short, limits={"max_work": 513})
    yield bad("bloom-work-p2-all", "A step too many.", kind, code, short, limits={"max_work": 512})
    both = assemble([_row(2, 1001, _section(P2, 9, 2, filter_)), _row(2, 1001, section, 1)])
    about = "The passes of p2 count for the entries that follow."
    yield valid("bloom-work-p2-sum-least", about, both, limits={"max_work": 5373})
    yield bad("bloom-work-p2-sum", "A step too many.", kind, code, both, limits={"max_work": 5372})
    two = assemble([_row(2, 1001, section), _row(2, 1001, section, 1)])
    yield valid("bloom-work-sum-least", "The sum of two entries.", two, limits={"max_work": 2268})
    yield bad("bloom-work-sum", "A step too many.", kind, code, two, limits={"max_work": 2267})
    walk = _row(2, 100, Context().write_section([5, 70], 100), 1)
    walk.index = Context.id
    mixed = assemble([_row(2, 1001, section), walk])
    about = "An entry of another codec adds its hundred steps."
    yield valid("bloom-work-mixed-least", about, mixed, limits={"max_work": 1234})
    yield bad("bloom-work-mixed", "A step too many.", kind, code, mixed, limits={"max_work": 1233})
    full = Row(0, 0, 2, 2, 1, 1, 1, b"", bytes(8))
    after = assemble([full, _row(2, 1001, section, 1)])
    about = "An entry that needs no index bytes adds none."
    yield valid("bloom-work-after-full", about, after, limits={"max_work": 1134})
    late = _one(2, 1001, _section(RIGHTMOST, 33, 2, filter_))
    about = "The header comes before the work."
    yield bad("bloom-work-late", about, "Malformed", "bloom-windows", late, limits={"max_work": 0})
    empty = _one(2, 1001, _section(RIGHTMOST, 9, 2, bytes(16)))
    yield bad(
        "bloom-work-first", "The work comes before the query.", kind, code, empty, limits={"max_work": 0}
    )
    most = _one(1, 2**24, _section(P1, 32, 1, ONES))
    about = "The most work that an entry can be, in 136 bytes."
    yield bad("bloom-work-most", about, kind, code, most, limits={"max_work": 2**21 * 32 + 2**24 - 1})


def _bad_head() -> Iterator[Case]:
    good = _section(P1, 3, 2, write_filter([4, 8], 3, 1), 77)
    for id, about, section in (
        ("0", "Eight bytes.", good[:8]),
        ("head", "A header without a filter.", good[:16]),
        ("short", "One byte is missing.", good[:-1]),
        ("long", "One extra byte.", good + b"\0"),
    ):
        yield bad(f"bloom-length-{id}", about, "Malformed", "bloom-length", _one(2, 20, section))
    fields: Sequence[tuple[str, str, str, str, tuple[int, ...]]] = (
        ("reserved", "The reserved field is 1.", "Malformed", "bloom-header", (0, 2, 3, P0, 1)),
        (
            "reserved-first",
            "It comes before k and the policy.",
            "Malformed",
            "bloom-header",
            (0, 0, 0, 9, 256),
        ),
        ("windows-0", "k = 0.", "Malformed", "bloom-windows", (0, 2, 0, P0, 0)),
        ("windows-33", "k = 33.", "Malformed", "bloom-windows", (0, 2, 33, P0, 0)),
        ("windows-255", "k = 255, and no such policy.", "Malformed", "bloom-windows", (0, 2, 255, 255, 0)),
        ("policy-7", "Policy 7.", "Unsupported", "bloom-policy", (0, 2, 3, 7, 0)),
        ("policy-255", "Policy 255, before its stream.", "Unsupported", "bloom-policy", (1, 2, 3, 255, 0)),
        ("stream-naive", "naive draws nothing.", "Malformed", "bloom-header", (1, 2, 3, NAIVE, 0)),
        (
            "stream-p0",
            "p0 draws nothing; nor is there a count.",
            "Malformed",
            "bloom-header",
            (2**63, 0, 3, P0, 0),
        ),
        (
            "stream-rightmost",
            "rightmost draws nothing.",
            "Malformed",
            "bloom-header",
            (5, 2, 3, RIGHTMOST, 0),
        ),
        ("count-0", "Nothing was inserted.", "Invalid", "bloom-count", (0, 0, 3, P0, 0)),
        ("count-more", "More was inserted than is decoded.", "Invalid", "bloom-count", (0, 3, 3, P0, 0)),
        ("count-most", "2^32 - 1 were inserted.", "Invalid", "bloom-count", (0, 2**32 - 1, 3, P2, 0)),
        (
            "count-less",
            "Under p1 as many are decoded as inserted.",
            "Invalid",
            "bloom-count",
            (0, 1, 3, P1, 0),
        ),
        ("count-naive", "Under naive, too.", "Invalid", "bloom-count", (0, 1, 3, NAIVE, 0)),
    )
    for id, about, kind, code, (stream, count, k, policy, reserved) in fields:
        section = _section(policy, k, count, good[16:], stream, reserved)
        yield bad(f"bloom-{id}", about, kind, code, _one(2, 20, section))


def _bad_filter() -> Iterator[Case]:
    kind, code = "Invalid", "bloom-positives"
    for number, policy in enumerate(POLICIES):
        section = _section(number, 4, 3, write_filter([4, 8], 4, 2))
        yield bad(f"bloom-few-{policy}", "Three of two positives.", kind, code, _one(3, 20, section))
    yield bad("bloom-none", "An empty filter.", kind, code, _one(1, 20, _section(P0, 1, 1, bytes(8))))
    section = _section(P0, 4, 2, write_filter([4, 8, 11], 4, 2))
    yield bad("bloom-many-p0", "Two of three positives under p0.", kind, code, _one(2, 20, section))
    yield bad(
        "bloom-ones-p0", "A filter of ones under p0.", kind, code, _one(19, 20, _section(P0, 1, 1, ONES))
    )
    beyond = write_filter([4, 8], 4, 2)
    about = "A positive beyond the last element does not count."
    yield bad("bloom-beyond", about, kind, code, _one(2, 8, _section(P0, 4, 2, beyond)))
    kind, code = "Invalid", "bloom-conflicts"
    section = _section(P2, 1, 30, ONES)
    yield bad("bloom-p2-positives", "One positive too many for p2.", kind, code, _one(30, 140, section))
    section = _section(P2, 1, 31, ONES)
    yield bad("bloom-p2-positives-odd", "The same, r being odd.", kind, code, _one(31, 142, section))
    section = _section(P2, 32, 30, ONES)
    yield bad("bloom-p2-pairs", "4,448 pairs in doubtful lists.", kind, code, _one(30, 139, section))
    kind, code = "Invalid", "bloom-certain"
    section = _section(P2, 4, 5, write_filter(spread(9, 100), 4, 20))
    yield bad(
        "bloom-p2-certain",
        "Nine elements are certain, five were inserted.",
        kind,
        code,
        _one(5, 100, section),
    )
