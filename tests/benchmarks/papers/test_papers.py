"""Page of the papers' tables and figures: a run of few steps, and what its numbers are computed from."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="benchmarks need the extra [bench]")
pytest.importorskip("rich", reason="benchmarks need the extra [bench]")
pytest.importorskip("sklearn", reason="benchmarks need the extra [bench]")

from rich.progress import Progress
from scipy.stats import kstest

import collectives as co
import wirecodec as wc
from benchmarks.common.results import RESULTS
from benchmarks.common.sketchsgd import CountSketch, SketchSGD
from benchmarks.papers import __main__ as papers_main
from benchmarks.papers import adacomp, deepreduce, fft, memories, scalecom
from benchmarks.papers.__main__ import format_page, list_tables
from benchmarks.papers.networks import build_demo, flatten, unflatten
from benchmarks.papers.pages import fft as fft_page
from benchmarks.papers.pages.adacomp import read_rates, read_trained_rate
from benchmarks.papers.pages.measured import (
    choose_figures,
    format_measurement,
    list_complete,
    list_figures,
    read_figures,
)
from benchmarks.papers.pages.plot import draw_all
from benchmarks.papers.pages.sidco import fit_evenly
from benchmarks.papers.pages.table import (
    NOT_TRIED,
    PARTLY,
    REPRODUCED,
    WRONG,
    Row,
    count_claims,
    format_counts,
    format_rows,
    read_gpu_kernel,
    read_gpu_speedups,
    read_milliseconds,
    read_speedups,
)
from benchmarks.papers.parts import Part, Store, run_missing
from benchmarks.papers.plan import Steps, collect, list_parts
from benchmarks.papers.training import run_training
from wirecodec.cli.gradient_stats import compute_stats
from wirecodec.index.bloom import filter_bytes, windows


@pytest.mark.nightly
def test_page_and_pictures(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="three of the networks are torch's")
    steps = Steps(8, 4, 2, 10, 8)
    parts = list_parts(steps)
    results = collect({part.name: part.run(*part.arguments) for part in parts}, steps)
    text = format_page(results)
    assert {name for name, table in list_tables(results).items() if table.rows} == {
        *re.findall(r"\((?:papers/)(\w+)\.csv\)", text)
    }
    for paper in ("SIDCo", "DeepReduce", "FFT", "ScaleCom", "AdaComp"):
        assert f"\n## {paper}" in text
    assert "nan" not in text
    draw_all(tmp_path, results)
    pictures = re.findall(r"\((papers_\w+\.png)\)", text)
    assert pictures
    assert sorted(pictures) == sorted(path.name for path in tmp_path.iterdir())


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


def test_measurements_serve_figures_of_the_page() -> None:
    """Each figure that a measurement serves is in the table of its paper on the page."""
    served = {figure for part in list_parts(Steps()) for figure in list_figures(part.name)}
    listed = set()
    for section in (RESULTS / "papers.md").read_text(encoding="utf-8").split("\n## ")[1:]:
        paper = section.split()[0].replace("FFT-based", "FFT")
        cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| ")]
        listed |= {f"{paper}: {f}" for cell in cells for f in read_figures(cell.partition(":")[0])}
    assert len(served) > 30
    assert served <= listed


def test_measurements_are_chosen_by_figures() -> None:
    names = [part.name for part in list_parts(Steps())]
    chosen = choose_figures(names, ["DeepReduce: Figure 6b"])
    assert len(chosen) == len(deepreduce.RATES)
    assert all(name.startswith("DeepReduce: policies") for name in chosen)
    assert read_figures("Figures 3-5, 10a, Table 1") == [
        *map("Figure {}".format, (3, 4, 5, "10a")),
        "Table 1",
    ]


def test_a_part_of_the_page_prints_its_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is asked for is printed, although the page needs more."""
    pytest.importorskip("torch", reason="the command needs it")
    monkeypatch.setattr(papers_main, "Store", lambda settings: Store(settings, tmp_path))
    papers_main.main(["--quick", "--only", "ScaleCom: bytes of 2 ranks; FFT: Figure 7", "--jobs", "1"])
    text = capsys.readouterr().out
    assert "ScaleCom: bytes of 2 ranks: (100480, 100488)" in text
    assert "FFT: representable numbers: uniform: 255 numbers, mean " in text
    assert "208 of 210 measurements are missing" in text


