"""AdaComp's Figures 4 to 7: stress tests, and rates over the batch and the number of learners."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import wirecodec as wc
from benchmarks.papers.networks import build_demo
from benchmarks.papers.parts import Part
from benchmarks.papers.training import run_training
from wirecodec.select.base import Selection

__all__ = [
    "BATCH",
    "BATCHES",
    "BINS",
    "LEARNERS",
    "LEARNER_BIN",
    "SUPER_BATCH",
    "Dryden",
    "Learners",
    "Result",
    "Run",
    "collect",
    "list_parts",
]

Array = Any
BINS = (50, 500, 2000, 5000)
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
    """Dryden et al., 2016: the largest elements of each sign, each sent as the mean of its sign's part.

    ``scale`` of a selection is one number for both signs, so the mean is taken over both.
    """

    ratio: float
    name = "dryden"

    def select(self, x: Array, *, gradient: Any = None, state: Any = None, seed: int = 0) -> Selection:
        """Select the top elements, with the mean of their magnitudes as scale."""
        found = wc.TopK(self.ratio).select(x)
        return Selection(found.indices, None, float(np.abs(x[found.indices]).mean()))


@dataclass(frozen=True, eq=False)
class Run:
    """Training with one selector.

    Attributes:
        batch: images per step.
        method: one of ``METHODS``.
        bin: elements per bin; Dryden sends one element per ``bin``.
        rate: 32 bits per element over 16 bits per element sent (8 for bins below 64), the paper's count.
        error: test error after the last step.
        residuals, gradients: (steps,) 95th percentile of the magnitudes of each.
        last_residual: (d,) after the last step.
    """

    batch: int
    method: str
    bin: int
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


@dataclass(frozen=True, eq=False)
class Result:
    """Results of all figures.

    Attributes:
        steps: of each training.
        baselines: {images per step: test error of dense training}.
        runs: Figures 4 to 6, one per method and bin.
        batches: Figure 7a, the same for each batch, of AdaComp and Dryden.
        learners: Figure 7b.
    """

    steps: int
    baselines: dict[int, float]
    runs: list[Run]
    batches: list[Run]
    learners: list[Learners]


def list_parts(steps: int) -> list[Part]:
    """List trainings with each method and bin, with momentum 0.9, as in the paper.

    Args:
        steps: of each training.
    """
    learners = [Part(_name_learners(n), train_learners, (n, steps // 2)) for n in reversed(LEARNERS)]
    dense = [Part(_name_dense(batch), train_dense, (batch, steps)) for batch in (BATCH, *BATCHES)]
    runs = [Part(_name(*key), train, (*key, steps)) for key in _list_stress() + _list_batches()]
    return learners + dense + runs


def collect(found: Mapping[str, Any], steps: int) -> Result:
    """Collect the results of all parts."""
    return Result(
        steps,
        {batch: found[_name_dense(batch)] for batch in (BATCH, *BATCHES)},
        [found[_name(*key)] for key in _list_stress()],
        [found[_name(*key)] for key in _list_batches()],
        [found[_name_learners(n)] for n in LEARNERS],
    )


def _list_stress() -> list[tuple[int, str, int]]:
    return [(BATCH, method, bin) for bin in BINS for method in METHODS]


def _list_batches() -> list[tuple[int, str, int]]:
    return [(batch, method, bin) for batch in BATCHES for method in ("AdaComp", "Dryden") for bin in BINS]


def _name(batch: int, method: str, bin: int) -> str:
    return f"AdaComp: {method}, bins of {bin}, {batch} images"


def _name_dense(batch: int) -> str:
    return f"AdaComp: dense training, {batch} images"


def _name_learners(learners: int) -> str:
    return f"AdaComp: {learners} learners"


def train_dense(batch: int, steps: int) -> float:
    """Return the test error of dense training."""
    network = build_demo(batch)
    training = run_training(network, None, steps, rate=RATE, momentum=MOMENTUM)
    return 1 - network.evaluate(deque(training, maxlen=1)[0].parameters)


def _build(method: str, bin: int) -> Any:
    if method == "Dryden":
        return Dryden(1 / bin)
    return wc.AdaComp(bin, factor=1.0) if method == "Local Selection" else wc.AdaComp(bin)


def train(batch: int, method: str, bin: int, steps: int) -> Run:
    """Train with one method; a training that diverges ends."""
    network, selector = build_demo(batch), _build(method, bin)
    residuals, gradients, sent = [], [], 0
    last = None
    with np.errstate(all="ignore"):
        for last in run_training(network, selector, steps, rate=RATE, momentum=MOMENTUM):
            if not (np.isfinite(last.loss) and np.abs(last.x).max() < 1e30):
                break
            residuals.append(_percentile(last.residual))
            gradients.append(_percentile(last.gradient))
            sent += last.count
        assert last is not None
        rate = _compute_rate(last.x.size * len(residuals), sent, bin)
        error = 1 - network.evaluate(last.parameters)
    return Run(batch, method, bin, rate, error, np.array(residuals), np.array(gradients), last.residual)


def train_learners(learners: int, steps: int) -> Learners:
    """Train several learners with AdaComp; their mean is applied, and each keeps its residual."""
    networks = [build_demo(SUPER_BATCH // learners, rank, learners) for rank in range(learners)]
    selector, parameters = wc.AdaComp(LEARNER_BIN), networks[0].start
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
