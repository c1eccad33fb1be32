"""Language models of characters: batches, the loss, and perplexity."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional

from benchmarks.training.tasks.corpus import draw_windows, load_characters
from benchmarks.training.tasks.task import Problem

__all__ = ["CharacterModel"]

ROWS, LENGTH = 8, 64
"""Batch of one worker."""
TEST_ROWS, TEST_LENGTH = 512, 128
TEST_BATCH = 64
TEST_KEY = {"validation": 1, "test": 2}


class CharacterModel(Problem):
    """Model that predicts the next character of source code.

    Args:
        build: makes the module, which maps characters (rows, length) to logits (rows, length, 128).
        seed: of the weights and the batches.
        test_length: characters per window of validation and test.
    """

    def __init__(self, build: Callable[[], Any], seed: int, test_length: int = TEST_LENGTH) -> None:
        torch.manual_seed(seed)
        self.model = build()
        self._seed = seed
        self._test_length = test_length
        self._characters = load_characters("train")

    def loss(self, step: int, worker: int) -> Any:
        """Return the mean cross entropy of a worker's batch, in nats per character."""
        windows = draw_windows(self._characters, ROWS, LENGTH, (self._seed, step, worker))
        return self._compute_loss(torch.from_numpy(windows))

    def evaluate(self, split: str) -> float:
        """Return the perplexity per character of fixed windows."""
        found = self.windows(split)
        self.model.eval()
        with torch.no_grad():
            batches = torch.from_numpy(found).split(TEST_BATCH)
            total = sum(self._compute_loss(batch).item() * len(batch) for batch in batches)
        self.model.train()
        return math.exp(min(total / len(found), 50.0))

    def windows(self, split: str) -> npt.NDArray[np.int64]:
        """Return the windows of "validation" or "test", (rows, length + 1)."""
        rows = TEST_ROWS * TEST_LENGTH // self._test_length
        return draw_windows(load_characters(split), rows, self._test_length, (TEST_KEY[split],))

    def _compute_loss(self, windows: Any) -> Any:
        logits = self.model(windows[:, :-1])
        return functional.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())
