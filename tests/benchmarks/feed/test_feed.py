"""Benchmark of feeds: bits, delays and staleness, the page and the picture."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("torch", reason="the weights are those of a training with torch")
pytest.importorskip("matplotlib", reason="benchmarks need the extra [bench]")
pytest.importorskip("rich", reason="benchmarks need the extra [bench]")
pytest.importorskip("fsspec", reason="the store needs it")

import torch

from benchmarks.common.hosts import find_missing_tools
from benchmarks.feed import plot, report
from benchmarks.feed.methods import METHODS, Store
from benchmarks.feed.records import Published, Served
from benchmarks.feed.rows import build_rows, find_delays, measure_lag
from benchmarks.feed.settings import QUICK, Settings
from benchmarks.feed.states import load_start, prepare_start
from benchmarks.feed.targets import NAMES, READ, WHOLE, check_targets

FACTS = {
    "elements": 1000,
    "nbytes": 2000,
    "rate": "1e-6",
    "cores": 2,
    "load": 0.1,
    "interval": 4.0,
    "rollouts": 2,
    "link": "100 Mbit",
    "transfer": 3.1,
    "poll": 0.25,
    "idle": 1.0,
    "versions": 3,
    "warm_up": 1,
    "methods": [[method.name, method.about] for method in METHODS.values()],
}


@pytest.mark.parametrize("method", METHODS.values(), ids=lambda method: method.name)
def test_methods_bring_the_bits_of_each_version(method: object, tmp_path: Path) -> None:
    made = METHODS[method.name]  # type: ignore[attr-defined]
    model = torch.nn.Linear(300, 40).to(torch.bfloat16).requires_grad_(requires_grad=False)
    state = {"weight": np.ones((40, 300), ml_dtypes.bfloat16), "bias": np.ones(40, ml_dtypes.bfloat16)}
    stores = [Store(f"file://{tmp_path}", {"auto_mkdir": True}) for _ in range(2)]
    writer, reader = made.write(stores[0]), made.read(stores[1], model, 0.01)
    pointers = [x.data_ptr() for x in model.parameters()]
    random, version = np.random.default_rng(1), 0
    for skipped in (1, 1, 3):
        for _ in range(skipped):
            state["weight"].reshape(-1).view(np.uint16)[random.integers(12_000, size=50)] ^= 1
            assert 0 < writer.publish(state) < 60_000
            version += 1
        before = reader.traffic()[1]
        commit = reader.prepare()
        if version == 2:  # the second one follows the first
            expected = report.FEED_REQUESTS if made.is_ours else report.FILE_REQUESTS
            assert reader.traffic()[1] - before == expected
        assert commit() == version - 1
        found = model.weight.view(torch.int16).numpy().view(np.uint16)
        assert (found == state["weight"].view(np.uint16)).all()
    assert reader.traffic()[0] > 0
    assert [x.data_ptr() for x in model.parameters()] == pointers


def make_records(method: str, delay: float, nbytes: int) -> tuple[list[Published], list[Served]]:
    """Make versions every 4 s of which a rollout gets each after a delay, and another one the last alone."""
    published = [Published(method, n, 4.0 * n, 4.0 * n + 0.5, nbytes) for n in range(5)]
    served = [Served(method, 0, n, 4.0 * n + delay, 0.01, nbytes, 4, 10) for n in range(1, 5)]
    return published, [*served, Served(method, 1, 4, 16.0 + delay, 0.01, nbytes, 16, 40)]


def test_delays_count_until_a_newer_version_is_served() -> None:
    delays = find_delays(*make_records(WHOLE, 1.0, 100), warm_up=1)
    assert delays == {(0, 2): 1.0, (0, 3): 1.0, (0, 4): 1.0, (1, 2): 9.0, (1, 3): 5.0, (1, 4): 1.0}


def test_lag_is_measured_over_the_time() -> None:
    published, served = make_records(WHOLE, 1.0, 100)
    alone = [one for one in served if one.rollout == 0]
    assert measure_lag(published, alone, 1) == pytest.approx({0: 0.75, 1: 0.25})
    late = [one for one in served if one.rollout == 1]
    assert measure_lag(published, late, 1) == pytest.approx({2: 0.5, 3: 0.5})
    both = measure_lag(published, served, 1)
    assert both == pytest.approx({0: 0.375, 1: 0.125, 2: 0.25, 3: 0.25})
    (row,) = build_rows(published, served, 1)
    assert (row.stale, row.most, row.updates) == pytest.approx((0.625, 3, 4 / 6))
    assert (row.requests, row.step) == pytest.approx((7, 4))


def test_page_and_picture(tmp_path: Path) -> None:
    sizes = dict(zip(METHODS, (20_000, 500, 150, 100), strict=True))
    runs = [make_records(name, 0.001 * size, size) for name, size in sizes.items()]
    published, served = ([one for run in runs for one in run[part]] for part in (0, 1))
    rows = build_rows(published, served, 1)  # type: ignore[arg-type]
    assert [result.met for result in check_targets(rows)][3] is True
    assert [result.met for result in check_targets(rows[:1])] == [None] * 5
    text = report.format_page(rows, FACTS)
    assert text.startswith("Over links of 100 Mbit/s, a rollout has the weights of a step ")
    assert all(text.count(f"| {name} |") >= 3 for name in METHODS)
    assert report.format_page(rows[1:], FACTS).startswith("This run is partial.")
    plot.draw(tmp_path / "feed.png", published, served, 1, 3.1)  # type: ignore[arg-type]
    assert (tmp_path / "feed.png").stat().st_size > 10_000


def test_names_can_be_chosen_before_torch_is_imported() -> None:
    assert tuple(METHODS) == NAMES


def test_settings_and_start_are_those_of_all_processes(tmp_path: Path) -> None:
    assert Settings.unpack(QUICK.pack()) == QUICK
    plan = replace(QUICK.plan, width=32, blocks=1, heads=2, window=32, batch=2, pretraining=2, prompts=1)
    settings = replace(QUICK, plan=plan, settled=2)
    prepare_start(settings, lambda name: None, tmp_path)
    runs = [load_start(settings, tmp_path).go_on(settings) for _ in range(2)]
    before = runs[0].cast()
    rewards = [run.step() for run in runs]
    assert rewards[0] == rewards[1]
    states = [run.cast() for run in runs]
    assert all((x.view(np.int16) == states[1][name].view(np.int16)).all() for name, x in states[0].items())
    assert any((x.view(np.int16) != before[name].view(np.int16)).any() for name, x in states[0].items())


@pytest.mark.sweep
@pytest.mark.skipif(bool(find_missing_tools()), reason=find_missing_tools())
def test_a_run_over_emulated_hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("s3fs", "localbucket"):
        pytest.importorskip(name, reason="the store of a run is an S3 server")
    from benchmarks.feed.run import run_method

    settings = replace(QUICK, steps=2, warm_up=0, interval=0.1)
    prepare_start(settings, lambda name: None)
    published, served = run_method(READ, settings)
    assert [one.version for one in published] == [0, 1, 2]
    assert {one.rollout for one in served if one.version == 2} == {0, 1}
    assert all(one.bytes for one in served)
    (row,) = build_rows(published, served, 0)
    assert 0 < row.median <= row.worst
