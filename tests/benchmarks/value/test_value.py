"""Value benchmark: round trips of coders, rate-distortion bounds, targets, result page and pictures."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="benchmarks need the extra [bench]")
pytest.importorskip("rich", reason="benchmarks need the extra [bench]")

from benchmarks.common.inputs import list_gradient_files
from benchmarks.common.peers import load_peers
from benchmarks.common.rest import Rest
from benchmarks.value import kept, peers, plot, report
from benchmarks.value.__main__ import main, measure
from benchmarks.value.cases import Case, generate_cases, generate_time_cases
from benchmarks.value.coders import Codec, build_codecs
from benchmarks.value.distributions import DISTRIBUTIONS, Distribution, select_top
from benchmarks.value.measurement import Measurement, measure_coder
from benchmarks.value.rate_distortion import (
    Curve,
    Density,
    compute_curve,
    compute_rate,
    compute_shannon_bound,
    compute_tail_density,
    estimate_density,
)
from benchmarks.value.targets import check_targets
from tests.conftest import DATA
from wirecodec.registry import value_codecs

TOP = DISTRIBUTIONS["laplace"].draw_top(300_000, 3_000)


@pytest.mark.parametrize("law", DISTRIBUTIONS.values(), ids=DISTRIBUTIONS)
def test_draw_top_has_the_distribution_of_the_largest(law: Distribution) -> None:
    """Quantiles of 30 draws agree with those of the largest values of 30 whole vectors."""
    drawn, whole = [], []
    for seed in range(30):
        values = law.draw_top(20_000, 200, seed=seed)
        assert (values.dtype.name, values.size) == ("float32", 200)
        drawn.append(np.quantile(np.abs(values), (0, 0.5, 0.9)))
        whole.append(
            np.quantile(
                np.abs(select_top(law.draw_top(20_000, 20_000, seed=100 + seed), 0.01)), (0, 0.5, 0.9)
            )
        )
    assert np.mean(drawn, axis=0) == pytest.approx(np.mean(whole, axis=0), rel=0.05)


def test_quantiles_agree_with_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    chance = np.array([1, 0.9, 0.3, 1e-3, 1e-9])
    for name, law in (("student", stats.t(4)), ("laplace", stats.laplace())):
        assert DISTRIBUTIONS[name].magnitude(chance) == pytest.approx(law.isf(chance / 2), rel=1e-6, abs=1e-7)
    assert DISTRIBUTIONS["pareto"].magnitude(chance) == pytest.approx(
        stats.genpareto(1 / 3).isf(chance), abs=1e-9
    )


def test_the_bound_of_a_laplace_tail() -> None:
    """Known values: 2.34 bits at 5 %, 4.56 at 1 %; never below Shannon's lower bound."""
    density = compute_tail_density(DISTRIBUTIONS["laplace"], 0.01, 260_000)
    t = math.log(100)
    square = t * t + 2 * t + 2
    assert compute_rate(density, 0.05**2 * square) == pytest.approx(2.34, abs=0.01)
    assert compute_rate(density, 0.01**2 * square) == pytest.approx(4.56, abs=0.015)
    for error in (0.1, 0.05, 0.01):
        assert (
            compute_rate(density, error**2 * square)
            >= compute_shannon_bound(density, error**2 * square) - 0.003
        )


def test_the_bound_of_an_even_density() -> None:
    """Entropy of a density of width 8 is 3 bits; the bound is close to Shannon's if errors are small."""
    density = Density(np.array([10.0, 12, 18]), np.array([0.25, 0.75]))
    assert density.entropy == pytest.approx(3)
    assert compute_rate(density, 1e-3) == pytest.approx(compute_shannon_bound(density, 1e-3), abs=0.03)
    assert compute_rate(density, 1e3) == 1  # the sign


def test_a_sample_has_the_bound_of_its_distribution() -> None:
    values = DISTRIBUTIONS["student"].draw_top(2_000_000, 20_000)
    known_law = compute_curve(compute_tail_density(DISTRIBUTIONS["student"], 0.01, 20_000), values)
    assert compute_curve(estimate_density(values), values).bits == pytest.approx(known_law.bits, abs=0.05)


def test_curves_are_interpolated() -> None:
    found = Curve((0.2, 0.1, 0.05), (1.0, 2.0, 3.0))
    assert found.at(0.1) == 2
    assert found.at(0.05 / 4) == pytest.approx(5)
    assert found.at(0.1 / 2**0.5) == pytest.approx(2.5)
    assert math.isnan(found.at(0.3))
    assert math.isnan(found.at(0))


@pytest.mark.parametrize("module", sorted(peers.PACKAGES))
def test_peers_keep_their_error(module: str) -> None:
    package = pytest.importorskip(module, reason="a peer of the extra [peers]")
    for peer in peers.PACKAGES[module](package):
        one = peer.fit(TOP)
        code = one.encode(TOP, 0)
        decoded = one.decode(code, TOP.size)
        assert (decoded.dtype.name, decoded.shape) == ("float32", TOP.shape), peer.name
        error = peers.compute_relative_error(TOP, decoded)
        limit = {"5 %": 0.05, "1 %": 0.01}.get(
            peer.name.rpartition(", ")[2], 0.1 if "fp8" in peer.name else 0
        )
        assert error <= 1.01 * limit, peer.name
        assert 0 < one.nbytes(code) <= TOP.nbytes + 1000, peer.name
        if limit:
            assert one.nbytes(code) < TOP.nbytes / 2, peer.name


def test_every_codec_is_included() -> None:
    names = [coder.name for coder in build_codecs()]
    assert len(set(names)) == len(names)
    spelt = {name.partition("(")[0] for name in names} | {"raw-float16", "raw-bfloat16"}
    assert {cls.name for cls in value_codecs().values()} <= spelt


