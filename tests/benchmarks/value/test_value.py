"""The value benchmark: coders come back, bounds are bounds, verdicts judge, tables and pictures are made."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="benchmarks need the extra [bench]")
pytest.importorskip("rich", reason="benchmarks need the extra [bench]")

from benchmarks.index.cases import gradient_files
from benchmarks.value import papers, papers_plot, peers, plot, report
from benchmarks.value import supplement as extras
from benchmarks.value.__main__ import main, measure
from benchmarks.value.cases import Case, cases, clock_cases
from benchmarks.value.coders import Codec, codecs
from benchmarks.value.distributions import LAWS, top_of
from benchmarks.value.measurement import Figure, measured
from benchmarks.value.rate_distortion import Curve, Density, curve, density_of, rate, shannon, tail_density
from benchmarks.value.targets import verdicts
from tests.conftest import DATA
from wirecodec.registry import value_codecs

TOP = LAWS["laplace"].top(300_000, 3_000)


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_the_largest_are_those_of_all(law: object) -> None:
    """Distributed as the largest of a whole vector: the law's quantiles beside those of 30 vectors."""
    law = LAWS[law.name]  # type: ignore[attr-defined]
    drawn, whole = [], []
    for seed in range(30):
        values = law.top(20_000, 200, seed=seed)
        assert (values.dtype.name, values.size) == ("float32", 200)
        drawn.append(np.quantile(np.abs(values), (0, 0.5, 0.9)))
        whole.append(
            np.quantile(np.abs(top_of(law.top(20_000, 20_000, seed=100 + seed), 0.01)), (0, 0.5, 0.9))
        )
    assert np.mean(drawn, axis=0) == pytest.approx(np.mean(whole, axis=0), rel=0.05)


def test_quantiles_are_those_of_the_laws() -> None:
    stats = pytest.importorskip("scipy.stats")
    chance = np.array([1, 0.9, 0.3, 1e-3, 1e-9])
    for name, law in (("student", stats.t(4)), ("laplace", stats.laplace())):
        assert LAWS[name].magnitude(chance) == pytest.approx(law.isf(chance / 2), rel=1e-6, abs=1e-7)
    assert LAWS["pareto"].magnitude(chance) == pytest.approx(stats.genpareto(1 / 3).isf(chance), abs=1e-9)


def test_the_bound_of_a_laplace_tail() -> None:
    """Known figures: 2.34 bits at 5 %, 4.56 at 1 %; and never below Shannon's lower bound."""
    density = tail_density(LAWS["laplace"], 0.01, 260_000)
    t = math.log(100)
    square = t * t + 2 * t + 2
    assert rate(density, 0.05**2 * square) == pytest.approx(2.34, abs=0.01)
    assert rate(density, 0.01**2 * square) == pytest.approx(4.56, abs=0.015)
    for error in (0.1, 0.05, 0.01):
        assert rate(density, error**2 * square) >= shannon(density, error**2 * square) - 0.003


def test_the_bound_of_an_even_density() -> None:
    """Entropy of a density of width 8 is 3 bits; the bound is close to Shannon's where errors are small."""
    density = Density(np.array([10.0, 12, 18]), np.array([0.25, 0.75]))
    assert density.entropy == pytest.approx(3)
    assert rate(density, 1e-3) == pytest.approx(shannon(density, 1e-3), abs=0.03)
    assert rate(density, 1e3) == 1  # the sign


def test_a_sample_has_the_bound_of_its_law() -> None:
    values = LAWS["student"].top(2_000_000, 20_000)
    known_law = curve(tail_density(LAWS["student"], 0.01, 20_000), values)
    assert curve(density_of(values), values).bits == pytest.approx(known_law.bits, abs=0.05)


def test_curves_are_read_between_their_points() -> None:
    found = Curve((0.2, 0.1, 0.05), (1.0, 2.0, 3.0))
    assert found.at(0.1) == 2
    assert found.at(0.05 / 4) == pytest.approx(5)
    assert found.at(0.1 / 2**0.5) == pytest.approx(2.5)
    assert math.isnan(found.at(0.3))
    assert math.isnan(found.at(0))


