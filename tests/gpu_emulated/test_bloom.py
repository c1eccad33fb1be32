"""bloom.cu against the CPU's codec: the section, and what a reader finds."""

from __future__ import annotations

import numpy as np
import pytest

import wirecodec as wc
from tests.gpu_emulated.emulator import Emulator
from tests.inputs import support
from wirecodec.index.bloom import filter_bytes, windows
from wirecodec.kernels.cuda import bloom

STREAM = 0x1122334455667788


@pytest.mark.sampled
@pytest.mark.parametrize("fpr", [0.6, 0.1, 1e-3])
@pytest.mark.parametrize(("d", "r"), [(2, 1), (64, 20), (1000, 7), (40_000, 900)])
def test_p0_and_p1(emulator: Emulator, fpr: float, d: int, r: int) -> None:
    indices = support(np.random.default_rng(d), d, r)
    k, nbytes = windows(fpr), filter_bytes(r, fpr)
    words = bloom.insert(emulator, emulator.put(indices), k, nbytes)
    p0 = wc.codecs.Bloom("p0", fpr).approximate(indices, d, STREAM)
    assert words.tobytes() == p0.section[16:].tobytes()
    bitmap, found = bloom.query(emulator, words, k, d)
    positives = bloom.list_elements(emulator, bitmap, d, int(found[0]))
    assert (positives == p0.found).all()
    p1 = wc.codecs.Bloom("p1", fpr).approximate(indices, d, STREAM)
    assert (bloom.sample(emulator, positives, r, STREAM) == p1.found).all()
