"""deflate: blocks with codes of their own, far distances, and each rule of the page's list alone.

The streams are made by hand. Content of more than 32 KiB is in fused entries, so that the zeros between its
parts are tensors whose values a vector abbreviates. No vector can show the rule about symbol 256 alone:
without a code for it, a block does not end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Literal

from formats.conformance import expand_values
from formats.reference import Record, Row, assemble
from formats.reference.bits import pack_stream
from formats.reference.prng import draw32
from formats.reference.writing.assembly import write_extension_block
from formats.reference.writing.records import write_fused
from formats.vector_cases.case import Case, bad, valid
from formats.vector_cases.deflate import CODE_LENGTH_ORDER
from formats.vector_cases.parts import of_values

Token = int | tuple[int, int]
"""A literal, or (length, distance) of a copy."""
Bits = list[int]
END = 256
FIXED = {n: 8 if n < 144 else 9 if n < 256 else 7 if n < 280 else 8 for n in range(288)}
FIXED_DISTANCES = dict.fromkeys(range(32), 5)
REPEAT, FEW_ZEROS, ZEROS = 16, 17, 18
EXTRA = {REPEAT: (2, 3), FEW_ZEROS: (3, 3), ZEROS: (7, 11)}
"""Extra bits of a repetition, and its least count."""
FAR = 33_000
"""Offset at which the far copies begin."""


def _bases(first: int, extras: Sequence[int]) -> list[tuple[int, int]]:
    """Return (base, extra bits) of successive symbols."""
    found = []
    for extra in extras:
        found.append((first, extra))
        first += 1 << extra
    return found


LENGTHS = [*_bases(3, [0] * 8 + [n for n in range(1, 6) for _ in range(4)])[:28], (258, 0)]
DISTANCES = _bases(1, [0, 0] + [n for n in range(14) for _ in range(2)])
assert LENGTHS[27] == (227, 5)
assert DISTANCES[29] == (24_577, 13)


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield from _small()
    yield from _headers()
    yield from _far()
    yield from _bad_tokens()
    yield from _bad_headers()


def canonical(lengths: Mapping[int, int]) -> dict[int, Bits]:
    """Return the codes of symbols from their lengths, the highest bit first (RFC 1951, section 3.2.2)."""
    found, code, last = {}, 0, 0
    for length, symbol in sorted((length, symbol) for symbol, length in lengths.items() if length):
        code <<= length - last
        last = length
        found[symbol] = [code >> bit & 1 for bit in range(length - 1, -1, -1)]
        code += 1
    return found


def flat(symbols: Sequence[int]) -> dict[int, int]:
    """Return lengths of a complete code that differ by at most one bit; the first symbols are shorter."""
    width = (len(symbols) - 1).bit_length()
    shorter = (1 << width) - len(symbols)
    return {symbol: max(width - (n < shorter), 1) for n, symbol in enumerate(symbols)}


def steep(symbols: Sequence[int]) -> dict[int, int]:
    """Return lengths 1, 2, 3, … of a complete code of at most 16 symbols."""
    return {symbol: min(n + 1, len(symbols) - 1) for n, symbol in enumerate(symbols)}


def number(value: int, width: int) -> Bits:
    """Return the bits of a number, the lowest first."""
    return [value >> bit & 1 for bit in range(width)]


def _symbol_of(value: int, table: Sequence[tuple[int, int]]) -> tuple[int, Bits]:
    """Return the symbol of a length or distance, and its extra bits."""
    n = max(n for n, (base, _) in enumerate(table) if base <= value)
    base, extra = table[n]
    return n, number(value - base, extra)


def body(tokens: Sequence[Token], literals: Mapping[int, int], distances: Mapping[int, int]) -> Bits:
    """Return the bits of a block's data and its end."""
    codes, away = canonical(literals), canonical(distances)
    bits: Bits = []
    for token in tokens:
        if isinstance(token, int):
            bits += codes[token]
        else:
            symbol, extra = _symbol_of(token[0], LENGTHS)
            bits += codes[257 + symbol] + extra
            symbol, extra = _symbol_of(token[1], DISTANCES)
            bits += away[symbol] + extra
    return bits + codes[END]


def fixed(tokens: Sequence[Token], *, last: bool = True) -> Bits:
    """Return a block of the fixed codes."""
    return [last, 1, 0, *body(tokens, FIXED, FIXED_DISTANCES)]


