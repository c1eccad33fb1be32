"""A small inflater with faults to choose from.

It shows what a reader without one rule of deflate.md makes of a stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

ORDER = (16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15)
LENGTH_BASES = [*range(3, 11), *range(11, 19, 2), *range(19, 35, 4), *range(35, 67, 8), *range(67, 131, 16)]
LENGTH_BASES += [*range(131, 258, 32), 258, 0, 0]
LENGTH_EXTRA = [0] * 8 + [n for n in range(1, 6) for _ in range(4)] + [0, 0, 0]
DISTANCE_EXTRA = [0, 0, *(n for n in range(14) for _ in range(2)), 0, 0]
DISTANCE_BASES = [1 + sum(1 << e for e in DISTANCE_EXTRA[:n]) for n in range(30)] + [0, 0]
FIXED = [*[8] * 144, *[9] * 112, *[7] * 24, *[8] * 8]


class BadStream(Exception):
    """A stream that is refused; the argument names the rule."""


@dataclass
class _Stream:
    data: bytes
    fault: str
    at: int = 0

    def number(self, width: int) -> int:
        if self.at + width > 8 * len(self.data):
            raise BadStream("end")
        found = sum(
            (self.data[i // 8] >> i % 8 & 1) << n for n, i in enumerate(range(self.at, self.at + width))
        )
        self.at += width
        return found

    def refuse(self, rule: str) -> None:
        """Raise BadStream, unless this rule is the one that is left out."""
        if rule != self.fault:
            raise BadStream(rule)

    def symbol(self, lengths: Sequence[int]) -> int:
        """Read a symbol of the canonical code with these lengths, as puff.c does."""
        code = first = index = 0
        ranked = sorted((length, symbol) for symbol, length in enumerate(lengths) if length)
        for width in range(1, 16):
            code |= self.number(1)
            count = sum(length == width for length in lengths)
            if code - first < count:
                return ranked[index + code - first][1]
            index += count
            first = (first + count) << 1
            code <<= 1
        raise BadStream("no code")

    def check_code(self, lengths: Sequence[int], over: str, short: str, *, alone: bool) -> None:
        total = sum(2**-length for length in lengths if length)
        used = [length for length in lengths if length]
        if total > 1:
            self.refuse(over)
        if total < 1 and not (alone and (used == [1] or (short == "distance-short" and not used))):
            self.refuse(short)
        if self.fault == "one distance" and short == "distance-short" and len(used) > 1:
            raise BadStream("distances")


def inflate(data: bytes, size: int, fault: str = "") -> bytes:
    """Return the content of a stream that fills the bytes.

    Args:
        data: the stream.
        size: the bytes of content.
        fault: a rule to leave out, or another fault.

    Raises:
        BadStream: if the stream is refused, or its content has another size.
    """
    stream, out = _Stream(data, fault), bytearray()
    while not _read_block(stream, out, size):
        if fault == "window per block":
            out = bytearray(len(out))
    if -(-stream.at // 8) != len(data):
        raise BadStream("trailing")
    if len(out) != size:
        raise BadStream("length")
    return bytes(out)


def _read_block(stream: _Stream, out: bytearray, size: int) -> int:
    """Read a block; return whether it is the last one."""
    last, kind = stream.number(1), stream.number(2)
    if kind == 3:
        if not stream.fault.startswith("type 3"):
            raise BadStream("type")
        kind = int(stream.fault[-1])
    if kind == 0:
        stream.at += -stream.at % 8
        length, complement = stream.number(16), stream.number(16)
        if length ^ complement != 0xFFFF:
            raise BadStream("complement")
        out += bytes(stream.number(8) for _ in range(length))
        return last
    literals, distances = (FIXED, [5] * 32) if kind == 1 else _read_lengths(stream)
    while (symbol := stream.symbol(literals)) != 256:
        if symbol < 256:
            out.append(symbol)
        else:
            _copy(stream, out, symbol - 257, distances)
        if len(out) > size:
            raise BadStream("longer")
    return last


def _copy(stream: _Stream, out: bytearray, symbol: int, distances: Sequence[int]) -> None:
    if symbol > 28:
        stream.refuse("symbol")
    length = LENGTH_BASES[symbol] + stream.number(LENGTH_EXTRA[symbol])
    if stream.fault == "258 has extra bits" and symbol == 28:
        length = 227 + stream.number(5)
    symbol = stream.symbol(distances)
    if symbol > 29:
        stream.refuse("distance symbol")
    distance = DISTANCE_BASES[symbol] + stream.number(DISTANCE_EXTRA[symbol])
    if stream.fault == "distances below 32768" and distance == 32_768:
        raise BadStream("distance")
    if stream.fault == "distance symbols below 29" and symbol == 29:
        raise BadStream("distance")
    if distance > len(out):
        stream.refuse("far")
    for _ in range(length):
        out.append(out[-distance] if 0 < distance <= len(out) else 0)


def _read_lengths(stream: _Stream) -> tuple[list[int], list[int]]:
    n, m, stated = stream.number(5) + 257, stream.number(5) + 1, stream.number(4) + 4
    codes = [0] * 19
    for symbol in ORDER[:stated]:
        codes[symbol] = stream.number(3)
    stream.check_code(codes, "lengths-over", "lengths-short", alone=False)
    lengths = list(_iterate_lengths(stream, codes, n, n + m))
    if len(lengths) > n + m:
        stream.refuse("repeat-beyond")
    literals, distances = lengths[:n], lengths[n : n + m]
    if not literals[256]:
        raise BadStream("no end")
    stream.check_code(literals, "literal-over", "literal-short", alone=True)
    stream.check_code(distances, "distance-over", "distance-short", alone=True)
    if stream.fault == "codes below 15 bits" and max(literals) == 15:
        raise BadStream("15 bits")
    return literals, distances


def _iterate_lengths(stream: _Stream, codes: Sequence[int], border: int, count: int) -> Iterator[int]:
    previous, done = -1, 0
    while done < count:
        symbol = stream.symbol(codes)
        times = 1
        if symbol < 16:
            previous = symbol
        elif symbol == 16:
            times = 3 + stream.number(2)
            if stream.fault == "no repetition of a literal's length" and done == border:
                raise BadStream("repeat")
            if previous < 0:
                stream.refuse("repeat-first")
                previous = 0
        else:
            times = 3 + stream.number(3) if symbol == 17 else 11 + stream.number(7)
            previous = 0
        done += times
        if stream.fault == "repetitions end before the last" and times > 1 and done == count:
            raise BadStream("repeat")
        if stream.fault == "repetitions end with a code" and done - times < border < done:
            raise BadStream("repeat")
        yield from [previous] * times
