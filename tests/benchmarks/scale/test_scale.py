"""Predicted steps: bytes of each system against simulated runs, PowerSGD, maps, page and picture."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="benchmarks need the extra [bench]")
pytest.importorskip("rich", reason="benchmarks need the extra [bench]")

import collectives as co
from benchmarks.scale import plot, report
from benchmarks.scale.check import Run, Series, compare
from benchmarks.scale.kept import Kept, load, save
from benchmarks.scale.models import MODELS, Subject
from benchmarks.scale.powersgd import PowerSGD
from benchmarks.scale.prediction import Site, compute_cost, predict_cells
from benchmarks.scale.rates import Rates, combine, measure_rates, read_rates
from benchmarks.scale.steps import ACCELERATED, LEARNING_RATE, Trainee, build_step
from benchmarks.scale.systems import LOCAL, SYSTEMS, Options, Worker, build_exchange
from collectives.advise.cost_model import Network, Step

SHAPES = ((3000, 60), (50,), (60, 4000))
SMALL = Subject("small", SHAPES, SHAPES)
OPTIONS = Options("topk(0.02) | rice | qsgd(bits=4)", rank=2, every=5)


@pytest.fixture(scope="module")
def rates() -> Rates:
    workers = Worker(SMALL.measured, 0), Worker(SMALL.measured, 1)
    return measure_rates(SMALL, workers, OPTIONS, budget=1e-3)


def test_models_have_the_sizes_that_their_names_say() -> None:
    assert MODELS["ResNet-50"].elements == 25_557_032
    assert MODELS["transformer"].elements == pytest.approx(1e9, rel=0.02)
    assert MODELS["transformer"].scale == pytest.approx(18, rel=0.05)


@pytest.mark.parametrize("name", SYSTEMS)
def test_predicted_bytes_are_those_of_a_simulated_run(name: str, rates: Rates) -> None:
    ranks = 4

    def run(comm: Any) -> float:
        channel = co.Channel(comm)
        call, steps = build_exchange(name, Worker(SMALL.measured, seed=comm.rank), channel, OPTIONS)
        call()
        before = channel.bytes_sent
        call()
        return (channel.bytes_sent - before) / steps

    sent = max(co.simulate(ranks, run))
    predicted = compute_cost(name, rates, Network(ranks, 1e6)).nbytes
    if name == "CLT-k":  # the pipeline of the chain is time, not bytes
        predicted -= (ranks - 2) * min(rates.leader.index_bytes or 0, 4096)
    assert predicted == pytest.approx(sent, rel=0.06)


def test_rates_are_positive_and_survive_json(rates: Rates) -> None:
    found = dataclasses.asdict(rates)
    assert read_rates(json.dumps(found)) == rates
    assert min(rates.gradient.add, rates.gradient.finish, rates.half.cast, rates.factors.encode) > 0
    assert min(rates.stages.encode, rates.leader.nbytes, rates.leader.index_bytes or 0) > 0
    factors = dataclasses.replace(rates.factors, encode=2 * rates.factors.encode)
    slower = dataclasses.replace(rates, factors=factors)
    assert combine([slower, rates], min) == rates


def test_powersgd_of_ranks_loses_nothing_and_finds_a_matrix_of_low_rank() -> None:
    """Means plus the mean error are the mean gradients; a rank-2 matrix is found exactly after two steps."""
    shapes = {"a": (40, 30), "b": (7,)}

    def run(comm: Any) -> None:
        rng = np.random.default_rng(3)
        low = (rng.normal(size=(40, 2)) @ rng.normal(size=(2, 30))).astype("f4")
        gradients = {"a": low * np.float32(1 + comm.rank), "b": np.full(7, comm.rank, np.float32)}
        power, channel = PowerSGD(shapes, 2), co.Channel(comm)
        out = {name: np.empty(shape, np.float32) for name, shape in shapes.items()}

        def average(vector: Any) -> Any:
            blobs = co.allgather_bytes(channel, vector.tobytes())
            return np.mean([np.frombuffer(bytes(blob), np.float32) for blob in blobs], axis=0)

        total = np.zeros((40, 30), np.float32)
        for _ in range(3):
            power.step(gradients, average, out)
            total += out["a"]
        np.testing.assert_allclose(out["b"], 1)
        np.testing.assert_allclose(out["a"], 2 * low, atol=1e-3 * np.abs(low).max())
        np.testing.assert_allclose(total, 3 * 2 * low, atol=1e-2 * np.abs(low).max())

    co.simulate(3, run)


def test_map_page_and_picture(rates: Rates, tmp_path: Path) -> None:
    large = dataclasses.replace(rates.gradient, nbytes=10**9)
    slow = dataclasses.replace(rates, gradient=large)
    cells = predict_cells(slow, ranks=(4, 1024), bandwidths=(1e7, 1e14), latency=1e-4)
    assert [cell.winner == "dense" for cell in cells] == [False, False, True, True]
    assert LOCAL not in {cell.winner for cell in cells}
    assert cells[0].speed_up(LOCAL) > cells[0].speed_up(cells[0].winner) > 1
    within = predict_cells(slow, site=Site(), ranks=(8, 16, 1024), bandwidths=(1e7, 1e14), latency=1e-4)
    assert [cell.network.ranks for cell in within] == [16, 1024, 16, 1024]
    assert within[0].seconds["dense"] == pytest.approx(cells[0].seconds["dense"] * 2 / 3, rel=0.01)
    busy = predict_cells(slow, ranks=(4,), bandwidths=(1e7,), step=Step(compute=1e6, overlap=True))[0]
    assert busy.speed_up("allgather") == pytest.approx(1, abs=1e-4)  # computing hides nearly everything
    assert busy.seconds[LOCAL] > 1e6
    network = Network(4, 1e8, 1e-4, ranks_per_core=2)
    run = Run("ResNet-50", "1 Gbit", network, "dense", 10.0)
    step = Run(ACCELERATED, "1 Gbit", network, "dense, overlap", 10.0, computing=30.0)
    checked = [compare(run, slow), compare(step, slow)]
    measured = Kept("a machine", "NumPy", 2, "1", "", {"ResNet-50": slow}, [Series(slow, [run, step])])
    save(measured, tmp_path / "scale" / "measurements.json")
    assert load(tmp_path / "scale" / "measurements.json") == measured
    assert checked[0].predicted < checked[1].predicted - 30 * 0.3 < checked[0].predicted + 30
    assert checked[0].predicted > checked[0].sending > 1.5 * 10**9 / 1e8
    assert report.check_targets(checked)[0].met is False
    page = report.format_page(
        {"ResNet-50": cells},
        checked,
        options=OPTIONS,
        latency=1e-4,
        library="NumPy",
        cores=2,
        load="1",
    )
    assert f"{cells[0].winner} {plot.format_factor(cells[0].speed_up(cells[0].winner))}×" in page
    assert f"{checked[0].error:+.1%}" in page
    assert [one.error for one in report.list_runs(checked)] == [one.error for one in checked]
    listed = report.list_cells({"ResNet-50": cells}, {"ResNet-50": within})
    assert len(listed) == sum(len(cell.seconds) for cell in (*cells, *within))
    assert [one.sites for one in listed[:: len(cells[0].seconds)]] == [False] * len(cells) + [True] * len(
        within
    )
    plot.draw(tmp_path, {"ResNet-50": cells}, {"ResNet-50": within}, OPTIONS.every)
    for name in ("scale.png", "scale_sites.png", "scale_local.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


def test_steps_train_a_model_on_the_mean_gradient() -> None:
    """Ranks that take a step with exact sums move their parameters by the mean of their own gradients."""
    torch = pytest.importorskip("torch")

    def run(comm: Any) -> Any:
        trainee = Trainee(ACCELERATED, comm.rank)
        build_step("dense", trainee, comm, co.Channel(comm), OPTIONS)()
        weights = trainee._problem.model.weights
        return trainee.flat.copy(), torch.cat([weight.detach().reshape(-1) for weight in weights]).numpy()

    (one, moved), (other, _) = co.simulate(2, run)
    np.testing.assert_allclose(moved, -LEARNING_RATE * (one + other) / 2, rtol=1e-5, atol=1e-9)
