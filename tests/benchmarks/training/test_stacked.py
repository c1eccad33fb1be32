"""Stacks of runs: the same results as one run at a time, for dense gradients and local updates."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the training benchmark needs torch")
pytest.importorskip("rich", reason="benchmarks need the extra [bench]")

import torch

from benchmarks.training.plan import Plan
from benchmarks.training.stacked.coders import Coders
from benchmarks.training.stacked.run import can_stack
from benchmarks.training.stacked.train import train_stack
from benchmarks.training.systems.local import LocalUpdates, OuterOptimizer
from benchmarks.training.systems.registry import SYSTEMS
from benchmarks.training.systems.sparseloco import SparseLoCoExchange, quantise
from benchmarks.training.tasks import language, text_long
from benchmarks.training.tasks.registry import TASKS
from benchmarks.training.train import train

STEPS = 24
LOCAL = (
    "DiLoCo, every 30",
    "Streaming DiLoCo, every 30",
    "SparseLoCo, 14 bits per element",
    "local updates every 10, 0.0073 bits per step, half of the rest kept, mean of senders",
)
OF_RANKS = "the last, with the mean of ranks"


@pytest.fixture(autouse=True)
def small_model(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"LAYERS": 1, "WIDTH": 32, "INNER": 64}.items():
        monkeypatch.setattr(text_long, name, value)
    system = SYSTEMS[LOCAL[-1]]
    assert isinstance(system, LocalUpdates)
    monkeypatch.setitem(SYSTEMS, OF_RANKS, replace(system, name=OF_RANKS, by_senders=False))
    monkeypatch.setattr(language, "TEST_ROWS", 32)


@pytest.mark.parametrize("names", [("dense",), LOCAL], ids=["dense", "local"])
def test_a_stack_trains_as_single_runs_do(tmp_path: Path, names: tuple[str, ...]) -> None:
    task = TASKS["text-long"]
    plan = Plan(tmp_path, 1, 1, STEPS / task.steps)
    runs = [run for name in names for run in plan.tune(task, SYSTEMS[name])[:2]]
    if names == LOCAL:
        text = SYSTEMS[OF_RANKS].describe_fields()
        runs += [replace(run, system=OF_RANKS, system_text=text) for run in runs[-2:]]
    for stacked in train_stack(runs, Coders(0), "cpu"):
        alone = train(stacked.run)
        assert stacked.test == pytest.approx(alone.test, rel=1e-4), stacked.run.system
        assert stacked.bits == alone.bits
        assert stacked.losses == pytest.approx(alone.losses, rel=1e-3)


def test_stacks_take_no_cell_that_they_would_train_as_another() -> None:
    """A system of another kind would be saved with the results of dense training."""
    taken = [
        (task.name, name)
        for task in TASKS.values()
        for name, system in SYSTEMS.items()
        if can_stack(task, system)
    ]
    assert {task for task, _ in taken} == {"text-long"}
    assert {name for _, name in taken} >= {"dense", *LOCAL}
    assert not {"budget 0.25", "PowerSGD, rank 4", "fp16", "CLT-k 1 %, beta 1"} & {name for _, name in taken}


def test_movements_that_are_sent_dense_leave_equal_workers() -> None:
    system = LocalUpdates("", "", 4, outers=((0.7, 0.9), (1.0, 0.0)))
    start = {"w": torch.zeros(3)}
    workers = [{"w": torch.tensor(x)} for x in ([1.0, 2.0, 3.0], [3.0, 0.0, 1.0])]
    settings = TASKS["text-long"].grid[0]  # the outer rate 0.7 and momentum 0.9
    outer = OuterOptimizer(start, system, settings, 2, 100)
    assert outer.advance(3, workers) == 0
    assert outer.advance(4, workers) == 2 * 12
    moved = torch.tensor([2.0, 1.0, 2.0])
    for one in workers:
        torch.testing.assert_close(one["w"], 0.7 * (moved + 0.9 * moved))


def test_bins_are_decoded_as_their_means() -> None:
    values = torch.tensor([[-9.0, -8.0, 0.1, 9.0, 8.0, -0.1]])
    found = quantise(values)  # the width is 1.5 standard deviations, about 11: all but two are in one bin
    assert found.unique().numel() <= 4
    torch.testing.assert_close(found.mean(), values.mean())


def test_sparseloco_sends_64_of_each_block_and_keeps_the_rest() -> None:
    x = torch.randn(128, 64, generator=torch.Generator().manual_seed(0))
    exchange = SparseLoCoExchange(0.95, by_senders=True)
    mean, sent = exchange.mean([{"w": x}])
    assert sent == 2 * 64 * 14 // 8
    largest = x.abs().view(2, -1).topk(64, dim=1).indices
    assert set(mean["w"].view(2, -1)[0].nonzero().flatten().tolist()) <= set(largest[0].tolist())
    again, _ = exchange.mean([{"w": torch.zeros_like(x)}])
    left = 0.95 * (x - mean["w"])
    assert int((again["w"] != 0).sum()) <= 2 * 64
    assert float((left - again["w"]).norm()) < float(left.norm())
