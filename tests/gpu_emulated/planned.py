"""A plan on the recording device, captured as a graph and launched for each tensor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from tests.gpu_emulated.recorder import Recorder
from tests.gpu_emulated.test_gpu_encode import INDEXES, tensor
from tests.inputs import Array
from wirecodec.arrays import bits_of
from wirecodec.errors import EncodeError
from wirecodec.gpu.plan.encoder import DevicePlan, check
from wirecodec.settings.scheme import as_scheme

SELECTORS = ["all", "nonzero", "topk(0.01)", "topk(k=700)", "topk(1.0)", "threshold(1.5)"]

SAMPLES_AND_BINS = ["dgc(0.05)", "dgc(0.9, sample=1)", "adacomp", "adacomp(bin=5000)"]

CODED = [each for each in INDEXES if not each.startswith("bloom")]


class Planned:
    """Plan on a device of its own, next to the CPU's encoder; captured once, launched for each tensor."""

    def __init__(self, x: Array, scheme: str, *, tag: bytes = b"", capacity: int = 2**31) -> None:
        self.device = Recorder(len(scheme), 3)
        self.scheme, self.tag = scheme, tag
        self.shape, self.raw_bits = x.shape, self.device.put(bits_of(x.reshape(-1)))
        parsed = as_scheme(scheme)
        check(x.size, parsed)
        self.plan = DevicePlan(self.device, x.shape, x.dtype, parsed, tag, capacity)
        self.device.begin_capture()
        self.plan.run(self.raw_bits)
        self.graph = self.device.end_capture()

    def encode(self, x: Array, seed: int) -> Any:
        """Encode a tensor as a container."""
        self.raw_bits[:] = bits_of(x.reshape(-1))
        self.plan.reseed(seed)
        self.graph.launch()
        return self.plan.container_of(self.raw_bits)

    def check(self, x: Array, seed: int = 5) -> None:
        """Compare the bytes with the CPU's; they must be in the plan's own memory."""
        expected = wc.encode(x.reshape(self.shape), self.scheme, seed=seed, tag=self.tag)
        made = self.encode(x, seed)
        assert made.tobytes() == expected.tobytes()
        assert np.shares_memory(made, self.plan._blob), "it was encoded again"

    def check_error(self, x: Array) -> None:
        """Compare the error with the CPU's."""
        with pytest.raises(EncodeError) as expected:
            wc.encode(x, self.scheme)
        with pytest.raises(EncodeError) as found:
            self.encode(x, 5)
        assert str(found.value) == str(expected.value)
        assert found.value.position == expected.value.position


def inputs(size: int, dtype: Any) -> Iterator[Array]:
    """Yield tensors of one size, to be encoded through the same memory."""
    rng = np.random.default_rng(size)
    yield tensor(dtype, size)
    yield np.zeros(size, dtype)
    yield np.ones(size, dtype)
    yield (rng.laplace(size=size) * 1.05).astype(dtype)
    yield (np.arange(size) % 3 * 2.0).astype(dtype)
    yield np.where(rng.random(size) < 0.02, rng.standard_normal(size) * 50, 0).astype(dtype)
    yield (rng.standard_normal(size) * 1e-3).astype(dtype)
    yield tensor(dtype, size)
