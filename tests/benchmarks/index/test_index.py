"""The index benchmark: coders come back, sizes are sizes, verdicts are right, tables and picture come out."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="benchmarks need the extra [bench]")
pytest.importorskip("rich", reason="benchmarks need the extra [bench]")

from benchmarks.common.targets import at_least, at_most
from benchmarks.index import peers, plot, report
from benchmarks.index import supplement as extras
from benchmarks.index.__main__ import main, measure
from benchmarks.index.cases import DENSITIES, Case, cases, gradient_files
from benchmarks.index.coders import Codec, codecs
from benchmarks.index.measurement import Figure, measured
from benchmarks.index.supports import layered, rows, runs, uniform
from benchmarks.index.targets import verdicts
from tests.inputs import supports
from wirecodec.index import RawIndex
from wirecodec.registry import index_codecs


@pytest.mark.parametrize("module", sorted(peers.PACKAGES))
def test_peers_come_back(module: str) -> None:
    """On every corner of the library's own tests."""
    package = pytest.importorskip(module, reason="a peer of the extra [peers]")
    for peer in peers.PACKAGES[module](package):
        for name, (d, indices) in supports(np.random.default_rng(0)).items():
            code = peer.encode(indices, d)
            found = peer.decode(code, d, indices.size)
            assert found.dtype == np.uint32, (peer.name, name)
            assert np.array_equal(found, indices), (peer.name, name)
            assert 0 <= peer.nbytes(code) <= 8 * indices.size + 1000, (peer.name, name)


def test_missing_peers_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "PACKAGES", {"no_such_package.part": lambda package: [package]})
    assert peers.installed() == ([], ["no_such_package"])


def test_every_codec_is_measured() -> None:
    names = [coder.name for coder in codecs()]
    assert len(set(names)) == len(names)
    assert {name.partition("(")[0] for name in names} == {
        *(cls.name for cls in index_codecs().values()),
        "auto-index",
    }


CASE = Case("uniform", "20,000, 1 %", 0.01, partial(uniform, 20_000, 200))


def test_a_figure_is_what_the_codec_gives() -> None:
    found = measured(Codec(RawIndex()), CASE, CASE.make(), budget=0.001)
    assert (found.coder, found.peer, found.r, found.bits) == ("raw-index", False, 200, 16)
    assert found.exact
    assert found.ratio == pytest.approx(16 / 8.06, rel=0.01)
    assert min(found.speeds) > 0


def test_a_coder_that_does_not_come_back_is_not_measured() -> None:
    class Wrong(Codec):
        def decode(self, code: object, d: int, r: int) -> np.ndarray:
            return np.arange(r, dtype=np.uint32)

    with pytest.raises(AssertionError, match="raw-index does not give back uniform"):
        measured(Wrong(RawIndex()), CASE, CASE.make(), budget=0.001)


def _figure(coder: str, bits: float, **given: object) -> Figure:
    plain = Figure(
        case=Case("uniform", "26M, 10 %", 0.1, CASE.make),
        kind="uniform",
        d=26_000_000,
        r=2_600_000,
        bound=4.69,
        coder=coder,
        peer=False,
        bits=bits,
        kept=1,
        found=1,
        copied=10,
        speeds=(0.14, 0.21),
        two_threads=(0.27, 0.36),
    )
    return replace(plain, **given)  # type: ignore[arg-type]


