"""AdaComp's Figures 1 and 4 to 7: stress tests, and rates over the batch and the number of learners."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import wirecodec as wc
from benchmarks.papers.networks import build_demo, unflatten
from benchmarks.papers.parts import Part
from benchmarks.papers.training import run_training
from wirecodec.select.base import Selection

__all__ = [
    "DENSE_LAYERS",
    "MIXED",
    "Dryden",
    "Layers",
    "Learners",
    "Run",
    "Seide",
    "list_parts",
    "list_stress",
    "name_run",
]

Array = Any
BINS = (50, 500, 2000, 5000)
LARGEST = 16_384
"""Bin that Figure 7a has, too. It is the largest of the paper's 16 bits, two of which are the value's."""
SEEDS = (0, 1, 2)
"""Of each training of one learner; its test error and its rate are means."""
PERCENTILE = 95
RATE, MOMENTUM = 0.02, 0.9
BATCH = 32
"""Images per step of Figures 4 to 6."""
BATCHES = (16, 64, 256)
"""Images per step of Figure 7a."""
SUPER_BATCH = 128
LEARNERS = (1, 4, 16, 64)
LEARNER_BIN = 500
METHODS = ("AdaComp", "Local Selection", "Dryden")


@dataclass(frozen=True)
class Dryden:
    """Dryden et al., 2016: the largest elements, each sent as the mean of those of its sign."""

    ratio: float
    name = "dryden"

    def select(self, x: Array, *, gradient: Any = None, state: Any = None, seed: int = 0) -> Selection:
        """Select the top elements, with the mean magnitude of each sign as scales."""
        indices = wc.selectors.TopK(self.ratio).select(x).indices
        chosen = np.arange(x.size) if indices is None else indices
        return Selection(chosen, None, _average_by_sign(x[chosen]))


@dataclass(frozen=True)
class Seide:
    """Seide et al., 2014: one bit of every element, sent as the mean of those of its sign."""

    name = "seide"

    def select(self, x: Array, *, gradient: Any = None, state: Any = None, seed: int = 0) -> Selection:
        """Select all elements, with the mean magnitude of each sign as scales."""
        return Selection(np.arange(x.size), None, _average_by_sign(x))


def _average_by_sign(x: Array) -> Array:
    scales = np.zeros_like(x)
    for chosen in (x > 0, x < 0):
        scales[chosen] = np.abs(x[chosen]).mean() if chosen.any() else 0
    return scales


@dataclass(frozen=True)
class Layers:
    """Selector per tensor of the demo's network, each with its own scale, as in the paper.

    Args:
        convolutions, dense: selectors of these layers' tensors; None sends them whole.
    """

    convolutions: Any
    dense: Any
    name = "layers"

    def select(self, x: Array, *, gradient: Any = None, state: Any = None, seed: int = 0) -> Selection:
        """Select in each tensor; scales are those of the elements."""
        indices: list[Array] = []
        scales: list[Array] = []
        start = 0
        for name, tensor in unflatten(x).items():
            selector = self.convolutions if name.startswith("conv") else self.dense
            part = tensor.ravel()
            chosen, scale = np.arange(part.size), np.abs(part)
            if selector is not None:
                found = selector.select(part, gradient=gradient[start : start + part.size])
                chosen, scale = found.indices, found.scale
            indices.append(start + chosen)
            scales.append(np.broadcast_to(scale, chosen.shape))
            start += part.size
        size: Any = np.concatenate(scales)
        return Selection(np.concatenate(indices), None, size)


@dataclass(frozen=True, eq=False)
class Run:
    """Training with one method.

    Attributes:
        batch: images per step.
        method: one of ``METHODS``.
        bin: elements per bin; Dryden sends one element per ``bin``.
        scope: the layers that are compressed: "all", or "FC" for the two fully connected ones.
        rate: 32 bits per element over 16 bits per element sent (8 for bins below 64), the paper's count; of
            the layers that are compressed. Mean over the seeds.
        error: test error after the last step, mean over the seeds.
        residuals, gradients: (steps,) 95th percentile of the magnitudes of each in these layers, first seed.
        last_residual: of these layers after the last step, first seed.
    """

    batch: int
    method: str
    bin: int
    scope: str
    rate: float
    error: float
    residuals: Array = field(repr=False)
    gradients: Array = field(repr=False)
    last_residual: Array = field(repr=False)


@dataclass(frozen=True)
class Learners:
    """Training of several learners with AdaComp, which share one batch.

    Attributes:
        learners: their number.
        rate: as of a Run.
        error: test error after the last step.
    """

    learners: int
    rate: float
    error: float


def list_parts(steps: int) -> list[Part]:
    """List trainings with each method and bin, with momentum 0.9, as in the paper.

    Args:
        steps: of each training.
    """
    learners = [Part(f"AdaComp: {n} learners", train_learners, (n, steps // 2)) for n in reversed(LEARNERS)]
    dense = [Part(_name_dense(batch), train_dense, (batch, steps)) for batch in (BATCH, *BATCHES)]
    keys = [*list_stress(), *DENSE_LAYERS, *MIXED, *_list_batches()]
    return learners + dense + [Part(name_run(*key), train, (*key, steps)) for key in keys]


Key = tuple[int, str, int, str]
DENSE_LAYERS: tuple[Key, ...] = (
    *((BATCH, "Local Selection", bin, "FC") for bin in (200, 300, 5000)),
    (BATCH, "AdaComp", 5000, "FC"),
)
MIXED: tuple[Key, ...] = ((BATCH, "Dryden", 333, "FC"), (BATCH, "Dryden and Seide", 333, "all"))
"""0.3 % of the elements of the fully connected layers."""


def list_stress() -> list[Key]:
    """List batch, method, bin and layers of the trainings of Figure 4."""
    return [(BATCH, method, bin, "all") for bin in BINS for method in METHODS]


def _list_batches() -> list[Key]:
    bins = (*BINS, LARGEST)
    return [
        (batch, method, bin, "all") for batch in BATCHES for method in ("AdaComp", "Dryden") for bin in bins
    ]


def name_run(batch: int, method: str, bin: int, scope: str) -> str:
    """Return the name of the part that trains with a method."""
    return f"AdaComp: {method}, bins of {bin}, {scope} layers, {batch} images"


def _name_dense(batch: int) -> str:
    return f"AdaComp: dense training, {batch} images"


def train_dense(batch: int, steps: int) -> float:
    """Return the test error of dense training, mean over the seeds."""
    errors = []
    for seed in SEEDS:
        network = build_demo(batch, seed=seed)
        training = run_training(network, None, steps, rate=RATE, momentum=MOMENTUM)
        errors.append(1 - network.evaluate(deque(training, maxlen=1)[0].parameters))
    return float(np.mean(errors))


def _build(method: str, bin: int, scope: str) -> Any:
    if method == "Dryden and Seide":
        return Layers(Seide(), Dryden(1 / bin))
    if method == "Dryden":
        one: Any = Dryden(1 / bin)
    else:
        one = (
            wc.selectors.AdaComp(bin, factor=1.0)
            if method == "Local Selection"
            else wc.selectors.AdaComp(bin)
        )
    return Layers(one if scope == "all" else None, one)


def train(batch: int, method: str, bin: int, scope: str, steps: int) -> Run:
    """Train with one method, once per seed."""
    runs = [_train(batch, method, bin, scope, steps, seed) for seed in SEEDS]
    rate, error = (float(np.mean([getattr(run, name) for run in runs])) for name in ("rate", "error"))
    return replace(runs[0], rate=rate, error=error)


def _train(batch: int, method: str, bin: int, scope: str, steps: int, seed: int) -> Run:
    """Train with one method; a training that diverges ends."""
    network, selector = build_demo(batch, seed=seed), _build(method, bin, scope)
    convolutions = sum(x.size for name, x in unflatten(network.start).items() if name.startswith("conv"))
    skipped = convolutions if scope == "FC" else 0
    residuals, gradients, sent = [], [], 0
    last = None
    with np.errstate(all="ignore"):
        for last in run_training(network, selector, steps, rate=RATE, momentum=MOMENTUM):
            if not (np.isfinite(last.loss) and np.abs(last.x).max() < 1e30):
                break
            residuals.append(_percentile(last.residual[skipped:]))
            gradients.append(_percentile(last.gradient[skipped:]))
            sent += last.count - skipped
        assert last is not None
        rate = _compute_rate((last.x.size - skipped) * len(residuals), sent, bin)
        error = 1 - network.evaluate(last.parameters)
    found = np.array(residuals), np.array(gradients), last.residual[skipped:]
    return Run(batch, method, bin, scope, rate, error, *found)


def train_learners(learners: int, steps: int) -> Learners:
    """Train several learners with AdaComp; their mean is applied, and each keeps its residual."""
    networks = [build_demo(SUPER_BATCH // learners, rank, learners) for rank in range(learners)]
    selector, parameters = _build("AdaComp", LEARNER_BIN, "all"), networks[0].start
    residuals = [np.zeros_like(parameters) for _ in networks]
    velocity, sent = np.zeros_like(parameters), 0
    for step in range(steps):
        total = np.zeros_like(parameters)
        for rank, network in enumerate(networks):
            _, gradient = network.compute(parameters, step)
            x = residuals[rank] + gradient
            found = selector.select(x, gradient=gradient)
            assert found.indices is not None
            applied = np.zeros_like(x)
            applied[found.indices] = np.sign(x[found.indices]) * found.scale
            residuals[rank] = x - applied
            total += applied
            sent += found.indices.size
        velocity = MOMENTUM * velocity + total / np.float32(learners)
        parameters = parameters - np.float32(RATE) * velocity
    rate = _compute_rate(parameters.size * steps * learners, sent, LEARNER_BIN)
    return Learners(learners, rate, 1 - networks[0].evaluate(parameters))


def _compute_rate(elements: int, sent: int, bin: int) -> float:
    """Return the paper's rate: 32 bits per element over 16 per element sent, 8 for bins below 64."""
    return 32 * elements / max((8 if bin < 64 else 16) * sent, 1)


def _percentile(x: Array) -> float:
    return float(np.percentile(np.abs(x[::7]), PERCENTILE))
