"""deflate: streams of every block type and element type, and each check of the page.

Streams of a compressor are stored here as bytes, so that no vector depends on its version. The others are
made by hand.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from formats.reference.bits import pack_stream
from formats.reference.floats import BY_NAME, pack_elements
from formats.reference.value.byte_shuffle import encode_content
from formats.vector_cases.case import Case, bad, valid, values_for
from formats.vector_cases.parts import of_values
from formats.vector_cases.value_codecs import SPECIALS

COMPRESSED = {
    ("float32", 1): "0bda6df8c73e3c0807b9f5e603ef8ab9b8c88bfaf64982f77091b6f60eb6767b709100",
    ("float32", 0): "0bda7ad176f74d7d7bc307f60e7fbc936ced2b04edc2e7dedb1344637100",
    ("float16", 1): "ebabff2fd4f3b50f07a967e9a86db00c170900",
    ("float16", 0): "ebd3abb7fcef28a4dd63f075591f896c00",
    ("bfloat16", 1): "bb64e0902478ff120ed2d6dec1d66e0f2e1200",
    ("bfloat16", 0): "bb646b60efe090642b68777fcf2512d900",
    ("float64", 1): (
        "6360a0157048506878f00017b9ca9cad9e7d152ed2ecf71f4ffdcbb8c85d4fd9d71c9a8d8bb4b777b0b7df8f8b0400"
    ),
    ("float64", 0): (
        "636060705865b6cb9e818121c1fcf75310adc0f687dd014837d47bae01f11fb0eb1f02d3ab2ecfdecf30c4d50300"
    ),
}
"""Streams of zlib 1.2.13 at level 6 for six values, five times, by element type and ``shuffle``."""


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield from _compressed()
    yield from _by_hand()
    yield from _own_codes()
    yield from _bad_codes()
    yield from _bad_parameter()
    yield from _bad_stream()
    yield from _bad_length()
    yield from _bad_trailing()


def _row(dtype: int, r: int, section: bytes) -> bytes:
    return of_values(6, dtype, r, section)


def stored(*blocks: bytes) -> bytes:
    """Return a stream of uncompressed blocks."""
    heads = [struct.pack("<BHH", n + 1 == len(blocks), len(b), len(b) ^ 0xFFFF) for n, b in enumerate(blocks)]
    return b"".join(head + block for head, block in zip(heads, blocks, strict=True))


def zeros(literals: int, copies: int, *, end: bool = True) -> bytes:
    """Return a stream of zero bytes in one block of fixed codes.

    Args:
        literals: number of bytes as literals.
        copies: number of copies of 258 bytes.
        end: whether the block has its end symbol.
    """
    bits = [1, 1, 0] + literals * _code(0x30, 8) + copies * (_code(0xC5, 8) + _code(0, 5))
    return pack_stream(bits + _code(0, 7) * end, 1, 1)


def _code(code: int, width: int) -> list[int]:
    """Return a Huffman code, its highest bit first."""
    return [code >> bit & 1 for bit in range(width - 1, -1, -1)]


def _compressed() -> Iterator[Case]:
    for (dtype, shuffle), stream in COMPRESSED.items():
        section = bytes([shuffle]) + bytes.fromhex(stream)
        how = "in planes" if shuffle else "as they are"
        case = valid(
            f"deflate-{dtype}-{'planes' if shuffle else 'plain'}",
            f"30 values of {dtype}, {how}.",
            _row(BY_NAME[dtype].id, 30, section),
        )
        assert case.fields["decoded"]["tensors"][0]["values"] == (values_for(6, dtype) * 5).hex()
        yield case


def _by_hand() -> Iterator[Case]:
    for dtype, bits in SPECIALS.items():
        width = BY_NAME[dtype].itemsize
        content = encode_content(pack_elements(bits, width), True, width)
        about = f"-0, subnormals, infinities and NaNs of {dtype}, bit for bit, in planes."
        data = _row(BY_NAME[dtype].id, 9, b"\1" + stored(content))
        yield valid(f"deflate-specials-{dtype}", about, data)
        one = values_for(1, dtype)
        for shuffle in (0, 1):
            about = "One value: planes change nothing."
            data = _row(BY_NAME[dtype].id, 1, bytes([shuffle]) + stored(one))
            yield valid(f"deflate-{dtype}-r1-{shuffle}", about, data)
    three = values_for(3, "float32")
    for id, about, section in (
        ("blocks", "Three stored blocks, of 1, 5 and 6 bytes.", stored(three[:1], three[1:6], three[6:])),
        ("empty-blocks", "Empty stored blocks around one.", stored(b"", three, b"", b"")),
        ("mixed", "A stored block, and one of fixed codes that is empty.", stored(three, b"")[:-5] + b"\3\0"),
    ):
        yield valid(f"deflate-{id}", about, _row(1, 3, b"\0" + section))
    yield valid("deflate-zeros", "Copies of 258 bytes.", _row(1, 65, b"\1" + zeros(2, 1)))
    open_end = zeros(2, 1)
    data = _row(2, 130, b"\1" + open_end[:-1] + bytes([open_end[-1] | 0x80]))
    yield valid("deflate-last-bits", "The bits after the last block are ignored.", data)


CODE_LENGTH_ORDER = (16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15)
"""The order in which a block states the lengths of its code-length code (RFC 1951, section 3.2.7)."""


def dynamic(literals: dict[int, int], distances: Sequence[int], symbols: Sequence[tuple[int, int]]) -> bytes:
    """Return a last block of its own codes, whose lengths are stated without repetitions.

    Args:
        literals: code lengths of the literal/length symbols that have a code.
        distances: code lengths of all distance symbols.
        symbols: (code, length) of each symbol, or (extra bits, number of them) with a negative length.
    """
    lengths = [literals.get(n, 0) for n in range(max(256, *literals) + 1)]
    return _dynamic_block(len(lengths), len(distances), [*lengths, *distances], symbols)


def _dynamic_block(
    n_literals: int, n_distances: int, lengths: Sequence[int], symbols: Sequence[tuple[int, int]] = ()
) -> bytes:
    coded = {0: 0, 1: 1, 2: 2, 7: 3, 8: 4, 9: 5, 10: 6, 15: 7}
    bits = [1, 0, 1, *_number(n_literals - 257, 5), *_number(n_distances - 1, 5), *_number(19 - 4, 4)]
    for length in CODE_LENGTH_ORDER:
        bits += _number(3 if length in coded else 0, 3)
    for length in lengths:
        bits += _code(coded[length], 3)
    for code, width in symbols:
        bits += _code(code, width) if width > 0 else _number(code, -width)
    return pack_stream(bits, 1, 1)


def _number(number: int, width: int) -> list[int]:
    """Return the bits of a number, the lowest first."""
    return [number >> bit & 1 for bit in range(width)]


def _repeats(coded: dict[int, int], *parts: int) -> bytes:
    """Return the start of such a block, with code-length codes of one bit and repetitions (code, count)."""
    bits = [1, 0, 1, *_number(0, 5), *_number(0, 5), *_number(19 - 4, 4)]
    for length in CODE_LENGTH_ORDER:
        bits += _number(coded.get(length, 0), 3)
    for n, part in enumerate(parts):
        bits += _number(part, 1 if n % 2 == 0 else 2 if 16 in coded else 7)
    return pack_stream(bits, 1, 1) + bytes(4)


def _own_codes() -> Iterator[Case]:
    four = [(0, 1)] * 4
    for id, about, stream in (
        ("distance-one", "One distance code, of one bit.", dynamic({0: 1, 256: 2, 257: 2}, [1], [
            (0, 1), (3, 2), (0, 1), (2, 2)])),
        ("distance-none", "No distance code: literals alone.", dynamic({0: 1, 256: 1}, [0], [*four, (1, 1)])),
        ("distance-unused", "One distance code, which is not used.", dynamic({0: 1, 256: 1}, [1], [
            *four, (1, 1)])),
        ("literal-one", "Content in a stored block, and a block whose only code ends it, in one bit.",
         b"\0\4\0\xfb\xff\0\0\0\0" + dynamic({256: 1}, [0], [(0, 1)])),
        ("literal-most", "286 literal and length symbols, 30 distances.", dynamic(
            {0: 1, 256: 2, 285: 2}, [0] * 29 + [1], [*four, (2, 2)])),
    ):  # fmt: skip
        yield valid(f"deflate-{id}", f"RFC 1951, 3.2.7: {about}", _row(1, 1, b"\0" + stream))


def _bad_codes() -> Iterator[Case]:
    kind, code = "Malformed", "deflate-stream"
    four = [(0, 1)] * 4
    for id, about, stream in (
        ("literal-incomplete", "A literal/length code that is incomplete.", dynamic({0: 1, 256: 2}, [0], [
            *four, (2, 2)])),
        ("literal-zeros", "No literal/length symbol has a code.", _dynamic_block(257, 1, [0] * 258)),
        ("no-end", "Symbol 256 has no code.", dynamic({0: 1, 1: 1}, [0], [*four, (1, 1)])),
        ("distance-incomplete", "A distance code of two codes of two bits.", dynamic(
            {0: 1, 256: 1}, [2, 2], [*four, (1, 1)])),
        ("distance-incomplete-one", "A distance code of one code of two bits.", dynamic(
            {0: 1, 256: 1}, [2], [*four, (1, 1)])),
        ("distance-over", "A distance code of three codes of one bit.", dynamic(
            {0: 1, 256: 1}, [1, 1, 1], [*four, (1, 1)])),
        ("distance-other", "The bit that is no code of the only distance code.", dynamic(
            {0: 1, 256: 2, 257: 2}, [1], [(0, 1), (3, 2), (1, 1), (2, 2)])),
        ("distance-absent", "A length, and no distance code.", dynamic(
            {0: 1, 256: 2, 257: 2}, [0], [(0, 1), (3, 2), (0, 1), (2, 2)])),
        ("literals-287", "287 literal/length symbols.", _dynamic_block(
            287, 1, [1, *[0] * 255, 1, *[0] * 30, 0], [*four, (1, 1)])),
        ("distances-31", "31 distance symbols.", _dynamic_block(
            257, 31, [1, *[0] * 255, 1, *[0] * 31], [*four, (1, 1)])),
        ("fixed-286", "Literal/length symbol 286 of the fixed code.", pack_stream(
            [1, 1, 0, *_code(0xC6, 8)], 1, 1) + bytes(2)),
        ("fixed-distance-30", "Distance symbol 30 of the fixed code.", pack_stream(
            [1, 1, 0, *_code(0x30, 8), *_code(1, 7), *_code(30, 5), *_code(0, 7)], 1, 1)),
        ("repeat-first", "The first length repeats the one before it.", _repeats({0: 1, 16: 1}, 1, 0)),
        ("repeat-beyond", "276 lengths of 0, where 258 are stated.", _repeats({0: 1, 18: 1}, 1, 127, 1, 127)),
        ("lengths-incomplete", "A code-length code of one code.", _repeats({18: 1}, 0, 127, 0, 109)),
    ):  # fmt: skip
        yield bad(f"deflate-stream-{id}", about, kind, code, _row(1, 1, b"\0" + stream))


def _bad_parameter() -> Iterator[Case]:
    kind, code = "Malformed", "deflate-parameter"
    for shuffle in (2, 0x80, 255):
        data = _row(1, 3, bytes([shuffle]) + stored(bytes(12)))
        yield bad(f"deflate-parameter-{shuffle}", f"shuffle is {shuffle}.", kind, code, data)
    about = "The parameter is checked before the stream."
    yield bad("deflate-parameter-first", about, kind, code, _row(1, 3, b"\2"))


def _bad_stream() -> Iterator[Case]:
    kind, code = "Malformed", "deflate-stream"
    good = stored(bytes(12))
    for id, about, section in (
        ("none", "The parameter alone.", b""),
        ("short", "The last byte is missing.", good[:-1]),
        ("head", "A stored block's length is cut.", good[:3]),
        ("unfinished", "The last block is not marked as the last.", b"\0" + good[1:]),
        ("type", "A block of type 3.", b"\7"),
        ("complement", "A stored block whose length and its complement differ.", good[:4] + b"\0" + good[5:]),
        (
            "distance",
            "A copy from before the start.",
            pack_stream([1, 1, 0, *_code(0xC5, 8), *_code(0, 5)], 1, 1),
        ),
        ("symbol", "A length code that means nothing.", pack_stream([1, 1, 0, *_code(0xC7, 8)], 1, 1)),
        ("end", "A block of fixed codes without its end.", zeros(12, 0, end=False)),
        ("tables", "A block whose own codes are over-subscribed.", bytes.fromhex("05e08193" + "ff" * 12)),
        ("zlib", "A stream in zlib's wrapper.", b"\x78\x9c" + good + bytes(4)),
        ("gzip", "A stream in gzip's wrapper.", bytes.fromhex("1f8b0800000000000003") + good + bytes(8)),
        ("longer", "One extra byte.", stored(bytes(13))),
        ("longer-blocks", "A block too many.", stored(bytes(12), bytes(4))),
        ("longer-open", "A byte too many, and no end.", stored(bytes(13), b"")[:-5]),
        ("bomb", "100 copies of 258 bytes.", zeros(12, 100)),
    ):
        yield bad(f"deflate-stream-{id}", about, kind, code, _row(1, 3, b"\0" + section))
    about = "The bytes after the first extra one are ignored."
    data = _row(1, 3, b"\0" + stored(bytes(13), b"")[:-5] + b"\7")
    yield bad("deflate-stream-longer-broken", about, kind, code, data)


def _bad_length() -> Iterator[Case]:
    kind, code = "Invalid", "deflate-length"
    for size in (0, 1, 4, 11):
        data = _row(1, 3, b"\1" + stored(bytes(size)))
        yield bad(f"deflate-length-{size}", f"{size} bytes of 12.", kind, code, data)
    data = _row(4, 3, b"\0" + stored(bytes(12)))
    yield bad("deflate-length-narrow", "Binary32 values of float64 elements.", kind, code, data)
    data = _row(1, 3, b"\0" + stored(bytes(11)) + b"\0")
    yield bad("deflate-length-first", "The length is checked before what follows.", kind, code, data)


def _bad_trailing() -> Iterator[Case]:
    kind, code = "Malformed", "deflate-trailing"
    good = stored(bytes(12))
    for id, about, more in (
        ("byte", "A byte after the stream.", b"\0"),
        ("stream", "A second stream.", stored(b"")),
        ("fixed", "A byte after a stream that ends within one.", None),
    ):
        section = zeros(12, 0) + b"\0" if more is None else good + more
        yield bad(f"deflate-trailing-{id}", about, kind, code, _row(1, 3, b"\0" + section))
