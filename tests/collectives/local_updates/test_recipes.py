"""Recipes of local updates against dense NumPy references, written from the papers' algorithms."""

from __future__ import annotations

import csv
import re
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

import collectives as co
import wirecodec as wc
from collectives.communicator import Communicator
from collectives.local_updates.fragments import divide_parameters
from collectives.local_updates.recipes import E3M0
from tests.oracles import Array

ROOT = Path(__file__).parents[3]
WORKERS = 2
SIZES = {f"blocks.{number}": 300 + 61 * number for number in range(7)} | {"embedding": 60_000}
Tensors = dict[str, Array]


class Descent:
    """Inner optimizer: gradient descent with momentum on the worker's own quadratic."""

    def __init__(self, parameters: Tensors, worker: int) -> None:
        rng = np.random.default_rng(worker)
        self.parameters = parameters
        self.targets = {name: rng.laplace(size=x.size) for name, x in parameters.items()}
        self.velocities = {name: np.zeros(x.size) for name, x in parameters.items()}

    def step(self) -> None:
        for name, x in self.parameters.items():
            self.velocities[name] = 0.5 * self.velocities[name] + 0.02 * (x - self.targets[name])
            x[:] = x - 0.1 * self.velocities[name]


def zeros() -> Tensors:
    return {name: np.zeros(size) for name, size in SIZES.items()}


def reference(
    settings: dict[str, Any],
    quantise: Callable[[Tensors], Tensors],
    decay: float,
    steps: int,
    before: float = 1.0,
) -> list[Tensors]:
    """Train without the library; return each worker's parameters.

    Args:
        settings: of the recipe.
        quantise: what is received of movements.
        decay: of the residual; 0 if there is none.
        steps: inner steps.
        before: factor of a movement that enters the residual.
    """
    every, rate, momentum = settings["every"], settings["rate"], settings.get("momentum", 0.0)
    delay, alpha, keep = settings.get("delay", 0), settings.get("alpha", 0.0), settings.get("keep", 0.0)
    by_senders = settings.get("divide") == "senders"
    fragments = divide_parameters(SIZES, settings.get("fragments", 1))
    workers = [Descent(zeros(), worker) for worker in range(WORKERS)]
    residuals = [zeros() for _ in workers]
    last, velocities = zeros(), zeros()
    started: dict[int, Tensors] = {}
    for t in range(1, steps + 1):
        for one in workers:
            one.step()
        for number, names in enumerate(fragments):
            if t % every == number * every // len(fragments):
                sent = []
                for one, residual in zip(workers, residuals, strict=True):
                    start = {name: last[name] - keep * residual[name] for name in names}
                    moved = {name: before * (start[name] - one.parameters[name]) for name in names}
                    whole = {name: decay * residual[name] + moved[name] for name in names}
                    sent.append(quantise(whole))
                    residual.update({name: whole[name] - sent[-1][name] for name in names})
                started[t + delay] = {
                    name: average([x[name] for x in sent], by_senders=by_senders) for name in names
                }
        for name, mean in started.pop(t, {}).items():
            velocities[name] = momentum * velocities[name] + mean
            last[name] = last[name] - rate * (mean + momentum * velocities[name])  # Nesterov
            for one, residual in zip(workers, residuals, strict=True):
                own = one.parameters[name]
                own[:] = alpha * own + (1 - alpha) * (last[name] - keep * residual[name])
    return [one.parameters for one in workers]


def average(parts: list[Array], *, by_senders: bool) -> Array:
    """Return the mean over all workers, or of each element over those that sent it."""
    count = np.maximum(np.sum([x != 0 for x in parts], axis=0), 1) if by_senders else len(parts)
    return np.asarray(np.sum(parts, axis=0) / count)


def each(quantise: Callable[[Array], Array]) -> Callable[[Tensors], Tensors]:
    """Quantise tensor by tensor."""
    return lambda tensors: {name: quantise(x) for name, x in tensors.items()}


