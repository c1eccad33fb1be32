"""Select benchmark: reads, targets, result page and picture."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="benchmarks need the extra [bench]")
pytest.importorskip("rich", reason="benchmarks need the extra [bench]")

import wirecodec as wc
from benchmarks.common.inputs import DENSITIES
from benchmarks.select import contenders, plot, report, slow_inputs, speeds
from benchmarks.select.__main__ import main, measure
from benchmarks.select.reads import measure_reads, sum_magnitudes
from benchmarks.select.targets import check_targets
from wirecodec import registry
from wirecodec.arrays import aligned


def test_one_read_takes_one_read() -> None:
    x = np.ones(300_000, np.float32)
    found = measure_reads(
        x, [lambda: sum_magnitudes(x), lambda: [sum_magnitudes(x) for _ in range(10)]], budget=0.05
    )
    assert 0.3 < found.times[0] < 3
    assert found.times[1] > 3 * found.times[0]
    assert found.seconds > 0


def test_every_selector_is_included() -> None:
    names = [one.name for one in contenders.build_contenders(0.01)]
    assert len(set(names)) == len(names)
    assert {name.partition("(")[0] for name in names if "." not in name} == set(
        registry._stages["selector"]
    ) - {
        "all",
        "nonzero",
        "budget",
    }


@pytest.mark.parametrize("density", DENSITIES)
def test_peers_take_the_same_k(density: float) -> None:
    x = np.random.default_rng(0).permutation(5000).astype(np.float32)
    expected = wc.selectors.TopK(density).select(x).indices
    assert expected is not None
    for one in contenders.build_contenders(density):
        if one.peer:
            assert sorted(np.asarray(one.call(x)).tolist()) == expected.tolist()


@pytest.mark.parametrize("size", [1000, 200_000])
def test_select_from_sum_is_top_k_of_the_sum(size: int) -> None:
    """The fused kernel does not apply to short arrays."""
    rng = np.random.default_rng(0)
    x, residual = (rng.laplace(size=size).astype(np.float32) for _ in range(2))
    found = speeds.select_from_sum(wc.selectors.TopK(0.01), x, residual, aligned(size, np.float32)).indices
    expected = wc.selectors.TopK(0.01).select(x + residual).indices
    assert expected is not None
    assert found.tolist() == expected.tolist()


def test_targets_use_the_worst_measurement() -> None:
    plain = speeds.Speed("26,000,000", 26_000_000, 0.1, speeds.TOPK, False, 1, 2.5, 0.005)
    found = check_targets(
        [
            plain,
            replace(plain, array="260,000", elements=260_000, reads=7.1),
            replace(plain, threads=2, reads=2.2),
            *(replace(plain, density=0.01, threads=n, reads=1 / n) for n in (1, 2)),
            *(replace(plain, density=d, name="np.argpartition", reads=39) for d in (0.1, 0.01)),
        ],
        [
            slow_inputs.SlowInput("a", 0, (3, 2, 1)),
            slow_inputs.SlowInput("b", 1, (4, 11, 1)),
            slow_inputs.SlowInput("c", 2, (13, 2, 1)),
        ],
        [speeds.SchemeSpeed("topk(0.01) | rice | raw(bfloat16)", 3.1, 1.5, 9)],
    )
    results = {r.target: (r.worst, r.met) for r in found}
    assert results["topk ≤ 2.7 reads: 0.1, one thread, ≥ 26,000,000 elements"] == ("2.50 reads", True)
    assert results["topk ≤ 2.2 reads: 0.1, 2 threads, ≥ 26,000,000 elements"][1] is True
    assert results["topk ≤ 7 reads: 0.1, one thread, < 26,000,000 elements"] == ("7.10 reads", False)
    assert results["topk ≤ 1.3 reads: 0.001, one thread, ≥ 26,000,000 elements"][1] is None
    faster = "topk ≥ 40 × as fast as np.argpartition: 0.01 and 0.001, {}, ≥ 26,000,000 elements"
    assert results[faster.format("one thread")] == ("39.0×", False)
    assert results[faster.format("2 threads")] == ("78.0×", True)
    assert results["topk ≤ 12 reads: every slow input"] == ("11.00 reads", True)
    assert results["topk ≤ 12 reads: both samples misled"][1] is False
    assert results["encode at 1 % ≤ 3 reads"][1] is False
    assert results["decode_add at 1 % ≤ 1.5 reads"][1] is True


def test_page_and_picture(tmp_path: Path) -> None:
    """All measurements at small sizes."""
    np.save(tmp_path / "saved.npy", np.random.default_rng(0).standard_t(3, (50, 40)).astype(np.float32))
    found = measure([20_000, 10_000], [tmp_path], lambda _: None, 0.0005)
    text = report.format_page(check_targets(*found), *found)
    for expected in (
        "## Targets",
        "| saved |",
        "both samples misled",
    ):
        assert expected in text
    listed = {one.selector for one in report.list_speed_ups(found[0])}
    for one in contenders.build_contenders(0.1):
        assert one.name in listed
        assert (f"`{one.name}`" in text or f"*{one.name}*" in text) >= (one.name in report.SHOWN)
    assert "nan" not in text
    plot.draw(tmp_path / "select.png", report.list_speed_ups(found[0]))
    assert (tmp_path / "select.png").read_bytes().startswith(b"\x89PNG")


def test_partial_run_is_only_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(*_: object) -> Path:
        raise AssertionError("written")

    monkeypatch.setattr("benchmarks.select.__main__.write_result", refuse)
    monkeypatch.setattr("benchmarks.select.__main__.TEST_GRADIENTS", tmp_path)
    main(["--quick", "--sizes", "0.01,0.02"])
    out = capsys.readouterr().out
    assert "10,000; one read" in out
    assert "20,000; one read" not in out
