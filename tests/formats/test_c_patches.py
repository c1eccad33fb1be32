"""The reader of patches of formats/c against the library and the reference, under sanitizers.

One process of ``patch.c`` answers requests in turn. It asks for the content of Zstandard frames, so both
readers have the same decompressor.
"""

from __future__ import annotations

import itertools
import os
import re
import struct
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import IO

import numpy as np
import pytest

import wirecodec as wc
from formats.patches import load_patches, to_numbers
from formats.reference import Limits, Record, Row, WireError, assemble, patch
from formats.reference.extension import BASE, CRITICAL
from formats.reference.writing.assembly import write_extension_block
from tests.formats.test_c import COMPILER, LEFT_OUT, SANITIZERS, SOURCES, UNSUPPORTED, WARNINGS, left_out
from tests.formats.test_patches import (
    FLOATS,
    ZSTD,
    State,
    Verdict,
    change,
    distant,
    edit_bytes,
    edited,
    false_bools,
    framed,
    mutants,
    pieces,
    plain,
    put_all,
    read_parts,
    rebuild,
    refused,
    states,
    stepped,
    weights,
)

pytestmark = [
    pytest.mark.skipif(COMPILER is None, reason="there is no C compiler (gcc or cc)"),
    pytest.mark.skipif(ZSTD is None, reason="needs a Zstandard decompressor"),
]
CODECS = LEFT_OUT["value"] - {7}
"""Value codecs that the reader of patches does not support, although it is given a decompressor."""
LIMITS = Limits()


def compile_patch(target: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [str(COMPILER), *WARNINGS, "-o", str(target), str(SOURCES / "patch.c"), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def pack_state(state: Mapping[str, patch.StateTensor]) -> bytes:
    """Return a state in the form that the head of patch.c describes."""
    parts = [struct.pack("<I", len(state))]
    for name in sorted(state, key=str.encode):
        number, shape, data = state[name]
        parts.append(struct.pack("<3I", len(name.encode()), number, len(shape)))
        parts.append(struct.pack(f"<{len(shape)}Q", *shape) + name.encode() + data)
    return b"".join(parts)


class Patcher:
    """A running patch program."""

    def __init__(self, program: Path) -> None:
        bounded = {**os.environ, "ASAN_OPTIONS": "max_allocation_size_mb=256"}
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=bounded)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin: IO[bytes] = self.process.stdin
        self.stdout: IO[bytes] = self.process.stdout

    def apply(
        self,
        blob: bytes,
        state: Mapping[str, patch.StateTensor],
        *,
        partial: bool = False,
        limits: Limits = LIMITS,
        zstd: bool = True,
    ) -> Verdict:
        """Return the new state, packed, or the kind and code of the refusal."""
        names = ("max_bytes", "max_entries", "max_elements", "max_dense", "max_expansion", "max_work")
        self.stdin.write(struct.pack("<6QI", *(getattr(limits, name) for name in names), partial + 2 * zstd))
        self.stdin.write(pack_state(state) + struct.pack("<Q", len(blob)) + blob)
        self.stdin.flush()
        while True:
            line = self.stdout.readline()
            assert line.endswith(b"\n"), f"the program died: {self.process.wait()}"
            verdict, *rest = line.decode().split()
            if verdict == "refused":
                return rest[0], rest[1]
            if verdict == "ok":
                return "ok", self.stdout.read(int(rest[0]))
            self._answer(*map(int, rest))

    def _answer(self, size: int, content_size: int) -> None:
        """Answer the question for the content of a frame."""
        assert ZSTD is not None
        frame = self.stdout.read(size)
        try:
            content = ZSTD(frame, content_size)
        except Exception:
            content = b""
        is_valid = len(content) == content_size
        self.stdin.write(b"\1" + content if is_valid else b"\0")
        self.stdin.flush()

    def close(self) -> int:
        self.stdin.close()
        self.stdout.close()
        return self.process.wait()


@pytest.fixture(scope="module")
def patcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Patcher]:
    """Compile the program, with sanitizers if the compiler has them."""
    program = tmp_path_factory.mktemp("c") / "patch"
    made = compile_patch(program, "-O1", "-g", *SANITIZERS)
    if made.returncode:
        made = compile_patch(program, "-O1")
    assert made.returncode == 0, made.stderr
    running = Patcher(program)
    yield running
    assert running.close() == 0


def test_the_vectors(patcher: Patcher) -> None:
    """All of them, but those with a codec that the program leaves out."""
    wrong = {}
    for vector in load_patches():
        tried = patcher.apply(
            vector.data,
            to_numbers(vector.state),
            partial=vector.part,
            limits=replace(LIMITS, **vector.limits),
        )
        wanted: Verdict = vector.result, vector.code or b""
        if vector.target is not None:
            wanted = "ok", pack_state(to_numbers(vector.target))
        if tried != wanted and not (tried == UNSUPPORTED and left_out(vector.data, CODECS)):
            wrong[vector.id] = tried, wanted
    assert not wrong


