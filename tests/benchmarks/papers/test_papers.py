"""Measurements of the papers' tables and figures, their data files, and the counts of the page."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rich", reason="benchmarks need the extra [bench]")
pytest.importorskip("sklearn", reason="benchmarks need the extra [bench]")

from rich.progress import Progress

import collectives as co
import wirecodec as wc
from benchmarks.common.results import RESULTS
from benchmarks.papers import __main__ as papers_main
from benchmarks.papers import adacomp, deepreduce, fft, memories, scalecom
from benchmarks.papers.__main__ import format_measurement
from benchmarks.papers.networks import build_demo, flatten, unflatten
from benchmarks.papers.parts import Part, Store, run_missing
from benchmarks.papers.plan import Steps, list_parts
from benchmarks.papers.tables import list_tables
from benchmarks.papers.training import run_training
from wirecodec.index.bloom import filter_bytes, windows

PAGE = (RESULTS / "papers.md").read_text(encoding="utf-8")
ONCE = {
    *("scalecom_methods", "scalecom_splits", "adacomp_rates"),
    *("deepreduce_2", "deepreduce_10", "fft_5", "fft_15"),
}
"""Data files that an earlier commit measured."""


@pytest.mark.nightly
def test_data_files() -> None:
    pytest.importorskip("torch", reason="three of the networks are torch's")
    parts = list_parts(Steps(8, 4, 2, 10, 8))
    tables = list_tables({part.name: part.run(*part.arguments) for part in parts})
    assert {name for name, table in tables.items() if table.rows} | ONCE == {
        *re.findall(r"\(papers/(\w+)\.csv\)", PAGE)
    }
    assert not [row for table in tables.values() for row in table.rows if "nan" in row]


def test_the_page_counts_its_verdicts() -> None:
    """The counts above are those of the tables below; those of the claims are training_claims.md's."""
    head, *papers = PAGE.split("\n## ")
    for section in papers:
        ends = re.findall(r"(?m)^\| .* \| ([a-z –]+)[^|]* \|$", section.partition("\n### ")[0])
        untried = section.partition("Not tried:\n\n")[2].partition("\n\n")[0]
        found = Counter(ends) | Counter({"not tried": len(re.findall(r"(?m)^- ", untried))})
        kinds = ("reproduced", "partly", "not reproduced", "undecided", "not tried")
        counts = " | ".join(str(found[kind]) for kind in kinds)
        paper = section.split()[0].removesuffix("-based")
        assert f"| {paper} | {counts} |" in head
    training = (RESULTS / "training_claims.md").read_text(encoding="utf-8")
    total = re.search(r"(?m)^\| all \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", training)
    assert total
    numbers = [int(number) for number in total.groups()]
    names = ("reproduced", "not reproduced", "undecided", "not run")
    claims = ", ".join(f"{number} {kind}" for number, kind in zip(numbers, names, strict=True))
    assert f"Of {sum(numbers)} claims about training: {claims}." in head


def test_a_measurement_is_one_line() -> None:
    point = deepreduce.PolicyPoint("P0", 0.1, 1.0, 0.5, 0.25, False)
    assert (
        format_measurement([point]) == "(policy P0, rate 0.1, kept 1, volume 0.5, error 0.25, refused False)"
    )
    assert format_measurement(np.arange(9.0)) == "9 numbers, mean 4, 0 to 8"


def test_training_loses_nothing() -> None:
    """What a step sends and what it keeps is residual + gradient."""
    before = 0.0
    for step in run_training(build_demo(), wc.selectors.TopK(0.01), 3, rate=0.05):
        sent = step.x.copy()
        assert step.sent is not None
        sent[step.sent] = 0
        assert np.array_equal(sent, step.residual)
        assert np.array_equal(step.x, before + step.gradient)
        before = step.residual
    assert flatten(unflatten(step.x)).tobytes() == step.x.tobytes()


def test_vectors_have_the_order_of_the_network() -> None:
    """An exchange may return its tensors in any order."""
    x = build_demo().start
    assert flatten(dict(sorted(unflatten(x).items()))).tobytes() == x.tobytes()


def test_parts_are_measured_once(tmp_path: Path) -> None:
    """Results are kept; a run after an error measures only what is missing. Other settings have others."""
    store, calls = Store("a", tmp_path), [Part("one", len, ("abc",)), Part("bad", int, ("x",))]
    with Progress(disable=True) as progress:
        with pytest.raises(ValueError, match="invalid literal"):
            run_missing(calls, store, 1, progress)
        assert store["one"] == 3
        assert "bad" not in store
        run_missing([Part("one", len, ("other",)), Part("bad", int, ("7",))], store, 1, progress)
    assert (store["one"], store["bad"]) == (3, 7)
    assert "one" not in Store("b", tmp_path)


def test_names_of_parts_are_unique() -> None:
    names = [part.name for part in list_parts(Steps())]
    assert len(set(names)) == len(names)


