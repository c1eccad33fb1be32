"""Vectors of patches of weights: both readers pass them, and they show every check (vectors/README.md)."""

from __future__ import annotations

import json
import re
import shutil
import struct
import sys
from pathlib import Path

import pytest

from formats import conformance, patches, program
from formats.make_vectors import VECTORS
from formats.patches import Apply, Patch, State, load_patches
from formats.reference import Unsupported, WireError, decode
from formats.reference import patch as reader
from formats.reference.element_types import BY_NUMBER
from formats.zstd import find_decompressor
from tests.formats.test_registry import REGISTRY
from tests.formats.test_vectors import FORMATS, NEVER, documented, numbers
from tests.fuzz.patches import HALF_WRITTEN, library, tells_rightly
from wirecodec.patch import digest

PATCHES = list(load_patches())
PAGE = FORMATS / "spec" / "patch.md"
pytestmark = pytest.mark.skipif(find_decompressor() is None, reason="needs a Zstandard decompressor")


@pytest.mark.parametrize("apply", [patches.reference, library])
def test_both_readers_pass(apply: Apply) -> None:
    messages = {patch.id: patches.check_patch(apply, patch) for patch in PATCHES}
    assert {id: message for id, message in messages.items() if message is not None} == {}


def test_digests_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digest, "_PIECE", 2)
    assert [f"{f.id}: {f.message}" for f in patches.run_patches(library)] == []


def test_a_target_is_left_alone() -> None:
    """A patch that was applied can be applied again."""
    for patch in PATCHES:
        if patch.target is not None:
            again = patches.reference(patch.data, patch.target, patch.limits, patch.part)
            assert again == patch.target, patch.id


def test_the_library_tells_of_half_written_states_alone() -> None:
    accepted = [patch for patch in PATCHES if patch.target is not None]
    assert {patch.id for patch in accepted} > HALF_WRITTEN
    assert [patch.id for patch in accepted if not tells_rightly(patch)] == []


def test_every_check_of_the_page_has_a_vector() -> None:
    assert documented(PAGE) <= {(patch.result, patch.code) for patch in PATCHES}


def test_a_decoder_without_a_base_refuses_all() -> None:
    for patch in PATCHES:
        if patch.code == "base-absent":
            continue
        with pytest.raises(WireError) as caught:
            decode(patch.data, zstd=find_decompressor())
        if patch.result == "ok":
            assert caught.value.code in ("index-codec", "value-codec", "extension"), patch.id


def test_digests_of_the_page() -> None:
    tensors: dict[str, reader.StateTensor] = {
        "w": (1, (3,), struct.pack("<3f", 1, -2, 0.5)),
        "b": (20, (2, 2), b"\1\2\3\4"),
        "": (3, (), b"\x80\x3f"),
    }
    seals = {name: reader.seal(x) for name, x in tensors.items()}
    named = [reader.add_name(own, name) for name, own in seals.items()]
    some = reader.digest_touched(tensors["w"], [0, 2], reader.take_words(tensors["w"][2], [0, 2], 4))
    described = [reader.describe(number, shape) for number, shape, _ in tensors.values()]
    wanted = {*described, *seals.values(), *named, some, sum(named) % reader.WRAP}
    wanted |= {reader.fold(0, 1), reader.digest_text(b"w")}
    found = re.findall("0x[0-9a-f]{16}", PAGE.read_text(encoding="utf-8"))
    assert {int(number, 16) for number in found} == wanted
    assert reader.digest_text(b"") == 1


def test_ids_of_patches_are_shown() -> None:
    shown = {pair for patch in PATCHES if patch.result == "ok" for pair in numbers(patch.data)}
    for kind in ("index", "value", "record"):
        assert {(kind, row["id"]) for row in REGISTRY[kind] if "needs" in row} <= shown
    assert {("type", number) for number in BY_NUMBER} <= shown


@pytest.mark.parametrize("kind", NEVER)
def test_patches_hold_no_number_that_a_later_version_may_assign(kind: str) -> None:
    known = {row["bit" if kind == "flag" else "id"] for row in REGISTRY.get(kind, [])} | NEVER[kind] | {0, 1}
    for patch in PATCHES:
        assert {number for what, number in numbers(patch.data) if what == kind} <= known, patch.id


def test_arguments_are_short_enough_for_programs() -> None:
    for patch in PATCHES:
        assert len(json.dumps(patches.write_state(patch.state))) < 90_000


def deaf(data: bytes, state: State, limits: dict[str, int], part: bool) -> State:
    """Return the state as it is."""
    return state


