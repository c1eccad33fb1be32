"""The C reader of indexes against the vectors and the reference, under sanitizers.

``index.c`` is started once for each stream. It holds the stream in memory of exactly its length, so that a
read beyond the end stops it.
"""

from __future__ import annotations

import hashlib
import struct
import subprocess
import zlib
from pathlib import Path
from random import Random

import pytest

from formats import indexes
from formats.conformance import refusal_of
from formats.program import run_indexer
from formats.reference.stream_index import END_BYTES
from tests.formats.test_c import COMPILER
from tests.formats.test_c_streams import compile_with_sanitizers

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler (gcc or cc)")
CLOSED = [stream.data for stream in indexes.load_indexes() if stream.index]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_with_sanitizers(tmp_path_factory.mktemp("c"), "index.c")


def test_vectors(program: Path) -> None:
    assert indexes.run_indexes(run_indexer([str(program)])) == []


def mutate(rng: Random) -> bytes:
    """Return a closed stream with changed numbers; checksums and the digest are right more often than not."""
    data = bytearray(rng.choice(CLOSED))
    (at, size) = struct.unpack_from("<QQ", data, len(data) - END_BYTES + 32)
    if rng.randrange(2):
        row = 40 + 48 * data[at + 32]  # of the first tensor, whose type is at byte 8
        place = rng.choice((row + 8, row + 9, rng.randrange(24, size)))
        data[at + min(place, size - 1)] = rng.choice((0, 1, 5, 16, 31, 128, 255))
    for _ in range(rng.randrange(3) * rng.randrange(2)):
        place = at + 24 + 4 * rng.randrange((size - 24) // 4)
        value = rng.choice((0, 1, 8, 24, 255, 2**16, 2**31, 2**32 - 1, rng.randrange(2**32)))
        struct.pack_into("<I", data, place, value)
    if rng.randrange(3) == 0:
        struct.pack_into("<I", data, len(data) - 64 + 4 * rng.randrange(8), rng.randrange(2**32))
    if rng.randrange(4):
        _seal(data, at, size)
    return bytes(data[: len(data) - 8 * (rng.randrange(20) == 0)])


def _seal(data: bytearray, at: int, size: int) -> None:
    struct.pack_into(
        "<I", data, at + 12, zlib.crc32(data[at + 16 : at + size], zlib.crc32(data[at : at + 12]))
    )
    data[-32:] = hashlib.sha256(data[at : at + size]).digest()
    end = len(data) - END_BYTES
    struct.pack_into("<I", data, end + 12, zlib.crc32(data[end + 16 :], zlib.crc32(data[end : end + 12])))


def outcome(read: indexes.Read, data: bytes, limits: dict[str, int]) -> object:
    try:
        return read(data, limits)
    except Exception as error:
        return refusal_of(error)


def test_c_and_reference_agree(program: Path) -> None:
    seen = set()
    for seed in range(200):
        rng = Random(seed)
        data = mutate(rng)
        limits = {"max_bytes": rng.choice((40, 200))} if rng.randrange(8) == 0 else {}
        wanted = outcome(indexes.reference, data, limits)
        assert outcome(run_indexer([str(program)]), data, limits) == wanted, (seed, data.hex())
        seen.add(wanted[1] if isinstance(wanted, tuple) else "ok")
    assert seen >= {"ok", "end", "index", "dtype", "unit-checksum", "max-bytes", "stream-end"}


def test_the_program_lists_a_file(program: Path, tmp_path: Path) -> None:
    """With -v, it notices a container that has another digest; without, it does not read containers."""
    data = next(one.data for one in indexes.load_indexes() if one.id == "closed-two")
    path = tmp_path / "closed.wc"
    lines = '"w" float32 [4] 64 104\n"a" float32 [4] 168 168\n"b" float32 [8] 168 168\n'
    for changed, options, status, text in (
        (data, ["-v"], 0, lines),
        (data[:100] + b"?" + data[101:], [], 0, lines),
        (data[:100] + b"?" + data[101:], ["-v"], 1, "ChecksumMismatch: index-digest\n"),
        (data[:-8], [], 1, "Truncated: stream-end\n"),
        (b"", [], 1, "Truncated: stream-end\n"),
    ):
        path.write_bytes(changed)
        done = subprocess.run([program, *options, path], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (status, text)
