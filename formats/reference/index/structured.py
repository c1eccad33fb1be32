"""Index codec 10, structured: decoding (spec/index/structured.md).

Listed grains are a gap stream, runs or a bitmap. All steps are linear in the section's bits and in r.
"""

from __future__ import annotations

from dataclasses import dataclass

from formats.reference.errors import Invalid, Malformed

BLOCK = 256
PARAMETER_BITS = 5
MAX_PARAMETER = 24
GAPS, RUNS, BITMAP = range(3)
COMPLEMENT, FIRST, LAST, PHASED = 0x04, 0x08, 0x10, 0x80


@dataclass
class _BitReader:
    """A body, read bit after bit."""

    data: bytes
    at: int = 0

    def read_number(self, width: int) -> int:
        """Read the next ``width`` bits."""
        if self.at + width > 8 * len(self.data):
            raise Malformed("structured-length", "the body ends within a number")
        window = int.from_bytes(self.data[self.at // 8 : (self.at + width + 7) // 8], "little")
        number = window >> self.at % 8 & ((1 << width) - 1)
        self.at += width
        return number

    def count_zeros(self) -> int:
        """Return the number of zero bits before the next one bit, and consume that bit, too."""
        start = self.at
        byte, bit = divmod(self.at, 8)
        while byte < len(self.data):
            rest = self.data[byte] >> bit
            if rest:
                lowest = (rest & -rest).bit_length() - 1
                self.at = 8 * byte + bit + lowest + 1
                return self.at - 1 - start
            byte, bit = byte + 1, 0
        raise Malformed("structured-length", "the body ends within a gap")

    def read_stream(self, count: int, bound: int) -> list[int]:
        """Read a gap stream of ``count`` numbers below ``bound``."""
        numbers = []
        least = 0
        for n in range(count):
            if n % BLOCK == 0:
                b = self.read_number(PARAMETER_BITS)
                if b > MAX_PARAMETER:
                    raise Malformed("structured-parameter", f"b is {b}; it must be 0 to {MAX_PARAMETER}")
            q = self.count_zeros()
            number = least + (q << b | self.read_number(b))
            if number >= bound:
                raise Invalid("index-range", f"number {number} is not below {bound}")
            numbers.append(number)
            least = number + 1
        return numbers

    def check_end(self) -> None:
        """Check that only zero bits of the last byte follow."""
        if len(self.data) > -(-self.at // 8):
            raise Malformed("structured-length", "bytes after the last code")
        if self.at % 8 and self.data[-1] >> self.at % 8:
            raise Malformed("structured-padding", "a bit after the last code is set")


def decode_structured(section: bytes, r: int, d: int) -> list[int]:
    """Decode grains.

    Args:
        section: bytes of the index section.
        r: number of indices, 0 < r < d.
        d: number of elements, present or not.

    Returns:
        r strictly ascending indices below d.

    Raises:
        WireError: Malformed or Invalid.
    """
    flags = section[0] if section else 0
    width = flags >> 5 & 3
    start = 1 + width + (width if flags & PHASED else 0)
    if len(section) < start:
        raise Malformed("structured-length", "the section ends within the header")
    form = flags & 3
    if form > BITMAP:
        raise Malformed("structured-form", "form is 3")
    g = int.from_bytes(section[1 : 1 + width], "little") if width else 1
    p = int.from_bytes(section[1 + width : start], "little")
    if g > d or (width and (g < 2 or g < 1 << 8 * (width - 1))):
        raise Malformed("structured-grain", f"grain {g} in {width} bytes")
    if (flags & PHASED and p == 0) or p >= g:
        raise Malformed("structured-grain", f"phase is {p} and grain is {g}")
    n, rest = divmod(d - p, g)
    if (flags & FIRST and p == 0) or (flags & LAST and rest == 0):
        raise Malformed("structured-form", "a listed part has no elements")
    listed = d - r if flags & COMPLEMENT else r
    listed -= (p if flags & FIRST else 0) + (rest if flags & LAST else 0)
    m, odd = divmod(listed, g)
    if m < 0 or odd or m > n:
        raise Invalid("structured-count", f"{r} of {d} elements do not consist of grains of {g}")
    body = section[start:]
    if m in (0, n):
        if body:
            raise Malformed("structured-length", "the body is not empty although m is 0 or n")
        runs = [(0, m)]
    else:
        runs = (_read_gaps, _read_runs, _read_bitmap)[form](body, m, n)
    ranges = [(0, p)] if flags & FIRST else []
    ranges += [(p + g * start, p + g * stop) for start, stop in runs]
    ranges += [(d - rest, d)] if flags & LAST else []
    if flags & COMPLEMENT:
        ranges = _complement(ranges, d)
    return [i for start, stop in ranges for i in range(start, stop)]


_Ranges = list[tuple[int, int]]
"""Ascending ranges (first, last plus 1). There are at most as many as bits in the section, plus 2."""


def _complement(ranges: _Ranges, d: int) -> _Ranges:
    """Return the ranges of the elements below d that are in none of the ranges."""
    starts = [0, *(stop for _, stop in ranges)]
    stops = [*(start for start, _ in ranges), d]
    return list(zip(starts, stops, strict=True))


def _read_gaps(body: bytes, m: int, n: int) -> _Ranges:
    bits = _BitReader(body)
    grains = bits.read_stream(m, n)
    bits.check_end()
    return [(grain, grain + 1) for grain in grains]


def _read_runs(body: bytes, m: int, n: int) -> _Ranges:
    bits = _BitReader(body)
    most = min(m, n - m + 1)
    k = 1 + bits.read_number((most - 1).bit_length())
    if k > most:
        raise Malformed("structured-runs", f"{k} runs for {m} of {n} grains")
    before = bits.read_stream(k, n - m + 1)
    ends = [-1, *bits.read_stream(k - 1, m - 1), m - 1]
    bits.check_end()
    return [(z + ends[i] + 1, z + ends[i + 1] + 1) for i, z in enumerate(before)]


def _read_bitmap(body: bytes, m: int, n: int) -> _Ranges:
    if len(body) != -(-n // 8):
        raise Malformed("structured-length", f"{len(body)} bytes for {n} grains")
    if n % 8 and body[-1] >> n % 8:
        raise Malformed("structured-padding", "a bit after the last grain is set")
    grains = [8 * at + bit for at, byte in enumerate(body) for bit in range(8) if byte >> bit & 1]
    if len(grains) != m:
        raise Invalid("structured-count", f"the number of set bits is not {m}")
    return [(grain, grain + 1) for grain in grains]
