"""Gradients to measure: saved ones, distributions, and their residuals under error feedback."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

import wirecodec as wc
from benchmarks.value.distributions import DISTRIBUTIONS, Floats

__all__ = ["Gradients", "build_gradients", "draw_gradient"]

Gradients = dict[str, Callable[[], Floats]]
"""Recipes of (n,) vectors by name."""

RESIDUAL_ELEMENTS = 262_144
RESIDUAL_STEPS = 100
"""Size of a synthetic residual, and steps of error feedback that lead to it."""


def build_gradients(elements: int, files: Sequence[Path] = ()) -> Gradients:
    """Build the recipes.

    Args:
        elements: size of the synthetic gradients that are not residuals.
        files: saved float arrays.
    """
    found: Gradients = {path.stem: partial(_load, path) for path in files}
    for name in DISTRIBUTIONS:
        found[name] = partial(draw_gradient, name, elements)
    for name in ("laplace", "student"):
        found[f"{name}_residual"] = partial(_draw_residual, name)
    drawn = (_draw_layers, _draw_rows, _draw_mixture, _draw_walk, _draw_zipf)
    return found | {draw.__name__.removeprefix("_draw_"): partial(draw, elements) for draw in drawn}


def draw_gradient(name: str, size: int, *, seed: int = 0) -> Floats:
    """Draw ``size`` values of a distribution."""
    return DISTRIBUTIONS[name].draw_top(size, size, seed=seed)


def _load(path: Path) -> Floats:
    return np.asarray(np.load(path).reshape(-1), np.float32)


def _draw_residual(name: str) -> Floats:
    """Return gradient + residual after steps that sent the largest 1 %."""
    compressor = wc.Compressor("topk(0.01) | rice | raw")
    for step in range(RESIDUAL_STEPS):
        compressor.compress({"w": draw_gradient(name, RESIDUAL_ELEMENTS, seed=step)})
    residual = np.asarray(compressor.residual("w"))
    return np.asarray(draw_gradient(name, RESIDUAL_ELEMENTS, seed=RESIDUAL_STEPS) + residual, np.float32)


def _draw_layers(size: int) -> Floats:
    """Draw eight layers of normal values whose scales differ by up to ten octaves."""
    rng = np.random.default_rng(1)
    scales = np.repeat(2.0 ** np.array([0, -3, -1, -7, -10, -2, -5, -4]), -(-size // 8))[:size]
    return np.asarray(rng.normal(size=size) * scales, np.float32)


def _draw_rows(size: int) -> Floats:
    """Draw rows of 64 values, of which one in ten is not zero: the gradient of an embedding."""
    rng = np.random.default_rng(2)
    kept = np.repeat(rng.random(-(-size // 64)) < 0.1, 64)[:size]
    return np.asarray(rng.laplace(size=size) * kept, np.float32)


def _draw_mixture(size: int) -> Floats:
    """Draw normal values, of which one in a hundred is fifty times as large."""
    rng = np.random.default_rng(3)
    return np.asarray(rng.normal(size=size) * np.where(rng.random(size) < 0.01, 50, 1), np.float32)


def _draw_walk(size: int) -> Floats:
    """Draw normal values whose scale is a random walk."""
    rng = np.random.default_rng(4)
    return np.asarray(rng.normal(size=size) * np.exp(np.cumsum(0.02 * rng.normal(size=size))), np.float32)


def _draw_zipf(size: int) -> Floats:
    """Draw rows of 128 Laplace values whose scales are those of words by frequency."""
    rng = np.random.default_rng(5)
    rows = -(-size // 128)
    scales = 1 / (1 + rng.permutation(rows))
    return np.asarray((rng.laplace(size=(rows, 128)) * scales[:, None]).reshape(-1)[:size], np.float32)
