"""Benchmark of whole models: shapes, sums, targets, page and picture."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rich", reason="benchmarks need the extra [bench]")
pytest.importorskip("matplotlib", reason="benchmarks need the extra [bench]")

import wirecodec as wc
from benchmarks.common.timing import CallTime, measure_in_turns
from benchmarks.model import plot, report, stages, sums
from benchmarks.model.__main__ import measure
from benchmarks.model.models import Model, build_resnet50, build_tiny, build_transformer, draw_gradient
from benchmarks.model.targets import check_targets, find_limit

SHAPES = ((40, 30), (30,), (16, 4, 3, 3), (2000,))


def test_shapes_are_those_of_the_models() -> None:
    assert (len(build_resnet50().shapes), build_resnet50().elements) == (161, 25_557_032)
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
    """All measurements on small models."""
    monkeypatch.setattr(sums, "INDICES", 100)
    monkeypatch.setattr(sums, "DIMENSION", 10_000)
    models = [Model("small", SHAPES), Model("vectors", ((100,), (300,)), targeted=False)]
    found = measure(models, (1, 2), lambda _: None, budget=0, min_calls=1)
    listed = report.list_stages(found)
    assert len(listed) == len(found.stages) + len(found.schemes)
    assert {row.threads for row in listed if row.speed_up is not None} <= {2}
    assert {(s.model, s.stage, s.threads) for s in found.stages} >= {("small", x, 1) for x in stages.STAGES}
    text = report.format_page(found, command="c", load=1.5, end=2)
    for expected in (
        "`c`",
        "was 1.5 at the start and 2.0 at the end",
        "| small | 4 |",
        "| model, scheme | encode_many | decode_add | decode_many | Compressor step |",
        "| small, `topk(0.001) · rice · raw` |",
        "| small, 2 |",
        "| `nonzero · rice · error-bounded(0.01)` | decode |",
    ):
        assert expected in text
    plot.draw(tmp_path / "model.png", listed)
    assert (tmp_path / "model.png").stat().st_size > 10_000
