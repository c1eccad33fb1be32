"""Tests of the fuzzer: a short run of both targets, and detection of planted errors."""

from __future__ import annotations

import ast
import random
import re
import struct
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any, cast

import pytest

from tests.fuzz import loop, mutant_pages, mutants_c, mutants_kernels, mutation, trials
from tests.fuzz.anatomy import assemble_parts, split_container
from tests.fuzz.judge import Finding, agree, judge
from tests.fuzz.legal import draw_container
from tests.fuzz.mutant_pages import Verdict
from tests.fuzz.mutate import mutate_container
from tests.fuzz.probes import PROBES
from tests.fuzz.round_trip import round_trip
from tests.fuzz.seeds import all_seeds, valid_seeds
from tests.golden import vectors
from wirecodec import registry
from wirecodec.container import reader, schema
from wirecodec.transform.dct import DCT


@pytest.mark.parametrize("target", loop.TARGETS)
def test_a_short_run_finds_nothing(target: str, tmp_path: Path) -> None:
    found = loop.run(target, 200.0, 1, tmp_path, cases=200)
    assert found == 0, [path.name for path in tmp_path.iterdir()]


def vector(id: str) -> bytes:
    return next(v.data for v in vectors() if v.id == id)


def test_an_untyped_exception_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: Any) -> None:
        raise KeyError("d")

    assert judge(vector("names")) == "ok"
    monkeypatch.setattr(reader, "count_keys_of_sound", broken)
    with pytest.raises(Finding, match="KeyError"):
        judge(vector("names"))


def test_a_difference_from_the_reference_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    assert judge(vector("names-absent")) == "ok"
    monkeypatch.setattr(schema, "digits", lambda n: tuple(f"t{key}" for key in range(n)))
    with pytest.raises(Finding, match="differ"):
        judge(vector("names-absent"))


def test_transformed_elements_may_differ_by_rounding_only(monkeypatch: pytest.MonkeyPatch) -> None:
    data = vector("dct-constant")
    exact = DCT.inverse
    for factor, fine in ((1 + 1e-7, True), (1 + 1e-5, False)):
        monkeypatch.setattr(DCT, "inverse", lambda c, n, t, by=factor: exact(c, n, t) * t.type(by))
        if fine:
            agree(data)
        else:
            with pytest.raises(Finding, match="differ"):
                agree(data)


def test_a_seed_determines_a_mutation() -> None:
    for seed in range(50):
        data = valid_seeds()[seed]
        one, two = (mutate_container(data, all_seeds(), random.Random(seed)) for _ in range(2))
        assert one == two
        assert draw_container(random.Random(seed)) == draw_container(random.Random(seed))


def test_most_mutations_pass_the_checksums() -> None:
    rng = random.Random(2)
    shallow = {"prefix", "magic", "container", "trailing", "head-checksum", "entry-checksum", "total-length"}
    codes = [
        judge(mutate_container(rng.choice(valid_seeds()), all_seeds(), rng), compared=False)
        for _ in range(400)
    ]
    assert sum(code not in shallow for code in codes) > 300
    assert len(set(codes)) > 30


def test_splitting_and_assembling_restores_a_container() -> None:
    for data in valid_seeds():
        parts = split_container(data)
        assert parts is not None
        assert assemble_parts(parts) == data


def test_legal_containers_cover_every_codec() -> None:
    shown: tuple[set[int], set[int], set[int]] = set(), set(), set()
    wanted = (
        {domain << 4 | dtype for domain in (0, 1, 2) for dtype in (1, 2, 3, 4)} | {14},
        {n for n in registry.index_codecs() if n < 0x80},
        {n for n in registry.value_codecs() if n < 0x80},
    )
    chunks = groups = 0
    for seed in range(1500):
        if shown == wanted and chunks > 5 and groups > 20:
            break
        parts = split_container(draw_container(random.Random(seed)))
        assert parts is not None
        chunks += any(row.base for row in parts.rows)
        groups += any(record.type == 1 for record in parts.records)
        for row in parts.rows:
            if 0 < row.r < row.d:
                for these, one in zip(shown, (row.dtype, row.index, row.value), strict=True):
                    these.add(one)
    assert shown == wanted
    assert chunks > 5
    assert groups > 20


def test_a_round_trip_that_changes_values_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytes([0, 0, 0, 0, 0, 0]) + struct.pack("<3f", 1, 2, 3)
    round_trip(data)
    monkeypatch.setattr(
        registry.value_codec(1), "decode", classmethod(lambda cls, s, r, t, limits: s.view(t)[::-1])
    )
    with pytest.raises(Finding, match="changes values"):
        round_trip(data)


def test_the_command_judges_a_file_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = loop.keep(vector("magic"), "why", tmp_path / "finds")
    assert loop.main([str(path)]) == 0
    assert capsys.readouterr().out == f"{path}: why\nmagic\n"