CASE = Case("laplace", "top 1 %", lambda: TOP, lambda values: None)


def test_measurement_of_a_codec() -> None:
    found = measure_coder(Codec("raw(bfloat16)"), CASE, TOP, Curve((0.3,), (1.0,)), budget=0.001)
    assert (found.coder, found.family, found.peer, found.r) == ("raw(bfloat16)",) * 2 + (False, 3000)
    assert found.bits == 16
    assert 0 < found.error < 2**-8
    assert found.error < found.max_error < 2**-6
    assert abs(found.bias) < found.error
    assert not found.random
    assert found.bound == pytest.approx(1 + math.log2(0.3 / found.error))
    assert min(*found.times, found.copy_ns, found.fresh_copy_ns) > 0


def test_random_codecs_are_recognised() -> None:
    found = measure_coder(Codec("qsgd"), CASE, TOP, None, budget=0.001)
    assert found.random
    assert found.bits == pytest.approx(4 + 8 * (8 + 4 * 6) / 3000, abs=0.1)
    assert math.isnan(found.bound)


def _measurement(coder: str, bits: float, **given: object) -> Measurement:
    plain = Measurement(
        group="laplace",
        column="top 1 %",
        synthetic=False,
        r=260_000,
        coder=coder,
        family=coder.partition("(")[0],
        peer=False,
        bits=bits,
        error=0.01,
        max_error=0.02,
        bias=0,
        random=False,
        bound=4.56,
        copy_ns=0.1,
        fresh_copy_ns=0.2,
        encode_ns=0.5,
        decode_ns=0.2,
    )
    return replace(plain, **given)  # type: ignore[arg-type]


def test_targets_use_the_worst_measurement() -> None:
    clock = {"group": "all values", "column": "260,000"}
    found = check_targets(
        [
            _measurement("error-bounded(error=0.01)", 4.82),
            _measurement("SZ3, 1 %", 4.9, family="SZ3"),
            _measurement("pcodec, integers, 1 %", 4.8, family="pcodec, integers"),
            _measurement("auto-value(error=0.01)", 5.5),
            _measurement("qsgd(bits=8)", 8, **clock, encode_ns=0.3),
            _measurement("qsgd(bits=2)", 2, **clock, error=1.5),
        ]
    )
    results = {result.target: (result.worst, result.met) for result in found}
    assert results["error-bounded ≤ 1.06 × the bound at 1 %: laplace, top 1 %"] == ("1.057", True)
    assert results["error-bounded ≤ SZ3 at equal error, every gradient"] == ("0.984", True)
    assert results["error-bounded ≤ pcodec, integers at equal error, every gradient"][1] is False
    assert results["auto-value ≤ 1.02 × the smallest eligible codec"][1] is False
    assert results["auto-value ≤ its error limit"][1] is True
    assert results["qsgd: encode ≤ 2.5× copy, in cache"] == ("5.00×", False)
    assert results["qsgd: encode ≤ 1.5× copy, from memory"] == ("", None)


def test_page_and_picture(tmp_path: Path) -> None:
    """Every distribution, two vectors for times and one gradient, with every installed coder."""
    every = [*generate_time_cases(3000), *generate_cases(20_000, list_gradient_files(DATA)[:1])]
    chosen = [case for case in every if case.column in ("3,000", "top 1 %")]
    coders = [*build_codecs(), *load_peers(peers.PACKAGES)[0]]
    steps: list[str] = []
    figures, curves = measure(coders, chosen, steps.append, 0.0005)
    assert len(steps) == len(coders) * len(chosen)
    kept.save(figures[:9], {}, tmp_path)
    kept.save(figures[9:], curves, tmp_path)
    figures, curves = kept.load(tmp_path)
    rest = Rest("a machine", ["absent"], [], [])
    text = report.format_page(figures, curves, rest)
    for expected in (
        "## Targets",
        "not installed: absent.",
        "| laplace, top 1 % |",
        "laplace: 200",
    ):
        assert expected in text
    whole = report.format_page(figures, curves, rest, every=True)
    assert "## pareto" in whole
    for coder in coders:
        assert coder.name in whole
        shown = any(f"\n| {mark}{coder.name}{mark}" in text for mark in "`*")
        assert shown == (coder.name not in report.LEFT_OUT)
    installed = {coder.name for coder in coders}
    assert {name for name in report.LEFT_OUT if name[-1] == ")"} <= installed
    plot.draw(tmp_path / "value.png", figures, curves)
    assert (tmp_path / "value.png").read_bytes().startswith(b"\x89PNG")


def test_answer_has_the_worst_and_best_gradient() -> None:
    figures = [
        _measurement("error-bounded(error=0.01)", 4.8, synthetic=True),
        _measurement("error-bounded(error=0.01)", 3.0, group="lstm"),
        _measurement("SZ3, 1 %", 4.0, group="lstm", peer=True),
        _measurement("pcodec, integers, 1 %", 5.0, group="lstm", peer=True),
        _measurement("error-bounded(error=0.01)", 4.8, group="all values", r=26_000_000, synthetic=True),
    ]
    text = report.format_page(figures, {}, Rest("", [], [], []))
    assert text.startswith("At an error of 1.0 %, `error-bounded` takes 4.80 bits per value")
    assert "it takes 0.75 to 0.75 times the bits of the best" in text


@pytest.mark.sweep
def test_partial_run_is_only_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> Path:
        raise AssertionError("written")

    monkeypatch.setattr("benchmarks.value.__main__.write_result", refuse)
    main(["--quick", "--only", "sign-scale; pareto"])
    out = capsys.readouterr().out
    assert "`sign-scale`" in out
    assert "`qsgd" not in out
    assert "## laplace" not in out
