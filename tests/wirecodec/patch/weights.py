"""States of weights like those of a step of training, without a training."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from wirecodec.arrays import UNSIGNED, Array
from wirecodec.element_types import ELEMENT_DTYPES

TYPES = ELEMENT_DTYPES


def bits_of(x: Any) -> Array:
    """Return the bits of an array, (size,) u8."""
    return np.ascontiguousarray(x).reshape(-1).view(np.uint8)


def is_equal(a: dict[str, Any], b: dict[str, Any]) -> bool:
    """Return whether two states have the same names, shapes, types and bits."""
    if set(a) != set(b):
        return False
    return all(
        a[name].dtype == b[name].dtype
        and a[name].shape == b[name].shape
        and np.array_equal(bits_of(a[name]), bits_of(b[name]))
        for name in a
    )


def copy(state: dict[str, Any]) -> dict[str, Any]:
    """Copy the arrays of a state."""
    return {name: x.copy() for name, x in state.items()}


def train(state: dict[str, Array], rate: float, steps: int = 1, seed: int = 0) -> dict[str, Array]:
    """Return bfloat16 weights after steps of Adam's size and of random signs in float32."""
    rng, after = np.random.default_rng(seed), {}
    for name, x in state.items():
        # The float32 masters are uniform within the rounding interval of the weights.
        master = x.astype(np.float32)
        ulp = np.abs(master) * 2.0**-8 + 1e-30
        master = master + ulp * (rng.random(x.shape, np.float32) - 0.5) * 0.98
        for _ in range(steps):
            master = master - np.float32(rate) * rng.standard_normal(x.shape, np.float32)
        after[name] = np.where(np.abs(master - x.astype(np.float32)) < ulp / 2, x, master.astype(x.dtype))
    return after


def make_state(seed: int = 0, layers: int = 3, width: int = 128) -> dict[str, Array]:
    """Make the weights of a small model, bfloat16."""
    rng, state = np.random.default_rng(seed), {}
    for layer in range(layers):
        for name in ("q", "k", "v", "o"):
            x = rng.normal(0, 0.02, (width, width)).astype(ml_dtypes.bfloat16)
            state[f"blocks.{layer}.{name}.weight"] = x
        state[f"blocks.{layer}.norm.weight"] = np.ones(width, ml_dtypes.bfloat16)
    return state


def random_pair(dtype: Any, shape: tuple[int, ...], share: float, seed: int = 0) -> tuple[Array, Array]:
    """Make two arrays of random bits, of which a share differs."""
    rng, kind = np.random.default_rng(seed), np.dtype(dtype)
    size = int(np.prod(shape))
    if kind == np.bool_:
        old = rng.random(size) < 0.5
        new = old ^ (rng.random(size) < share)
        return old.reshape(shape), new.reshape(shape)
    word = UNSIGNED[kind.itemsize // 2 if kind.kind == "c" else kind.itemsize]
    n = size * kind.itemsize // word.itemsize
    old = rng.integers(0, 2 ** (8 * word.itemsize), n, word, endpoint=False)
    changed = rng.random(n) < share
    step = np.where(rng.random(n) < 0.9, 1, rng.integers(0, 2 ** (8 * word.itemsize), n, word)).astype(word)
    new = np.where(changed, np.where(rng.random(n) < 0.5, old + step, old - step), old)
    return old.view(kind).reshape(shape), new.astype(word).view(kind).reshape(shape)
