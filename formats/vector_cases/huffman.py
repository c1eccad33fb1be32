"""Index codec huffman: its forms and sizes, and each check of the page."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from formats.reference import Huffman, Qsgd, Tensor, write
from formats.reference.bits import pack_stream
from formats.reference.writing.index.huffman import write_huffman
from formats.vector_cases.case import Case, bad, exact, patch, sparse, spread, valid
from formats.vector_cases.parts import gapped, of_index

ONES = Qsgd(bits=2, bucket=2**24)
KEYS = Huffman("keys")


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    for name, codec in (("huffman", Huffman()), ("huffman-keys", KEYS)):
        for r in (1, 2, 18, 19):
            all_keys = codec is KEYS and r == 19
            t = sparse("0", 19, spread(r, 19, r), first=40 * all_keys)
            id = "huffman-keys-all" if all_keys else f"{name}-r{r}"
            yield exact(id, f"{name}, {r} of 19 elements.", [t], codec)
        t = sparse("0", 2**24, [2**24 - 1])
        yield exact(f"{name}-gap-most", "An element of 2^24, the last.", [t], codec)
        for r in (4097,) if codec is KEYS else (4095, 4096, 4097, 8192, 8193, 16_385):
            t = gapped([3 if i % 500 == 499 else 0 for i in range(r)])
            yield exact(f"{name}-r{r}", f"{r} indices in {-(-r // 4096)} spans.", [t], codec, ONES)
    yield from _gap_classes()
    yield from _keys()
    yield from _foreign()
    yield from _bad_heads()
    yield from _bad_codes()
    yield from _bad_spans()
    yield from _bad_keys()


def _rising(counts: Sequence[int]) -> list[int]:
    """Return gaps in which gap n occurs ``counts[n]`` times."""
    return [gap for gap, count in enumerate(counts) for _ in range(count)]


def _gap_classes() -> Iterator[Case]:
    t = gapped([0] * 700)
    yield exact(
        "huffman-dense", "A single symbol without extra bits: no bytes behind the head.", [t], Huffman()
    )
    t = gapped([5] * 40)
    yield exact("huffman-equal", "Equal gaps: a single symbol, and extra bits.", [t], Huffman())
    for m, gaps in ((0, [1, 9, 40]), (1, [4, 5] * 40), (2, [4, 7] * 60), (3, [8, 8, 8, 9, 15] * 100)):
        yield exact(
            f"huffman-m{m}", f"Gaps for which m = {m} is the smallest.", [gapped(gaps)], Huffman(), ONES
        )
    t = gapped([2, 3] * 2)
    yield exact("huffman-tie", "Several m are equally small: the lowest is written.", [t], Huffman())
    counts = [1, 1]
    while len(counts) < 15:
        counts.append(counts[-1] + counts[-2])
    about = "Fibonacci counts: Huffman's own code would have 14 bits, the longest written have 12."
    yield exact("huffman-limited", about, [gapped(_rising(counts))], Huffman(), ONES)
    about = (
        "Equal counts of a number of symbols that is no power of two: which are shorter is a matter of ties."
    )
    yield exact("huffman-ties", about, [gapped(_rising([30] * 13))], Huffman(), ONES)
    t = gapped([3 * 2**n % 1000 + (n % 7) for n in range(400)])
    yield exact("huffman-many", "Many classes, an odd and an even number of lengths.", [t], Huffman(), ONES)


def _keys() -> Iterator[Case]:
    for d in (256, 257, 65_536, 65_537):
        t = sparse("0", d, [0, 1, 77, 200, d - 1])
        yield exact(f"huffman-keys-d{d}", "Where keys take a byte more.", [t], KEYS)
    t = sparse("0", 2**24, [n * 0x010101 for n in range(1, 9)])
    yield exact("huffman-keys-equal-bytes", "Keys of three equal bytes.", [t], KEYS)
    t = sparse("0", 2**24, [0x070707])
    yield exact("huffman-keys-single", "One symbol: no bytes behind the head.", [t], KEYS)


def _foreign() -> Iterator[Case]:
    few = sparse("0", 1000, [3, 4, 60, 400, 999])
    many = gapped([i % 23 * (i % 5) for i in range(300)])
    for m in range(4):
        data = write([few], Huffman(m=m), names=False)
        yield valid(f"huffman-foreign-m{m}", f"m = {m}, whether it is best or not.", data, [few])
    for m in (0, 3):
        data = write([many], Huffman(m=m, spare=True), ONES, names=False)
        about = f"m = {m}, and codes for symbols that do not occur."
        yield valid(f"huffman-foreign-spare-m{m}", about, data, [many])
    data = write([few], Huffman("keys", spare=True), names=False)
    yield valid("huffman-foreign-keys", "Codes for bytes that do not occur.", data, [few])
    lengths = [*range(1, 13), 12]
    section = bytes([3, 0, 12]) + pack_stream(lengths, 4, 1) + pack_stream([0xFFF, 0xFFF], 12, 1)
    t = Tensor("0", "float16", (100,), [12, 25], bytes(4))
    yield valid("huffman-foreign-longest", "Two codes of 12 bits, all ones.", _index(2, 100, section), [t])
    section = bytes([0, 1, 1, 0x11, 0b10])
    t = Tensor("0", "float16", (100,), [1, 4], bytes(4))
    yield valid("huffman-foreign-two", "Codes 0 and 1; gaps 1 and 2.", _index(2, 100, section), [t])


def _index(r: int, d: int, section: bytes) -> bytes:
    return of_index(6, r, d, section)


def _bad_heads() -> Iterator[Case]:
    good = write_huffman([3, 400, 999], 1000)
    kind, code = "Malformed", "huffman-length"
    for n in (1, 2):
        yield bad(
            f"huffman-length-{n}", f"{n} of the head's three bytes.", kind, code, _index(3, 1000, good[:n])
        )
    for id, about, section in (
        ("lengths", "Bytes of the lengths are missing.", bytes([0, 2, 8, 0x11])),
        ("lengths-one", "The last byte of the lengths is missing.", bytes([0, 2, 8, 0, 0, 0, 0])),
    ):
        yield bad(f"huffman-length-{id}", about, kind, code, _index(3, 1000, section))
    section = bytes([0, 0, 0]) + bytes(5)
    about = "A byte of the second span's length is missing."
    yield bad("huffman-length-tables", about, kind, code, _index(4097, 9000, section))
    about = "The same with keys, which have no bases."
    yield bad("huffman-length-tables-keys", about, kind, code, _index(4097, 9000, bytes([4, 0, 0, 0])))
    kind, code = "Malformed", "huffman-form"
    for form in (5, 255):
        section = bytes([form, 255, 255])
        yield bad(f"huffman-form-{form}", f"Form {form}.", kind, code, _index(3, 1000, section))
    kind, code = "Malformed", "huffman-symbols"
    for form, symbols in enumerate((25, 48, 92, 176, 256)):
        for id, first, more in (("first", symbols, 0), ("more", symbols - 1, 1), ("most", 1, 255)):
            if first > 255:
                continue
            about = f"Symbol {first + more} of {symbols}; no lengths follow."
            data = _index(3, 1000, bytes([form, first, more]))
            yield bad(f"huffman-symbols-{form}-{id}", about, kind, code, data)


def _bad_codes() -> Iterator[Case]:
    def coded(lengths: Sequence[int], spans: bytes = bytes(3), form: int = 0) -> bytes:
        section = bytes([form, 0, len(lengths) - 1]) + pack_stream(lengths, 4, 1) + spans
        return _index(3, 1000, section)

    kind, code = "Malformed", "huffman-padding"
    section = bytes([0, 0, 2, 0x21, 0x12]) + bytes(3)
    yield bad("huffman-padding-lengths", "A bit after three lengths.", kind, code, _index(3, 1000, section))
    kind, code = "Malformed", "huffman-code-length"
    for most in (13, 14, 15):
        lengths = [*range(1, most + 1), most]
        about = f"A complete code with two codes of {most} bits."
        yield bad(f"huffman-code-length-{most}", about, kind, code, coded(lengths))
    kind, code = "Malformed", "huffman-window"
    for id, about, lengths in (
        ("first", "The first symbol has no code.", [0, 1, 1]),
        ("last", "The last symbol has no code.", [1, 1, 0]),
        ("none", "No symbol has a code.", [0, 0, 0]),
    ):
        yield bad(f"huffman-window-{id}", about, kind, code, coded(lengths))
    kind, code = "Malformed", "huffman-code"
    for id, about, lengths in (
        ("over", "Three codes of one bit.", [1, 1, 1]),
        ("over-least", "A code of 12 bits too many.", [*range(1, 13), 12, 12]),
        ("under", "One bit and two bits.", [1, 2]),
        ("under-least", "A code of 12 bits too few.", [*range(1, 13)]),
        ("under-most", "Two codes of 12 bits.", [12, 12]),
        ("over-most", "Twenty-five codes of one bit.", [1] * 25),
    ):
        yield bad(f"huffman-{code[8:]}-{id}", about, kind, code, coded(lengths))
    lengths = [1] * 256
    about = "256 codes of one bit, which add up to 0 in 20 bits of 2^-12."
    yield bad("huffman-code-over-wrapping", about, kind, code, coded(lengths, form=4))


def _bad_spans() -> Iterator[Case]:
    about = "A gap beyond d, and a set bit after it: the padding is checked first."
    data = _index(1, 4, b"\0\3\0\4")
    yield bad("huffman-padding-before-range", about, "Malformed", "huffman-padding", data)

    # Codes 0 and 1 for the gaps 0 and 1, no extra bits: the bits of a span are the gaps.
    def flat(bits: Sequence[int], r: int, d: int) -> bytes:
        return _index(r, d, bytes([0, 0, 1, 0x11]) + pack_stream(bits, 1, 1))

    kind, code = "Malformed", "huffman-span"
    yield bad("huffman-span-none", "No codes.", kind, code, flat([], 3, 100))
    yield bad("huffman-span-cut", "The ninth code is missing.", kind, code, flat([1] * 8, 9, 100))
    yield bad("huffman-span-long", "A byte after the codes.", kind, code, flat([1] * 8 + [0] * 8, 8, 100))
    wide = bytes([0, 24, 0])
    about = "A byte of the extra bits is missing."
    yield bad("huffman-span-extra", about, kind, code, _index(1, 2**24, wide + bytes(2)))
    about = "A single symbol without bits, and a byte."
    yield bad("huffman-span-single", about, kind, code, _index(3, 100, bytes([0, 0, 0, 0])))
    kind, code = "Malformed", "huffman-padding"
    for n in (3, 7):
        bits = [0, 1, 0, *(int(k == n) for k in range(3, 8))]
        yield bad(f"huffman-padding-{n}", f"Bit {n} after three codes.", kind, code, flat(bits, 3, 100))
    kind, code = "Invalid", "index-range"
    yield bad("huffman-range", "Index d.", kind, code, flat([1, 1, 1], 3, 5))
    section = wide + struct.pack("<I", 2**23 - 1)[:3]
    about = "Extra bits that make index 2^24 - 1, in a chunk of 2^24 - 1 elements."
    yield bad("huffman-range-extra", about, kind, code, _index(1, 2**24 - 1, section))
    section = wide + pack_stream([1] * 23 * 257, 1, 1)
    about = "257 gaps of 2^24 - 1: the last index is 2^24 in 32 bits, less one."
    yield bad("huffman-range-wrapping", about, kind, code, _index(257, 2**24, section))
    indices = [2 * i for i in range(4097)]  # header of three bytes, one base, one length
    good = write_huffman(indices, 9000, m=0, spare=False)
    (size,) = struct.unpack_from("<H", good, 8)
    d = 9000
    kind, code = "Malformed", "huffman-length"
    for id, about, length in (
        ("more", "more bytes than there are", len(good) - 9),
        ("most", "65,535", 65_535),
    ):
        data = _index(4097, d, patch(good, 8, "H", length))
        yield bad(f"huffman-length-spans-{id}", f"The first span takes {about}.", kind, code, data)
    kind, code = "Malformed", "huffman-span"
    for id, about, length in (("less", "one byte less", size - 1), ("more", "one byte more", size + 1)):
        data = _index(4097, d, patch(good + bytes(1), 8, "H", length))
        yield bad(f"huffman-span-{id}", f"The first span takes {about}.", kind, code, data)
    kind, code = "Invalid", "huffman-base"
    (base,) = struct.unpack_from("<I", good, 4)
    for id, about, wrong in (
        ("0", "The second span starts again from 0.", 0),
        ("less", "The base is one too small.", base - 1),
        ("more", "The base is one too great.", base + 1),
    ):
        yield bad(f"huffman-base-{id}", about, kind, code, _index(4097, d, patch(good, 4, "I", wrong)))
    kind, code = "Invalid", "index-range"
    about = "A base of 2^32 - 1."
    yield bad("huffman-base-most", about, kind, code, _index(4097, d, patch(good, 4, "I", 2**32 - 1)))
    about = "A base that puts an index at d."
    yield bad("huffman-base-d", about, kind, code, _index(4097, d, patch(good, 4, "I", d - 1)))
    section = patch(patch(good, 4, "I", 0), len(good) - 1, "B", good[-1] | 0x80)
    about = "A wrong base, and a bit after the codes of that span: bases come last."
    yield bad("huffman-base-last", about, "Malformed", "huffman-padding", _index(4097, d, section))


def _bad_keys() -> Iterator[Case]:
    def keys(bytes_of_keys: Sequence[int], r: int, d: int, head: bytes = bytes([4, 0, 255])) -> bytes:
        flat = [int(f"{byte:08b}"[::-1], 2) for byte in bytes_of_keys]  # 256 codes of 8 bits, highest first
        return _index(r, d, head + b"\x88" * 128 + pack_stream(flat, 8, 1))

    kind, code = "Malformed", "huffman-span"
    yield bad("huffman-keys-cut", "The last key has one byte of two.", kind, code, keys([1, 0, 2], 2, 300))
    yield bad(
        "huffman-keys-wide", "Keys of two bytes where one is enough.", kind, code, keys([1, 0, 2, 0], 2, 256)
    )
    kind, code = "Invalid", "index-order"
    yield bad("huffman-keys-repeated", "A key twice.", kind, code, keys([1, 4, 4], 3, 100))
    yield bad("huffman-keys-descending", "5 before 4.", kind, code, keys([1, 5, 4], 3, 100))
    yield bad("huffman-keys-bytes", "256 before 2.", kind, code, keys([0, 1, 2, 0], 2, 300))
    yield bad(
        "huffman-keys-order-first", "The order comes before the range.", kind, code, keys([1, 200, 4], 3, 100)
    )
    kind, code = "Invalid", "index-range"
    yield bad("huffman-keys-d", "Key d.", kind, code, keys([1, 100], 2, 100))
    yield bad("huffman-keys-most", "Key 2^24 - 1.", kind, code, keys([255] * 3, 1, 70_000))
