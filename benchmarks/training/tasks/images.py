"""Task images: ResNet-20 on rendered digits; SGD."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch.nn import Module, Parameter, ParameterDict

from benchmarks.training.batches import generate_digits
from benchmarks.training.models import Net, build_residual_network
from benchmarks.training.tasks import systems
from benchmarks.training.tasks.task import Problem, Settings, Task

__all__ = ["ADAM", "LARGE", "LONG", "OWNERS", "TASK", "WORKERS"]

SIDE, BATCH, TEST_IMAGES = 16, 16, 2000
LARGE_BATCH = 64
NOISE = 0.7
"""Standard deviation; with it, dense ends between 90 and 97 %."""
PARTS = {"train": (0, 1200), "validation": (1200, 1500), "test": (1500, 1797)}
"""Digits that each part is rendered from."""


class _Module(Module):  # type: ignore[misc]
    """Module of a Net, whose parameters have dots in their names."""

    def __init__(self, net: Net) -> None:
        super().__init__()
        self.net = net
        self.held = ParameterDict(
            {name.replace(".", "/"): Parameter(p) for name, p in net.parameters.items()}
        )
        net.parameters.update({name: self.held[name.replace(".", "/")] for name in net.parameters})


class _Images(Problem):
    def __init__(self, seed: int, batch: int) -> None:
        torch.manual_seed(seed)
        self._batch = batch
        self._net = build_residual_network()
        self.model = _Module(self._net)
        self._seed = seed
        self._streams: dict[int, Any] = {}

    def loss(self, step: int, worker: int) -> Any:
        """Return the cross entropy of a worker's next batch; steps must be taken in order."""
        if worker not in self._streams:
            self._streams[worker] = generate_digits(
                self._batch, SIDE, seed=1000 * self._seed + worker + 10, part=PARTS["train"], noise=NOISE
            )
        return self._net.loss(*next(self._streams[worker]))

    def evaluate(self, split: str) -> float:
        """Return the accuracy on 2,000 rendered images, in percent."""
        stream = generate_digits(250, SIDE, seed=1 + (split == "test"), part=PARTS[split], noise=NOISE)
        hits = 0
        with torch.no_grad():
            for _ in range(TEST_IMAGES // 250):
                images, labels = next(stream)
                hits += int((self._net.logits(images).argmax(1) == labels).sum())
        return 100 * hits / TEST_IMAGES


def _digest() -> str:
    import sklearn

    return f"digits of scikit-learn {sklearn.__version__}, noise {NOISE}"


TASK = Task(
    name="images",
    about=(
        "ResNet-20 (269,722 parameters; batch normalization over each batch) on 16×16×3 images rendered from "
        "the digits of scikit-learn; 16 images per worker; SGD"
    ),
    metric="accuracy, %",
    higher_is_better=True,
    optimizer="sgd",
    steps=600,
    warm_up=50,
    clip=None,
    grid=tuple(Settings(rate, momentum) for momentum in (0.9, 0.0) for rate in (1.0, 0.3, 3.0, 0.1)),
    build=lambda seed: _Images(seed, BATCH),
    digest=_digest,
    systems=systems.IMAGES,
)

LARGE = replace(
    TASK,
    name="images-large",
    about="the images in batches of 64 per worker, twice as many in all; for ScaleCom's large batches",
    steps=2 * TASK.steps * BATCH // LARGE_BATCH,
    build=lambda seed: _Images(seed, LARGE_BATCH),
    systems=systems.LARGE,
)

SHORT_GRID = (
    *(Settings(rate, 0.0) for rate in (1.0, 0.3, 3.0)),
    *(Settings(rate, 0.9) for rate in (0.3, 1.0)),
)

LONG = replace(
    TASK,
    name="images-long",
    about="the images with four times as many steps, for the target at 0.1 % of the elements",
    steps=4 * TASK.steps,
    grid=SHORT_GRID,
    systems=systems.LONG,
)

ADAM = replace(
    TASK,
    name="images-adam",
    about="the images with Adam, for AdaComp's Figure 3",
    optimizer="adam",
    grid=tuple(Settings(rate, 0.9, 0.999) for rate in (3e-3, 1e-2, 1e-3)),
    systems=systems.ADAM,
)


def _change_workers(workers: int, steps: int) -> Task:
    """Return the task with another number of workers, whose batches stay as large."""
    return replace(
        TASK,
        name=f"images-{workers}-workers",
        about=f"the images with {workers} workers of {BATCH} images each; for ScaleCom's scaling",
        steps=steps,
        grid=SHORT_GRID,
        systems=systems.WORKERS,
        workers=workers,
    )


WORKERS = (_change_workers(2, 1200), _change_workers(8, 300), _change_workers(16, 300))
"""As many images in all as in the task with 4 workers; with 16 workers twice as many."""

OWNERS = tuple(
    replace(
        task,
        name=f"{task.name}-owners",
        about=f"the images with {task.workers} workers and two rates; for Ok-Topk",
        grid=SHORT_GRID[:2],
        systems=systems.OWNERS_OF_8 if task.workers == 8 else systems.OWNERS,
    )
    for task in WORKERS[1:]
)
