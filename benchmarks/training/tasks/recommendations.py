"""Task recommendations: embeddings of words that occur together; gradients are mostly zero; SGD."""

from __future__ import annotations

import functools
import re
from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import Embedding, Module, functional

from benchmarks.training.tasks import systems
from benchmarks.training.tasks.corpus import compute_digest, load_text
from benchmarks.training.tasks.task import Problem, Settings, Task

__all__ = ["TASK", "Recommendations"]

WORDS, WIDTH = 5000, 32
WINDOW = 4
"""Words after a word that belong to it."""
BATCH, NEGATIVES = 128, 8
TEST_PAIRS, CANDIDATES = 4000, 100
TEST_KEY = {"validation": 1, "test": 2}
WORD = re.compile(r"[A-Za-z_]{2,}")


@functools.cache
def _number_words() -> dict[str, int]:
    common = Counter(WORD.findall(load_text("train"))).most_common(WORDS)
    return {word: number for number, (word, _) in enumerate(common)}


@functools.cache
def _load_words(split: str) -> npt.NDArray[np.int64]:
    numbers = _number_words()
    return np.array([numbers[w] for w in WORD.findall(load_text(split)) if w in numbers], np.int64)


def _draw_pairs(words: npt.NDArray[np.int64], count: int, rng: np.random.Generator) -> tuple[Any, Any]:
    at = rng.integers(len(words) - WINDOW, size=count)
    return words[at], words[at + rng.integers(1, WINDOW + 1, size=count)]


class _Model(Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.word = Embedding(WORDS, WIDTH)
        self.context = Embedding(WORDS, WIDTH)
        for table in (self.word, self.context):
            torch.nn.init.normal_(table.weight, std=0.3)


class Recommendations(Problem):
    """Skip-gram embeddings; ``batch`` pairs per worker and step."""

    def __init__(self, seed: int, batch: int = BATCH) -> None:
        torch.manual_seed(seed)
        self.model = _Model()
        self._seed = seed
        self._batch = batch

    def loss(self, step: int, worker: int) -> Any:
        """Return the loss of skip-gram with negative samples, a sum over a pair's terms."""
        rng = np.random.default_rng((self._seed, step, worker))
        word, context = _draw_pairs(_load_words("train"), self._batch, rng)
        wrong = _load_words("train")[rng.integers(len(_load_words("train")), size=(self._batch, NEGATIVES))]
        contexts = torch.from_numpy(np.concatenate([context[:, None], wrong], 1))
        scores = self._score(torch.from_numpy(word), contexts)
        signs = torch.ones(1 + NEGATIVES).index_fill(0, torch.arange(1, 1 + NEGATIVES), -1.0)
        return -functional.logsigmoid(scores * signs).sum(1).mean()

    def evaluate(self, split: str) -> float:
        """Return how often the true word is among the best 10 of 100 candidates, in percent."""
        rng = np.random.default_rng(TEST_KEY[split])
        words = _load_words(split)
        word, context = _draw_pairs(words, TEST_PAIRS, rng)
        wrong = words[rng.integers(len(words), size=(TEST_PAIRS, CANDIDATES - 1))]
        with torch.no_grad():
            scores = self._score(
                torch.from_numpy(word), torch.from_numpy(np.concatenate([context[:, None], wrong], 1))
            )
        same = torch.from_numpy(wrong == context[:, None])
        better = (scores[:, 1:] > scores[:, :1]) & ~same
        return 100 * float((better.sum(1) < 10).float().mean())

    def _score(self, words: Any, contexts: Any) -> Any:
        return (self.model.word(words)[:, None] * self.model.context(contexts)).sum(2)


TASK = Task(
    name="recommendations",
    about=(
        "skip-gram embeddings (2 × 5,000 words × 32) of words that follow each other in the sources; 128 "
        "pairs with 8 negative samples per worker, so that most of a gradient is zero; SGD"
    ),
    metric="hit rate at 10 of 100, %",
    higher_is_better=True,
    optimizer="sgd",
    steps=2000,
    warm_up=50,
    clip=None,
    grid=tuple(Settings(rate, momentum) for momentum in (0.9, 0.0) for rate in (10.0, 3.0, 30.0, 1.0)),
    build=Recommendations,
    digest=compute_digest,
    systems=systems.RECOMMENDATIONS,
)