def hasty(data: bytes, state: State, limits: dict[str, int], part: bool) -> State:
    """Apply to the whole state, with the default limits."""
    return patches.reference(data, state, {}, False)


def change_all(change: str) -> Apply:
    """Return a reader that makes one part of each tensor another one."""

    def apply(data: bytes, state: State, limits: dict[str, int], part: bool) -> State:
        found = patches.reference(data, state, limits, part)
        return {
            name + "'" * (change == "name"): (
                dtype if change != "type" else f"{dtype}'",
                shape if change != "shape" else (*shape, 1),
                values if change != "values" else values + b"\0",
            )
            for name, (dtype, shape, values) in found.items()
        }

    return apply


def lean(data: bytes, state: State, limits: dict[str, int], part: bool) -> State:
    """Refuse an entry that patches do not have as one of a codec that is not supported."""
    try:
        return patches.reference(data, state, limits, part)
    except WireError as error:
        raise Unsupported("value-codec", "left out") if error.code == "base-entries" else error from None


def test_readers_may_leave_out_other_codecs() -> None:
    others = {"entries-complex", "entries-complex-fused", "entries-complex-16", "entries-complex-17"}
    assert failing(lean) == others | {"entries-touched", "entries-touched-section"}


def failing(apply: Apply) -> set[str]:
    return {failure.id.removeprefix("patch-") for failure in patches.run_patches(apply)}


def test_faulty_readers_fail() -> None:
    ids = {patch.id.removeprefix("patch-") for patch in PATCHES}
    same = {patch.id.removeprefix("patch-") for patch in PATCHES if patch.target == patch.state}
    assert failing(deaf) == ids - same
    assert {"part-acd", "part-other", "expansion", "limit-max-dense"} <= failing(hasty)
    for change in ("name", "type", "shape", "values"):
        assert failing(change_all(change)) == {p.id.removeprefix("patch-") for p in PATCHES if p.target}


def test_the_conformance_program_runs_patches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert conformance.main(["--patches"]) == 0
    assert f"{len(PATCHES)} of {len(PATCHES)} vectors pass" in capsys.readouterr().out
    monkeypatch.syspath_prepend(str(FORMATS.parent))
    assert conformance.main(["--patches", "tests.fuzz.patches:library"]) == 0
    assert conformance.main(["--patches", "tests.formats.test_patch_vectors:deaf"]) == 1
    (tmp_path / "patches").mkdir()
    for id in ("patch-types", "patch-part-bd", "patch-limit-max-dense", "patch-state-wrong", "patch-nothing"):
        shutil.copy(VECTORS / "patches" / f"{id}.json", tmp_path / "patches")
    arguments = ["--patches", "--vectors", str(tmp_path), "--program"]
    monkeypatch.chdir(FORMATS.parent)
    assert conformance.main([*arguments, f"{sys.executable} -m formats.reference"]) == 0
    assert conformance.main([*arguments, f"{sys.executable} -c 'print(1)'"]) == 1
    with pytest.raises(SystemExit):
        conformance.main(["--patches", "--core"])


def test_a_program_answers_as_the_page_says() -> None:
    (patch,) = (patch for patch in PATCHES if patch.id == "patch-steps-alike")
    argument = json.dumps({"state": patches.write_state(patch.state), "part": True})
    assert program.answer_patch(patches.reference, patch.data, argument) == {
        "result": "ok",
        "target": patches.write_state(patch.target or {}),
    }
    argument = json.dumps({"state": patches.write_state(patch.state), "limits": {"max_dense": 1}})
    answer = {"result": "LimitExceeded", "code": "max-dense"}
    assert program.answer_patch(patches.reference, patch.data, argument) == answer
    with pytest.raises(KeyError):
        program.answer_patch(with_a_bug, patch.data, argument)


def with_a_bug(data: bytes, state: State, limits: dict[str, int], part: bool) -> State:
    raise KeyError("an exception that is no refusal")


def test_a_vector_is_what_its_file_says() -> None:
    fields = {"id": "x", "about": "X.", "result": "ok", "hex": "00", "part": True, "limits": {"max_work": 1}}
    state = [{"name": "w", "dtype": "bool", "shape": [2, 1], "values": {"repeat": "01", "bytes": 2}}]
    found = patches.parse_patch({**fields, "state": state, "target": []})
    tensors: State = {"w": ("bool", (2, 1), b"\1\1")}
    assert found == Patch("x", "X.", b"\0", {"max_work": 1}, tensors, True, {}, "ok", None)
