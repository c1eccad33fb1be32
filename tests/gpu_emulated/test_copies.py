"""Results that are copied into arrays of the caller, in one launch per element width."""

from __future__ import annotations

import numpy as np
import pytest

from tests.gpu_emulated.standin import OnGPU, StandInDevice, standin
from wirecodec.interop import gpu_copy

__all__ = ["standin"]


@pytest.mark.parametrize("widths", [(2,), (4, 8), (8, 2, 4, 2)])
def test_bits_arrive(standin: StandInDevice, widths: tuple[int, ...]) -> None:
    rng = np.random.default_rng(3)
    sizes = [1, 33, 20_000, 0, 511]
    given = [
        standin.put(rng.integers(0, 2 ** (8 * width) - 1, size, f"u{width}"))
        for width in widths
        for size in sizes
    ]
    targets = [standin.empty(each.size, each.dtype) for each in given]
    gpu_copy(given, targets)
    assert all(isinstance(each, OnGPU) for each in targets)
    assert [x.tobytes() for x in targets] == [x.tobytes() for x in given]
    assert len(standin.launched) == len(set(widths))