def received(x: Array, values: str) -> Array:
    """Return values after an encoder and a decoder of their own, without a selector."""
    found: Any = wc.decode(wc.encode(x, f"all | raw-index | {values}"))
    return np.asarray(found.to_dense())


def e3m0(x: Array) -> Array:
    """Round to zero or the nearest power of two; 15 codes end at the largest exponent of each sign."""
    x = x.astype(np.float32)
    fraction, exponent = np.frexp(np.abs(x))
    exponent = exponent - (fraction < 0.75)
    least = -((13 - exponent[x.argmax()] - exponent[x.argmin()]) // 2)
    rounded = np.sign(x) * np.ldexp(1.0, np.maximum(exponent, least))
    return np.asarray(np.where(np.abs(x) < 2.0 ** (least - 1), 0.0, rounded))


def top_of_chunks(x: Array) -> Array:
    """Keep the largest 64 of each 4096; their values as the codec returns them."""
    kept = np.zeros(x.size, bool)
    for first in range(0, x.size, 4096):
        part = np.abs(x[first : first + 4096])
        kept[first + np.argsort(-part, kind="stable")[: max(1, part.size // 64)]] = True
    sent = np.zeros(x.size)
    sent[kept] = received(x[kept], "error-bounded(0.15)")
    return sent


def bins(x: Array) -> Array:
    """Round to the mean of one of four bins, 1.5 standard deviations wide."""
    centred = x - x.mean()
    places = np.clip(np.rint(centred / (1.5 * centred.std(ddof=1))) + 2, 0, 3).astype(int)
    counts = np.maximum(np.bincount(places, minlength=4), 1)
    means = np.bincount(places, weights=x, minlength=4) / counts
    return np.asarray(means[places])


def of_the_whole(recipe: str) -> Callable[[Tensors], Tensors]:
    """Encode all tensors as one vector, with the budget of a recipe and without a residual."""

    def quantise(tensors: Tensors) -> Tensors:
        one = wc.Compressor(**co.LOCAL_RECIPES[recipe].compressor, feedback=None)
        found: Any = wc.decode_many(one.compress(tensors))
        return {name: x.to_dense() for name, x in found.items()}

    return quantise


QUANTISERS: dict[str, tuple[Callable[[Tensors], Tensors], float]] = {
    "diloco": (each(lambda x: x), 0.0),
    "streaming-diloco": (each(e3m0), 0.0),
    "sparseloco": (each(top_of_chunks), 0.95),
    "muloco": (each(lambda x: received(x, "error-bounded(0.3)")), 0.9),
    "budget": (of_the_whole("budget"), 1.0),
    "few-bits": (of_the_whole("few-bits"), 1.0),
}
"""{recipe: (what is received of movements, decay of the residual)}."""


@pytest.mark.parametrize("name", co.LOCAL_RECIPES)
def test_a_recipe_is_its_algorithm(name: str) -> None:
    settings = co.LOCAL_RECIPES[name].settings
    steps = 2 * settings["every"] + 7

    def train(comm: Communicator) -> Tensors:
        parameters = zeros()
        inner = Descent(parameters, comm.rank)
        local = co.LocalUpdates(inner, parameters, comm=comm, **co.local_recipe(name))
        for _ in range(steps):
            local.step()
        return parameters

    quantise, decay = QUANTISERS[name]
    expected = reference(dict(settings), quantise, decay, steps)
    for own, theirs in zip(co.simulate(WORKERS, train), expected, strict=True):
        for key in SIZES:
            np.testing.assert_allclose(own[key], theirs[key], rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize(("name", "most"), [("streaming-diloco", 0.1), ("muloco", 0.2)])
def test_quantised_recipes_stay_near_dense_training(name: str, most: float) -> None:
    settings = dict(co.LOCAL_RECIPES[name].settings)
    steps = 4 * settings["every"]
    quantise, decay = QUANTISERS[name]
    found, dense = (
        np.concatenate([*reference(settings, how, kept, steps)[0].values()])
        for how, kept in ((quantise, decay), (each(lambda x: x), 0.0))
    )
    assert 0 < np.linalg.norm(found - dense) < most * np.linalg.norm(dense)


def test_mulocos_rate_is_that_of_its_code() -> None:
    """The code multiplies a movement by 0.9 before the residual, and the mean by 0.9 again."""
    settings = dict(co.LOCAL_RECIPES["muloco"].settings)
    steps = 3 * settings["every"]
    theirs = reference(settings | {"rate": 0.9}, each(bins), 0.9, steps, before=0.9)
    ours = reference(settings, each(bins), 0.9, steps)
    for name in SIZES:
        np.testing.assert_allclose(ours[0][name], theirs[0][name], rtol=1e-9, atol=1e-12)


def test_e3m0_takes_four_bits_and_is_exact() -> None:
    """Any tensor of a sign, seven exponents and zero arrives unchanged; both ends need not occur."""
    rng = np.random.default_rng(0)
    for top in (-100, -20, 0, 100):
        for lowest, highest in ((-6, 0), (-3, 0), (-6, -2)):
            exponents = top + rng.integers(-6, 1, size=10_000)
            x = np.ldexp(rng.choice([-1, 0, 1], size=exponents.size), exponents)
            x = np.where(x < 0, -np.ldexp(1.0, np.clip(exponents, top + lowest, top + highest)), x)
            x = x.astype(np.float32)
            blob = wc.encode(x, E3M0)
            np.testing.assert_array_equal(wc.decode(blob).to_dense(), x)
            assert 4 < 8 * len(blob) / x.size < 4.1


def test_e3m0_rounds_as_the_papers_format() -> None:
    """Within seven exponents from the largest magnitude, an element has the nearest of E3M0's values."""
    x = np.random.default_rng(1).standard_t(3, size=10_000).astype(np.float32)
    top = np.round(np.log2(np.abs(x).max() / 1.5) + 0.5)
    grid = 2.0 ** np.arange(top - 6, top + 1)
    nearest = np.sign(x) * grid[np.abs(np.abs(x)[:, None] - grid).argmin(axis=1)]
    inside = np.abs(x) >= grid[0]
    assert 0.2 < inside.mean() < 1
    found = wc.decode(wc.encode(x, E3M0)).to_dense()
    np.testing.assert_array_equal(found[inside], nearest[inside])


def test_overrides_replace_settings() -> None:
    compressor = wc.Compressor("topk(0.1) | rice | raw")
    found = co.local_recipe("streaming-diloco", fragments=["a", "*"], every=10, compressor=compressor)
    assert found == {
        **{"every": 10, "rate": 0.4, "momentum": 0.9, "nesterov": True},
        **{"fragments": ["a", "*"], "delay": 1, "alpha": 0.5, "compressor": compressor},
    }
    assert co.local_recipe("diloco")["compressor"] is not co.local_recipe("diloco")["compressor"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mulloco", "unknown recipe 'mulloco'; did you mean 'muloco'"),
        ("dgc", r"wc\.recipe\('dgc'\)"),
        ("DisTrO", "the nearest is 'sparseloco': the block DCT"),
    ],
)
def test_unknown_names(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        co.local_recipe(name)


def test_muon_inside() -> None:
    """One exchange of MuLoCo: Muon for the matrices between layers, AdamW for the others."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if not hasattr(torch.optim, "Muon"):
        pytest.skip("this torch has no Muon")
    every = co.LOCAL_RECIPES["muloco"].settings["every"]

    def build(worker: int) -> tuple[Any, Callable[[], float]]:
        """Return the model, and a function that takes a step of both optimizers and returns the loss."""
        generator = torch.Generator().manual_seed(0)
        model = torch.nn.Sequential(
            torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 12), torch.nn.Linear(12, 3)
        )
        for p in model.parameters():
            p.data = torch.randn(p.shape, generator=generator) / 4
        hidden = [model[2].weight]
        others = [p for p in model.parameters() if p is not hidden[0]]
        optimizers = [
            torch.optim.Muon(hidden, lr=0.02, momentum=0.9, nesterov=False),
            torch.optim.AdamW(others, lr=0.01),
        ]
        inputs = torch.randn(64, 8, generator=torch.Generator().manual_seed(worker + 1))

        def step() -> float:
            loss = torch.nn.functional.cross_entropy(model(inputs), inputs[:, :3].argmax(1))
            model.zero_grad()
            loss.backward()
            for one in optimizers:
                one.step()
            return float(loss.detach())

        return model, step

    def values(model: Any) -> Tensors:
        return {name: p.detach().numpy().astype(np.float64) for name, p in model.named_parameters()}

    def train(comm: Communicator) -> tuple[Tensors, list[float]]:
        model, step = build(comm.rank)
        local = co.LocalUpdates(None, model.named_parameters(), comm=comm, **co.local_recipe("muloco"))
        losses: list[float] = []
        first: Tensors = {}
        for t in range(1, 3 * every + 1):
            losses.append(step())
            local.step()
            first = values(model) if t == every else first
        return first, losses

    start, moved = values(build(0)[0]), []
    for worker in range(WORKERS):
        model, step = build(worker)
        for _ in range(every):
            step()
        end = values(model)
        moved.append({name: (x - end[name]).astype(np.float32) for name, x in start.items()})
    for own, losses in co.simulate(WORKERS, train):
        for name, x in start.items():
            mean = np.mean([received(one[name], "error-bounded(0.3)") for one in moved], axis=0)
            expected = x - 0.81 * 1.8 * mean.reshape(x.shape)  # Nesterov momentum 0.8, from rest
            np.testing.assert_allclose(own[name], expected, rtol=1e-5, atol=1e-6)
        assert losses[-1] < 0.5 * losses[0]


def test_the_guide_has_the_recipes_and_their_measured_bits() -> None:
    guide = (ROOT / "docs/guides/local-updates-methods.md").read_text(encoding="utf-8")
    results = (ROOT / "benchmarks/results/movements.md").read_text(encoding="utf-8")
    table = results.partition("## Recipes of local updates")[2]
    rows = dict(re.findall(r"^\| `([\w-]+)` \| (.*) \|$", table, re.MULTILINE))
    settings, sources = [], []
    for name, one in co.LOCAL_RECIPES.items():
        every, _, bits, _ = rows[name].split(" | ")
        assert int(every) == one.settings["every"]
        arguments = ", ".join(f"{key}={value!r}" for key, value in one.settings.items()).replace("'", '"')
        settings.append(f"| `{name}` | {_describe(one)} | `{arguments}` | {bits} | {one.inner} |")
        sources.append(f"| `{name}` | {one.source} | {one.differs or '-'} |")
    for lines in (settings, sources):
        assert "\n".join(lines) in guide
    movement = results.partition("## Movement")[2]
    rows = dict(re.findall(r"^\| `?(?:all · raw-index · )?([^|`]+)`? \| (.*) \|$", movement, re.MULTILINE))
    for text, systems in (
        ("has all values of.*", ("offset-float(bits=4, mantissa=0)", "error-bounded(0.2)")),
        ("which left .* of the square.*", ("MuLoCo: 4 bins per row", "error-bounded(0.3)")),
    ):
        found = re.search(rf"{text}\n.*", guide)
        assert found is not None
        for system in systems:
            bits, *_, error = rows[system].split(" | ")
            assert f"left {error}" in found[0]
            assert f"in {bits} bits" in found[0] or bits == "2.000"


def test_the_guide_has_the_memory_of_recipes() -> None:
    """Bytes per parameter between two exchanges: the state, and a second array for the next residual."""
    guide = (ROOT / "docs/guides/local-updates-overlap.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[^|]*`) \| (\d+) \| \d+ \|$", guide, re.MULTILINE)
    shown = {name: int(size) for names, size in rows for name in re.findall(r"`([\w-]+)`", names)}
    assert shown.keys() == co.LOCAL_RECIPES.keys()
    n = 32768
    for name, size in shown.items():

        def measure(comm: Any, name: str = name) -> int:
            w, rng = np.zeros(n, np.float32), np.random.default_rng(comm.rank)
            settings = co.local_recipe(name, every=1, fragments=1, delay=0)
            local = co.LocalUpdates(None, {"w": w}, comm=comm, **settings)
            for _ in range(2):
                w += rng.normal(size=n).astype(np.float32)
                local.step()
            arrays = {key: x for key, x in local.state_dict().items() if x.size == n}
            return sum(x.nbytes * (2 if "residual" in key else 1) for key, x in arrays.items())

        assert co.simulate(2, measure) == [size * n] * 2, name


def test_the_guide_has_the_most_memory_of_an_exchange() -> None:
    guide = (ROOT / "docs/guides/local-updates-overlap.md").read_text(encoding="utf-8")
    shown = {
        name: int(most)
        for name, most in re.findall(r"^\| `([\w-]+)` \| \d+ \| (\d+) \|$", guide, re.MULTILINE)
    }
    assert shown.keys() == co.LOCAL_RECIPES.keys()
    n = 2**21

    def measure(comm: Any, name: str) -> float:
        numba.set_num_threads(1)  # each has space of its own
        movement = np.random.default_rng(0).normal(size=n // 16).astype(np.float32)
        w = {str(number): np.zeros(n // 16, np.float32) for number in range(16)}
        local = co.LocalUpdates(None, w, comm=comm, **co.local_recipe(name, every=1, fragments=1, delay=0))
        for _ in range(3):  # the last one has a residual, and its memory to reuse
            for x in w.values():
                np.add(x, movement, out=x)
            tracemalloc.reset_peak()
            local.step()
        return tracemalloc.get_traced_memory()[1] / n - 4  # those of the model

    for name, most in shown.items():
        co.simulate(1, partial(measure, name=name))  # compiles
        tracemalloc.start()
        try:
            assert co.simulate(1, partial(measure, name=name))[0] == pytest.approx(most, rel=0.15), name
        finally:
            tracemalloc.stop()


def test_the_guide_states_the_verdicts_on_local_updates() -> None:
    """The sentence beside its recommendation has the figures of the benchmark, and no better verdict."""
    guide = (ROOT / "docs/guides/local-updates.md").read_text(encoding="utf-8")
    with (ROOT / "benchmarks/results/training/choices.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["question"] == "several local steps per exchange?"]
    of_eight = {row["task"]: row for row in rows if "every 8, 0.1 bits" in row["system"]}
    few = {task for task, row in of_eight.items() if not row["half"]}  # too few seeds: undecided
    assert few == {"text-lstm", "recommendations"}
    for task, text in (
        ("images", "{:.4g} against {:.4g} % accuracy"),
        ("text-transformer", "perplexity {:.4g} against {:.4g}"),
    ):
        row = of_eight[task]
        assert row["verdict"] == "worse"
        assert text.format(float(row["test"]), float(row["instead_test"])) in guide
    others = {row["verdict"] for row in rows if "every 8, 0.1 bits" not in row["system"]}
    assert others == {"undecided"}  # as "Measured" has it
    assert f"exchanges every {co.local_recipe('budget')['every']} steps" in guide


def _describe(one: co.LocalRecipe) -> str:
    """Return the scheme and the residual of a recipe as the guide has them."""
    scheme = str(one.compressor["scheme"]).replace("|", r"\|")
    feedback = one.compressor.get("feedback", wc.ErrorFeedback())
    if feedback is None:
        return f"`{scheme}`, no residual"
    if one.compressor.get("scope", "tensor") != "tensor":
        return f'`{scheme}`, `scope="{one.compressor["scope"]}"`'
    return f"`{scheme}`" + ("" if feedback.decay == 1 else f", residual × {feedback.decay:g}")
