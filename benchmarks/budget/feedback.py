"""``budget`` under error feedback: bytes per step, and the residual compared with that of ``topk``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import wirecodec as wc
from benchmarks.value.distributions import Floats

__all__ = ["FEEDBACK_BITS", "FeedbackRun", "run_feedback"]

FEEDBACK_BITS = 0.25
ELEMENTS = 65_536
BUDGET = f"budget(bits={FEEDBACK_BITS:g}) | rice | error-bounded"
TAILS = ("rice | raw", "rice | qsgd(bits=4)", "rice | error-bounded(error=0.1)")
"""Codecs after ``topk``, whose ratio is set to take as many bytes."""


@dataclass(frozen=True)
class FeedbackRun:
    """Steps of one scheme.

    Attributes:
        scheme: the scheme.
        spent: bytes of each step in budgets.
        norms: norm of the residual after each step, in norms of a gradient.
    """

    scheme: str
    spent: list[float]
    norms: list[float]


def run_feedback(steps: int, step: Callable[[str], None]) -> list[FeedbackRun]:
    """Compress the same gradients with ``budget`` and with ``topk`` at equal bytes.

    Args:
        steps: number of steps.
        step: called with the name of each run before it starts.
    """
    schemes = [BUDGET, *(_match_bytes(tail) for tail in TAILS)]
    runs = []
    for scheme in schemes:
        step(f"feedback: {scheme}")
        compressor = wc.Compressor(scheme)
        spent, norms = [], []
        for n in range(steps):
            gradient = _draw(n)
            nbytes = compressor.compress({"w": gradient}).nbytes
            spent.append(8 * nbytes / (FEEDBACK_BITS * ELEMENTS))
            residual = np.asarray(compressor.residual("w"))
            norms.append(float(np.linalg.norm(residual) / np.linalg.norm(gradient)))
        runs.append(FeedbackRun(scheme, spent, norms))
    return runs


def _draw(step: int) -> Floats:
    """Draw a gradient: Laplace values of different scale, with a mean that stays."""
    fixed = np.random.default_rng(0)
    scales = np.exp(fixed.normal(size=ELEMENTS))
    mean = 0.1 * fixed.normal(size=ELEMENTS)
    noise = np.random.default_rng([1, step]).laplace(size=ELEMENTS)
    return np.asarray(scales * (mean + noise), np.float32)


def _match_bytes(tail: str) -> str:
    """Return ``topk`` with these codecs, with the ratio that takes the budget's bytes under feedback."""
    wanted = FEEDBACK_BITS * ELEMENTS / 8
    low, high = 0.001, 0.2
    for _ in range(9):
        ratio = (low * high) ** 0.5
        compressor = wc.Compressor(f"topk({ratio:.5f}) | {tail}")
        sizes = [compressor.compress({"w": _draw(n)}).nbytes for n in range(30)]
        if float(np.mean(sizes[10:])) <= wanted:
            low = ratio
        else:
            high = ratio
    return f"topk({low:.5f}) | {tail}"
