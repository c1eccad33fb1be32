"""Tests of the fuzzer of patches: detection of planted errors, and bounds for hostile sizes."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from formats.patches import Patch, to_names
from formats.reference import Row
from formats.reference.writing.index.by_class import ByClass
from formats.reference.writing.patch import RAW, WHOLE, Coding, draft_patch
from formats.reference.writing.value.steps import Steps, StepsZstd
from formats.vector_cases.patches import State, move, weights
from tests.fuzz import loop, mutants_kernels, patches
from tests.fuzz.anatomy import assemble_parts, split_container
from tests.fuzz.judge import Finding
from tests.fuzz.mutant_pages import Verdict
from tests.fuzz.patches import corpus, draw_patch, judge_patch, large_corpus, read_case, write_case
from wirecodec.patch import digest, reading


def vector(id: str) -> Patch:
    return next(patch for patch in corpus() if patch.id == f"patch-{id}")


def test_vectors_are_judged_as_they_are() -> None:
    for case in (*corpus()[::9], *large_corpus()):
        assert judge_patch(replace(case, limits={})) == (case.code or "ok") or case.limits


def test_a_seed_determines_a_mutation() -> None:
    for seed in range(20):
        assert draw_patch(random.Random(seed)) == draw_patch(random.Random(seed))


def test_most_mutations_reach_the_checks_of_patches() -> None:
    rng = random.Random(2)
    codes = [judge_patch(draw_patch(rng), compared=False) for _ in range(300)]
    own = [code for code in codes if code == "ok" or code.startswith(("base", "by-class", "steps"))]
    assert len(own) > 120
    assert len(set(codes)) > 30


def test_an_untyped_exception_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: Any, **options: Any) -> None:
        raise KeyError("d")

    assert judge_patch(vector("by-class")) == "ok"
    monkeypatch.setattr(reading, "read_header", broken)
    with pytest.raises(Finding, match="KeyError"):
        judge_patch(vector("by-class"))


def test_a_difference_from_the_reference_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    assert judge_patch(vector("state-rest")) == "base"
    monkeypatch.setattr(reading._Reader, "_check_rest", lambda self, touched: None)
    with pytest.raises(Finding, match="differ"):
        judge_patch(vector("state-rest"))


def test_a_change_before_a_refusal_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def hasty(self: Any, touched: set[str]) -> None:
        self.found.commit(self.state)
        check(self, touched)

    check = reading._Reader._check_rest
    monkeypatch.setattr(reading._Reader, "_check_rest", hasty)
    with pytest.raises(Finding, match="has changed the state"):
        judge_patch(vector("state-rest"))


def test_other_elements_are_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are also without the reference."""
    case = vector("raw-index")
    parts = split_container(case.data)
    assert parts is not None
    section = bytearray(parts.rows[0].value_section)
    section[0] ^= 1
    parts.rows[0].value_section = bytes(section)
    damaged = replace(case, data=assemble_parts(parts))
    assert judge_patch(damaged) == "base-target"
    after = struct.unpack_from("<Q", split_base(case.data), 32)[0]
    exact = digest.seal_all

    def blind(sums: Any, described: Any, tensors: Any) -> Any:
        is_old = sums == digest.sum_arrays(tensors)
        return np.where(is_old, exact(sums, described, tensors), np.uint64(after))

    monkeypatch.setattr(digest, "seal_all", blind)
    with pytest.raises(Finding, match="does not make the target"):
        judge_patch(damaged, compared=False)


def split_base(data: bytes) -> bytes:
    parts = split_container(data)
    assert parts is not None
    return next(record.body for record in parts.records if record.type == 11)


def test_a_patch_that_is_decoded_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wc, "decode_many", lambda data, limits: {})
    with pytest.raises(Finding, match="without a base"):
        judge_patch(vector("new"))


@pytest.mark.parametrize(("name", "bound"), [("seconds", "ms for"), ("bytes", "of memory")])
def test_too_much_is_a_finding(monkeypatch: pytest.MonkeyPatch, name: str, bound: str) -> None:
    monkeypatch.setattr(patches, f"allowed_{name}_of_patch", lambda *arguments: 0)
    with pytest.raises(Finding, match=bound):
        judge_patch(vector("by-class"))


def test_the_command_judges_a_patch_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = vector("state-wrong")
    assert read_case(write_case(case)) == case
    path = loop.keep(write_case(case), "why", tmp_path / "finds", ".json")
    assert loop.main([str(path)]) == 0
    assert capsys.readouterr().out == f"{path}: why\nbase\n"


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_mutants_of_kernels_are_killed_by_the_patches_that_run_them() -> None:
    equal = [vector("equal")]
    every = list(mutants_kernels.list_mutants())
    digests = next(m for m in every if (m.function, m.change) == ("mix", "BitXor -> BitOr #0"))
    steps = next(m for m in every if m.module == "steps")
    assert mutants_kernels.judge(digests, equal) == Verdict.KILLED
    assert mutants_kernels.judge(steps, equal) == Verdict.SURVIVES


TENSORS = 1500
CODINGS = {
    "rice": Coding(),
    "contexts": Coding(value=Steps(shift=4, starts=tuple(range(1, 16)))),
    "by-class": Coding(ByClass(4, 900, (20,) * 64, 8), Steps(shift=4, starts=tuple(range(1, 16)))),
    "raw": Coding(value=RAW),
    "whole": WHOLE,
    "zstd": Coding(value=StepsZstd()),
}


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("name", CODINGS)
def test_many_small_tensors(name: str, fused: bool) -> None:
    """All are decoded before the last one is refused."""
    x = weights("bfloat16", 40)
    old: State = {f"{n:04}": x for n in range(TENSORS)}
    new: State = {n: move(x, [3, 20]) for n in old}
    coding = CODINGS[name] if not fused or name != "whole" else Coding(value=RAW, more=None)
    draft = draft_patch(old, new, dict.fromkeys(old, coding), groups=[list(old)] if fused else [])
    body = draft.records[11]
    draft.records[11] = body[:-1] + bytes([body[-1] ^ 1])
    case = Patch("many", "Many.", draft.assemble(), {}, to_names(old), False, None, "Invalid", "base-target")
    assert judge_patch(case) == "base-target"


SIZE = 2**20
HOSTILE: dict[str, Callable[[Row], Row]] = {
    "all": lambda row: replace(row, r=row.d),
    "most": lambda row: replace(row, r=row.d - 1),
    "larger": lambda row: replace(row, d=2**24, r=2**24 - 1),
    "empty": lambda row: replace(row, index_section=b"", value_section=b""),
}


@pytest.mark.parametrize("base", ["read", "unread"])
@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_counts_cost_no_more_than_the_state(hostile: str, base: str) -> None:
    rng = np.random.default_rng(0)
    old = {"w": rng.integers(0, 2**16, SIZE).astype(np.uint16)}
    new = {"w": np.where(rng.random(SIZE) < 1e-4, old["w"] + np.uint16(1), old["w"])}
    parts = split_container(wc.diff(old, new, base=base).tobytes())
    assert parts is not None
    parts.rows[0] = HOSTILE[hostile](parts.rows[0])
    state = patches.from_arrays(old)
    case = Patch("counts", "Counts.", assemble_parts(parts), {}, state, False, None, "Malformed", None)
    assert judge_patch(case) != "ok"
