"""Task text-lstm: an LSTM of 370,816 parameters that predicts characters; Adam."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch.nn import LSTM, Embedding, Linear, Module

from benchmarks.training.tasks import systems
from benchmarks.training.tasks.corpus import CHARACTERS, compute_digest
from benchmarks.training.tasks.language import CharacterModel
from benchmarks.training.tasks.task import Settings, Task

__all__ = ["ADAM_GRID", "TASK", "WORKERS"]

EMBEDDING, UNITS = 64, 256

ADAM_GRID = tuple(
    Settings(rate, beta1, beta2)
    for beta1, beta2 in ((0.0, 0.99), (0.9, 0.999))
    for rate in (1.6e-2, 2.3e-2, 8e-3, 3.2e-2)
)


class _Model(Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.embedding = Embedding(CHARACTERS, EMBEDDING)
        self.lstm = LSTM(EMBEDDING, UNITS, batch_first=True)
        self.out = Linear(UNITS, CHARACTERS)

    def forward(self, characters: Any) -> Any:
        states, _ = self.lstm(self.embedding(characters))
        return self.out(states)


TASK = Task(
    name="text-lstm",
    about=(
        "a character LSTM (embedding 64, 256 units, 370,816 parameters) on the sources of Python's standard "
        "library; 8 rows of 64 characters per worker; Adam after averaging"
    ),
    metric="perplexity",
    higher_is_better=False,
    optimizer="adam",
    steps=1200,
    warm_up=50,
    clip=1.0,
    grid=ADAM_GRID,
    build=lambda seed: CharacterModel(_Model, seed),
    digest=compute_digest,
    systems=systems.TEXT,
)


def _change_workers(workers: int) -> Task:
    """Return the task with another number of workers, half of the steps, and two rates."""
    return replace(
        TASK,
        name=f"text-lstm-{workers}-workers",
        about=f"the LSTM with {workers} workers, half of the steps and two rates; for Ok-Topk",
        grid=(ADAM_GRID[0], ADAM_GRID[2]),
        steps=TASK.steps // 2,
        workers=workers,
        systems=systems.OWNERS_OF_8 if workers == 8 else systems.OWNERS,
    )


WORKERS = (_change_workers(8), _change_workers(16))
