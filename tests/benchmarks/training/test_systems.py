"""Training benchmark with torch: exchanges against torch's own and against what they promise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="this benchmark needs torch")
pytest.importorskip("rich", reason="benchmarks need the extra [bench]")

import torch

import collectives as co
import wirecodec as wc
from benchmarks.training.choices import CHOICES
from benchmarks.training.runs import Run
from benchmarks.training.systems.codec import Codec
from benchmarks.training.systems.local import LocalUpdates, OuterOptimizer
from benchmarks.training.systems.plain import Alone, Cast, Dense, PlainTopK
from benchmarks.training.systems.powersgd import PowerSGD
from benchmarks.training.systems.published import GRADIENT_RECIPES
from benchmarks.training.systems.registry import SYSTEMS
from benchmarks.training.targets import REFERENCES, TARGETS
from benchmarks.training.tasks.registry import TASKS
from benchmarks.training.tasks.task import Settings
from benchmarks.training.train import train
from tests.benchmarks.common.process_group import open_group

SETTINGS = Settings(0.1, 0.9)


def draw_gradients(workers: int, seed: int = 0) -> list[dict[str, Any]]:
    generator = torch.Generator().manual_seed(seed)
    shapes = {"weight": (40, 30), "bias": (30,), **{f"layer.{i}": (12, 20 + i) for i in range(10)}}
    return [
        {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
        for _ in range(workers)
    ]


def average(gradients: list[dict[str, Any]]) -> dict[str, Any]:
    return {name: sum(one[name] for one in gradients) / len(gradients) for name in gradients[0]}


@pytest.mark.parametrize(
    ("system", "bits"),
    [
        (Dense("dense", ""), 32),
        (Cast("half", ""), 16),
        (Codec("all", "", "all | raw-index | raw"), None),
        (Codec("all", "", "topk(1.0) | raw-index | raw", whole=True), None),
        (PowerSGD("full rank", "", rank=30, min_rate=0.1, start=0), None),
    ],
)
def test_what_loses_nothing_returns_the_mean(system: Any, bits: int | None) -> None:
    gradients = draw_gradients(4)
    mean, nbytes = system.open(4, SETTINGS, 10).mean(gradients)
    for name, x in average(gradients).items():
        torch.testing.assert_close(
            mean[name], x, rtol=1e-2 if bits == 16 else 1e-4, atol=3e-3 if bits == 16 else 1e-5
        )
    if bits:
        assert 8 * nbytes == bits * sum(x.numel() for one in gradients for x in one.values())


@pytest.mark.parametrize("system", [PlainTopK("k", "", ratio=0.1), Codec("k", "", "topk(0.1) | rice | raw")])
def test_what_is_not_sent_comes_later(system: Any) -> None:
    gradients = draw_gradients(2)
    exchange = system.open(2, SETTINGS, 10)
    zeros = [{name: torch.zeros_like(x) for name, x in one.items()} for one in gradients]
    total = exchange.mean(gradients)[0]
    for _ in range(20):
        more, _ = exchange.mean(zeros)
        total = {name: x + more[name] for name, x in total.items()}
    for name, x in average(gradients).items():
        torch.testing.assert_close(total[name], x)


def test_powersgd_is_that_of_torch(tmp_path: Path) -> None:
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as hook

    with open_group(tmp_path):
        torch.manual_seed(0)
        model = torch.nn.Linear(40, 30)
        ddp = torch.nn.parallel.DistributedDataParallel(model)
        state = hook.PowerSGDState(
            None, matrix_approximation_rank=4, start_powerSGD_iter=2, min_compression_rate=2
        )
        ddp.register_comm_hook(state, hook.powerSGD_hook)
        ours = PowerSGD("ours", "").open(1, SETTINGS, 10)
        for _ in range(6):
            x = torch.randn(8, 40)
            gradients = torch.autograd.grad(model(x).square().mean(), list(model.parameters()))
            model.zero_grad()
            ddp(x).square().mean().backward()
            mean, nbytes = ours.mean([{"weight": gradients[0], "bias": gradients[1]}])
            torch.testing.assert_close(mean["weight"], model.weight.grad, rtol=1e-3, atol=1e-6)
            torch.testing.assert_close(mean["bias"], model.bias.grad)
        assert nbytes == 4 * (4 * (40 + 30) + 30)


def test_local_updates_without_momentum_average_parameters() -> None:
    start = {"w": torch.zeros(5)}
    outer = OuterOptimizer(start, LocalUpdates("", "", 1, outer=(1.0, 0.0)), SETTINGS, 2, 10)
    workers = [{"w": torch.full((5,), 1.0)}, {"w": torch.full((5,), 3.0)}]
    outer.advance(1, workers)
    for one in workers:
        torch.testing.assert_close(one["w"], torch.full((5,), 2.0))


def test_details_name_both_optimizers_of_local_updates() -> None:
    """In text-long, beta1 0.8 of the grid selects the second outer optimizer. The inner beta1 stays 0.9."""
    point = Settings(0.001, 0.8, 0.99)
    diloco = LocalUpdates("", "", outers=((0.7, 0.9), (0.5, 0.6)))
    assert (
        diloco.describe_settings(point)
        == "rate 0.001, momentum 0.9, beta2 0.99; outer rate 0.5, momentum 0.6"
    )
    assert Dense("", "").describe_settings(point) == "rate 0.001, momentum 0.8, beta2 0.99"


@pytest.mark.parametrize(
    "system",
    [
        LocalUpdates("", "", 1, outer=(0.9, 0.5)),
        LocalUpdates("", "", 4, outer=(0.9, 0.5), fragments=3, delay=2, alpha=0.25),
        LocalUpdates(
            "", "", 2, "topk(0.1) | rice | raw", decay=1.0, outer=(0.9, 0.5), keep=0.5, by_senders=True
        ),
    ],
    ids=["whole", "fragments", "few bits"],
)
def test_the_outer_optimizer_is_that_of_the_library(system: LocalUpdates) -> None:
    """Steps with random movements end with the parameters of collectives.LocalUpdates."""
    moves = [draw_gradients(2, seed) for seed in range(11)]

    def run(comm: Any) -> dict[str, Any]:
        mine = {name: x.numpy().copy() for name, x in draw_gradients(1, seed=9)[0].items()}
        compressor = wc.Compressor(system.scheme or "all | raw-index | raw", scope="group")
        local = co.LocalUpdates(
            None,
            mine,
            compressor,
            comm,
            system.every_steps,
            0.9,
            0.5,
            nesterov=True,
            fragments=system.fragments,
            delay=system.delay,
            alpha=system.alpha,
            keep=system.keep,
            divide="senders" if system.by_senders else "ranks",
        )
        for move in moves:
            for name, x in mine.items():
                np.subtract(x, move[comm.rank][name].numpy(), out=x)
            local.step()
        return mine

    found = co.simulate(2, run)
    workers = [draw_gradients(1, seed=9)[0] for _ in range(2)]
    outer = OuterOptimizer(workers[0], system, SETTINGS, 2, 1000)
    for step, move in enumerate(moves, 1):
        for parameters, moved in zip(workers, move, strict=True):
            for name, x in parameters.items():
                x.sub_(moved[name])
        outer.advance(step, workers)
    for parameters, other in zip(workers, found, strict=True):
        for name, x in parameters.items():
            torch.testing.assert_close(torch.from_numpy(other[name]), x)


def test_local_updates_have_the_settings_of_the_grid_unless_published() -> None:
    ours, published = (
        SYSTEMS["local updates every 8, 0.1 bits per step"],
        SYSTEMS["SparseLoCo, but 2-bit QSGD"],
    )
    assert ours.optimizer_settings(SETTINGS) == SETTINGS
    assert published.optimizer_settings(Settings(0.1, 0.0, 0.99)) == Settings(0.1, 0.9, 0.999)


@pytest.mark.parametrize("task", ["images", "recommendations"])
def test_local_updates_train_a_model_per_worker(task: str) -> None:
    """With SGD, the mean of the parameters after one step is a step along the mean gradient."""
    settings, found = Settings(0.1, 0.0), []
    for system in (Dense("dense", ""), LocalUpdates("local", "", every_steps=1, outer=(1.0, 0.0))):
        run = Run(task, system.name, settings, seed=0, steps=2, system_text="", data="")
        found.append(train(run, system=system).losses)
    assert found[1] == pytest.approx(found[0], rel=1e-4)


def test_one_worker_alone_is_dense_with_one_worker() -> None:
    cases = ((Dense("dense", ""), 1), (Alone("alone", ""), 4))
    found = [
        train(Run("images", system.name, SETTINGS, 0, 2, "", "", workers), system=system)
        for system, workers in cases
    ]
    assert found[0].losses == found[1].losses
    assert found[0].validation == found[1].validation
    assert found[1].bits == 0


def test_every_recipe_is_a_system() -> None:
    assert {"SparseLoCo, but 2-bit QSGD", "CLT-k 1 %, beta 1", *GRADIENT_RECIPES} <= SYSTEMS.keys()
    assert set(wc.RECIPES) == {*GRADIENT_RECIPES, "sparseloco", "clt-k"}
    assert next(iter(SYSTEMS)) == "dense"


def test_tasks_choices_and_targets_name_systems() -> None:
    assert {name for task in TASKS.values() for name in task.systems} == SYSTEMS.keys()
    for task in TASKS.values():
        assert len(set(task.systems)) == len(task.systems)
    for choice in CHOICES:
        assert all(map(TASKS[choice.task].includes, (choice.system, choice.instead)))
    targeted = {name for target in TARGETS for name in target.systems} | {one.system for one in REFERENCES}
    assert targeted <= SYSTEMS.keys()
    assert {name for target in TARGETS for name in target.tasks} <= TASKS.keys()


def test_recipes_average() -> None:
    gradients = draw_gradients(2)
    for name in ("dgc", "qsgd", "fft"):
        mean, nbytes = SYSTEMS[name].open(2, SETTINGS, 100).mean(gradients)
        assert {key: x.shape for key, x in mean.items()} == {key: x.shape for key, x in gradients[0].items()}
        assert nbytes > 0