def test_complete_rows_have_both_results() -> None:
    """The rows of a measurement are those of its figures, once its paper is complete."""
    steps = Steps()
    point = deepreduce.PolicyPoint("P0", 0.1, 1.0, 0.5, 0.25, False)
    assert (
        format_measurement([point]) == "(policy P0, rate 0.1, kept 1, volume 0.5, error 0.25, refused False)"
    )
    assert format_measurement(np.arange(9.0)) == "9 numbers, mean 4, 0 to 8"
    assert list_complete({}, steps, ["FFT: status vector"], ["FFT: representable numbers"]) == []


def test_sketch_is_linear_and_finds_what_is_large() -> None:
    rng = np.random.default_rng(0)
    sketch = CountSketch(5000, 5, 400)
    x, y = np.zeros(5000, np.float32), rng.normal(size=5000).astype(np.float32)
    x[[7, 100, 4999]] = 50, -60, 70
    total = sketch.encode(x + y)
    assert total == pytest.approx(sketch.encode(x) + sketch.encode(y), abs=1e-3)
    assert sketch.estimate(total)[[7, 100, 4999]] == pytest.approx(x[[7, 100, 4999]], abs=15)
    method = SketchSGD(5, 400, 3 / 5000)
    sums = np.zeros(5000)
    for _ in range(2):
        mean = method.allreduce([{"a": x[:50], "b": x[50:]}, {"a": y[:50], "b": y[50:]}])
        found = np.concatenate([mean["a"], mean["b"]])
        assert np.count_nonzero(found) == 3
        sums += 2 * found
    assert set(np.flatnonzero(sums)) >= {7, 100, 4999}
    assert sums + sum(method._residuals) == pytest.approx(2 * (x + y), abs=1e-3)


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


def test_fits_find_the_exponent_of_a_power_law() -> None:
    """Every weighting of the ranks gives the exponent that was put in."""
    stats = compute_stats(np.arange(1, 20_001) ** -0.6)
    assert stats.decay == pytest.approx(0.6)
    for last in (1000, 20_000, 10**6):
        assert fit_evenly(stats.ranks, stats.magnitudes, last) == pytest.approx(0.6, abs=1e-3)


def test_distances_are_those_of_scipy() -> None:
    x = np.random.default_rng(0).laplace(size=5000)
    middle = np.median(x)
    normal, laplace = fft_page.compute_distances(x)
    assert normal == pytest.approx(kstest(x, "norm", args=(x.mean(), x.std())).statistic)
    spread = np.mean(np.abs(x - middle))
    assert laplace == pytest.approx(kstest(x, "laplace", args=(middle, spread)).statistic)
    assert laplace < normal


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


def test_verdicts_are_counted() -> None:
    rows = [Row("a", "", "", "", REPRODUCED), Row("b", "", "", "", WRONG), Row("c", "", "", "")]
    text = format_counts({"One": rows, "Two": rows[:1]})
    assert "| One | 1 | 0 | 1 | 0 | 0 |" in text
    assert "| all | 2 | 0 | 1 | 0 | 0 |" in text
    assert "Not reproduced:\n\n- One: b.\n" in text


