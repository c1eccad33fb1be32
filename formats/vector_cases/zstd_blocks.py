"""zstd: blocks with coded literals, all modes of tables, several blocks, and blocks of 128 KiB.

Frames of a compressor are stored here as bytes, so that no vector depends on its version; their content is
made by rule. The other blocks are made by hand.
"""

from __future__ import annotations

from collections.abc import Iterator

from formats.conformance import expand_values
from formats.reference.prng import draw32
from formats.reference.value.zstd import MAX_BLOCK, REPEATED, STORED
from formats.reference.writing.value.zstd import write_block_header, write_frame_header
from formats.vector_cases.case import Case, bad, valid
from formats.vector_cases.deflate_blocks import fused_case
from formats.vector_cases.parts import of_values

TABLES = (
    "28b52ffd600806a4080066da2f14a0254907f3a9c77f65317a07d5fed6c8e6ffaf40290029002800f2b696c429a6"
    "12dafeeccf261aa0e500fdaa8678d24838c8b321dfa1e4a38eb4693a994288d004ed947aad0e2bd2fc4afe05e305"
    "229db4326e938d544f4a55613823d4fa69d86f896223ae59c4703c8e031abfed56cf44449f9d5aec23f74901ad95"
    "ae4907aea1378ae7d9a9c7a154dead2894405e018c2dd214db2b1906f9092be9552a191f91f5e0bbd9672043f8d9"
    "7e1e2340ca79c840be97f1b28aacc4188f308d761f28102cc22c7b1052264494d8017300def2c1344cc3660cfa9d"
    "e2047978a7052003fc8ab708c392d0878d06949c71000ba457e2cc55e918415fad7c2ea8f38062e88081f89b0e5a"
    "3a62c0b2e403b4cd41016c0200a3c60aaf3a5ef800203d078cada6d97d32d613fbd45518ece1a625f1cc4bc6bfb1"
    "c10c269fa8f37383d0067b88030d3c3a8043582fa03ee70c7f50daf319e060868043136b22d1818920328308b408"
    "00b79626240026002300bb592212f294e99994b4a9223d60f80397c90b3db3e5334247b6e32607ef1ec4ec374e04"
    "82ab7119e73045486fa1e112c1c8ac9b5c4e8d43178499a80999658d49aa8c26c2042125c4249af0e3509e2b1d5c"
    "62797b2b43299798505ee18d424c85c5a3596b73d3567b4b581c29d30178de680d1a30fece4e131899058210bf98"
    "36f500102d0da17662424308f9a2c92242e19f133028101201210ada1b109a3493241d220a8892d015f8325c21fe"
    "1ae433ecf4354463da368491cd45121a5ce2175ec3c73b5a64d0c7a5e373e79e145d92a2263de39dd258ccf74bd8"
    "43031038d5618c33dff2c8ac8fbc0e6cc92192ca5809de44c3a4514ca5f3af6395ad165e3a61f0595b502e069c9c"
    "c75b48bd0200f3450a0a31151685ba991bc031b22512c4683c090091a4c68ab02e42a1bd62a0a546d3f31ee28ffc"
    "ca2e84160f0095a6101ebace8a115396cbb1309ab63254120d6b15312a9b47b22ddca10b3114354e316e48dcb580"
    "0d"
)
"""Zstandard 1.5.7, level 6, of ``skewed(1800, 33)`` in blocks of 700, 200, 700 and 200 bytes."""
MANY = (
    "28b52ffd606008751c003a551809189025493af9603a1d75a1d01f31064f84fe6f644bee2e9801850086008e003e"
    "aab08b5d235cf06743a29260a21443ec31a910037bd0bee9631f90bccdb40b8bbe8b1a78087541827b75997db84a"
    "1bef3b108c7c047446b5337ece82d623c59215088554dc41a656c610963a1b8077668ca6a3c0e50d6b6e3e309960"
    "3c9b43b567287a469725061618a5d88df82f03ac55b5a4fbf6abbdb76ceb7a3df3c75730bf96b6038e2c5203d5ce"
    "3cb1830f165a63b8986a0a4dbfdbc806b459f1436fd20a679e0fbce6ef072371a9e6df1aafd909d979789a0bd48c"
    "64f209946c043bcc5fd298021479aa3851c70f8dcd2043a110fa72762f2195cb4c7ae11ec13a6db8b36fded3ca0f"
    "a8cc4671058273238103ef38b14d2bc7832519058cd4bc81f28ed57b1c3aae6fc1ed7806a3a0419e449e51d0c5d3"
    "2026448df40c6bcdcfc7e05131bfa19f51fe633c8c1fcea38d2de49fc562405d6c38006ae6231b669b902291f018"
    "a1057860da4b0b164359341c442d3513ead578f3c015eaed2b062903666b3410f0a4412b33a752b858ca9e1013ca"
    "ec861df99137a7c7055bbccd2c525d3ad83f065700a03f68060732a82e77119bd16a2dc6d60b59073bd0af7358cb"
    "47b634b0c42d9890402579c45550e79aa3420c07140b9bb0d96065a6b38668eef849924b3c0c5dd80e1d38ccf424"
    "800722a2b001974613ac00ca89d154840d08278a950c4a42432f5a1a1b0858dd63a07b4622c878cc3fd8c15e115b"
    "564f1a90e3883f3468e619c736336d3d4e1b139f1d648d893d0e08f99fc4448246cb940ff1dff0b3dc8ba60d8081"
    "a8a190524c19439051664666284c0b072042428c82ee0e1062352323713ad201cbb31bc8cecc19e9529ce8b8fa22"
    "4644597ecb9b5b0c790e28769ed84e46d51bbb1c6b80f184490310f9e1abba47527c1ac728b48ea31be0c84005a0"
    "ec697a753d7f310d75340dce5c69acbbdaaa2830ac38ad3cd6810ce1049f6b13f0c2b84d59da09b430ef393d101b"
    "9029e67be8b3077a8f2cc453e548b18b1c4cd0cd81004a50fbbcbc98c20d908be1a201c12da9407da113fbee03c2"
    "1b90edb42d7d8ed0a517b478569e34699f41f13dfb920988380d68d07832d9a6820cd8e3d49b7fdbf6b9c0c85aee"
    "56898defdb165fdabf1a9e2d34d001d4b3155ac172ae5bfe9730b4ed8246ac461be969ebe209724588f1daa8bac8"
    "29022bc07b89ddfcd0c43ff5e85192193d35078d4d2cba90c5c5106eced18752959c0d9cd0671c05114aebf5a206"
)
"""Zstandard 1.5.7, level 3, of ``skewed(2400, 7)``."""
FEW = {
    120: (
        "28b52ffd2078450100820709870654311140633d20ff713310b2fe88afec90e9148d74646afd345352d24f857764b00e00"
    ),
    400: (
        "28b52ffd609000a5030006191c87065431111a001a001a00e3662064fd115fd921d3291ae9c8d4fa69a6a4a4"
        "9f0aefc8601d913650f4dc35dbe7b280a5a9a3256510fa9bb119041aeb01f9076539ce8d3dd671300616a832"
        "d8adaed6a4d0aad963c4e503b203b325725e747718987ff3b3936fd1635155020fcb4ffaa700"
    ),
}
"""Zstandard 1.5.7, level 19, of ``halving(n)``, by n."""
COMPRESSED = 2
RAW, SAME, HUFFMAN, TREELESS = range(4)
"""Types of a literals section (RFC 8878, 3.1.1.3.1.1)."""
ONE_SYMBOL, AS_BEFORE = 0b01_01_01_00, 0b11_11_11_00
"""Modes of the three tables of a sequences section: a table of one symbol, and the previous table."""


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield from _compressed()
    yield from _by_hand()
    yield from _bad()


