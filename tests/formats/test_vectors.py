"""The golden vectors are up to date, complete, and judged alike by the reference decoder (SPEC section 7)."""

import itertools
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from formats import conformance, make_vectors
from formats.reference import Decoded, Limits, Qsgd, Raw, Rice, Tensor, Truncated, WireError, decode, write

FORMATS = Path(conformance.__file__).resolve().parent
VECTORS = list(conformance.load_all())
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


def documented(page):
    """The (kind, code) pairs in a page's tables: a cell with a kind, and the next one."""
    pairs = set()
    for line in page.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        for kind, code in itertools.pairwise(cells):
            if line.startswith("|") and kind in KINDS:
                assert re.fullmatch("[a-z0-9-]+", code), line
                pairs.add((kind, code))
    return pairs


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: f"{v.result}-{v.id}")
def test_reference_conforms(vector):
    assert conformance.check(conformance.reference, vector) is None


def test_run_reports_what_is_wrong():
    def blind(data, limits, schema):
        return b"", []

    failures = conformance.run(blind)
    assert all(isinstance(f, conformance.Failure) for f in failures)
    right = {v.id for v in VECTORS if v.result == "ok" and not v.tensors and not v.tag}
    assert {f.id for f in failures} == {v.id for v in VECTORS} - right


@pytest.mark.parametrize("what", range(5))
def test_check_sees_every_part(what):
    vector = next(v for v in VECTORS if v.id == "names")
    wrong = ["other", "float64", (3, 3), [0, 3, 8], bytes(12)]

    def nearly(data, limits, schema):
        tag, tensors = conformance.reference(data, limits, schema)
        first = list(tensors[0])
        first[what] = wrong[what]
        return tag, [tuple(first), *tensors[1:]]

    assert "differs" in conformance.check(nearly, vector)


@pytest.mark.parametrize("arguments", [[], ["formats.conformance:reference"]])
def test_command_line_from_anywhere(tmp_path, arguments):
    command = [sys.executable, str(FORMATS / "conformance.py"), *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(VECTORS)} of {len(VECTORS)} vectors pass" in done.stdout


def test_command_line_fails_without_vectors(tmp_path, capsys):
    assert conformance.main(["--vectors", str(tmp_path)]) == 1
    assert "0 of 0" in capsys.readouterr().out


def test_vectors_are_up_to_date():
    made = make_vectors.render_all()
    present = {
        f"{path.parent.name}/{path.name}": path.read_text(encoding="utf-8")
        for path in (FORMATS / "vectors").glob("*/*.json")
    }
    assert sorted(made) == sorted(present)
    assert [name for name in made if made[name] != present[name]] == []


def test_files_are_small_and_named_for_their_ids():
    sizes = {path: path.stat().st_size for path in (FORMATS / "vectors").glob("*/*.json")}
    assert max(sizes.values()) < 20_000
    assert sum(sizes.values()) < 2_000_000
    for path in sizes:
        fields = json.loads(path.read_text(encoding="utf-8"))
        assert fields["id"] == path.stem
        assert (fields["result"] == "ok") == (path.parent.name == "valid")
        assert fields["about"].endswith(".")
    assert len({path.stem for path in sizes}) == len(sizes)


def test_make_vectors_refuses_to_change(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(make_vectors, "VECTORS", tmp_path)
    monkeypatch.setattr(make_vectors, "render_all", lambda: {"valid/a.json": "1\n", "bad/b.json": "2\n"})
    assert make_vectors.main([]) == 0
    assert make_vectors.main([]) == 0
    monkeypatch.setattr(make_vectors, "render_all", lambda: {"valid/a.json": "3\n", "valid/c.json": "4\n"})
    assert make_vectors.main([]) == 1
    assert (tmp_path / "valid" / "a.json").read_text() == "1\n"
    assert not (tmp_path / "valid" / "c.json").exists()
    assert make_vectors.main(["--update"]) == 0
    assert sorted(path.name for path in tmp_path.glob("*/*.json")) == ["a.json", "c.json"]
    assert (tmp_path / "valid" / "a.json").read_text() == "3\n"
    assert "removed bad/b.json" in capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_every_documented_refusal_has_a_vector(page):
    shown = {(v.result, v.code) for v in VECTORS}
    pairs = documented(page)
    assert pairs
    assert pairs - shown == set()


def test_every_refusal_is_documented():
    pairs = set().union(*(documented(page) for page in PAGES))
    assert {(v.result, v.code) for v in VECTORS if v.result != "ok"} - pairs == set()


def test_every_registered_id_is_shown():
    text = (FORMATS / "registry.toml").read_text(encoding="utf-8")
    listed = set(re.findall(r"\[\[(index|value)\]\]\nid = (\d+)", text))
    shown = set()
    for vector in VECTORS:
        if vector.result == "ok":
            count = int.from_bytes(vector.data[8:12], "little")
            for at in range(24, 24 + 40 * count, 40):
                shown |= {("index", str(vector.data[at + 37])), ("value", str(vector.data[at + 38]))}
    assert shown == listed


@pytest.mark.parametrize("vector", [v for v in VECTORS if v.result == "ok"], ids=lambda v: v.id)
def test_every_prefix_is_truncated(vector):
    step = 1 if len(vector.data) <= 512 else 37
    for length in range(0, len(vector.data), step):
        with pytest.raises(Truncated):
            decode(vector.data[:length], Limits(**vector.limits), vector.schema)


FLIPPED = [v for v in VECTORS if v.result == "ok" and not v.limits and len(v.data) <= 240]


@pytest.mark.parametrize("vector", FLIPPED, ids=lambda v: v.id)
def test_every_bit_flip_is_refused(vector):
    for bit in range(8 * len(vector.data)):
        data = bytearray(vector.data)
        data[bit // 8] ^= 1 << bit % 8
        with pytest.raises(WireError):
            decode(bytes(data), schema=vector.schema)


@pytest.mark.parametrize("vector", [v for v in VECTORS if v.encode], ids=lambda v: v.id)
def test_encode_input_gives_the_bytes(vector):
    """What a library is asked to encode is enough to make the bytes; here by way of the scheme's text."""
    _, index, value = vector.encode.scheme.split(" | ")
    name, _, rest = value.partition("(")
    options = dict(option.split("=") for option in rest.rstrip(")").split(", ")) if rest else {}
    if name == "qsgd":
        codec = Qsgd(bits=int(options["bits"]), bucket=int(options["bucket"]), norm=options["norm"])
    else:
        codec = Raw(**options)
    many, seed, tag = vector.encode.many, vector.encode.seed, vector.encode.tag
    tensors = [Tensor(*t) for t in vector.encode.tensors]
    data = write(tensors, Rice() if index == "rice" else index, codec, seed=seed, names=many, tag=tag)
    assert data == vector.data
    assert many or len(tensors) == 1
    decoded = decode(data)
    assert decoded == Decoded(decoded.tensors, vector.tag)


def test_there_are_enough():
    assert sum(v.result == "ok" for v in VECTORS) >= 60
    assert sum(v.result != "ok" for v in VECTORS) >= 120
