"""The golden vectors are up to date and complete, and the reference decoder conforms (SPEC section 7)."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from formats import conformance, make_vectors, program, reference
from formats.conformance import Expected, One, TensorTuple, Vector
from formats.reference import (
    Limits,
    Qsgd,
    Raw,
    Rice,
    Tensor,
    Truncated,
    Unsupported,
    WireError,
    container,
    decode,
    extension,
    table,
    write,
)
from formats.reference.extension import JOINED, META, SCHEMA, TRANSFORM, TYPES, read_records
from formats.reference.value.codecs import VALUE_CODECS
from formats.reference.writing.container import Index
from formats.reference.writing.protocols import ValueWriter
from formats.vector_cases.case import NUMERIC_SEEDS, container_json
from tests.fuzz.judge import SMALL
from tests.fuzz.mutate import mutate_container
from tests.golden import RESULTS, vectors, vectors_of

FORMATS = Path(conformance.__file__).resolve().parent
VECTORS = vectors()
KINDS = {
    "Truncated",
    "Malformed",
    "Invalid",
    "ChecksumMismatch",
    "Unsupported",
    "LimitExceeded",
    "SchemaMismatch",
}
PAGES = [FORMATS / "SPEC.md", *sorted((FORMATS / "spec").glob("*/*.md"))]


def documented(page: Path) -> set[tuple[str, str]]:
    """Return the (kind, code) pairs in a page's tables: a cell with a kind, and the next cell."""
    pairs = set()
    for line in page.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        for kind, code in itertools.pairwise(cells):
            if line.startswith("|") and kind in KINDS:
                assert re.fullmatch("[a-z0-9-]+", code), line
                pairs.add((kind, code))
    return pairs


@pytest.mark.parametrize("result", RESULTS)
def test_reference_conforms(result: str) -> None:
    messages = {v.id: conformance.check(conformance.reference, v) for v in vectors_of(result)}
    assert {id: message for id, message in messages.items() if message is not None} == {}


def test_run_reports_what_is_wrong() -> None:
    def blind(data: bytes, limits: dict[str, int], expected: Expected) -> tuple[bytes, list[TensorTuple]]:
        return b"", []

    failures = conformance.run(blind)
    assert all(isinstance(f, conformance.Failure) for f in failures)
    right = {v.id for v in VECTORS if v.result == "ok" and not v.tensors and not v.tag}
    assert {f.id for f in failures} == {v.id for v in VECTORS} - right


@pytest.mark.parametrize("what", range(5))
def test_check_sees_every_part(what: int) -> None:
    vector = next(v for v in VECTORS if v.id == "names")
    wrong: TensorTuple = ("other", "float64", (3, 3), [0, 3, 8], bytes(12))

    def nearly(data: bytes, limits: dict[str, int], expected: Expected) -> tuple[bytes, list[TensorTuple]]:
        tag, tensors = conformance.reference(data, limits, expected)
        first: Any = (*tensors[0][:what], wrong[what], *tensors[0][what + 1 :])
        return tag, [first, *tensors[1:]]

    assert "differs" in str(conformance.check(nearly, vector))


@pytest.mark.sweep
@pytest.mark.parametrize("arguments", [[], ["formats.conformance:reference"]])
def test_command_line_decodes_all_vectors(tmp_path: Path, arguments: list[str]) -> None:
    command = [sys.executable, str(FORMATS / "conformance.py"), *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(VECTORS)} of {len(VECTORS)} vectors pass" in done.stdout