def test_rows_without_a_result_are_listed() -> None:
    rows = [
        Row("a", "x", "y", "", REPRODUCED),
        Row("b", "x", "[training.md](training.md)", "Our models; not theirs."),
        Row("c", "x", "[training.md](training.md)", "One seed."),
        Row("d", "drawings", "–", "–"),
        Row("e", "x", "–", "No GPU.", NOT_TRIED),
    ]
    table, *lists = format_rows(rows).split("\n\n")
    assert table.splitlines()[2:] == ["| a | x | y | reproduced |"]
    [noted] = format_rows([Row("f", "x", "y", "", PARTLY), Row("g", "x", "y", "Why.", PARTLY)]).split("\n\n")[
        1:
    ]
    assert noted == "1. Why.\n"
    judged = "Judged in [training.md](training.md): b; c (One seed)."
    assert lists == [judged, "Nothing to measure: d.", "Not tried:", "- e. No GPU.\n"]


def test_pages_agree_on_the_claims_about_training() -> None:
    """The page of the papers repeats the counts of training.md, whose cells it reads."""
    found = count_claims()
    counts = ", ".join(f"{count} {kind}" for kind, count in found.items())
    assert counts
    claims = f"Of {sum(found.values())} claims about training: {counts}."
    assert claims in (RESULTS / "papers.md").read_text(encoding="utf-8")


def test_speedups_are_read() -> None:
    assert len(read_speedups("topk(δ)")) == len(read_speedups("dgc(δ)")) == 18
    assert all(own == 1 for _, own in read_speedups("topk(δ)"))


def test_cells_of_the_gpu_are_read() -> None:
    """Figure 16 has four sizes and three densities; names are those of whole cells."""
    counts = {len(read_gpu_speedups(name)) for name in ("sidco", "sidco, one stage", "dgc")}
    assert counts == {12}
    assert set(read_gpu_speedups("torch.topk + gather")) == {1.0}
    assert set(read_gpu_kernel("select + bitmap + compact")) == {26_000_000, 260_000_000}


def test_times_of_exchanges_are_read() -> None:
    """Of whole calls, dense exchanges take longer than those of 1 %."""
    alone = read_milliseconds("allgather", "26M, 1 %")
    assert {hosts for link, hosts in alone if link == "100 Mbit"} == {2, 4, 8}
    dense, sparse = (read_milliseconds(row, "2.6M, 1 %", whole=True) for row in ("native dense", "allgather"))
    assert dense.keys() == sparse.keys()
    assert all(dense[case] > sparse[case] for case in sparse if case[1] == 4)


def test_rates_are_read() -> None:
    """The paper's bins: 50 elements for convolutions, 500 for the LSTM, as in the answer of adacomp.md."""
    convolutions, lstm = read_rates()
    answer = (RESULTS / "adacomp.md").read_text(encoding="utf-8").split("\n\n")[2]
    for name, found, paper in (("resnet20", convolutions, 40), ("lstm", lstm, 200)):
        rates = f"{found.ours} times, by the paper's count {found.counted} (paper: {paper})"
        assert f"{name} {rates}" in answer
    assert f"are {convolutions.loss} ({convolutions.dense}) and {lstm.loss} ({lstm.dense});" in answer
    assert lstm.filled * (1 - float(lstm.empty.strip("%")) / 100) == pytest.approx(float(lstm.per_bin))
    assert lstm.filled > float(lstm.per_bin)
    assert 32 / 8 * 50 / float(convolutions.per_bin) == pytest.approx(float(convolutions.counted), rel=0.03)


def test_rates_of_trainings_are_read() -> None:
    """They are near those of seed 0, which systems.csv has; those of SGD depend on the momentum."""
    with (RESULTS / "training" / "systems.csv").open(encoding="utf-8", newline="") as file:
        bits = {(row["task"], row["system"]): float(row["bits"]) for row in csv.DictReader(file)}
    for task in ("images", "images-adam"):
        assert read_trained_rate(task) == pytest.approx(32 / bits[task, "adacomp"], rel=0.02)
    assert read_trained_rate("images", momentum=0.9) != read_trained_rate("images")