def skewed(size: int, salt: int) -> bytes:
    """Return fixed bytes of uneven frequencies, in which earlier bytes often recur."""
    out = bytearray()
    n = 0
    while len(out) < size:
        word = draw32(0x257D0000 + salt, n)
        n += 1
        if len(out) > 40 and word % 29 == 0:
            distance = 8 + (word >> 16) % min(len(out) - 16, 400)
            for _ in range(4 + (word >> 8) % 12):
                out.append(out[-distance])
        else:
            zeros = (word & -word).bit_length() if word else 32
            out.append((0x40 + 7 * zeros) & 0xFF if word >> 31 else 0x30 + zeros)
    return bytes(out[:size])


def halving(size: int) -> bytes:
    """Return fixed bytes 1 to 9, each about half as frequent as the one before it."""
    words = (draw32(0x357D0001, n) for n in range(size))
    return bytes(min((word & -word).bit_length() if word else 9, 9) for word in words)


def _compressed() -> Iterator[Case]:
    for id, about, frame, content in (
        (
            "tables",
            "Four blocks: literals with a Huffman tree, then with the previous one, in four streams and in"
            " one; tables that are described, previous, or those of the RFC; earlier distances.",
            TABLES,
            skewed(1800, 33),
        ),
        ("many", "A block of 129 sequences, whose three tables are described.", MANY, skewed(2400, 7)),
        (
            "direct",
            "Literals in one stream, with weights that are not coded.",
            FEW[120],
            halving(120),
        ),
        ("direct-4", "The same in four streams.", FEW[400], halving(400)),
    ):
        section = b"\0" + bytes.fromhex(frame)
        case = valid(f"zstd-{id}", about, of_values(7, 1, len(content) // 4, section))
        (t,) = case.fields["decoded"]["tensors"]
        assert expand_values(t["values"]) == content
        yield case


def bit_stream(bits: str) -> bytes:
    """Return a bit stream, which is read from its end on: the first bit is below the highest one bit."""
    word = int("1" + bits, 2)
    return word.to_bytes((word.bit_length() + 7) // 8, "little")


def literals(kind: int, data: bytes, size: int) -> bytes:
    """Return a literals section of type RAW or SAME with a size in three bytes."""
    return (kind | 3 << 2 | size << 4).to_bytes(3, "little") + data


def two_symbols(data: bytes) -> bytes:
    """Return literals 0 and 1 with a tree of two codes of one bit, in four streams with sizes of 18 bits."""
    quarter = -(-len(data) // 4)
    parts = [data[n * quarter : (n + 1) * quarter] for n in range(4)]
    streams = [bit_stream("".join(map(str, part))) for part in parts]
    tree = bytes([128, 0x10])  # one weight of four bits: 1; that of symbol 1 follows from it
    jumps = b"".join(len(stream).to_bytes(2, "little") for stream in streams[:3])
    packed = tree + jumps + b"".join(streams)
    return (HUFFMAN | 3 << 2 | len(data) << 4 | len(packed) << 22).to_bytes(5, "little") + packed


def copy(distance: int, length: int) -> str:
    """Return the extra bits of a sequence of 8 literals, a distance of 5 to 12, and a length above 65,538."""
    return f"{distance + 3 - 8:03b}{length - 65539:016b}"


def block(content: bytes, *, last: bool = False) -> bytes:
    """Return a compressed block."""
    return write_block_header(last, COMPRESSED, len(content)) + content


def _one_copy(length: int) -> bytes:
    """Return a block of eight literals and one copy of them."""
    sequences = bytes([1, ONE_SYMBOL, 8, 3, 52]) + bit_stream(copy(8, length))
    return literals(RAW, LETTERS, 8) + sequences


LETTERS = b"abcdefgh"


def _by_hand() -> Iterator[Case]:
    most = MAX_BLOCK - 8
    rest = 65_540 + 8
    blocks = block(_one_copy(most))
    again = literals(SAME, b"x", 12) + bytes([1, AS_BEFORE]) + bit_stream(copy(8, rest))
    blocks += block(again) + write_block_header(False, REPEATED, MAX_BLOCK) + b"y"
    blocks += write_block_header(True, STORED, 8) + b"the last"
    content = LETTERS * (MAX_BLOCK // 8) + b"x" * (8 + rest + 4) + b"y" * MAX_BLOCK + b"the last"
    about = "A compressed block of 128 KiB, one whose three tables are the previous ones, of one symbol each,"
    about += " and 128 KiB of one byte."
    section = b"\0" + write_frame_header(len(content)) + blocks
    yield fused_case("zstd-blocks-128-kib", about, 7, section, content, width=8)
    bits = bytearray(17_000)
    for n in range(40):
        bits[draw32(0x457D, n) % 200] = 1
        bits[16_800 + draw32(0x457E, n) % 200] = 1
    section = b"\0" + write_frame_header(len(bits)) + block(two_symbols(bytes(bits)) + b"\0", last=True)
    about = "17,000 Huffman literals in four streams, with sizes of 18 bits, and no sequence."
    yield fused_case("zstd-literals-17000", about, 7, section, bytes(bits))

    about = "A copy in a compressed block whose content is as long as the window."
    content = LETTERS * (1024 // 8)
    case = valid("zstd-window-copy", about, of_values(7, 4, 1024 // 8, _small_window(1016)))
    assert case.fields["decoded"]["tensors"][0]["values"] == {"repeat": LETTERS.hex(), "bytes": len(content)}
    yield case


def _small_window(length: int) -> bytes:
    """Return a section of a window of 1 KiB and a block: eight literals, and a copy of 515 to 1026 bytes."""
    sequence = bytes([1, ONE_SYMBOL, 8, 3, 45]) + bit_stream(f"{8 + 3 - 8:03b}{length - 515:09b}")
    return b"\0" + write_frame_header(8 + length, 0) + block(literals(RAW, LETTERS, 8) + sequence, last=True)


def _bad() -> Iterator[Case]:
    kind, code = "Malformed", "zstd-content"
    size = MAX_BLOCK + 8
    section = b"\0" + write_frame_header(size) + block(_one_copy(MAX_BLOCK), last=True)
    about = "A compressed block whose content is 8 bytes more than 128 KiB."
    yield bad("zstd-content-block-most", about, kind, code, of_values(7, 4, size // 8, section))
    about = "A copy in a compressed block whose content is 8 bytes more than the window."
    data = of_values(7, 4, 1032 // 8, _small_window(1024))
    yield bad("zstd-content-window-copy", about, kind, code, data)
    first = literals(SAME, b"a", 8) + b"\0"
    section = b"\0" + write_frame_header(65_564)
    again = literals(RAW, LETTERS, 8) + bytes([1, AS_BEFORE]) + bit_stream(copy(8, 65_548))
    section += block(first) + block(again, last=True)
    about = "Tables as before, after a block that has none."
    yield bad("zstd-content-tables", about, kind, code, of_values(7, 1, 65_564 // 4, section))
    far = literals(RAW, LETTERS, 8) + bytes([1, ONE_SYMBOL, 8, 3, 52]) + bit_stream(copy(9, 65_548))
    section = b"\0" + write_frame_header(65_556) + block(far, last=True)
    about = "A copy from one byte before the content."
    yield bad("zstd-content-far", about, kind, code, of_values(7, 1, 65_556 // 4, section))
