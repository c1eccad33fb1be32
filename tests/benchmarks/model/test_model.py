"""Benchmark of whole models: shapes, sums, torch's alternatives, targets, page and picture."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rich", reason="benchmarks need the extra [bench]")
pytest.importorskip("matplotlib", reason="benchmarks need the extra [bench]")

import wirecodec as wc
from benchmarks.common.timing import CallTime, measure_in_turns
from benchmarks.model import peers, plot, processes, report, stages, sums
from benchmarks.model.__main__ import measure
from benchmarks.model.models import (
    Model,
    build_resnet20,
    build_resnet50,
    build_tiny,
    build_transformer,
    draw_gradient,
)
from benchmarks.model.targets import check_targets, find_limit

SHAPES = ((40, 30), (30,), (16, 4, 3, 3), (2000,))


def test_shapes_are_those_of_the_models() -> None:
    sizes = {m.name: (len(m.shapes), m.elements) for m in (build_resnet50(), build_resnet20())}
    assert sizes == {"ResNet-50": (161, 25_557_032), "ResNet-20": (59, 269_722)}
    transformer = build_transformer()
    assert (len(transformer.shapes), transformer.elements // 10**6) == (2052, 109)
    assert {len(shape) for shape in build_tiny(50).shapes} == {1}


def test_tensors_and_vector_have_the_same_values() -> None:
    tensors, flat = draw_gradient(SHAPES)
    assert [x.shape for x in tensors.values()] == list(SHAPES)
    assert np.array_equal(np.concatenate([tensors[name].ravel() for name in sorted(tensors)]), flat)
    assert abs(np.mean(np.sign(flat))) < 0.1
    assert 0.9 < np.mean(np.abs(flat)) < 1.1


def test_calls_take_turns() -> None:
    turns: list[int] = []
    times = measure_in_turns([lambda: turns.append(0), lambda: turns.append(1)], budget=0, min_calls=3)
    assert turns == [0, 1] * 4
    assert all(time.processor >= 0 and 0 < time.seconds < 1 for time in times)


def test_containers_are_added() -> None:
    tensors, _ = draw_gradient(SHAPES)
    blobs = [wc.encode_many(tensors, "topk(0.01) | rice | raw", seed=rank) for rank in range(3)]
    out = {name: np.zeros_like(x) for name, x in tensors.items()}
    sums.add_containers(blobs, out)
    assert all(np.array_equal(out[name], 3 * x.to_dense()) for name, x in wc.decode_many(blobs[0]).items())


def test_topk_of_torch_selects_like_the_library() -> None:
    torch = pytest.importorskip("torch", reason="the comparison needs torch")
    x = draw_gradient([(2000,)])[1]
    total = {"x": torch.zeros(2000)}
    peers.add_topk(peers.compress_topk({"x": torch.from_numpy(x)}, 0.01), total)
    expected = wc.decode(wc.encode(x, "topk(0.01) | rice | raw")).to_dense()
    assert np.array_equal(total["x"].numpy(), expected)


def test_powersgd_restores_matrices_of_its_rank() -> None:
    """Small tensors stay dense; a matrix of rank 4 is the product of its factors."""
    torch = pytest.importorskip("torch", reason="the comparison needs torch")
    rng = np.random.default_rng(0)
    low = (rng.standard_normal((64, peers.RANK)) @ rng.standard_normal((peers.RANK, 90))).astype(np.float32)
    tensors = {"low": torch.from_numpy(low.reshape(64, 10, 9)), "bias": torch.ones(64)}
    total = {name: torch.ones_like(x) for name, x in tensors.items()}
    power = peers.PowerSGD(tensors)
    found = power.compress(tensors)
    assert [tuple(part.shape) for part in found["low"]] == [(64, 4), (90, 4)]
    power.add(found, total)
    assert np.allclose(total["low"].numpy().reshape(64, 90), 1 + low, atol=1e-4)
    assert total["bias"].tolist() == [2] * 64


def test_targets_use_the_worst_measurement() -> None:
    def time(seconds: float) -> CallTime:
        return CallTime(2 * seconds, seconds)

    one = stages.StageTime("m", True, 0.01, "raw", "encode_many", 1, time(1.3), time(1))
    times = [
        one,
        replace(one, threads=2, many=CallTime(2.6 / 1.6, 9)),
        replace(one, model="tiny", targeted=False, many=time(50)),
        replace(one, stage="decode_add", many=time(1.6)),
        replace(one, stage="decode_add", rate=0.001, many=time(1.6)),
    ]
    found = check_targets(
        times,
        [
            sums.SumTime("m", 4, time(100), time(1), time(1)),
            sums.SumTime("m", 16, time(20.8), time(17), time(1)),
        ],
        [sums.SmallCall("encode", "a | b | c", time(39e-6)), sums.SmallCall("decode", "a", time(31e-6))],
        [sums.IndexCall("encode", "a", time(4.2), time(2)), sums.IndexCall("decode", "a", time(2), time(2))],
    )
    results = {r.target: (r.worst, r.met) for r in found}
    assert results["encode_many ≤ 1.3 × flat: 0.01"] == ("1.30 ×", True)
    assert results["encode_many ≤ 1.3 × flat: 0.001"][1] is None
    assert results["decode_add ≤ 1.5 × flat: 0.01"] == ("1.60 ×", False)
    assert results["decode_add ≤ 2.0 × flat: 0.001"] == ("1.60 ×", True)
    assert results["encode_many: two threads ≥ 1.7 × as fast as one"] == ("1.60 ×", False)
    assert results["encode of 1,000 elements ≤ 40 µs"] == ("39 µs", True)
    assert results["decode of 1,000 elements ≤ 30 µs"] == ("31 µs", False)
    assert results["whole call on 262,144 indices ≤ 2 × its codecs"] == ("2.10 ×", False)
    assert results["16 containers added ≤ 1.3 × 16 times one flat"] == ("1.30 ×", True)
    assert [find_limit(s) for s in times] == [1.3, 1.3, None, 1.5, 2.0]


def test_page_and_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All measurements on small models; processes of their own are replaced by a short run in this one."""
    monkeypatch.setattr(sums, "INDICES", 100)
    monkeypatch.setattr(sums, "DIMENSION", 10_000)
    models = [Model("small", SHAPES), Model("vectors", ((100,), (300,)), targeted=False)]
    found = measure(models, (1, 2), 0, lambda _: None, budget=0, min_calls=1)
    calls = [processes.FirstCall("empty", 9.5, 10, 0.02, 14)]
    found = replace(found, long_run=processes.run_long(20), first_calls=calls)
    assert found.long_run is not None
    assert found.long_run.last_memory >= found.long_run.first_memory // 2 > 0
    listed = report.list_stages(found)
    assert len(listed) == len(found.stages) + len(found.schemes)
    assert {row.threads for row in listed if row.speed_up is not None} <= {2}
    assert {(s.model, s.stage, s.threads) for s in found.stages} >= {("small", x, 1) for x in stages.STAGES}
    text = report.format_page(found, command="c", versions="torch 9", load=1.5, end=2)
    for expected in (
        "`c`; torch 9",
        "was 1.5 at the start and 2.0 at the end",
        "| small | 4 |",
        "| model, scheme | encode_many | decode_add | decode_many | Compressor step |",
        "| small, `topk(0.001) · rice · raw` |",
        "| small, 2 |",
        "| `nonzero · rice · error-bounded(0.01)` | decode |",
        "| 20 steps |",
        "| empty | 9.50 s | 10.00 s | 14 | 20.0 ms |",
    ):
        assert expected in text
    if peers.describe_torch():
        assert "| small: *PowerSGD's arithmetic, rank 4* |" in text
        assert "| vectors: *PowerSGD" not in text
    plot.draw(tmp_path / "model.png", plot.list_bars(found.stages))
    assert (tmp_path / "model.png").stat().st_size > 10_000