@pytest.mark.parametrize("module", sorted(peers.PACKAGES))
def test_peers_come_back_within_their_error(module: str) -> None:
    package = pytest.importorskip(module, reason="a peer of the extra [peers]")
    for peer in peers.PACKAGES[module](package):
        one = peer.fitted(TOP)
        code = one.encode(TOP, 0)
        decoded = one.decode(code, TOP.size)
        assert (decoded.dtype.name, decoded.shape) == ("float32", TOP.shape), peer.name
        error = peers.relative_error(TOP, decoded)
        limit = {"5 %": 0.05, "1 %": 0.01}.get(
            peer.name.rpartition(", ")[2], 0.1 if "fp8" in peer.name else 0
        )
        assert error <= 1.01 * limit, peer.name
        assert 0 < one.nbytes(code) <= TOP.nbytes + 1000, peer.name
        if limit:
            assert one.nbytes(code) < TOP.nbytes / 2, peer.name


def test_missing_peers_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "PACKAGES", {"no_such_package": lambda package: [package]})
    assert peers.installed() == ([], ["no_such_package"])


def test_every_codec_is_measured() -> None:
    names = [coder.name for coder in codecs()]
    assert len(set(names)) == len(names)
    spelt = {name.partition("(")[0] for name in names} | {"raw-float16", "raw-bfloat16"}
    assert {cls.name for cls in value_codecs().values()} <= spelt


CASE = Case("laplace", "top 1 %", lambda: TOP, lambda values: None)


def test_a_figure_is_what_the_codec_gives() -> None:
    found = measured(Codec("raw(bfloat16)"), CASE, TOP, Curve((0.3,), (1.0,)), budget=0.001)
    assert (found.coder, found.family, found.peer, found.r) == ("raw(bfloat16)",) * 2 + (False, 3000)
    assert found.bits == 16
    assert 0 < found.error < 2**-8
    assert found.error < found.worst < 2**-6
    assert abs(found.bias) < found.error
    assert not found.draws
    assert found.bound == pytest.approx(1 + math.log2(0.3 / found.error))
    assert min(*found.times, found.copied, found.fresh) > 0


def test_codecs_that_draw_are_found() -> None:
    found = measured(Codec("qsgd"), CASE, TOP, None, budget=0.001)
    assert found.draws
    assert found.bits == pytest.approx(4 + 8 * (8 + 4 * 6) / 3000, abs=0.1)
    assert math.isnan(found.bound)


def _figure(coder: str, bits: float, **given: object) -> Figure:
    plain = Figure(
        case=replace(CASE, synthetic=False),
        r=260_000,
        coder=coder,
        family=coder.partition("(")[0],
        peer=False,
        bits=bits,
        error=0.01,
        worst=0.02,
        bias=0,
        draws=False,
        bound=4.56,
        copied=0.1,
        fresh=0.2,
        encode=0.5,
        decode=0.2,
    )
    return replace(plain, **given)  # type: ignore[arg-type]


def test_verdicts_judge_the_worst_figure() -> None:
    clock = Case("all values", "260,000", CASE.make, CASE.bound)
    found = verdicts(
        [
            _figure("error-bounded(error=0.01)", 4.82),
            _figure("SZ3, 1 %", 4.9, family="SZ3"),
            _figure("pcodec, integers, 1 %", 4.8, family="pcodec, integers"),
            _figure("auto-value(error=0.01)", 5.5),
            _figure("qsgd(bits=8)", 8, case=clock, encode=0.3),
            _figure("qsgd(bits=2)", 2, case=clock, error=1.5),
        ]
    )
    reached = {verdict.target: (verdict.worst, verdict.reached) for verdict in found}
    assert reached["error-bounded ≤ 1.06 × the bound at 1 %: laplace, top 1 %"] == ("1.057", True)
    assert reached["error-bounded ≤ SZ3 at equal error, every gradient"] == ("0.984", True)
    assert reached["error-bounded ≤ pcodec, integers at equal error, every gradient"][1] is False
    assert reached["auto-value ≤ 1.02 × the smallest that is eligible"][1] is False
    assert reached["auto-value ≤ its error"][1] is True
    assert reached["qsgd: encode ≤ 2.5× copy, in cache"] == ("5.00×", False)
    assert reached["qsgd: encode ≤ 1.5× copy, from memory"] == ("", None)