def test_verdicts_judge_the_worst_figure() -> None:
    worse = Case("uniform", "2.6M, 10 %", 0.1, CASE.make)
    found = verdicts(
        [
            _figure("rice", 4.8),
            _figure("rice", 4.85, case=worse, speeds=(0.12, 0.3)),
            _figure("auto-index", 4.8),
            _figure("auto-index", 4.86, case=worse),
            _figure("zstd-19, gaps", 4.75),
        ]
    )
    reached = {verdict.target: (verdict.worst, verdict.where, verdict.reached) for verdict in found}
    assert reached["rice ≤ 1.025 of the bound: uniform, 10 %, r ≥ 2,600"] == (
        "1.0341",
        "uniform, 2.6M, 10 %; missed on 1 of 2",
        False,
    )
    assert reached["rice ≤ 1.010 of the bound: uniform, 1 %, r ≥ 2,600"] == ("", "", None)
    assert reached["rice: encode ≥ 0.13× copy, one thread, r ≥ 260,000"][2] is False
    assert reached["rice: decode ≥ 0.20× copy, one thread, r ≥ 260,000"] == (
        "0.210×",
        "uniform, 26M, 10 %",
        True,
    )
    assert reached["rice: encode on two threads ≥ 1.8× one thread, r ≥ 260,000"][2] is True
    assert reached["rice: decode on two threads ≥ 1.8× one thread, r ≥ 260,000"][2] is False
    assert reached["auto-index ≤ 1.01 × the least of rice, bitmap, rle"][2] is True
    assert reached["auto-index smaller than zstd-19 on gaps"][2] is False


def test_limits_are_inclusive() -> None:
    assert at_most("x", 2, [("a", 1), ("b", 2)]).reached
    assert not at_most("x", 2, [("a", 1), ("b", 2.1)]).reached
    assert at_least("x", 2, [("a", 2), ("b", 3)]).where == "a"
    assert at_least("x", 2, []).reached is None
    assert at_most("x", 2, [("a", 3), ("b", 1), ("c", 4)]).where == "c; missed on 2 of 3"
    assert at_least("x", 2, [("a", 1), ("b", 9)], "{:.1f}").worst == "1.0"


def test_what_is_no_number_reaches_no_target() -> None:
    for judge in (at_most, at_least):
        found = judge("x", 2, [("a", 2), ("b", math.nan), ("c", 2)])
        assert (found.worst.rstrip("×"), found.where, found.reached) == ("nan", "b; missed on 1 of 3", False)


def test_document_and_picture(tmp_path: Path) -> None:
    """Every kind of support, small; whatever coders there are."""
    chosen = [
        Case(kind, f"30k, {100 * density:g} %", density, partial(make, 30_000, int(30_000 * density)))
        for kind, make in (("uniform", uniform), ("rows", rows), ("runs", runs), ("layered", layered))
        for density in DENSITIES[:2]
    ]
    coders = [*codecs(), *peers.installed()[0]]
    figures, (decided, notes) = measure(coders, chosen, 0.0005, 30_000)
    text = report.document([*verdicts(figures), *decided], figures, ["absent"], notes)
    for expected in (
        "## Targets",
        "## Bitmaps, spans, Bloom",
        "not installed: absent.",
        "## layered",
        "| bound |",
    ):
        assert expected in text
    for coder in coders:
        assert coder.name in text
    plot.draw(tmp_path / "index.png", figures, "a machine")
    assert (tmp_path / "index.png").read_bytes().startswith(b"\x89PNG")


def test_extras_on_little() -> None:
    steps: list[str] = []
    decided, notes = extras.measured(50_000, steps.append, budget=0.001)
    assert len(steps) == 3
    assert any("bitmap to indices" in verdict.target for verdict in decided)
    assert "rice: a span of 4096" in notes


def test_cases_of_gradients(tmp_path: Path) -> None:
    np.save(tmp_path / "sparse.npy", np.array([0, 1, 0, 2, 3, 0, 0, 4, 0, 0], np.float32))
    np.save(tmp_path / "dense.npy", np.arange(1, 21, dtype=np.float32))
    found = [(case.group, case.column, case.make().r) for case in cases((), gradient_files(tmp_path))]
    assert found[3:] == [
        ("sparse", "top 10 %", 1),
        ("sparse", "top 1 %", 1),
        ("sparse", "top 0.1 %", 1),
        ("sparse", "non-zeros", 4),
    ]
    assert found[0] == ("dense", "top 10 %", 2)


def test_a_part_is_printed_and_not_kept(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> Path:
        raise AssertionError("kept")

    monkeypatch.setattr("benchmarks.index.__main__.keep", refuse)
    main(["--quick", "--only", "rice,runs"])
    out = capsys.readouterr().out
    assert "`rice`" in out
    assert "bitmap`" not in out
    assert "## uniform" not in out