def test_a_part_of_the_page_prints_its_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is asked for is printed, although the page needs more."""
    pytest.importorskip("torch", reason="the command needs it")
    monkeypatch.setattr(papers_main, "Store", lambda settings: Store(settings, tmp_path))
    papers_main.main(["--quick", "--only", "ScaleCom: bytes of 2 ranks; FFT: representable", "--jobs", "1"])
    text = capsys.readouterr().out
    assert "ScaleCom: bytes of 2 ranks: (100480, 100488)" in text
    assert "FFT: representable numbers: uniform: 255 numbers, mean " in text
    number = len(list_parts(Steps()))
    assert f"{number - 2} of {number} measurements are missing" in text


def test_model_of_scalecom_has_its_shape() -> None:
    """Top-k's communication grows with the workers, ScaleCom's does not; both are below dense."""
    times = {m: [scalecom.compute_shares(n, 8, 100, m)[1] for n in (8, 64, 128)] for m in scalecom.METHODS}
    assert len(set(times["dense"])) == len(set(times["ScaleCom"])) == 1
    assert times["ScaleCom"][0] == pytest.approx(times["dense"][0] / 112 * 3 / 2)  # indices like the values
    assert (
        times["ScaleCom"][0] < times["top-k"][0] < times["top-k"][1] < times["top-k"][2] < times["dense"][0]
    )


def test_representable_numbers_are_all_found() -> None:
    """The uniform format has 255 numbers at equal distances; offset floats have no more than 256."""
    for name, (codec, largest) in fft.FORMATS.items():
        numbers = fft._list_numbers(codec, largest)
        assert 250 <= numbers.size <= 256, name
        assert np.abs(numbers).max() == largest
    uniform = fft._list_numbers(*fft.FORMATS["uniform"])
    assert np.diff(uniform) == pytest.approx(2 / 254, rel=1e-4)


def test_numbers_of_ieee_754_are_those_of_float16() -> None:
    every = np.arange(2**16, dtype=np.uint16).view(np.float16).astype(np.float64)
    assert np.array_equal(fft.list_ieee_numbers(5, 10), np.unique(every[np.isfinite(every)]))


def test_dryden_and_seide_send_a_mean_per_sign() -> None:
    x = np.random.default_rng(0).laplace(size=1000)
    found: Any = adacomp.Dryden(0.1).select(x)
    largest = np.sort(np.abs(x))[-100]
    for sign in (1, -1):
        chosen = found.scale[np.sign(x[found.indices]) == sign]
        assert chosen == pytest.approx(np.abs(x[(np.abs(x) >= largest) & (np.sign(x) == sign)]).mean())
    bits: Any = adacomp.Seide().select(x)
    assert bits.indices.size == x.size
    assert len(np.unique(bits.scale)) == 2


def test_layers_have_scales_of_their_own_and_may_be_sent_whole() -> None:
    x = np.random.default_rng(0).laplace(size=build_demo().start.size).astype(np.float32)
    parts = {name: part.size for name, part in unflatten(x).items()}
    every: Any = adacomp._build("AdaComp", 5000, "all").select(x, gradient=x)
    start = 0
    for size in parts.values():
        own = wc.selectors.AdaComp(5000).select(x[start : start + size], gradient=x[start : start + size])
        inside = (every.indices >= start) & (every.indices < start + size)
        assert own.indices is not None
        assert (every.indices[inside] - start).tolist() == own.indices.tolist()
        assert every.scale[inside] == pytest.approx(own.scale)
        start += size
    dense: Any = adacomp._build("AdaComp", 5000, "FC").select(x, gradient=x)
    whole = sum(size for name, size in parts.items() if name.startswith("conv"))
    assert dense.indices[:whole].tolist() == list(range(whole))
    assert (np.sign(x[:whole]) * dense.scale[:whole]).tolist() == x[:whole].tolist()


def test_the_printed_p2_returns_as_many_and_keeps_fewer() -> None:
    """Algorithm 1 with a rate of 0.01: no false negative is possible, and singletons are certain."""
    inserted = np.random.default_rng(0).choice(50_000, 500, replace=False)
    kept = []
    for rate in (0.0001, 0.01):
        found = deepreduce.select_as_printed(inserted, 50_000, windows(rate), 8 * filter_bytes(500, rate))
        assert found.size == len(set(found.tolist())) == inserted.size
        kept.append(np.isin(inserted, found).mean())
    assert kept[0] == 1
    assert 0.6 < kept[1] < 0.85


def test_memories_are_those_of_the_library() -> None:
    """The second measurement of Figure 3 is that of CLTk and similarity, for two ranks."""
    run = memories.train("3: CLT-k 400×, rate 0.1, 2 ranks", memories.EVERY)
    assert run.steps.tolist() == [memories.FIRST, memories.EVERY]

    def measure(comm: Any) -> co.Similarity:
        network, cltk = build_demo(memories.BATCH, comm.rank, 2), co.CLTk(1 / 400)
        parameters = network.start
        for step in range(memories.EVERY):
            _, gradient = network.compute(parameters, step)
            found = co.similarity(comm, cltk, gradient)
            parameters = parameters - np.float32(0.1) * cltk.allreduce(comm, gradient)
        assert isinstance(found, co.Similarity)
        return found

    with np.errstate(all="ignore"):
        found = co.simulate(2, measure)[0]
    assert run.distances[-1] == pytest.approx(found.cosine_distance, rel=1e-3)
    assert run.hamming[-1] == pytest.approx(found.hamming[0], abs=0.01)
    assert run.contraction[-1] == pytest.approx(found.contraction[0], rel=1e-3)
    assert run.top[-1] == pytest.approx(found.top_contraction, rel=1e-3)
