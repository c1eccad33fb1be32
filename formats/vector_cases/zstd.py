"""zstd: frames of every header and block type, and each check of the page.

Frames of a compressor are stored here as bytes, so that no vector depends on its version. The others are made
by hand.
"""

from __future__ import annotations

from collections.abc import Iterator

from formats.reference import Zstd
from formats.reference.floats import BY_NAME, pack_elements
from formats.reference.value.zstd import REPEATED, RESERVED, STORED
from formats.reference.writing.value.zstd import write_block_header, write_frame_header
from formats.vector_cases.case import Case, bad, patch, valid, values_for
from formats.vector_cases.parts import of_values
from formats.vector_cases.value_codecs import SPECIALS

COMPRESSED = {
    ("float32", 1): (
        "28b52ffd20782d0100c852bb31fc3f57b5d9e04b789dd12f3f6211de3d3f403d3ebc3d0400a036002c002c014b11"
    ),
    ("float32", 0): "28b52ffd2078050100c852b5d13dbbd92f3f31e03f40fc4b623d3f78113e579ddebc520100f14e730c",
    ("float16", 1): "28b52ffd203cad0000688e7fff128cf52e39412b30a62e0200a036014b11",
    ("float16", 0): "28b52ffd203c9d0000688e2e7f39ff41122b8c30f5a68e01003c2a5f",
    ("bfloat16", 1): "28b52ffd203cad000068d230406211df3d3f403d3ebc3d0200a036014b11",
    ("bfloat16", 0): "28b52ffd203c9d000068d23d303f4040623d113edfbcd201003c2a5f",
    ("float64", 1): (
        "28b52ffd20f095010004020040602080e0e0aa37067f07aa36fbfc492fd3bae507acc29b3f3f403f3fbf3f06"
        "20b0d301b5010b5808968065d3bc02"
    ),
    ("float64", 0): (
        "28b52ffd20f0cd0100b40200000040aa36ba3f0000006037fbe53f0000002006fc0740000000807f49ac3f00"
        "0000e0072fc2aad39bbf03009d981314a622f2ed7d02"
    ),
}
"""Frames of Zstandard 1.5.7 at level 19 for six values, five times, by (element type, ``shuffle``)."""
MIB8 = 13 << 3
"""Window descriptor of 8 MiB."""
SECOND = write_frame_header(0) + write_block_header(True, STORED, 0)
SKIPPABLE = bytes.fromhex("502a4d1800000000")


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield from _compressed()
    yield from _headers()
    yield from _blocks()
    yield from _bad_frame()
    yield from _bad_header()
    yield from _bad_size()
    yield from _bad_blocks()
    yield from _bad_content()


def _row(dtype: int, r: int, section: bytes) -> bytes:
    return of_values(7, dtype, r, section)


def _stored(data: bytes, *, last: bool = True) -> bytes:
    return write_block_header(last, STORED, len(data)) + data


def _compressed() -> Iterator[Case]:
    for (dtype, shuffle), frame in COMPRESSED.items():
        section = bytes([shuffle]) + bytes.fromhex(frame)
        how = "in planes" if shuffle else "as they are"
        case = valid(
            f"zstd-{dtype}-{'planes' if shuffle else 'plain'}",
            f"30 values of {dtype}, {how}.",
            _row(BY_NAME[dtype].id, 30, section),
        )
        assert case.fields["decoded"]["tensors"][0]["values"] == (values_for(6, dtype) * 5).hex()
        yield case


def _headers() -> Iterator[Case]:
    for dtype, bits in SPECIALS.items():
        form = BY_NAME[dtype]
        about = f"-0, subnormals, infinities and NaNs of {dtype}, bit for bit, in planes."
        section = Zstd().write_section(pack_elements(bits, form.itemsize), form, 0)
        yield valid(f"zstd-specials-{dtype}", about, _row(form.id, 9, section))
        for shuffle in (False, True):
            section = Zstd(shuffle).write_section(values_for(1, dtype), form, 0)
            about = "One value: planes change nothing."
            yield valid(f"zstd-{dtype}-r1-{int(shuffle)}", about, _row(form.id, 1, section))
    three = values_for(3, "float32")
    for width in (4, 8):
        section = b"\0" + write_frame_header(12, width=width) + _stored(three)
        yield valid(f"zstd-size-{width}", f"A size in {width} bytes.", _row(1, 3, section))
    for r in (127, 128):
        section = b"\0" + write_frame_header(2 * r) + _stored(values_for(r, "float16"))
        yield valid(f"zstd-r{r}", f"A size of {2 * r}.", _row(2, r, section))
    for window in (0, 7, 9, 12 << 3 | 7, MIB8):
        section = b"\0" + write_frame_header(12, window) + _stored(three)
        yield valid(f"zstd-window-{window}", f"The window descriptor {window:#04x}.", _row(1, 3, section))
    about = "A window of 1920 bytes, and a block of 1600."
    section = b"\0" + write_frame_header(1600, 7) + _stored(values_for(400, "float32"))
    yield valid("zstd-window-block", about, _row(1, 400, section))
    section = b"\0" + write_frame_header(256, 0) + _stored(values_for(64, "float32"))
    yield valid("zstd-window-size", "A window, and a size in two bytes.", _row(1, 64, section))