def test_document_and_picture(tmp_path: Path) -> None:
    """Every law, small, two clocks and a gradient; whatever coders there are."""
    every = [*clock_cases(3000), *cases(20_000, gradient_files(DATA)[:1])]
    chosen = [case for case in every if case.column in ("3,000", "top 1 %")]
    coders = [*codecs(), *peers.installed()[0]]
    steps: list[str] = []
    figures, curves = measure(coders, chosen, steps.append, 0.0005)
    assert len(steps) == len(coders) * len(chosen)
    text = report.document(verdicts(figures), figures, curves, ["absent"], ["## A note\n"])
    for expected in (
        "## Targets",
        "not installed: absent.",
        "## A note",
        "## pareto",
        "| laplace, top 1 % |",
    ):
        assert expected in text
    for coder in coders:
        assert coder.name in text
    plot.draw(tmp_path / "value.png", figures, curves, "a machine")
    assert (tmp_path / "value.png").read_bytes().startswith(b"\x89PNG")


def test_papers(tmp_path: Path) -> None:
    steps: list[str] = []
    found = papers.measured(gradient_files(DATA), steps.append)
    assert tuple(steps) == papers.PARTS
    text = "\n".join(papers.sections(found))
    for expected in ("Table 2", "Figure 10", "Figure 5", "Figure 15", "0.2063", "DR BF-P2"):
        assert expected in text
    assert all(len(row.split("|")) == 8 for row in text.splitlines() if row.startswith("| DR QSGD, BF-P0"))
    baseline = found.table_2[0]
    assert (baseline.error, round(baseline.volume, 3)) == (0, 1)
    assert baseline.cosine == pytest.approx(1)
    papers_plot.draw(tmp_path, found)
    assert {path.name for path in tmp_path.iterdir()} == {"deepreduce_10.png", "fft_5.png", "fft_15.png"}


def test_extras_on_little() -> None:
    steps: list[str] = []
    decided, notes = extras.measured(50_000, steps.append, budget=0.001)
    assert len(steps) == 3
    assert any("packing" in verdict.target and verdict.reached is not None for verdict in decided)
    assert "unpack, n = 8" in notes


def test_slow_fits_are_fits() -> None:
    """Two exponentials, and polynomials, come back from what is made of them."""
    x = np.linspace(0, 1, 2000)
    made = (3 * np.exp(-30 * x) + 0.5 * np.exp(-2 * x)).astype(np.float32)
    made = np.sort(np.concatenate([made, -2 * made]))
    assert peers.relative_error(made, extras.dexp_converged(made)) < 1e-4
    cubic = np.sort(np.concatenate([(x - 2) ** 3, (x + 1) ** 3])).astype(np.float32)
    assert peers.relative_error(cubic, extras.recursive_chord(cubic, 2, 3)) < 1e-6
    ordered = np.sort(TOP)
    few, many = (peers.relative_error(ordered, extras.recursive_chord(ordered, n, 5)) for n in (2, 16))
    assert many < few < 1


def test_a_part_is_printed_and_not_kept(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> Path:
        raise AssertionError("kept")

    monkeypatch.setattr("benchmarks.value.__main__.keep", refuse)
    main(["--quick", "--only", "sign-scale,pareto"])
    out = capsys.readouterr().out
    assert "`sign-scale`" in out
    assert "`qsgd" not in out
    assert "## laplace" not in out
