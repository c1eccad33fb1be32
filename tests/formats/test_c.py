"""The C decoder of formats/c against the golden vectors and the reference decoder, under sanitizers.

One process answers requests in turn. The C decoder must refuse features that it leaves out
(formats/c/README.md) as unsupported, unless an earlier check refuses the container as the reference does.
"""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import time
from collections.abc import Iterator, Set
from pathlib import Path
from random import Random
from typing import IO, Any

import numpy as np
import pytest

import wirecodec as wc
from formats import conformance, reference
from formats.conformance import Expected, One, Schema, TensorTuple, Vector
from formats.reference import Limits, WireError
from formats.reference.element_types import IN_RECORD, RECORD_TYPES, write_types
from formats.reference.extension import CRITICAL, META, TYPES
from formats.reference.writing.assembly import write_extension_block
from formats.reference.writing.records import write_meta
from tests.formats.test_reference import structured_chunks
from tests.fuzz.judge import SMALL, is_near
from tests.fuzz.legal import draw_container
from tests.fuzz.mutate import mutate_container
from tests.fuzz.seeds import all_seeds
from tests.golden import RESULTS, vectors, vectors_of

SOURCES = Path(conformance.__file__).resolve().parent / "c"
COMPILER = shutil.which("gcc") or shutil.which("cc")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler (gcc or cc)")

LEFT_OUT = {"value": {6, 7, 9, 10}}
"""The ids of registry.toml that the C decoder does not support."""
WARNINGS = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"]
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
DTYPES = {"float32": 1, "float16": 2, "bfloat16": 3, "float64": 4} | {t.name: t.number for t in RECORD_TYPES}