def _blocks() -> Iterator[Case]:
    three = values_for(3, "float32")
    head = b"\0" + write_frame_header(12)
    for id, about, blocks in (
        ("stored", "Two stored blocks.", _stored(three[:5], last=False) + _stored(three[5:])),
        ("repeated", "A byte twelve times.", write_block_header(True, REPEATED, 12) + b"\x3f"),
        (
            "both",
            "A repeated byte, stored ones.",
            write_block_header(False, REPEATED, 4) + b"\0" + _stored(three[4:]),
        ),
        (
            "empty",
            "Empty stored blocks around one.",
            _stored(b"", last=False) + _stored(three, last=False) + _stored(b""),
        ),
    ):
        yield valid(f"zstd-blocks-{id}", about, _row(1, 3, head + blocks))
    section = b"\1" + write_frame_header(4000) + write_block_header(True, REPEATED, 4000) + b"\0"
    yield valid("zstd-zeros", "1000 zeros.", _row(1, 1000, section))
    section = b"\1" + write_frame_header(1200, 0) + write_block_header(False, REPEATED, 1024) + b"\0"
    section += write_block_header(True, REPEATED, 176) + b"\0"
    yield valid("zstd-zeros-window", "Blocks as long as the window.", _row(1, 300, section))


GOOD = write_frame_header(12) + _stored(bytes(12))


def _bad_frame() -> Iterator[Case]:
    kind, code = "Malformed", "zstd-parameter"
    for shuffle in (2, 0x80, 255):
        data = _row(1, 3, bytes([shuffle]) + GOOD)
        yield bad(f"zstd-parameter-{shuffle}", f"shuffle is {shuffle}.", kind, code, data)
    about = "The parameter is checked before the frame."
    yield bad("zstd-parameter-first", about, kind, code, _row(1, 3, b"\2"))
    kind, code = "Malformed", "zstd-frame"
    for id, about, frame in (
        ("none", "The parameter alone.", b""),
        ("magic-cut", "Three bytes.", GOOD[:3]),
        ("magic-alone", "The magic number alone.", GOOD[:4]),
        ("magic", "Another magic number.", b"\x29" + GOOD[1:]),
        ("legacy", "That of version 0.7.", b"\x27" + GOOD[1:]),
        ("skippable", "A skippable frame before the frame.", SKIPPABLE + GOOD),
        ("size-none", "No content size.", GOOD[:5]),
        ("size-cut", "A content size of 8 bytes, cut.", write_frame_header(12, width=8)[:12]),
        ("window-none", "No window descriptor.", write_frame_header(12, 0)[:5]),
        ("window-alone", "A window descriptor and no size.", write_frame_header(12, 0)[:6]),
    ):
        yield bad(f"zstd-frame-{id}", about, kind, code, _row(1, 3, b"\0" + frame))


def _bad_header() -> Iterator[Case]:
    kind, code = "Malformed", "zstd-header"
    for id, about, bits in (
        ("dictionary-1", "A dictionary, named in one byte.", 1),
        ("dictionary-2", "A dictionary, named in two bytes.", 2),
        ("dictionary-3", "A dictionary, named in four bytes.", 3),
        ("checksum", "A checksum.", 4),
        ("reserved", "The reserved bit.", 8),
        ("unused", "The unused bit.", 16),
    ):
        # the field that the bit announces is present, so a reader that ignores the rule finds a whole frame
        name = bytes((0, 1, 2, 4)[bits] if bits < 4 else 0)
        frame = GOOD[:4] + bytes([GOOD[4] | bits]) + name + GOOD[5:] + (bytes(4) if bits == 4 else b"")
        yield bad(f"zstd-header-{id}", about, kind, code, _row(1, 3, b"\0" + frame))
    frame = GOOD[:4] + b"\0\x50" + _stored(bytes(12))
    yield bad("zstd-header-no-size", "No content size is stated.", kind, code, _row(1, 3, b"\0" + frame))
    about = "The descriptor is checked before the header's length."
    yield bad("zstd-header-first", about, kind, code, _row(1, 3, b"\0" + GOOD[:4] + b"\xc4"))