Step = tuple[int, int]
"""A symbol of the code-length code, and the count of a repetition."""


def steps_of(lengths: Sequence[int]) -> list[Step]:
    """Return the code lengths as symbols of the code-length code, with the longest repetitions."""
    steps: list[Step] = []
    at = 0
    while at < len(lengths):
        run = 1
        while at + run < len(lengths) and lengths[at + run] == lengths[at]:
            run += 1
        if lengths[at] == 0 and run >= 3:
            run = min(run, 138)
            steps.append((FEW_ZEROS if run < 11 else ZEROS, run))
        elif run >= 4:
            run = min(run, 7)
            steps += [(lengths[at], 1), (REPEAT, run - 1)]
        else:
            run = 1
            steps.append((lengths[at], 1))
        at += run
    return steps


def own(
    tokens: Sequence[Token],
    literals: Mapping[int, int],
    distances: Mapping[int, int],
    *,
    last: bool = True,
    steps: Sequence[Step] | None = None,
    codes: Mapping[int, int] | None = None,
    counts: tuple[int, int] | None = None,
    kind: int = 2,
) -> Bits:
    """Return a block of codes of its own.

    Args:
        tokens: the data.
        literals: code lengths of the literal/length symbols.
        distances: code lengths of the distance symbols; empty for none.
        last: whether it is the last block.
        steps: how the lengths are written; None for ``steps_of``.
        codes: lengths of the code-length code; None for a complete code of the symbols that occur.
        counts: numbers of literal/length and distance lengths; None for the fewest.
        kind: the block type.
    """
    n, m = counts or (max(literals) + 1, max(distances, default=0) + 1)
    lengths = [literals.get(s, 0) for s in range(n)] + [distances.get(s, 0) for s in range(m)]
    steps = steps_of(lengths) if steps is None else steps
    codes = flat(sorted({symbol for symbol, _ in steps})) if codes is None else codes
    stated = max(i for i, symbol in enumerate(CODE_LENGTH_ORDER) if codes.get(symbol)) + 1
    bits = [last, *number(kind, 2), *number(n - 257, 5), *number(m - 1, 5), *number(stated - 4, 4)]
    for symbol in CODE_LENGTH_ORDER[:stated]:
        bits += number(codes.get(symbol, 0), 3)
    written = canonical(codes)
    for symbol, count in steps:
        bits += written[symbol]
        if symbol in EXTRA:
            width, least = EXTRA[symbol]
            bits += number(count - least, width)
    return bits + body(tokens, literals, distances)


def inflate(tokens: Sequence[Token], content: bytearray) -> None:
    """Append the content of tokens."""
    for token in tokens:
        if isinstance(token, int):
            content.append(token)
        else:
            for _ in range(token[0]):
                content.append(content[-token[1]])


def noise(count: int, salt: int) -> list[int]:
    """Return irregular but fixed bytes as literals."""
    return [draw32(0xDEF1A7E0 + salt, n) >> 24 for n in range(count)]


def _stream(*blocks: Bits) -> bytes:
    return pack_stream([bit for block in blocks for bit in block], 1, 1)