def by_reference(
    blob: bytes, state: Mapping[str, patch.StateTensor], *, partial: bool = False, limits: Limits = LIMITS
) -> Verdict:
    try:
        return "ok", pack_state(patch.apply(blob, state, partial=partial, limits=limits, zstd=ZSTD))
    except WireError as error:
        return error.kind, error.code


def agree(
    patcher: Patcher, blob: bytes, state: State, *, partial: bool = False, limits: Limits = LIMITS
) -> Verdict:
    """Compare both readers; return their verdict."""
    base = plain(state)
    found = patcher.apply(blob, base, partial=partial, limits=limits)
    if found != UNSUPPORTED or not left_out(blob, CODECS):
        assert found == by_reference(blob, base, partial=partial, limits=limits), blob.hex()
    return found


@pytest.mark.parametrize("base", ["read", "unread"])
@pytest.mark.parametrize("seed", range(10, 13))
def test_the_target_is_made(patcher: Patcher, seed: int, base: str) -> None:
    """From the base, and from the target itself. Without a decompressor, the same patch is refused."""
    old, new = states(seed)
    blob = wc.diff(old, new, base=base).tobytes()
    for state in (old, new):
        assert patcher.apply(blob, plain(state)) == ("ok", pack_state(plain(new)))
    with pytest.raises(WireError, match="value codec"):
        patch.apply(blob, plain(old))
    assert patcher.apply(blob, plain(old), zstd=False) == UNSUPPORTED
    part = {name: x for name, x in old.items() if x.dtype == old["scalar"].dtype}
    assert agree(patcher, blob, part, partial=True)[0] == "ok"
    assert agree(patcher, blob, part)[0] == "SchemaMismatch"
    mixed = {**old, "bfloat16.0": new["bfloat16.0"], "new": new["new"]}
    agree(patcher, blob, mixed)


@pytest.mark.parametrize("name", FLOATS[:3])
@pytest.mark.parametrize("share", [0.02, 0.7])
def test_lanes(patcher: Patcher, name: str, share: float) -> None:
    """Long entries have several lanes, of positions and of steps. They need no decompressor."""
    rng = np.random.default_rng(1)
    old = {"w": weights(rng, name, (40, 4500) if share < 0.1 else (4500,))}
    new = {"w": change(rng, old["w"], share, wide=0.01)}
    blob = wc.diff(old, new).tobytes()
    assert patcher.apply(blob, plain(old), zstd=False) == ("ok", pack_state(plain(new)))


def test_positions_frames_steps_and_bools(patcher: Patcher) -> None:
    """Those that are compared with the library, too (test_patches)."""
    old, new, blob = distant()
    assert patcher.apply(blob, plain(old)) == ("ok", pack_state(plain(new)))
    for section in edit_bytes(read_parts(blob)["index"]):
        agree(patcher, rebuild(blob, index=put_all(section)), old)
    for is_valid, one, base in framed():
        assert (agree(patcher, one, base)[0] == "ok") == is_valid
    for code, one, base in stepped():
        assert agree(patcher, one, base)[1] == code
    for one, base in false_bools():
        assert agree(patcher, one, base) == ("Invalid", "bool-value")


@pytest.mark.parametrize("base", ["read", "unread"])
def test_chunks(patcher: Patcher, base: str) -> None:
    """The target is that of the library alone: the reference would take minutes."""
    old = {"w": np.zeros(2**24 + 600, "u1")}
    new = {"w": old["w"].copy()}
    new["w"][[5, 90, 2**24 + 3, 2**24 + 500]] = 1, 2, 3, 250
    new["whole"] = np.random.default_rng(7).integers(0, 256, 2**24 + 5, np.uint8)
    blob = wc.diff(old, new, base=base).tobytes()
    assert patcher.apply(blob, plain(old)) == ("ok", pack_state(plain(new)))


def test_chains(patcher: Patcher) -> None:
    """A merged patch has the result of its parts."""
    rng = np.random.default_rng(4)
    first, second = states(20)
    third = {name: change(rng, x, 0.3) for name, x in second.items() if name != "float32.0"}
    one, two = wc.diff(first, second), wc.diff(second, third)
    step = patcher.apply(two.tobytes(), patch.apply(one.tobytes(), plain(first), zstd=ZSTD))
    merged = wc.merge([one, two], first).tobytes()
    assert step == patcher.apply(merged, plain(first)) == ("ok", pack_state(plain(third)))


def test_every_code(patcher: Patcher) -> None:
    for code, blob, state in refused():
        assert agree(patcher, blob, state)[1] == code