def test_command_line_from_anywhere(tmp_path: Path) -> None:
    folder = tmp_path / "few" / "valid" / "bitmap"
    shutil.copytree(FORMATS / "vectors" / "valid" / "bitmap", folder)
    command = [sys.executable, str(FORMATS / "conformance.py"), "--vectors", "few"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    count = len(list(folder.glob("*.json")))
    assert f"{count} of {count} vectors pass" in done.stdout


def test_command_line_fails_without_vectors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert conformance.main(["--vectors", str(tmp_path)]) == 1
    assert "0 of 0" in capsys.readouterr().out


@pytest.mark.sweep
def test_vectors_are_up_to_date() -> None:
    made = make_vectors.render_all()
    present = {
        path.relative_to(make_vectors.VECTORS).as_posix(): path.read_text(encoding="utf-8")
        for path in make_vectors.VECTORS.rglob("*.json")
    }
    assert sorted(made) == sorted(present)
    assert [name for name in made if made[name] != present[name]] == []


def test_files_are_small_and_named_for_their_ids() -> None:
    sizes = {path: path.stat().st_size for path in make_vectors.VECTORS.rglob("*.json")}
    of_patches = {path for path in sizes if path.parent.name == make_vectors.PATCHES}
    of_peers = {path for path in sizes if path.parent.name in make_vectors.PEERS}
    of_files = {path for path in sizes if path.parent.name == make_vectors.INDEXES}
    assert max(sizes.values()) < 80_000
    assert (
        sum(size for path, size in sizes.items() if path not in of_patches | of_peers | of_files) < 4_100_000
    )
    assert sum(sizes[path] for path in of_patches) < 440_000
    assert sum(sizes[path] for path in of_peers) < 400_000
    assert sum(sizes[path] for path in of_files) < 50_000
    for path in sizes:
        if path.parent.name in (
            *(make_vectors.STREAMS, make_vectors.PATCHES, make_vectors.INDEXES),
            *make_vectors.PEERS,
        ):
            continue
        fields = json.loads(path.read_text(encoding="utf-8"))
        assert fields["id"] == path.stem
        assert (fields["result"] == "ok") == (path.parents[1].name == "valid")
        assert path.parent.name == make_vectors.folder_of(path.stem)
        assert fields["about"].endswith(".")
    assert len({path.stem for path in sizes}) == len(sizes)


def test_long_containers_are_abbreviated() -> None:
    """The parts that repeat are short in a file, and a list with them is read as any other."""
    period = bytes(range(12))
    data = b"head" + period * 9000 + b"a" * 70_000 + b"tail"
    parts = container_json(data)
    assert [type(part) for part in parts] == [str, dict, dict, str]
    lines = "".join(make_vectors._render({"hex": ["ab" * 60, *parts]}, ""))
    assert conformance.parse_hex(json.loads(lines)["hex"]) == bytes([0xAB]) * 60 + data
    assert container_json(data[: 2**16 - 1]) == data[: 2**16 - 1].hex()


def test_no_two_vectors_are_the_same_container() -> None:
    """Equal containers must differ in the limits or the schema that they are read with."""
    seen: dict[Any, str] = {}
    for v in VECTORS:
        key = v.data, tuple(sorted(v.limits.items())), repr(v.expected)
        assert seen.setdefault(key, v.id) == v.id


def test_make_vectors_refuses_to_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(make_vectors, "VECTORS", tmp_path)
    monkeypatch.setattr(
        make_vectors, "render_all", lambda: {"valid/rice/a.json": "1\n", "bad/qsgd/b.json": "2\n"}
    )
    assert make_vectors.main([]) == 0
    (tmp_path / "valid" / "rice" / "a.json").rename(tmp_path / "valid" / "a.json")
    assert make_vectors.main([]) == 0
    assert not (tmp_path / "valid" / "a.json").exists()
    monkeypatch.setattr(
        make_vectors, "render_all", lambda: {"valid/rice/a.json": "3\n", "valid/rice/c.json": "4\n"}
    )
    assert make_vectors.main([]) == 1
    assert (tmp_path / "valid" / "rice" / "a.json").read_text() == "1\n"
    assert not (tmp_path / "valid" / "rice" / "c.json").exists()
    assert make_vectors.main(["--update"]) == 0
    assert sorted(path.name for path in tmp_path.rglob("*.json")) == ["a.json", "c.json"]
    assert (tmp_path / "valid" / "rice" / "a.json").read_text() == "3\n"
    assert "removed bad/qsgd/b.json" in capsys.readouterr().out
    assert make_vectors.main(["--release", "1.0"]) == 0
    assert sorted(make_vectors.read_released()) == ["valid/rice/a.json", "valid/rice/c.json"]
    added = {"valid/rice/a.json": "3\n", "valid/rice/c.json": "4\n", "valid/rice/d.json": "5\n"}
    monkeypatch.setattr(make_vectors, "render_all", lambda: added)
    assert make_vectors.main(["--release", "1.1"]) == 0
    assert (tmp_path / "1.1.sha256").read_text().endswith("  valid/rice/d.json\n")
    with pytest.raises(FileExistsError):
        make_vectors.main(["--release", "1.1"])
    added["valid/rice/a.json"] = "6\n"
    assert make_vectors.main(["--update"]) == 1
    assert (tmp_path / "valid" / "rice" / "a.json").read_text() == "3\n"


def test_released_vectors_are_frozen() -> None:
    """No vector of 1.0 may change or disappear (SPEC section 9). Later versions add files."""
    released = make_vectors.read_released()
    assert len((make_vectors.VECTORS / "1.0.sha256").read_text().splitlines()) >= 2480
    for name, digest in released.items():
        assert make_vectors.hash_of((make_vectors.VECTORS / name).read_text(encoding="utf-8")) == digest, name


def test_every_vector_is_listed() -> None:
    """Those of peers in a list of their own, all others in that of a version."""
    present = {
        path.relative_to(make_vectors.VECTORS).as_posix() for path in make_vectors.VECTORS.rglob("*.json")
    }
    assert set(make_vectors.read_released()) == present
    listed = (make_vectors.VECTORS / "peers.sha256").read_text(encoding="utf-8").split()[1::2]
    assert set(listed) == {name for name in present if make_vectors.is_of_peers(name)}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_every_documented_refusal_has_a_vector(page: Path) -> None:
    shown = {(v.result, v.code) for v in VECTORS}
    pairs = documented(page)
    assert pairs
    assert pairs - shown == set()


def test_every_refusal_is_documented() -> None:
    pairs = {pair for page in PAGES for pair in documented(page)}
    assert {(v.result, v.code) for v in VECTORS if v.result != "ok"} - pairs == set()


def numbers(data: bytes) -> Iterator[tuple[str, int]]:
    """Yield (kind, number) for every id in a container, as far as an invalid one can be read."""
    if data[:4] != b"\xf7WC\x1a" or len(data) < 24:
        return
    flags, n_entries = struct.unpack_from("<HI", data, 6)
    yield "major", data[4]
    yield from (("flag", bit) for bit in range(16) if flags >> bit & 1)
    table_end = 24 + 40 * n_entries
    for at in range(24, min(table_end, len(data) - 39), 40):
        yield from (("dtype", data[at + 36] & 15), ("domain", data[at + 36] >> 4))
        yield from zip(("index", "value", "map"), data[at + 37 : at + 40], strict=True)
    if flags & 1 and table_end + 8 <= len(data):
        (n_records,) = struct.unpack_from("<I", data, table_end + 4)
        at = table_end + 8
        for _ in range(n_records):
            if at + 8 > len(data):
                break
            kind, critical, length = struct.unpack_from("<HHI", data, at)
            yield "record", kind
            if kind == TYPES and critical:
                for row in range(at + 8, min(at + 8 + length, len(data) - 7), 8):
                    yield "type", struct.unpack_from("<H", data, row + 4)[0]
            at += 8 + length + -length % 8


def registered(kind: str) -> set[int]:
    """Return the ids that registry.toml lists, without those of patches of weights, which need a base."""
    rows = (FORMATS / "registry.toml").read_text(encoding="utf-8").split("\n\n")
    found = {re.match(rf"\[\[{kind}\]\]\nid = (\d+)", row) for row in rows if "\nneeds = " not in row}
    return {int(match[1]) for match in found - {None}}  # type: ignore[index]


NEVER = {
    "index": {0, 0x7F},
    "value": {0, 0x7F},
    "map": {0x7F},
    "dtype": {0, 15},
    "domain": {15},
    "record": set(range(0xFFF0, 0x10000)),
    "type": {*range(16), *range(0xFFF0, 0x10000)},
    "flag": {7, 15},
    "major": {0, 255},
}
"""The numbers that are never assigned (SPEC section 4)."""
BASIC = {"map": {0}, "domain": {0}, "flag": {0}, "major": {1}}
"""The numbers that SPEC defines and no registry lists."""


@pytest.mark.parametrize("kind", NEVER)
def test_vectors_hold_no_number_that_a_later_version_may_assign(kind: str) -> None:
    known = registered(kind) | BASIC.get(kind, set())
    assert not known & NEVER[kind]
    shown = {number for vector in VECTORS for what, number in numbers(vector.data) if what == kind}
    free = {(kind, number) for number in shown - known - NEVER[kind]}
    assert [v.id for v in VECTORS if free & set(numbers(v.data))] == []
    assert known <= shown
    assert NEVER[kind] & shown


def test_every_registered_id_is_shown() -> None:
    shown = {pair for vector in VECTORS if vector.result == "ok" for pair in numbers(vector.data)}
    for kind in ("index", "value", "dtype", "type", "domain", "record"):
        assert registered(kind) <= {number for what, number in shown if what == kind}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("part", range(10))
def test_every_prefix_is_truncated(part: int) -> None:
    """A tenth of the vectors; of a long one, each 37th prefix."""
    for vector in vectors_of("ok")[part::10]:
        step = 1 if len(vector.data) <= 512 else 37
        for length in range(0, len(vector.data), step):
            with pytest.raises(Truncated):
                decode(vector.data[:length], Limits(**vector.limits), vector.schema)


FLIPPED = [v for v in VECTORS if v.result == "ok" and not v.limits and len(v.data) <= 240]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("part", range(20))
def test_every_bit_flip_is_refused(part: int) -> None:
    """A twentieth of the small vectors."""
    for vector in FLIPPED[part::20]:
        for bit in range(8 * len(vector.data)):
            data = bytearray(vector.data)
            data[bit // 8] ^= 1 << bit % 8
            with pytest.raises(WireError):
                decode(bytes(data), schema=vector.schema)


def called(text: str) -> tuple[str, dict[str, Any]]:
    """Return the name of a scheme's codec, and its keyword arguments."""
    name, _, rest = text.partition("(")
    return name, dict(o.split("=") for o in rest.rstrip(")").split(", ")) if rest else {}


def index_writer(text: str) -> Index:
    """Return the reference's writer of a scheme's index codec."""
    name, options = called(text)
    if name == "bloom":
        return reference.Bloom(options["policy"], float(options["fpr"]))
    if name == "binned":
        return reference.Binned(int(options["bin"]))
    if name == "huffman":
        return reference.Huffman(**options)
    plain: dict[str, Index] = {"raw-index": "raw-index", "bitmap": "bitmap", "rice": Rice()}
    plain |= {"rle": reference.Rle(), "delta": reference.Delta(), "elias-fano": reference.EliasFano()}
    plain["context"] = reference.Context()
    return {**plain, "structured": reference.Structured()}[name]


def value_writer(text: str) -> ValueWriter:
    """Return the reference's writer of a scheme's value codec."""
    name, options = called(text)
    if name == "qsgd":
        return Qsgd(bits=int(options["bits"]), bucket=int(options["bucket"]), norm=options["norm"])
    if name == "offset-float":
        kinds: dict[str, Any] = {"bits": int, "mantissa": int, "rounding": str}
        return reference.OffsetFloat(**{k: kinds.get(k, float)(text) for k, text in options.items()})
    if name == "3lc":
        return reference.ThreeLC(float(options["sparsity"]))
    if name == "sketchml":
        return reference.SketchML(int(options["buckets"]))
    if name == "error-bounded":
        return reference.ErrorBounded(float(options["error"]))
    if name == "terngrad":
        return reference.TernGrad(float(options["clip"]) if options else None)
    plain: dict[str, ValueWriter] = {"sign-scale": reference.SignScale(), "mean": reference.Mean()}
    return plain.get(name) or Raw(**options)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("part", range(12))
def test_encode_input_gives_the_bytes(part: int) -> None:
    """The input in ``encode`` and the text of its scheme determine the bytes."""
    assert [v.id for v in VECTORS[part::12] if v.encode and not written_alike(v)] == []


def written_alike(vector: Vector) -> bool:
    """Return whether the reference writes a vector's bytes, and reads them back."""
    assert vector.encode is not None
    _, index, value = vector.encode.scheme.split(" | ")
    codec = value_writer(value)
    many, seed, tag = vector.encode.many, vector.encode.seed, vector.encode.tag
    tensors = [
        Tensor(name, dtype, tuple(shape), indices, values)
        for name, dtype, shape, indices, values in vector.encode.tensors
    ]
    data = write(tensors, index_writer(index), codec, seed=seed, names=many, tag=tag)
    assert many or len(tensors) == 1
    return data == vector.data and decode(data).tag == vector.tag


def test_the_readme_counts_the_vectors() -> None:
    text = (make_vectors.VECTORS / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (1\.[\d.]+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", text, re.MULTILINE)
    core = {v.id for v in conformance.load_all(core=True)}
    by_id = {v.id: v for v in VECTORS}
    counted = []
    for path in sorted(make_vectors.VECTORS.glob("1.*.sha256")):
        lines = [line for line in path.read_text().splitlines() if re.search("  (valid|bad)/", line)]
        found = [by_id[line.split("/")[-1].removesuffix(".json")] for line in lines]
        valid = sum(v.result == "ok" for v in found)
        encoded = sum(v.encode is not None for v in found)
        counts = len(found), valid, len(found) - valid, sum(v.id in core for v in found), encoded
        counted.append((path.name.removesuffix(".sha256"), *map(str, counts)))
    assert sorted(rows) == sorted(counted)
    assert sum(int(row[1]) for row in rows) == len(VECTORS)


def test_seeds_that_binary64_cannot_hold_are_strings() -> None:
    numeric = []
    for path in make_vectors.VECTORS.rglob("*.json"):
        seed = json.loads(path.read_text(encoding="utf-8")).get("encode", {}).get("seed", 0)
        assert isinstance(seed, int) or int(seed) > 2**53
        if isinstance(seed, int) and seed > 2**53:
            numeric.append(path.stem)
    assert set(numeric) == NUMERIC_SEEDS
    assert len(numeric) == 9  # as vectors/README.md says


LEFT_OUT = {
    ("Unsupported", code)
    for code in ("dtype", "domain", "index-codec", "value-codec", "map-codec", "extension")
}


SKIPPED = {"meta-record", "meta", "schema-record", "schema", "schema-digest"}
"""Codes of rows that a reader of version 1.0 leaves out, because it skips the records."""


NOT_SUPPORTED = {"dtype", "domain", "index-codec", "value-codec", "map-codec", "extension"}
"""Codes of rows that refuse what a reader does not support."""


def read(data: bytes, limits: dict[str, int], expected: Expected) -> tuple[str, Any]:
    """Return "ok" and the content that the reference finds, or the kind and the code of its refusal."""
    try:
        return "ok", conformance.reference(data, limits, expected)
    except WireError as error:
        return error.kind, error.code


def explain(more: tuple[str, Any], less: tuple[str, Any]) -> str:
    """Return the reason of section 9 for the verdict of a reader that supports less."""
    if more == less:
        return "equal"
    if less[0] == "Unsupported" and less[1] in NOT_SUPPORTED:
        return "unsupported"
    rows = re.findall(
        r"^\| \d+[a-z]? \| \w+ \| ([a-z-]+) \|", (FORMATS / "SPEC.md").read_text(), re.MULTILINE
    )
    later = rows[rows.index(more[1]) + 1 :] if more[1] in SKIPPED else []
    codec = less[0] != "ok" and less[1] not in rows
    assert later, (more, less)
    assert less[0] == "ok" or codec or less[1] in later, (more, less)
    return "skipped"


@pytest.mark.parametrize("core", [False, True])
def test_a_reader_that_supports_less_differs_as_section_9_says(
    monkeypatch: pytest.MonkeyPatch, core: bool
) -> None:
    """Readers of 1.0 or of the core, against one of all of 1.1: vectors, and mutants of those of 1.1.

    The lists of 1.0 have no record or element type of 1.1, so a reader of 1.0 reads them as other readers do.
    """
    later = [v.data for v in VECTORS if len(v.data) > 24 and v.data[5]]
    cases: list[tuple[bytes, dict[str, int], Expected]] = [(v.data, v.limits, v.expected) for v in VECTORS]
    for seed in range(1000):
        rng = Random(seed)
        cases.append((mutate_container(rng.choice(later), later, rng), SMALL, None))
    frozen = {
        Path(line.split()[1]).stem
        for path in make_vectors.VECTORS.glob("1.0*.sha256")
        for line in path.read_text(encoding="utf-8").splitlines()
    }
    wanted = [read(*case) for case in cases]
    if core:
        support_the_core(monkeypatch)
    monkeypatch.setattr(extension, "LATER", {})
    monkeypatch.setattr(table, "IN_RECORD", -1)
    found = [explain(more, read(*case)) for more, case in zip(wanted, cases, strict=True)]
    assert set(found[len(VECTORS) :]) == set(found) == {"equal", "unsupported", "skipped"}
    if not core:
        assert {e for e, v in zip(found, VECTORS, strict=False) if v.id in frozen} == {"equal"}
    skipped = {v.code for e, v in zip(found, VECTORS, strict=False) if e == "skipped"}
    assert skipped == SKIPPED


def support_the_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the reference a reader of the core profile, which knows the records of version 1.1."""
    monkeypatch.setattr(table, "COMPONENTS", {0: 1})
    monkeypatch.setattr(table, "IN_RECORD", -1)
    monkeypatch.setattr(table, "INDEX_CODECS", {1: None, 2: None, 3: None})
    monkeypatch.setattr(container, "VALUE_CODECS", {n: VALUE_CODECS[n] for n in (1, 2, 3, 4)})
    monkeypatch.setattr(container, "ZSTD", 0)
    monkeypatch.setattr(container, "read_records", read_core_records)


def test_a_core_reader_passes_the_core_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """It refuses all others as unsupported, unless their own check comes first."""
    support_the_core(monkeypatch)
    core = {v.id for v in conformance.load_all(core=True)}
    for v in VECTORS:
        message = conformance.check(conformance.reference, v)
        if v.id in core:
            assert message is None, (v.id, message)
        else:
            refused = re.match(
                r"refused(?: as|:) (\w+) ([a-z-]+)", message or "refused as Unsupported domain"
            )
            assert refused, (v.id, message)
            assert refused.groups() in LEFT_OUT, (v.id, message)


def test_core_vectors_notice_a_reader_that_skips_a_record_of_1_1(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every reader of 1.1 checks ``meta`` and ``schema``; those of 1.0 are told apart by ``--version``."""
    monkeypatch.setattr(
        extension, "LATER", {k: v for k, v in extension.LATER.items() if k not in (META, SCHEMA)}
    )
    failed = {failure.id for failure in conformance.run(conformance.reference, core=True)}
    codes = {v.code for v in VECTORS if v.id in failed}
    assert codes == SKIPPED
    assert conformance.run(conformance.reference, core=True, version="1.0") == []


def read_core_records(block: bytes, *, based: bool) -> dict[int, bytes]:
    """Read records as a reader of the core profile does: row 30 refuses those of its other types."""
    records = read_records(block, based=based)
    if {TRANSFORM, TYPES, JOINED} & records.keys():
        raise Unsupported("extension", "a record of the extended profile")
    return records


def test_programs_are_tested(tmp_path: Path) -> None:
    """The reference as a program passes vectors of all kinds, and a wrong one does not."""
    for id in (
        "names",
        "rfft-absent",
        "one-schema",
        "schema-dtype",
        "schema-count-two",
        "map-padding",
        "zstd-zeros",
    ):
        (path,) = make_vectors.VECTORS.rglob(f"{id}.json")
        target = tmp_path / path.relative_to(make_vectors.VECTORS)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    arguments = ["--vectors", str(tmp_path), "--program"]
    right = f"{sys.executable} -m formats.reference"
    command = [sys.executable, str(FORMATS / "conformance.py"), *arguments, right]
    done = subprocess.run(command, cwd=FORMATS.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert conformance.main([*arguments, right]) == 0
    assert conformance.main([*arguments, f"{sys.executable} -c 'print(1)'"]) == 1


def test_a_program_has_the_contract_of_the_page() -> None:
    data = next(v.data for v in VECTORS if v.id == "names")
    found = program.answer(conformance.reference, data, "")
    assert found["result"] == "ok"
    assert [t["name"] for t in found["decoded"]["tensors"]] == ["a", "b", "c"]
    given: tuple[Expected, ...] = (None, One(None), One(((2,), "float32")), {"w": ((2, 3), "float16")}, {})
    for expected in given:
        argument = program.write_argument({"max_work": 5}, expected)
        assert program.read_argument(json.dumps(argument)) == ({"max_work": 5}, expected)
    refused = {"result": "SchemaMismatch", "code": "schema-count"}
    assert program.answer(conformance.reference, data, '{"one": {}}') == refused
    with pytest.raises(KeyError):
        program.answer(with_a_bug, data, "")


def with_a_bug(data: bytes, limits: dict[str, int], expected: Expected) -> tuple[bytes, list[TensorTuple]]:
    raise KeyError("an exception that is no refusal")


def test_there_are_enough() -> None:
    assert sum(v.result == "ok" for v in VECTORS) >= 60
    assert sum(v.result != "ok" for v in VECTORS) >= 120
