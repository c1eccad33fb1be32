"""The splitter of formats/c against the stream vectors and the reference, under sanitizers.

``split.c`` is started once for each stream: it takes the stream from a pipe, or from memory (-m), in pieces.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from formats import streams
from formats.program import run_splitter
from formats.reference import write
from formats.reference.stream import UNIT_MAGIC, write_unit
from formats.vector_cases.case import sparse
from tests.formats.test_c import COMPILER, SANITIZERS, SOURCES, WARNINGS

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler (gcc or cc)")
KINDS = (streams.UNITS, streams.CONTAINERS)
MEMORY = 64 * 2**20
"""Bytes of address space for a splitter whose stream has more."""


def compile_split(target: Path, source: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [str(COMPILER), *WARNINGS, "-I", str(SOURCES), *options, "-o", str(target), str(source)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def compile_with_sanitizers(folder: Path, source: str) -> Path:
    """Compile a program, with sanitizers if the compiler has them; return its path."""
    program = folder / source.removesuffix(".c")
    made = compile_split(program, SOURCES / source, "-O1", "-g", *SANITIZERS)
    if made.returncode:
        made = compile_split(program, SOURCES / source, "-O1")
    assert made.returncode == 0, made.stderr
    return program


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_with_sanitizers(tmp_path_factory.mktemp("c"), "split.c")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "options", [["4096"], ["1"], ["7"], ["24"], ["-m"], ["-m", "5"], ["-s"]], ids=" ".join
)
def test_stream_vectors(split: Path, kind: str, options: list[str]) -> None:
    splitter = run_splitter([str(split), *options], kind)
    assert streams.run_streams(splitter, kind=kind) == []


def draw_stream(rng: Random) -> bytes:
    """Return a stream of containers and units, most of them with a damaged byte or a missing end."""
    parts = [
        write_unit(rng.randrange(2**32), rng.randbytes(rng.randrange(20))) for _ in range(rng.randrange(4))
    ]
    parts += [write([sparse("a", 4, [1])]) for _ in range(rng.randrange(3))]
    rng.shuffle(parts)
    data = bytearray(b"".join(parts))
    for _ in range(rng.randrange(3)):
        if data:
            start = rng.randrange(len(data)) & ~7  # most often in a prefix
            data[min(start + rng.randrange(24), len(data) - 1)] ^= 1 << rng.randrange(8)
    return bytes(data[: len(data) - rng.randrange(12) * rng.randrange(2)])


def test_c_and_reference_agree(split: Path) -> None:
    outcomes = set()
    for seed in range(150):
        rng = Random(seed)
        data, kind = draw_stream(rng), rng.choice(KINDS)
        limits = {"max_bytes": rng.choice((40, 104))} if rng.randrange(4) == 0 else {}
        splitter = run_splitter([str(split), *rng.choice((["3"], ["-m", "64"], ["8"]))], kind)
        wanted = streams.split_all(streams.reference_of(kind), data, limits)
        assert streams.split_all(splitter, data, limits) == wanted, (seed, data.hex())
        outcomes.add(wanted.code)
    codes = {"magic", "prefix", "container", "unit", "unit-length", "unit-checksum", "max-bytes"}
    assert codes <= outcomes


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("present", [True, False])
def test_memory_does_not_follow_lengths(tmp_path: Path, kind: str, present: bool) -> None:
    """A part that is skipped, or that is stated and not there, takes no memory."""
    program, path = tmp_path / "split", tmp_path / "stream"
    assert compile_split(program, SOURCES / "split.c", "-O2").returncode == 0
    unit = UNIT_MAGIC + struct.pack("<IIIQ", 7, 2 * MEMORY - 24, 0, 2 * MEMORY)
    container = write([])[:16] + struct.pack("<Q", 2 * MEMORY)
    path.write_bytes(unit if kind == streams.CONTAINERS else container)
    if present:
        os.truncate(path, 2 * MEMORY)  # a file of zeros that takes no disk
    with path.open("rb") as file:
        done = subprocess.run(
            [program, "65536", json.dumps({"stream": kind})],
            stdin=file,
            capture_output=True,
            check=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
        )
    found = streams.parse_outcome(json.loads(done.stdout))
    code = "unit" if kind == streams.CONTAINERS else "container"
    parts: list[streams.Part] = [2 * MEMORY] if kind == streams.UNITS else []
    assert found == (streams.Outcome(parts) if present else streams.Outcome([], "Truncated", code))


def test_the_program_of_the_page(tmp_path: Path) -> None:
    page = (SOURCES / "README.md").read_text(encoding="utf-8")
    _, program, _ = re.findall(r"^```c\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "tensors.c").write_text(program)
    made = compile_split(tmp_path / "tensors", tmp_path / "tensors.c")
    assert made.returncode == 0, made.stderr
    data = write([sparse("a", 4, [1])]) + write_unit(7, b"abc")
    text = "container: 1 tensors\nunit of application 7: 3 bytes\n"
    for stream, status, printed in ((data, 0, text), (data + b"\0", 1, text + "Truncated: prefix\n")):
        done = subprocess.run([tmp_path / "tensors"], input=stream, capture_output=True, check=False)
        assert (done.returncode, done.stdout.decode()) == (status, printed)


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_make_installs_all_headers(tmp_path: Path) -> None:
    def installed() -> Iterator[str]:
        return (path.name for path in (tmp_path / "include").iterdir())

    make = ["make", "-s", "-C", str(SOURCES), f"PREFIX={tmp_path}"]
    subprocess.run([*make, "install"], check=True)
    assert set(installed()) == {path.name for path in SOURCES.glob("*.h")}
    subprocess.run([*make, "uninstall"], check=True)
    assert set(installed()) == set()