@pytest.mark.parametrize("probe", PROBES)
def test_a_probe_is_deterministic_and_covers_success_and_errors(probe: str) -> None:
    before = PROBES[probe]()
    assert PROBES[probe]() == before
    refused = sum(
        bool(re.match(r"(Truncated|\w+Mismatch|Malformed|Invalid|\w+Exceeded) ", o)) for o in before
    )
    assert refused < len(before) - 5 or probe in ("large", "blocks")
    assert refused > 5 or probe in ("infos", "large", "blocks")


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_mutants_are_killed_by_the_vectors_that_detect_them() -> None:
    source = Path(reader.__file__).read_text(encoding="utf-8")
    tree = ast.parse(source)
    every = list(mutation.mutate_function(cast(FunctionType, reader._prefix), "container/reader.py", tree))
    line = 1 + source.splitlines().index("    if magic != MAGIC:")
    magic = [m for m in every if m.line == line]
    assert {m.change for m in magic} == {"NotEq -> Eq #0", "if True", "if False"}
    selected = {v.id: v for v in vectors() if v.id in ("magic", "names")}
    bad, good = (partial(trials.conforms, selected[id]) for id in ("magic", "names"))
    for mutant in magic:
        assert trials.is_killed(mutant, [bad, good])
    unseen = next(m for m in magic if m.change == "if False")
    assert not trials.is_killed(unseen, [good])


def rows_of(decoder: str) -> set[tuple[str, str]]:
    """Return the rows of all mutants of a decoder that its table may name."""
    name, _, version = decoder.partition("-")
    if name == "kernels":
        return set(mutants_kernels.identify_mutants())
    if name == "c":
        lines = {name: (mutants_c.SOURCES / name).read_text().splitlines() for name in mutants_c.PROGRAMS}
        every = {
            row
            for name in lines
            for row in mutants_c.identify_mutants(
                name, lines[name], list(mutants_c.list_mutants(lines[name]))
            )
        }
        later = mutants_c.LATER
    else:
        target = mutation.TARGETS[decoder.removesuffix("-1.1")]
        every = set(mutation.identify_mutants(list(mutation.list_mutants(target=target))).values())
        later = target.later
    return {row for row in every if version != "1.1" or later.fullmatch(row[0])}


TABLES = [name + version for name in ("reference", "library", "c") for version in ("", "-1.1")]
TABLES += ["reference-patches", "library-patches", "kernels-patches"]


@pytest.mark.parametrize("decoder", TABLES)
def test_survivors_exist_are_counted_and_have_reasons(decoder: str) -> None:
    reasons = mutant_pages.read_survivors(decoder)
    counts = [row for row in mutant_pages.read_counts() if row["decoder"] == decoder]
    tried, survivors, equivalent = (
        sum(int(row[column]) for row in counts) for column in ("tried", "survivors", "equivalent")
    )
    assert len(reasons) == survivors
    assert sum(reason.startswith(mutant_pages.EQUIVALENT) for reason in reasons.values()) == equivalent
    assert 100 * (tried - survivors) >= 96 * (tried - equivalent)
    assert mutant_pages.UNKNOWN not in reasons.values()
    assert reasons.keys() <= rows_of(decoder)


def test_the_page_of_mutants_is_made_from_the_tables() -> None:
    assert mutant_pages.PAGE.read_text(encoding="utf-8") == mutant_pages.make_page(mutant_pages.read_counts())


def test_tables_keep_reasons_and_counts(tmp_path: Path) -> None:
    every = mutant_pages.number_rows([("a.py: f", "x | y")] * 2 + [("b.py: g", "z")])
    verdicts = mutant_pages.Verdicts(tmp_path / "verdicts")
    for row, verdict in zip(every, (Verdict.PATH, Verdict.PROBE, Verdict.SURVIVES), strict=True):
        verdicts.add(row, verdict)
    mutant_pages.write_decoder("c", every, verdicts, tmp_path)
    assert list(mutant_pages.read_survivors("c", tmp_path).values()) == [mutant_pages.UNKNOWN] * 2
    table = tmp_path / "c.tsv"
    table.write_text(table.read_text().replace(mutant_pages.UNKNOWN, "Equivalent: so.", 1))
    again = mutant_pages.Verdicts(tmp_path / "verdicts")
    assert [again.needs_trial(row) for row in every] == [True, False, True]
    again.add(every[2], Verdict.KILLED)
    mutant_pages.write_decoder("library", every[:1], mutant_pages.Verdicts(), tmp_path)
    mutant_pages.write_decoder("c", every, again, tmp_path)
    assert table.read_text().splitlines()[1:] == ["a.py: f\tx | y\tpath\tEquivalent: so."]
    counts = mutant_pages.read_counts(tmp_path)
    assert [list(row.values())[2:] for row in counts] == [
        ["2", "2", "1", "1", "1"],
        ["1", "1", "0", "0", "0"],
        ["1", "0", "0", "0", "0"],
    ]
    page = mutant_pages.make_page(counts[:2])
    assert "| [c](survivors/c.tsv) | 3 | 3 | 66.7 % | 33.3 % | 100.0 % |" in page
