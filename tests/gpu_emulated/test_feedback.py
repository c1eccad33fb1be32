"""feedback.cu against ``cpu.residual``: sums, residuals, and the limits of the types' ranges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from tests.gpu_emulated.emulator import Emulator
from tests.inputs import Array
from wirecodec.arrays import bits_of
from wirecodec.cpu.residual import AccumulatedGradient
from wirecodec.kernels.cuda import elements, feedback

KINDS = [np.float32, np.float64]
SIZE = 3001


def vector(seed: int, kind: Any) -> Array:
    """Return numbers of all magnitudes, with both zeros and some at the limit of the range."""
    rng = np.random.default_rng(seed)
    x: Array = (rng.standard_normal(SIZE) * 2.0 ** rng.integers(-140, 100, SIZE)).astype(kind)
    x[::17] = 0.0
    x[5::19] = -0.0
    x[7::101] = np.finfo(kind).max
    x[9::103] = -np.finfo(kind).max
    return x


@pytest.mark.parametrize("kind", KINDS)
def test_sums_are_clamped(emulator: Emulator, kind: Any) -> None:
    gradient, residual = vector(1, kind), vector(2, kind)
    with np.errstate(all="ignore"):
        expected = AccumulatedGradient.of(wc.ErrorFeedback(), gradient, residual).x
        assert not np.isfinite(gradient + residual).all()
    out = emulator.empty(SIZE, kind)
    odd = feedback.add(emulator, emulator.put(gradient), emulator.put(residual), out)
    assert odd[0] == 0
    assert out.tobytes() == expected.tobytes()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nonfinite_is_reported(emulator: Emulator, kind: Any, bad: float) -> None:
    gradient, residual = vector(1, kind), vector(2, kind)
    gradient[2999] = bad
    out = emulator.empty(SIZE, kind)
    assert feedback.add(emulator, emulator.put(gradient), emulator.put(residual), out)[0] == 1


@pytest.mark.parametrize(("kind", "narrow"), [(np.float32, np.float16), (np.float64, np.float32)])
def test_values_for_a_narrower_type(emulator: Emulator, kind: Any, narrow: Any) -> None:
    x = vector(3, kind)
    most = float(np.finfo(narrow).max)
    clipped = feedback.clamp(emulator, emulator.put(x), most)
    coder = elements.narrow if narrow == np.float16 else elements.to_float32
    made, over = coder(emulator, bits_of(clipped), narrow if narrow == np.float16 else kind)
    assert over[0] == elements.NOWHERE
    assert (
        made.tobytes()
        == AccumulatedGradient(wc.ErrorFeedback(), np.zeros(SIZE, narrow), None, x).sendable().tobytes()
    )


@pytest.mark.sampled
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("beta", [1.0, 0.3])
@pytest.mark.parametrize("with_residual", [False, True])
@pytest.mark.parametrize("full", [False, True])
def test_the_next_residual(
    emulator: Emulator, kind: Any, beta: float, with_residual: bool, full: bool
) -> None:
    gradient, residual = vector(4, kind), vector(5, kind) if with_residual else None
    rule = wc.ErrorFeedback(beta)
    with np.errstate(all="ignore"):
        x = AccumulatedGradient.of(rule, gradient, residual).x
    where = np.arange(SIZE) if full else np.flatnonzero(np.abs(x) > 1)
    values = (-0.7 * x[where]).astype(kind)  # so that some of the remainders overflow
    x, gradient_there = x.copy(), emulator.put(gradient)
    residual_there = None if residual is None else emulator.put(residual)
    indices = None if full else emulator.put(where.astype(np.uint32))
    sent, left = emulator.put(values), emulator.put(x)
    if beta == 1:
        feedback.subtract(emulator, left, indices, sent)
    else:
        weights = kind(beta), 1 - kind(beta)
        if not full:
            feedback.filter_residual(emulator, gradient_there, residual_there, (kind(beta), 1), left)
        feedback.filter_residual(emulator, emulator.put(x), residual_there, weights, left, indices, sent)
    expected = AccumulatedGradient(rule, gradient, residual, x).remainder(None if full else where, values)
    assert left.tobytes() == expected.tobytes()
    assert (left[where] == 0).any()


@pytest.mark.sampled
@pytest.mark.parametrize("count", [0, 1, 700])
def test_scatter(emulator: Emulator, dtype: Any, count: int) -> None:
    with np.errstate(over="ignore"):
        words = bits_of(vector(10, np.float32)[:count].astype(dtype))
    numbers = np.random.default_rng(count).permutation(SIZE)[:count].astype(np.uint32)
    expected = np.zeros(SIZE, words.dtype)
    expected[numbers] = words
    made = elements.scatter(emulator, emulator.put(words), emulator.put(numbers), SIZE)
    assert made.tobytes() == expected.tobytes()


def test_signs_with_another_magnitude(emulator: Emulator, dtype: Any) -> None:
    with np.errstate(over="ignore"):
        x = vector(7, np.float32).astype(dtype)
    magnitude = np.array([0.75], dtype)
    made = elements.set_magnitude(emulator, emulator.put(bits_of(x)), int(bits_of(magnitude)[0]))
    assert made.tobytes() == np.copysign(magnitude, x).tobytes()
    numbers = np.arange(x.size, dtype=np.uint32)[1::3]
    given = emulator.put(bits_of(x)), int(bits_of(magnitude)[0]), emulator.put(numbers)
    assert elements.set_magnitude(emulator, *given).tobytes() == np.copysign(magnitude, x[numbers]).tobytes()