def _bad_size() -> Iterator[Case]:
    kind, code = "Invalid", "zstd-size"
    blocks = GOOD[6:]
    for id, size, width in (
        *(("0", 0, 1), ("less", 11, 1), ("more", 13, 1), ("268", 268, 2), ("2-31", 2**31, 4)),
        *(("2-32-12", 2**32 + 12, 8), ("2-63", 2**63, 8), ("most", 2**64 - 1, 8), ("unknown", 2**64 - 2, 8)),
    ):
        data = _row(1, 3, b"\0" + write_frame_header(size, width=width) + blocks)
        yield bad(f"zstd-size-{id}", f"A stated size of {size} for 12 bytes.", kind, code, data)
    about = "The size is checked before the window."
    data = _row(1, 3, b"\0" + write_frame_header(13, 0xFF) + blocks)
    yield bad("zstd-size-first", about, kind, code, data)
    kind, code = "Invalid", "zstd-window"
    for window in (MIB8 + 1, 14 << 3, 0xFF):
        data = _row(1, 3, b"\0" + write_frame_header(12, window) + blocks)
        yield bad(f"zstd-window-{window}", f"The window descriptor {window:#04x}.", kind, code, data)
    r = 2**20 + 1
    data = _row(4, r, b"\0" + write_frame_header(8 * r) + blocks)
    about = "A single segment of 8 MiB and 8 bytes."
    yield bad("zstd-window-single", about, kind, code, data, limits={"max_expansion": 2**20})
    data = _row(1, 3, b"\0" + write_frame_header(12, 0xFF))
    yield bad("zstd-window-first", "The window is checked before the blocks.", kind, code, data)


def _bad_blocks() -> Iterator[Case]:
    kind, code = "Malformed", "zstd-block"
    head = write_frame_header(12)
    for id, about, frame in (
        ("none", "No block.", head),
        ("head", "Two bytes of a block's header.", GOOD[:8]),
        ("short", "A byte of the last block is missing.", GOOD[:-1]),
        (
            "repeated-short",
            "A repeated byte that is not there.",
            head + write_block_header(True, REPEATED, 12),
        ),
        ("reserved", "A block of type 3.", head + write_block_header(True, RESERVED, 12) + bytes(12)),
        ("unfinished", "No block is marked as the last.", head + _stored(bytes(12), last=False)),
        ("long", "A block longer than the single segment.", head + _stored(bytes(13))),
        ("repeated-long", "A bomb.", head + write_block_header(True, REPEATED, 2**21 - 1) + b"\0"),
        ("window", "A block longer than the window.", write_frame_header(1028, 0) + _stored(bytes(1028))),
        ("compressed-long", "A compressed block longer than it may be.", head + b"\x6d\0\0" + bytes(13)),
        ("compressed-short", "A compressed block that is cut.", head + b"\x65\0\0" + bytes(11)),
    ):
        r = 257 if id == "window" else 3
        yield bad(f"zstd-block-{id}", about, kind, code, _row(1, r, b"\0" + frame))
    size = 2**17 + 8
    frame = write_frame_header(size) + write_block_header(True, REPEATED, size) + b"\0"
    about = "A block of more than 128 KiB."
    data = _row(4, size // 8, b"\0" + frame)
    yield bad("zstd-block-most", about, kind, code, data)
    kind, code = "Malformed", "zstd-trailing"
    for id, about, more in (
        ("byte", "A byte after the frame.", b"\0"),
        ("frame", "A second frame.", SECOND),
        ("skippable", "A skippable frame after the frame.", SKIPPABLE),
        ("checksum", "A checksum that no bit announces.", bytes(4)),
    ):
        yield bad(f"zstd-trailing-{id}", about, kind, code, _row(1, 3, b"\0" + GOOD + more))
    about = "What follows is found before the content is looked at."
    data = _row(1, 3, b"\0" + head + _stored(bytes(11)) + b"\0")
    yield bad("zstd-trailing-first", about, kind, code, data)


def _bad_content() -> Iterator[Case]:
    kind, code = "Malformed", "zstd-content"
    head = write_frame_header(12)
    good = bytes.fromhex(COMPRESSED["float16", 0])
    for id, about, frame in (
        ("less", "Eleven bytes where twelve are stated.", head + _stored(bytes(11))),
        ("more", "Twenty-four.", head + _stored(bytes(12), last=False) + _stored(bytes(12))),
        ("nothing", "No byte.", head + _stored(b"")),
        ("repeated-less", "A byte eleven times.", head + write_block_header(True, REPEATED, 11) + b"\0"),
        ("empty", "A compressed block of no bytes.", head + b"\5\0\0"),
        (
            "literals",
            "Literals coded as in a block before, and there is none.",
            head + b"\x25\0\0\xc3\x40\0\0",
        ),
    ):
        yield bad(f"zstd-content-{id}", about, kind, code, _row(1, 3, b"\0" + frame))
    data = _row(2, 30, b"\0" + patch(good, len(good) - 1, "B", 0))
    yield bad("zstd-content-end", "A compressed block without the end of its bits.", kind, code, data)
