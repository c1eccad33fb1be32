"""The selectors' benchmark: times are ratios, streams have feedback, verdicts are right, tables come out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="benchmarks need the extra [bench]")
pytest.importorskip("rich", reason="benchmarks need the extra [bench]")

import wirecodec as wc
from benchmarks.select import contenders as rivals
from benchmarks.select import count_accuracy as quality
from benchmarks.select import plot, report, speeds
from benchmarks.select import slow_inputs as corners
from benchmarks.select.__main__ import main, measure
from benchmarks.select.reads import absolute_sum, reads
from benchmarks.select.targets import verdicts
from wirecodec import registry
from wirecodec.arrays import aligned
from wirecodec.select.topk import share_of


def test_a_read_of_the_array_is_one_read() -> None:
    x = np.ones(300_000, np.float32)
    found = reads(x, [lambda: absolute_sum(x), lambda: [absolute_sum(x) for _ in range(10)]], budget=0.05)
    assert 0.3 < found.times[0] < 3
    assert found.times[1] > 3 * found.times[0]
    assert found.read > 0


def test_every_selector_is_measured() -> None:
    names = [one.name for one in rivals.rivals(0.01)]
    assert len(set(names)) == len(names)
    assert {name.partition("(")[0] for name in names if "." not in name} == set(
        registry._stages["selector"]
    ) - {
        "all",
        "nonzero",
    }


@pytest.mark.parametrize("density", rivals.DENSITIES)
def test_peers_take_the_same_k(density: float) -> None:
    x = np.random.default_rng(0).permutation(5000).astype(np.float32)
    expected = wc.TopK(density).select(x).indices
    assert expected is not None
    for one in rivals.rivals(density):
        if one.peer:
            assert sorted(np.asarray(one.call(x)).tolist()) == expected.tolist()


@pytest.mark.parametrize("size", [1000, 200_000])
def test_what_is_timed_of_a_sum_is_a_selection_from_it(size: int) -> None:
    """Also where a sum is too short to be searched while it is made."""
    rng = np.random.default_rng(0)
    x, residual = (rng.laplace(size=size).astype(np.float32) for _ in range(2))
    found = speeds._of_sum(wc.TopK(0.01), x, residual, aligned(size, np.float32)).indices
    expected = wc.TopK(0.01).select(x + residual).indices
    assert expected is not None
    assert found.tolist() == expected.tolist()


def test_feedback_adds_what_was_not_sent() -> None:
    """Each selector has its own."""
    rng = np.random.default_rng(0)
    stream = [rng.laplace(size=20_000).astype(np.float32) for _ in range(3)]
    found = quality.judge("x", iter(stream), True, lambda _: None, (0.01,))
    by = {(q.name, q.feedback): q.ratios for q in found}
    assert len(by) == 2 * len(rivals.judged(0.01))
    for feedback in (False, True):
        selector, residual, expected = wc.RedSync(0.01), np.zeros(20_000, np.float32), []
        for gradient in stream:
            x = gradient + residual
            indices = selector.select(x).indices
            assert indices is not None
            expected.append(indices.size / share_of(0.01, x.size))
            if feedback:
                residual = x.copy()
                residual[indices] = 0
        assert by["redsync", feedback] == tuple(expected)


def test_without_torch_nothing_is_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quality, "torch", None)
    assert quality.judge("none", quality.trained("resnet20", 3), True, lambda _: None) == []


def test_training_gives_other_gradients_each_time() -> None:
    pytest.importorskip("torch", reason="training needs the extra [gradients]")
    pytest.importorskip("sklearn", reason="the digits need the extra [bench]")
    first, second = quality.trained("resnet20", 2)
    assert first.dtype == np.float32
    assert first.size == 269_722
    assert not np.array_equal(first, second)


def test_verdicts_judge_the_worst_figure() -> None:
    plain = speeds.Speed("26,000,000", 26_000_000, 0.1, speeds.TOPK, False, 1, 2.5, 0.005)
    found = verdicts(
        [
            plain,
            replace(plain, array="260,000", elements=260_000, reads=7.1),
            replace(plain, threads=2, reads=2.2),
            *(replace(plain, density=0.01, threads=n, reads=1 / n) for n in (1, 2)),
            *(replace(plain, density=d, name="np.argpartition", reads=39) for d in (0.1, 0.01)),
        ],
        [
            quality.Quality("m", True, True, 0.1, "sidco", (1.0, 0.87)),
            quality.Quality("m", True, False, 0.1, "dgc", (9,)),
        ],
        [
            corners.Corner("a", 0, (3, 2, 1)),
            corners.Corner("b", 1, (4, 11, 1)),
            corners.Corner("c", 2, (13, 2, 1)),
        ],
        [speeds.Path("topk(0.01) | rice | raw(bfloat16)", (3.1, 1.5, 9))],
    )
    reached = {v.target: (v.worst, v.reached) for v in found}
    assert reached["topk ≤ 2.7 reads: 0.1, one thread, from 26,000,000 elements on"] == ("2.50 reads", True)
    assert reached["topk ≤ 2.2 reads: 0.1, 2 threads, from 26,000,000 elements on"][1] is True
    assert reached["topk ≤ 7 reads: 0.1, one thread, below that"] == ("7.10 reads", False)
    assert reached["topk ≤ 1.3 reads: 0.001, one thread, from 26,000,000 elements on"][1] is None
    faster = "topk ≥ 40 × np.argpartition: 0.01 and 0.001, {}, from 26,000,000 elements on"
    assert reached[faster.format("one thread")] == ("39.0×", False)
    assert reached[faster.format("2 threads")] == ("78.0×", True)
    assert reached["topk: no input takes more than 12 reads"] == ("11.00 reads", True)
    assert reached["topk: no input, also with the clock stopped, takes more than 12 reads"][1] is False
    assert reached["sidco within 12 % of k at every iteration, with feedback"] == ("13.0 %", False)
    assert reached["sidco within 12 % of k at every iteration, without feedback"][1] is None
    assert reached["encode at 1 % ≤ 3 reads"][1] is False
    assert reached["decode_add at 1 % ≤ 1.5 reads"][1] is True


def test_document_and_picture(tmp_path: Path) -> None:
    """All of it, small."""
    np.save(tmp_path / "saved.npy", np.random.default_rng(0).standard_t(3, (50, 40)).astype(np.float32))
    found = measure([20_000, 10_000], [tmp_path], {}, 2, lambda _: None, 0.0005)
    text = report.document(verdicts(*found), *found)
    for expected in (
        "## Targets",
        "| saved; a read",
        "both samples misled",
        "64 layers, Student's t, with feedback",
    ):
        assert expected in text
    for one in rivals.rivals(0.1):
        assert one.name in text
    assert "nan" not in text
    plot.draw(tmp_path / "select.png", found[0], found[1], "a machine")
    assert (tmp_path / "select.png").read_bytes().startswith(b"\x89PNG")


def test_a_part_is_printed_and_not_kept(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(*_: object) -> Path:
        raise AssertionError("kept")

    monkeypatch.setattr("benchmarks.select.__main__.keep", refuse)
    monkeypatch.setattr("benchmarks.select.__main__.TESTED", tmp_path)
    main(["--quick", "--sizes", "0.01,0.02"])
    out = capsys.readouterr().out
    assert "10,000; a read" in out
    assert "20,000; a read" not in out