@pytest.mark.parametrize("count", [10, 11])
def test_tensors_without_names(patcher: Patcher, count: int) -> None:
    """Keys in decimal are the names, of one digit or of two; expansion is that of whole tensors alone."""
    old = {str(n).zfill(count - 9): np.zeros(1, "f4") for n in range(count)}
    new = {name: np.full(1, n, "f4") for n, name in enumerate(old)}
    pairs = [
        (patch.seal(a), patch.seal(b)) for a, b in zip(plain(old).values(), plain(new).values(), strict=True)
    ]
    body = struct.pack("<BBHIIIQ", 1, 0, 0, 0, 0, 0, 0) + b"".join(
        struct.pack("<QQ", *pair) for pair in pairs
    )
    rows = [Row(n, 0, 1, 1, 1, 1, 1, b"", x.tobytes()) for n, x in enumerate(new.values())]
    blob = assemble(rows, write_extension_block([Record(BASE, CRITICAL, body)]), minor=1)
    assert agree(patcher, blob, old) == ("ok", pack_state(plain(new)))
    for most in (0, 1):
        verdict = agree(patcher, blob, old, limits=Limits(max_expansion=most))
        assert verdict[0] == ("ok" if most else "LimitExceeded")


def test_false_sizes_need_no_memory(patcher: Patcher) -> None:
    """The state does not confirm 2^32 elements. The sanitizer would refuse an allocation of so many."""
    pair = struct.pack("<BBHIIIQ", 1, 0, 0, 0, 0, 0, 0) + struct.pack("<QQ", 1, 2)
    chunks = [Row(0, n << 24, 2**24, 2**24 - 1, 4, 2, 16, b"\0", bytes(4)) for n in range(255)]
    blob = assemble(chunks, write_extension_block([Record(BASE, CRITICAL, pair)]), minor=1)
    limits = Limits(max_elements=2**40)
    assert agree(patcher, blob, {"0": np.zeros(4)}, limits=limits) == ("SchemaMismatch", "base-shape")


@pytest.mark.parametrize("with_zstd", [False, True])
def test_files(tmp_path: Path, with_zstd: bool) -> None:
    """The program applies patches in sequence, from one file and from several; it writes all or nothing."""
    options = ["-DWITH_ZSTD", "-lzstd"] if with_zstd else []
    made = compile_patch(tmp_path / "patch", *options)
    if made.returncode and with_zstd:
        pytest.skip("there is no libzstd to compile with")
    assert made.returncode == 0, made.stderr
    rng = np.random.default_rng(5)
    chain = [{"u": np.ones(2, "f4"), **{n: weights(rng, n, (3000,)) for n in FLOATS[:2]}}]
    for _ in range(3):
        chain.append({**chain[-1], **{n: change(rng, chain[-1][n], 0.1) for n in FLOATS[:2]}})
    if with_zstd:
        chain[2]["new"] = np.zeros(100)
    blobs = [wc.diff(a, b) for a, b in itertools.pairwise(chain)]
    (tmp_path / "state").write_bytes(pack_state(plain(chain[0])))
    (tmp_path / "half").write_bytes(pack_state(plain(chain[2] | {FLOATS[0]: chain[3][FLOATS[0]]})))
    (tmp_path / "two").write_bytes(wc.merge(blobs[:2]).tobytes())
    (tmp_path / "one").write_bytes(blobs[2].tobytes())
    (tmp_path / "cut").write_bytes(blobs[2].tobytes()[:-8])

    def run(*files: str) -> tuple[int, bytes, bytes]:
        done = subprocess.run([tmp_path / "patch", *files], cwd=tmp_path, capture_output=True, check=False)
        return done.returncode, done.stdout, done.stderr

    target = pack_state(plain(chain[3]))
    assert run("state", "two", "one") == run("state", "two", "one", "one") == (0, target, b"")
    assert run("state") == (0, pack_state(plain(chain[0])), b"")
    assert run("half", "one") == (0, target, b"one: the state was half-written\n")
    assert run("state", "one") == (1, b"", b"one: refused SchemaMismatch base\n")
    assert run("state", "two", "cut") == (1, b"", b"cut: refused Truncated container\n")


def test_the_function_of_the_page_compiles(tmp_path: Path) -> None:
    page = (SOURCES / "README.md").read_text(encoding="utf-8")
    *_, function = re.findall(r"^```c\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "apply.c").write_text(function)
    command = [str(COMPILER), *WARNINGS, "-I", str(SOURCES), "-c", "-o", "apply.o", "apply.c"]
    subprocess.run(command, cwd=tmp_path, check=True)


@pytest.mark.parametrize("base", ["read", "unread"])
@pytest.mark.parametrize("number", range(5))
def test_parts_with_one_change(
    monkeypatch: pytest.MonkeyPatch, patcher: Patcher, number: int, base: str
) -> None:
    _, old, _, blob = pieces(monkeypatch, base)[number]
    for mutant in (blob, *edited(blob)):
        agree(patcher, mutant, old)


@pytest.mark.parametrize("number", range(12))
def test_mutants_have_the_same_verdict(patcher: Patcher, number: int) -> None:
    old, drawn = mutants(number, 250)
    seen = {agree(patcher, mutant, old)[:2] for mutant in drawn}
    assert len(seen) > 8