def _case(id: str, about: str, want: Sequence[Token], stream: bytes, dtype: int = 1) -> Case:
    """Return the case of a stream whose content is that of the tokens, all of them values of one tensor."""
    content = bytearray()
    inflate(want, content)
    width = {1: 4, 2: 2}[dtype]
    assert len(content) % width == 0, len(content)
    case = valid(f"deflate-{id}", about, of_values(6, dtype, len(content) // width, b"\0" + stream))
    assert case.fields["decoded"]["tensors"][0]["values"] in (content.hex(), _repeat(content, width)), id
    return case


def _repeat(content: bytearray, width: int) -> dict[str, object]:
    return {"repeat": content[:width].hex(), "bytes": len(content)}


def _literals(tokens: Sequence[Token]) -> list[int]:
    """Return the literal/length symbols that tokens use, and that of the end."""
    return sorted({END, *(t if isinstance(t, int) else 257 + _symbol_of(t[0], LENGTHS)[0] for t in tokens)})


def _distances(tokens: Sequence[Token]) -> list[int]:
    return sorted({_symbol_of(t[1], DISTANCES)[0] for t in tokens if not isinstance(t, int)})


def _own_for(tokens: Sequence[Token], *, last: bool = True) -> Bits:
    """Return a block of flat codes of the symbols that its tokens use."""
    return own(tokens, flat(_literals(tokens)), flat(_distances(tokens)), last=last)


def _filled(tokens: Sequence[Token], literal: int) -> list[Token]:
    """Return the tokens, and a literal as often as whole values of four bytes need."""
    size = sum(1 if isinstance(t, int) else t[0] for t in tokens)
    return [*tokens, *[literal] * (-size % 4)]


def _small() -> Iterator[Case]:
    tokens = _filled([1, 2, 3, (3, 3), (4, 4), (3, 3), 7, (3, 4), (4, 4)], 7)
    assert _distances(tokens) == [2, 3]
    about = "A distance code of two codes of one bit, both used, and several copies."
    yield _case("own-distances-2", about, tokens, _stream(_own_for(tokens)))
    tokens = _filled([1, 2, 3, 4, (4, 4), 5, (3, 1), (4, 2), (8, 8), (3, 4)], 9)
    assert len(_distances(tokens)) == 4
    about = "A distance code of four codes of two bits."
    yield _case("own-distances-4", about, tokens, _stream(_own_for(tokens)))
    some: list[Token] = [*noise(16, 1), (3, 1), (4, 2), (3, 3), (6, 4), (4, 5), (5, 7), (7, 9), (3, 13)]
    tokens = _filled(some, 200)
    symbols = _literals(tokens)
    literals, away = _deep(symbols), steep(_distances(tokens))
    assert max(literals.values()) == 15
    about = "Codes of 1 to 15 bits for literals and lengths, and of 1 to 7 bits for distances."
    yield _case("own-deep", about, tokens, _stream(own(tokens, literals, away)))
    first = noise(9, 2)
    copies: list[Token] = [(9, 9), (5, 14)]
    third: list[Token] = _filled([*first, *copies, 77, (20, 24), (12, 33), (3, 1)], 78)[len(first) + 2 :]
    about = "Copies reach into earlier blocks: stored, of the fixed codes, of codes of their own."
    stream = _stream([0, 0, 0]) + bytes([9, 0, 0xF6, 0xFF, *first])
    stream += _stream(fixed(copies, last=False), _own_for(third, last=False), _own_for([(4, 60)]))
    yield _case("own-window", about, [*first, *copies, *third, (4, 60)], stream)


def _deep(symbols: Sequence[int]) -> dict[int, int]:
    """Return a complete code with lengths from 1 to 15."""
    head, tail = symbols[:11], symbols[11:]
    spare = flat(tail)
    return {s: n + 1 for n, s in enumerate(head)} | {s: 11 + w for s, w in spare.items()}


def _headers() -> Iterator[Case]:
    """Yield blocks whose code lengths end with, or cross a border in, a repetition."""
    four = dict.fromkeys(range(4), 2)
    data: list[Token] = [7, 7, 7, 7, (4, 4), (4, 3), (4, 2), (4, 1)]
    literals = {7: 1, END: 2, 258: 2}
    steps: list[Step] = [(0, 1), (FEW_ZEROS, 6), (1, 1), (ZEROS, 138), (ZEROS, 110), (2, 1), (0, 1), (2, 1)]
    about = "A repetition ends exactly at the last code length."
    stream = _stream(own(data, literals, four, steps=[*steps, (2, 1), (REPEAT, 3)]))
    yield _case("lengths-repeat-last", about, data, stream)
    about = "The first distance code's length is a repetition of the last literal/length code's."
    stream = _stream(own(data, literals, four, steps=[*steps, (REPEAT, 4)]))
    yield _case("lengths-repeat-border", about, data, stream)
    about = "A repetition begins in the literal/length codes and ends in the distance codes."
    eight = dict.fromkeys(range(8), 3)
    wide = {7: 1, **dict.fromkeys(range(END, END + 4), 3)}
    three: list[Step] = [*ZEROS_TO_7, (3, 1), (REPEAT, 6), (REPEAT, 5)]
    yield _case("lengths-repeat-across", about, data, _stream(own(data, wide, eight, steps=three)))
    two: list[Token] = [7, 7, 7, 7, (4, 1), (4, 2), (4, 1)]
    both = {0: 1, 1: 1}
    for count, symbol in ((10, FEW_ZEROS), (28, ZEROS)):
        about = f"{count} zeros of distances end exactly at the last code length."
        stream = _stream(
            own(two, literals, both, steps=[*steps, (1, 1), (1, 1), (symbol, count)], counts=(259, 2 + count))
        )
        yield _case(f"lengths-zeros-last-{count}", about, two, stream)
    about = "Zeros from the last literal/length codes on into the distances."
    plain: list[Token] = [7, 7, 7, 7, (3, 2)]
    part: list[Step] = [(0, 1), (FEW_ZEROS, 6), (1, 1), (ZEROS, 138), (ZEROS, 110), (2, 1), (2, 1)]
    stream = _stream(
        own(
            [*plain, 7],
            {7: 1, END: 2, 257: 2},
            {1: 1},
            steps=[*part, (FEW_ZEROS, 4), (1, 1)],
            counts=(261, 2),
        )
    )
    yield _case("lengths-zeros-across", about, [*plain, 7], stream)


def _far() -> Iterator[Case]:
    """Yield a stream in which all lengths and distances occur, with their least and greatest extra bits."""
    far = [d for base, extra in DISTANCES[16:] for d in (base, base + (1 << extra) - 1)]
    near = [d for base, extra in DISTANCES[:16] for d in sorted({base, base + (1 << extra) - 1})]
    lengths = [n for base, extra in LENGTHS for n in sorted({base, min(base + (1 << extra) - 1, 257)})]
    copies: list[Token] = []
    at = FAR
    wanted = set(range(40))
    for n, d in enumerate(far):
        length = 4 + n % 5
        copies.append((length, d))
        wanted.update(range(at - d, at - d + length))
        at += length
    for d in near:
        copies.append((3, d))
    for n, length in enumerate(lengths):
        copies += [*noise(2, 100 + n), (length, 60 + 7 * n)]
    start: list[Token] = []
    at = 0
    while at < FAR:
        gap = next((i for i in range(at, FAR) if i in wanted), FAR) - at
        if gap > 3:
            start += [0, *[(258, 1)] * ((gap - 1) // 258), *[0] * ((gap - 1) % 258)]
        else:
            start += [0] * gap
        at += gap
        while at in wanted and at < FAR:
            start.append(draw32(0xFA4, at) >> 24)
            at += 1
    away = flat(range(30))
    literals = flat(range(286))
    end: list[Token] = [(258, 32_768), (3, 24_577), (100, 24_576), 1, 2]
    content = bytearray()
    inflate([*start, *copies, *end], content)
    end += [3] * (-len(content) % 2)
    content = bytearray()
    inflate([*start, *copies, *end], content)
    stream = _stream(_own_for(start, last=False), own(copies, literals, away, last=False), fixed(end))
    about = "Every length and distance symbol with its least and greatest extra bits, up to 32,768."
    yield fused_case("deflate-own-far", about, 6, b"\0" + stream, bytes(content))


def fused_case(
    id: str, about: str, codec: int, section: bytes, content: bytes, width: Literal[2, 8] = 2
) -> Case:
    """Return the case of a fused entry of float16 or float64.

    Its tensors divide the content where 64 equal values begin, and where they end.
    """
    sizes, pending = [], 0
    for _, group in groupby(content[i : i + width] for i in range(0, len(content), width)):
        count = len(list(group))
        if count >= 64:
            sizes += [pending, count] if pending else [count]
            pending = 0
        else:
            pending += count
    sizes += [pending] if pending else []
    r = len(content) // width
    rows = [Row(0, 0, r, r, {2: 2, 8: 4}[width], 1, codec, b"", section)]
    block = write_extension_block([Record(1, 1, write_fused([list(enumerate(sizes))]))])
    case = valid(id, about, assemble(rows, block))
    tensors = case.fields["decoded"]["tensors"]
    assert b"".join(expand_values(t["values"]) for t in tensors) == content, id
    return case


SEVENS: list[Token] = [7, 7, 7, 7]
"""The content that a reader without the missing rule finds in all bad streams here: one value."""
PAIR = {7: 1, END: 1}
ZEROS_TO_7: list[Step] = [(FEW_ZEROS, 7), (1, 1), (ZEROS, 138), (ZEROS, 110)]
"""The lengths of symbols 0 to 255 if only 7 has a code, of one bit."""


def _bad(id: str, about: str, stream: bytes) -> Case:
    """Return the case of one value of four bytes whose stream breaks one rule of the page's list."""
    data = of_values(6, 1, 1, b"\0" + stream)
    return bad(f"deflate-stream-{id}", about, "Malformed", "deflate-stream", data)


def _bad_tokens() -> Iterator[Case]:
    """Yield streams with a block of type 3, and with symbols and distances that mean nothing."""
    stored = _stream([1, 1, 1]) + bytes([4, 0, 0xFB, 0xFF, 7, 7, 7, 7])
    yield _bad("type-3-stored", "Type 3, and otherwise a stored block.", stored)
    stream = _stream([1, 1, 1, *body(SEVENS, FIXED, FIXED_DISTANCES)])
    yield _bad("type-3-fixed", "Type 3, and otherwise a block of the fixed codes.", stream)
    stream = _stream(own(SEVENS, PAIR, {}, kind=3))
    yield _bad("type-3-own", "Type 3, and otherwise a block of codes of its own.", stream)
    codes = canonical(FIXED)
    for symbol in (286, 287):
        bits = [1, 1, 0, *codes[7] * 2, *codes[symbol], *number(0, 5), *codes[7] * 2, *codes[END]]
        about = f"Literal/length symbol {symbol}, a distance of 1, and the rest of the content."
        yield _bad(f"symbol-{symbol}", about, _stream(bits))
    for symbol in (30, 31):
        bits = [1, 1, 0, *codes[7], *codes[257], *canonical(FIXED_DISTANCES)[symbol], *codes[END]]
        about = f"A copy of 3 bytes with distance symbol {symbol}, which completes the content."
        yield _bad(f"distance-symbol-{symbol}", about, _stream(bits))
    far: tuple[tuple[str, str, list[Token]], ...] = (
        ("start", "A copy of 4 bytes before any content.", [(4, 1)]),
        ("one", "A copy from one byte before the content.", [7, (3, 2)]),
        ("most", "A copy from 32,768 bytes back, after one byte.", [7, (3, 32_768)]),
    )
    for id, about, tokens in far:
        yield _bad(f"far-{id}", about, _stream(fixed(tokens)))
    about = "A copy from one byte before the content, in a block of its own codes."
    yield _bad("far-own", about, _stream(_own_for([7, (3, 2)])))


def _bad_headers() -> Iterator[Case]:
    """Yield blocks of their own codes whose code lengths break one rule."""
    steps: list[Step] = [(REPEAT, 3), (FEW_ZEROS, 4), *ZEROS_TO_7[1:], (1, 1), (0, 1)]
    about = "The first code length repeats one before it; with 0 for it, the block is whole."
    yield _bad("repeat-first-zero", about, _stream(own(SEVENS, PAIR, {}, steps=steps)))
    steps = [*ZEROS_TO_7, (1, 1), (FEW_ZEROS, 3)]
    about = "Three zeros where one code length is left."
    yield _bad("repeat-beyond-zeros", about, _stream(own(SEVENS, PAIR, {}, steps=steps)))
    steps = [*ZEROS_TO_7, (1, 1), (REPEAT, 3)]
    about = "Three repetitions where two code lengths are left."
    yield _bad("repeat-beyond-one", about, _stream(own(SEVENS, PAIR, {0: 1, 1: 1}, steps=steps)))
    about = "A code-length code of one code of one bit and three of two bits: over-subscribed."
    steps = [*[(0, 1)] * 7, *ZEROS_TO_7[1:], (1, 1), (0, 1)]
    codes = {ZEROS: 1, 0: 2, 1: 2, FEW_ZEROS: 2}
    bits = own(SEVENS, PAIR, {}, steps=steps, codes=codes)
    yield _bad("lengths-over", about, _stream(bits))
    about = "A code-length code of codes of 1, 2, 3 and 4 bits: incomplete."
    codes = {0: 1, 1: 2, ZEROS: 3, FEW_ZEROS: 4}
    yield _bad("lengths-short", about, _stream(own(SEVENS, PAIR, {}, steps=steps, codes=codes)))
    about = "A literal/length code of three codes of one bit: over-subscribed."
    yield _bad("literal-over", about, _stream(own(SEVENS, {**PAIR, 257: 1}, {})))
    about = "A distance code of three codes of one bit, the first of which is used."
    literals = {7: 1, END: 2, 257: 2}
    yield _bad("distance-over-used", about, _stream(own([7, (3, 1)], literals, {0: 1, 1: 1, 2: 1})))