def compile_check(target: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [str(COMPILER), *WARNINGS, *options, "-o", str(target), str(SOURCES / "check.c")]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_program_of_the_page(tmp_path: Path) -> None:
    """Its lines compile without a warning, by pkg-config from what the makefile installs."""
    page = (SOURCES / "README.md").read_text(encoding="utf-8")
    program, *_ = re.findall(r"^```c\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "sums.c").write_text(program)
    includes = ["-I", str(SOURCES)]
    if shutil.which("make") and shutil.which("pkg-config"):
        subprocess.run(["make", "-s", "-C", SOURCES, "install", f"PREFIX={tmp_path}"], check=True)
        where = {**os.environ, "PKG_CONFIG_PATH": str(tmp_path / "lib/pkgconfig")}
        flags = ["pkg-config", "--cflags", "wirecodec"]
        includes = subprocess.run(flags, env=where, capture_output=True, text=True, check=True).stdout.split()
        assert includes == [f"-I{tmp_path}/include"]
        for version, installed in (("1.0.2", True), ("1.1", True), ("1.2", False)):
            asked = ["pkg-config", f"--atleast-version={version}", "wirecodec"]
            assert (subprocess.run(asked, env=where, check=False).returncode == 0) == installed
    target = tmp_path / "sums"
    subprocess.run([str(COMPILER), *WARNINGS, *includes, "-o", target, tmp_path / "sums.c"], check=True)
    tensor = reference.Tensor("w", "float32", (2, 2), [1, 2], struct.pack("<2f", 1.5, 3))
    blob = reference.write([tensor], "bitmap")
    for data, status, expected in (
        (blob, 0, "w: 2 of 4 elements, sum 4.5\n"),
        (blob[:-1], 1, "Truncated: container\n"),
    ):
        done = subprocess.run([target], input=data, capture_output=True, check=False)
        assert (done.returncode, done.stdout.decode()) == (status, expected)


class Refused(Exception):
    """Refusal of the C decoder."""

    def __init__(self, kind: str, code: str) -> None:
        super().__init__(f"{kind} {code}")
        self.kind = kind
        self.code = code


def request(data: bytes, limits: dict[str, int], expected: Expected) -> bytes:
    """Return a request in the form that the head of check.c describes."""
    allowed = Limits(**limits)
    names = ("max_bytes", "max_entries", "max_elements", "max_dense", "max_expansion", "max_work")
    schema: Schema | None
    if isinstance(expected, One):
        schema, kind = {"": expected.tensor} if expected.tensor else {}, 2
    else:
        schema, kind = expected, int(expected is not None)
    parts = [struct.pack("<6QI", *(getattr(allowed, name) for name in names), kind)]
    if schema is not None:
        parts.append(struct.pack("<I", len(schema)))
        for name in sorted(schema, key=str.encode):
            shape, dtype = schema[name]
            parts.append(struct.pack("<3I", len(name.encode()), DTYPES[dtype], len(shape)))
            parts.append(struct.pack(f"<{len(shape)}Q", *shape) + name.encode())
    return b"".join([*parts, struct.pack("<Q", len(data)), data])


def from_hex(text: str) -> bytes:
    return b"" if text == "-" else bytes.fromhex(text)


class Check:
    """A running check program."""

    def __init__(self, program: Path) -> None:
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin: IO[bytes] = self.process.stdin
        self.stdout: IO[bytes] = self.process.stdout

    def line(self) -> list[str]:
        line = self.stdout.readline()
        assert line.endswith(b"\n"), f"the program died: {self.process.wait()}"
        return line.decode().split()

    def tensor(self) -> TensorTuple:
        _, name, dtype, ndim, *rest = self.line()
        shape, absent = rest[: int(ndim)], rest[int(ndim) :]
        indices = list(map(int, self.line()))
        (values,) = self.line()
        tensor: Any = (from_hex(name).decode(), dtype, tuple(map(int, shape)), indices, from_hex(values))
        return (*tensor, *absent)

    def decode(
        self, data: bytes, limits: dict[str, int], expected: Expected
    ) -> tuple[bytes, list[TensorTuple]]:
        """Decode as formats/vectors/README.md requires, except for the exception's class."""
        self.stdin.write(request(data, limits, expected))
        self.stdin.flush()
        verdict, *rest = self.line()
        if verdict == "refused":
            raise Refused(*rest)
        lines = [self.line()[1:] for _ in range(int(rest[2]) if rest[2:] else 0)]
        self.texts = [
            (int(key), from_hex(name).decode(), from_hex(value).decode()) for key, name, value in lines
        ]
        return from_hex(rest[1]), [self.tensor() for _ in range(int(rest[0]))]

    def close(self) -> int:
        self.stdin.close()
        self.stdout.close()
        return self.process.wait()


@pytest.fixture(scope="module")
def check(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Check]:
    """Compile the check program, with sanitizers if the compiler has them."""
    program = tmp_path_factory.mktemp("c") / "check"
    made = compile_check(program, "-O0", "-g", *SANITIZERS)
    if made.returncode:
        made = compile_check(program, "-O1")
    assert made.returncode == 0, made.stderr
    running = Check(program)
    yield running
    assert running.close() == 0


def outcome(decode: Any, data: bytes, limits: dict[str, int], expected: Expected) -> Any:
    """Return the content that a decoder finds, or the kind and code of its refusal."""
    try:
        tag, tensors = decode(data, limits, expected)
    except (WireError, Refused) as error:
        return error.kind, error.code
    return bytes(tag), [(n, d, tuple(s), list(i), bytes(v), *a) for n, d, s, i, v, *a in tensors]


def left_out(data: bytes, codecs: Set[int] = frozenset(LEFT_OUT["value"])) -> bool:
    """Return whether the table names a value codec that the C decoder leaves out."""
    if len(data) < 24:
        return False
    (n_entries,) = struct.unpack_from("<I", data, 8)
    rows = range(24, min(24 + 40 * n_entries, len(data) - 39), 40)
    return any(data[at + 38] in codecs for at in rows)


UNSUPPORTED = ("Unsupported", "value-codec")


@pytest.mark.parametrize("result", RESULTS)
def test_golden_vectors(check: Check, result: str) -> None:
    assert [vector.id for vector in vectors_of(result) if not judged_alike(check, vector)] == []


def judged_alike(check: Check, vector: Vector) -> bool:
    """Return whether the C decoder does with a vector what the standard says, or leaves it out."""
    if conformance.check(check.decode, vector) is None:
        return True
    found = outcome(check.decode, vector.data, vector.limits, vector.expected)
    return bool(found == UNSUPPORTED and left_out(vector.data))


def test_texts_of_the_metadata(check: Check) -> None:
    for vector in vectors_of("ok"):
        if vector.meta and not left_out(vector.data):
            check.decode(vector.data, vector.limits, vector.expected)
            keys = {t[0]: key for key, t in enumerate(vector.tensors)}
            groups = [(keys[name], texts) for name, texts in vector.meta["tensors"].items()]
            groups.append((0xFFFFFFFF, vector.meta["container"]))
            assert check.texts == [(key, *pair) for key, texts in groups for pair in texts.items()]


def test_most_rows_of_metadata(check: Check) -> None:
    """No vector has so many: their record has a megabyte."""
    rows = [(0, f"{n:05}".encode(), b"") for n in range(65_537)]
    found = []
    for count in (65_536, 65_537):
        block = write_extension_block([reference.Record(META, 0, write_meta(rows[:count]))])
        data = reference.assemble([reference.Row(0, 0, 4, 0, 1, 1, 1)], block)
        found.append(outcome(check.decode, data, {}, None))
    assert found == [(b"", [("0", "float32", (4,), [], b"")]), ("Malformed", "meta-record")]


def test_types_that_are_not_assigned_yet(check: Check) -> None:
    """No vector has their numbers, because a later version may assign them."""
    for number in (31, 255, 256):
        block = write_extension_block([reference.Record(TYPES, CRITICAL, write_types([(0, number)]))])
        data = reference.assemble([reference.Row(0, 0, 2, 0, IN_RECORD, 1, 1)], block, minor=1)
        assert outcome(check.decode, data, {}, None) == ("Unsupported", "dtype")
    for number in range(5, IN_RECORD):
        data = reference.assemble([reference.Row(0, 0, 2, 0, number, 1, 1)])
        assert outcome(check.decode, data, {}, None) == ("Unsupported", "dtype")


def agree(check: Check, data: bytes, limits: dict[str, int]) -> None:
    found = outcome(check.decode, data, limits, None)
    if found != UNSUPPORTED or not left_out(data):
        wanted = outcome(conformance.reference, data, limits, None)
        assert found == wanted or is_near(found, wanted, data), data.hex()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("part", range(10))
def test_c_and_reference_agree(check: Check, part: int) -> None:
    """Valid containers, and modified ones, most of them with correct checksums."""
    for seed in range(50 * part, 50 * (part + 1)):
        rng = Random(10_000 + seed)  # not those of test_conformance.py
        data = draw_container(rng)
        agree(check, data, {})
        for _ in range(4):
            agree(check, mutate_container(data, all_seeds(), rng), SMALL)
            broken = bytearray(data)
            for _ in range(rng.randint(1, 3)):
                bit = rng.randrange(8 * len(broken))
                broken[bit // 8] ^= 1 << bit % 8
            agree(check, reference.reseal(bytes(broken)) if rng.randrange(8) else bytes(broken), SMALL)


@pytest.mark.parametrize("part", range(4))
def test_c_and_reference_agree_about_coefficients(check: Check, part: int) -> None:
    """Mutants of the vectors with joined tensors, and of all others with a transform."""
    seeds = [v.data for v in vectors_of("ok") if len(v.data) < 2000 and any(v.within)]
    joined = [v.data for v in vectors() if "joined" in v.id and len(v.data) < 2000]
    for seed in range(100 * part, 100 * (part + 1)):
        rng = Random(20_000 + seed)
        agree(check, mutate_container(rng.choice(joined if seed % 2 else seeds), joined, rng), SMALL)


@pytest.mark.parametrize("scheme", ["rfft", "dct"])
@pytest.mark.parametrize("n", [2**15, 3**9, 5**6, 2**3 * 3**4 * 5**2, 30_011])
def test_long_transforms_are_accurate(check: Check, scheme: str, n: int) -> None:
    """Elements of binary64 are those that were transformed, to within the tolerance of SPEC 3.5."""
    x = np.random.default_rng(n).normal(size=n)
    blob = wc.encode(x, f"{scheme} | all | raw-index | raw").tobytes()
    start = time.perf_counter()
    _, (tensor,) = check.decode(blob, {}, None)
    assert time.perf_counter() - start < 5  # 30,000² steps would take longer
    assert np.abs(np.frombuffer(tensor[4], "<f8") - x).max() <= 2**-48 * np.linalg.norm(x)


def test_every_prefix_is_truncated(check: Check) -> None:
    for vector in vectors_of("ok"):
        if len(vector.data) <= 200 and not left_out(vector.data):
            for length in range(len(vector.data)):
                found = outcome(check.decode, vector.data[:length], vector.limits, vector.expected)
                assert found[0] == "Truncated"


def test_structured_does_not_loop_over_absent_elements(check: Check) -> None:
    start = time.perf_counter()
    _, tensors = check.decode(structured_chunks(), {}, None)
    assert time.perf_counter() - start < 1  # 1 ms with sanitizers
    assert tensors[0][3] == [n << 24 for n in range(255)]


def test_the_readme_names_what_is_left_out() -> None:
    text = (SOURCES / "README.md").read_text(encoding="utf-8")
    registry = (SOURCES.parent / "registry.toml").read_text(encoding="utf-8")
    for kind, ids in LEFT_OUT.items():
        for number in ids:
            row = registry.index(f"[[{kind}]]\nid = {number}\n")
            name = registry[row:].split('name = "')[1].split('"')[0]
            assert f"`{name}`" in text


def test_check_reads_files(tmp_path: Path) -> None:
    made = compile_check(tmp_path / "check", "-O2")
    assert made.returncode == 0, made.stderr
    vector = next(v for v in vectors() if v.id == "names")
    (tmp_path / "container").write_bytes(vector.data)
    done = subprocess.run([tmp_path / "check", tmp_path / "container"], capture_output=True, check=False)
    assert done.returncode == 0
    assert done.stdout.startswith(b"ok ")
    (tmp_path / "container").write_bytes(vector.data[:-1])
    done = subprocess.run([tmp_path / "check", tmp_path / "container"], capture_output=True, check=False)
    assert done.returncode == 1
    assert done.stdout == b"refused Truncated container\n"
