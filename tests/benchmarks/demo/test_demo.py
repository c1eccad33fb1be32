"""Demo: gradients, data split, training, report, and runs from end to end."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="the demo needs the extra [bench]")
pytest.importorskip("matplotlib", reason="the demo needs the extra [bench]")
pytest.importorskip("rich", reason="the demo needs the extra [bench]")

from rich.console import Console

import collectives as co
import wirecodec as wc
from benchmarks.demo import data, exchange, model, plot, report
from benchmarks.demo.__main__ import parse
from benchmarks.demo.choices import DEFAULT, choose, choose_budget, choose_recipe
from benchmarks.demo.train import Run, Settings, apply_momentum, compute_digest, train
from tests.mpi_processes import rank_environment, require_mpirun

ROOT = Path(__file__).resolve().parents[3]


def test_gradients_are_finite_differences() -> None:
    """Central differences in float64, at the steepest elements and at random ones of every parameter."""
    rng = np.random.default_rng(3)
    # Biases differ from 0, because relu is not differentiable at 0 for an empty background.
    params: model.Params = {
        name: value + 0.01 * rng.standard_normal(value.shape) for name, value in model.initialise(5).items()
    }
    images, labels = rng.random((6, 8, 8)), rng.integers(0, model.CLASSES, 6)
    _, grads = model.compute_gradients(params, images, labels)
    assert grads.keys() == params.keys()
    step = 1e-6
    for name, grad in grads.items():
        assert grad.shape == params[name].shape
        steepest = np.argsort(np.abs(grad).reshape(-1))[-4:]
        for at in {*steepest.tolist(), *rng.integers(0, grad.size, 4).tolist()}:
            losses = []
            for sign in (1, -1):
                moved = params[name].copy()
                moved.reshape(-1)[at] += sign * step
                losses.append(model.compute_gradients({**params, name: moved}, images, labels)[0])
            difference = (losses[0] - losses[1]) / (2 * step)
            assert grad.reshape(-1)[at] == pytest.approx(difference, rel=1e-5, abs=1e-8), (name, at)


def test_initial_weights_depend_on_the_seed_only() -> None:
    assert (
        compute_digest(model.initialise(1))
        == compute_digest(model.initialise(1))
        != compute_digest(model.initialise(2))
    )
    params = model.initialise(0)
    assert {value.dtype for value in params.values()} == {np.dtype(np.float32)}
    assert 50_000 <= sum(value.size for value in params.values()) <= 300_000


def test_split_is_fixed_and_disjoint() -> None:
    training, test = data.load()
    again, _ = data.load()
    assert np.array_equal(training.images, again.images)
    assert np.array_equal(training.labels, again.labels)
    assert (len(training), len(test)) == (1300, 497)
    assert {image.tobytes() for image in training.images}.isdisjoint(image.tobytes() for image in test.images)
    assert set(test.labels.tolist()) == set(range(model.CLASSES))
    assert (float(np.min(training.images)), float(np.max(training.images))) == (0, 1)


def test_shards_are_disjoint_and_complete() -> None:
    rows = data.Digits(np.arange(10 * 64, dtype=np.float32).reshape(10, 8, 8), np.arange(10))
    shards = [data.shard(rows, rank, 3) for rank in range(3)]
    assert sorted(label for shard in shards for label in shard.labels.tolist()) == list(range(10))


def test_batches_depend_on_seed_and_rank() -> None:
    rows = data.Digits(np.zeros((10, 8, 8), np.float32), np.arange(10))

    def labels(**given: int) -> list[list[int]]:
        return [batch.labels.tolist() for batch in islice(data.generate_batches(rows, 3, **given), 9)]

    assert labels(seed=1, rank=0) == labels(seed=1, rank=0)
    assert labels(seed=1, rank=0) != labels(seed=1, rank=1)
    assert labels(seed=1, rank=0) != labels(seed=2, rank=0)
    for epoch in range(3):
        seen = [label for batch in labels(seed=1, rank=0)[3 * epoch : 3 * epoch + 3] for label in batch]
        assert len(set(seen)) == 9
    with pytest.raises(ValueError, match="size is 11; it must be 1 to 10"):
        next(data.generate_batches(rows, 11, seed=0, rank=0))


def test_learns_in_a_few_steps() -> None:
    training, test = data.load()
    params = model.initialise(0)
    velocity = {name: np.zeros_like(value) for name, value in params.items()}
    before, _ = model.evaluate(params, test.images, test.labels)
    for batch in islice(data.generate_batches(training, 64, seed=0, rank=0), 40):
        _, grads = model.compute_gradients(params, batch.images, batch.labels)
        params, velocity = apply_momentum(params, velocity, grads, 0.05, 0.9)
    loss, accuracy = model.evaluate(params, test.images, test.labels)
    assert loss < before / 4
    assert accuracy > 0.85


@pytest.mark.sampled(1)
@pytest.mark.mpi(1, 2, 3)
def test_both_exchanges_learn_and_ranks_agree(mpi_ranks: int) -> None:
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    exchange.warm_up(MPI.COMM_SELF, model.initialise(0))
    settings = Settings(steps=40, batch=48)
    digits = data.load()
    dense = train(comm, exchange.Dense(comm), settings, digits)
    compressed = train(comm, exchange.Compressed(comm, seed=0), settings, digits)
    for run in (dense, compressed):
        assert len(run.digests) == mpi_ranks
        assert run.same_weights
        assert run.losses[-5:].mean() < run.losses[0] / 2
        assert (np.diff(run.sent) > 0).all() or mpi_ranks == 1
    elements = sum(value.size for value in model.initialise(0).values())
    assert dense.sent[-1] == pytest.approx(40 * 2 * (mpi_ranks - 1) / mpi_ranks * 4 * elements)
    assert compressed.sent[-1] <= dense.sent[-1] / 30


def _run(sent: float, accuracy: float, digests: tuple[str, ...]) -> Run:
    steps = np.arange(1.0, 31.0)
    return Run(np.exp(-steps / 5), sent * steps, 0.1, accuracy, 1.0, 0.5, digests)


@pytest.mark.parametrize(
    ("dense", "compressed", "title"),
    [
        (_run(1e6, 0.98, ("a", "a")), _run(1e4, 0.975, ("b", "b")), "As accurate with 1/100 of the bytes"),
        (
            _run(1e6, 0.98, ("a",) * 2),
            _run(5e5, 0.9, ("b",) * 2),
            "1/2 of the bytes, but 8.0 points less accurate",
        ),
        (
            _run(0, 0.98, ("a",)),
            _run(0, 0.98, ("b",)),
            "One rank sends nothing: effect of compression on the loss",
        ),
    ],
)
def test_headline_and_picture(dense: Run, compressed: Run, title: str, tmp_path: Path) -> None:
    assert plot.write_headline(dense, compressed) == title
    plot.draw(tmp_path / "picture.png", dense, compressed, 1000)
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_smoothing_keeps_length_constants_and_both_ends() -> None:
    assert plot.smooth_losses(np.full(40, 0.5)) == pytest.approx(np.full(40, 0.5))
    losses = np.array([8.0, 1.0, 1.0, 4.0, 1.0])
    assert plot.smooth_losses(losses, 3) == pytest.approx([8, 2, 4 ** (1 / 3), 4 ** (1 / 3), 2])


def test_different_weights_are_reported() -> None:
    assert "same weights" in report.describe_weights(_run(1, 1, ("a", "a")))
    assert "DIFFERENT" in report.describe_weights(_run(1, 1, ("a", "b")))


def _demo(prefix: list[str], folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*prefix, sys.executable, "-m", "benchmarks.demo", *words],
        cwd=folder,
        env=rank_environment(folder) | {"PYTHONPATH": str(ROOT), "TERM": "dumb", "COLUMNS": "100"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


RECIPES = tuple(name for name in wc.RECIPES if name != "sparseloco")
TENSORS = model.initialise(0)


@pytest.mark.sampled(0)
@pytest.mark.parametrize("recipe", RECIPES)
def test_every_recipe_exchanges_gradients(recipe: str) -> None:
    """Both ranks get the same bits, and fewer bytes leave a rank than a dense all-reduce sends."""
    choice = choose(recipe, None)

    def run(comm: Any) -> tuple[bytes, float]:
        rng = np.random.default_rng(comm.rank)
        compressed = exchange.Compressed(comm, seed=0, choice=choice)
        for _ in range(2):
            before = compressed.bytes_sent
            grads = {name: rng.laplace(size=x.shape).astype(np.float32) for name, x in TENSORS.items()}
            mean = compressed.mean(grads)
        assert mean.keys() == TENSORS.keys()
        return b"".join(x.tobytes() for x in mean.values()), compressed.bytes_sent - before

    (bits, sent), (other, _) = co.simulate(2, run)
    assert bits == other
    dense = sum(x.nbytes for x in TENSORS.values())
    assert sent < (1.02 if recipe in ("clt-k", "dgc") else 0.8) * dense  # they warm up


def test_a_budget_takes_its_bits() -> None:
    choice = choose(None, 0.25)
    grads = {name: np.random.default_rng(1).laplace(size=x.shape).astype("f4") for name, x in TENSORS.items()}
    compressor = choice.build(0)
    assert isinstance(compressor, wc.Compressor)
    bits = 8 * len(compressor.compress(grads)) / sum(x.size for x in TENSORS.values())
    assert 0.22 <= bits <= 0.26


def test_choices_have_their_settings(capsys: pytest.CaptureFixture[str]) -> None:
    assert choose(None, None) is DEFAULT
    assert (choose("dgc", None).momentum, choose("sidco", None).momentum) == (0.0, None)
    compressor = choose("dgc", None).build(0)
    assert isinstance(compressor, wc.Compressor)
    assert compressor.schedule == wc.WarmUp(40, start=0.25)  # four epochs of ten steps
    for words, says in (
        (["--recipe", "dcg"], "unknown recipe 'dcg'; did you mean 'dgc'"),
        (["--recipe", "sparseloco"], "co.LocalUpdates"),
        (["--budget", "0"], "bits"),
        (["--budget", "1", "--recipe", "dgc"], "not allowed with"),
    ):
        with pytest.raises(SystemExit):
            parse(words)
        assert says in " ".join(capsys.readouterr().err.split())


def test_names_are_in_the_table_and_the_picture(tmp_path: Path) -> None:
    runs = _run(1e6, 0.98, ("a", "a")), _run(3e5, 0.97, ("b", "b"))
    table = report.build_table(*runs, 1000, choose_budget(0.25))
    assert list(table.columns[0].cells) == ["dense", "budget 0.25"]
    assert "budget 0.25: budget(0.25) | rice" in str(table.title)
    assert list(table.columns[4].cells) == ["1×", "3.3×"]
    assert str(report.build_table(*runs, 1000).title) == report.describe_run(runs[0], 1000)
    plot.draw(tmp_path / "picture.png", *runs, 1000, choose_budget(0.25))


def test_the_table_fits_a_terminal_of_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    runs = _run(1e9, 0.98, ("a", "a")), _run(3e8, 1.0, ("b", "b"))
    longest = max(wc.RECIPES, key=len)
    slow, slower = (replace(run, seconds=1234.5) for run in runs)
    table = report.build_table(slow, slower, 1000, choose_recipe(longest))
    Console(width=80).print(table)
    shown = capsys.readouterr().out
    assert f"│ {longest} │" in shown
    assert "1234.5 s" in shown
    assert "…" not in shown


@pytest.mark.sweep
@pytest.mark.parametrize("words", [[], ["--budget", "0.25"], ["--recipe", "clt-k"]])
def test_end_to_end_on_two_ranks(words: list[str], tmp_path: Path) -> None:
    prefix = [*require_mpirun(), "-n", "2"]
    done = _demo(prefix, tmp_path, "--steps", "12", "--json", "numbers.json", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    for expected in (
        "accuracy",
        "picture: ",
        "dense",
        " ".join(words).replace("--budget ", "budget ").replace("--recipe ", "") or "compressed",
        "2 ranks have the same",
    ):
        assert expected in done.stdout, done.stdout
    assert str(tmp_path / "demo.png") in done.stdout
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
    numbers = json.loads((tmp_path / "numbers.json").read_text())
    assert numbers["ranks"] == 2
    assert numbers["ratio"] > {"--budget": 50, "--recipe": 0.9}.get(" ".join(words[:1]), 30)
    for run in numbers["runs"].values():
        assert run["same_weights"]
        assert len(run["losses"]) == len(run["sent"]) == 12


def test_alone_without_mpirun(tmp_path: Path) -> None:
    require_mpirun()  # skips for the same reasons
    done = _demo([], tmp_path, "--steps", "3", "--output", "alone.png")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 rank," in done.stdout
    assert (tmp_path / "alone.png").exists()


def test_wrong_arguments_are_reported_once(tmp_path: Path) -> None:
    done = _demo([*require_mpirun(), "-n", "2"], tmp_path, "--output", "nowhere/demo.png")
    assert done.returncode != 0
    assert (done.stdout + done.stderr).count("nowhere does not exist") == 1
