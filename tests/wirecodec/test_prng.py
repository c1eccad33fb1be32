"""Tests of the counter hash: the specification's vectors, and the compiled version."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from formats.reference.prng import draw16
from wirecodec.kernels.compiler.jit import kernel
from wirecodec.kernels.cpu import prng as compiled
from wirecodec.prng import draw32, mix

SPEC = Path(__file__).parents[2] / "formats" / "spec" / "writing.md"
VECTORS = re.findall(
    r"^\| ((?:mix|draw32|draw16)\(.*\)) \| (0x[0-9a-f]+) \|$", SPEC.read_text(), re.MULTILINE
)


@pytest.mark.parametrize(("call", "result"), VECTORS)
def test_specified_vectors(call: str, result: str) -> None:
    assert eval(call, {"mix": mix, "draw32": draw32, "draw16": draw16}) == int(result, 16)


def test_the_specification_has_vectors_of_each_function() -> None:
    assert {call.partition("(")[0] for call, _ in VECTORS} == {"mix", "draw32", "draw16"}


@kernel
def fill_draws(low: np.uint32, high: np.uint32, out: np.ndarray) -> None:
    for i in range(out.size):
        out[i] = compiled.draw32(low, high, np.uint32(i))


def test_the_compiled_version_agrees() -> None:
    for words in ((0, 0, 0), (1, 2, 3), (2**64 - 1, 2**32 - 1, 2**40)):
        stream = mix(*words)
        out = np.empty(3000, np.int64)
        fill_draws(np.uint32(stream & 0xFFFFFFFF), np.uint32(stream >> 32), out)
        assert out.tolist() == [draw32(stream, i) for i in range(3000)]


def test_draws_look_uniform() -> None:
    draws = np.array([draw16(mix(9, 0, 0), p) for p in range(1 << 16)])
    counts = np.bincount(draws >> 8, minlength=256)
    chi2 = ((counts - 256) ** 2 / 256).sum()
    assert 160 < chi2 < 370  # 255 degrees of freedom: mean 255, 5 sigma is 113
    assert abs(np.corrcoef(draws[:-1], draws[1:])[0, 1]) < 0.02


def test_order_and_number_of_words_matter() -> None:
    assert len({mix(1, 2), mix(2, 1), mix(1, 2, 0), mix(0, 1, 2), mix(3)}) == 5
