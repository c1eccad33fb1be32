"""Rice and Elias-Fano on the device: the bytes of the CPU's codecs, and the same invalid sections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from tests.gpu_emulated.emulator import Emulator
from tests.inputs import Array, support, supports
from wirecodec.kernels.cuda import elias_fano, rice
from wirecodec.limits import DEFAULT_LIMITS

CASES = supports(np.random.default_rng(3))
CODECS: dict[str, tuple[Any, Callable[..., Any], Callable[..., Any]]] = {
    "rice": (wc.codecs.Rice(), rice.encode, rice.decode),
    "elias-fano": (wc.codecs.EliasFano(), elias_fano.encode, elias_fano.decode),
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("codec", CODECS)
def test_encode_and_decode_equal_the_cpu(emulator: Emulator, codec: str, name: str) -> None:
    d, indices = CASES[name]
    on_cpu, encode, decode = CODECS[codec]
    expected = on_cpu.encode(indices, d, 0)
    words, taken = encode(emulator, emulator.put(indices), d)
    assert taken[0] == expected.size // 4
    section = words[: taken[0]]
    assert section.tobytes() == expected.tobytes()
    back, bad = decode(emulator, emulator.put(section), d, indices.size)
    assert not bad[0]
    assert back.tobytes() == indices.tobytes()


@pytest.mark.parametrize("codec", CODECS)
def test_rejects_what_the_cpu_rejects(codec: str) -> None:
    """Flip bits, cut and append words, change counts: the result is the CPU's."""
    emulator = Emulator(5, 3)
    rng = np.random.default_rng(17)
    on_cpu, _, decode = CODECS[codec]
    refused = 0
    for d, r in ((20_000, 300), (20_000, 5000), (1_000_000, 4097), (70, 35)):
        whole = on_cpu.encode(support(rng, d, r), d, 0).view(np.uint32)
        for section in (*corrupt(rng, whole, 25), whole[:-1], whole[:1], np.append(whole, whole[-1:])):
            for count in (r, r + 1):
                refused += rejected_by_both(emulator, on_cpu, decode, section, d, count)
    assert refused > 100


def corrupt(rng: np.random.Generator, words: Array, times: int) -> list[Array]:
    found = []
    for _ in range(times):
        one = words.copy()
        one[rng.integers(one.size) // rng.choice([1, 10, 100])] ^= np.uint32(1 << rng.integers(32))
        found.append(one)
    return found


def rejected_by_both(
    emulator: Emulator, on_cpu: Any, decode: Callable[..., Any], words: Array, d: int, r: int
) -> bool:
    """Return whether both reject the section; they must agree."""
    back, bad = decode(emulator, emulator.put(words), d, r)
    try:
        expected = on_cpu.decode(np.ascontiguousarray(words).view(np.uint8), d, r, DEFAULT_LIMITS)
    except wc.WireError:
        assert bad[0], "the CPU refuses this"
        return True
    assert not bad[0], "the CPU reads this"
    assert back.tobytes() == expected.tobytes()
    return False
