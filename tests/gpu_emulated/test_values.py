"""Value codecs on the device: the bytes of the CPU's codecs, and the values that those decode."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from tests.gpu_emulated.emulator import Emulator
from tests.inputs import Array, value_vectors
from wirecodec.arrays import bits_of
from wirecodec.element_types import BFLOAT16
from wirecodec.kernels.cpu.coding import narrow
from wirecodec.kernels.cuda import elements, offset_float, qsgd, sign_scale
from wirecodec.limits import DEFAULT_LIMITS
from wirecodec.value.float32_convert import MAX_FLOAT32, to_float32

STREAM = 0x0123456789ABCDEF
SINGLE = np.dtype(np.float32)
VECTORS = value_vectors(np.random.default_rng(5), np.float32)


@pytest.mark.sampled
@pytest.mark.parametrize("name", VECTORS)
@pytest.mark.parametrize("bits", [2, 4, 7, 8])
def test_qsgd(emulator: Emulator, name: str, bits: int) -> None:
    x = VECTORS[name]
    for bucket, norm in ((512, 0), (16, 0), (48, 0), (2048, 0), (512, 1), (64, 1)):
        codec = wc.codecs.QSGD(bits, bucket, ("max", "l2")[norm])
        expected = codec.encode(x, STREAM)
        there = emulator.put(bits_of(x))
        section = qsgd.encode(emulator, there, bits, bucket, norm, MAX_FLOAT32["float32"], STREAM)
        assert section.tobytes() == expected.tobytes()
        out, bad = qsgd.decode(emulator, section, x.size, bits, bucket)
        assert not bad[0]
        back = wc.codecs.QSGD.decode(expected, x.size, SINGLE, DEFAULT_LIMITS)
        assert out.tobytes() == back.tobytes()


def test_qsgd_reports_invalid_codes(emulator: Emulator) -> None:
    x = np.zeros(600, np.float32)
    x[:512] = 1
    section = qsgd.encode(emulator, emulator.put(bits_of(x)), 4, 512, 0, MAX_FLOAT32["float32"], STREAM)
    for at, code in ((16, 0xF), (section.size - 1, 0x1)):  # above 2s; not s in a bucket of scale 0
        wrong = emulator.put(section)
        wrong[at] = code
        assert qsgd.decode(emulator, wrong, 600, 4, 512)[1][0] == 1
        with pytest.raises(wc.Invalid, match="code"):
            wc.codecs.QSGD.decode(wrong.copy(), 600, SINGLE, DEFAULT_LIMITS)


OFFSETS: list[dict[str, Any]] = [
    {},
    {"mantissa": 3, "min": -2.0, "max": 2.0, "eps": 0.125},
    {"mantissa": 0},
    {"max": 0.5},
    {"min": 0.0},
    {"eps": 0.01},
]


@pytest.mark.sampled
@pytest.mark.parametrize("name", VECTORS)
@pytest.mark.parametrize("rounding", ["nearest", "stochastic"])
def test_offset_float(emulator: Emulator, name: str, rounding: str) -> None:
    x = VECTORS[name]
    for bits, given in zip((8, 8, 5, 2, 12, 16), OFFSETS, strict=True):
        codec = wc.codecs.OffsetFloat(bits=bits, rounding=rounding, **given)
        expected = codec.encode(x, STREAM)
        eps, up, down = (
            None if each is None else magnitude(each) for each in (codec.eps, codec.max, codec.min)
        )
        largest = magnitude(MAX_FLOAT32["float32"])
        stochastic = rounding == "stochastic"
        asked = offset_float.OffsetFormat(bits, codec.mantissa, eps, up, down, largest, stochastic)
        section = offset_float.encode(emulator, emulator.put(bits_of(x)), asked, STREAM)
        assert section.tobytes() == expected.tobytes()
        n, m, _, positive, negative, base = struct.unpack("<BBHHHI", expected[:12].tobytes())
        head = n, m, base, positive, negative
        out, bad = offset_float.decode(emulator, section, x.size, head)
        assert not bad[0]
        back = wc.codecs.OffsetFloat.decode(expected, x.size, SINGLE, DEFAULT_LIMITS)
        assert out.tobytes() == back.tobytes()
        if positive + negative < 2**n - 1:
            section[12:] = 0xFF
            assert offset_float.decode(emulator, section, x.size, head)[1][0] == 1


def magnitude(x: float) -> int:
    return int(np.array([abs(x)], np.float32).view(np.uint32)[0])


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_sign_scale(emulator: Emulator, kind: Any) -> None:
    cases = value_vectors(np.random.default_rng(6), kind)
    if kind == np.float64:
        cases |= {"overflowing": np.array([1e308, -1.5e308, 1.7e308]), "alike": np.full(100, -0.1)}
    for x in cases.values():
        expected = wc.codecs.SignScale().encode(x, STREAM)
        section = sign_scale.encode(emulator, emulator.put(x))
        assert section.tobytes() == expected.tobytes()
        head = x.dtype.itemsize
        zero = section[:head].view(bits_of(x).dtype)[0]
        one = zero | zero.dtype.type(1 << (8 * head - 1))
        out = sign_scale.expand(emulator, section[head:], x.size, zero, one)
        back = wc.codecs.SignScale.decode(expected, x.size, x.dtype, DEFAULT_LIMITS)
        assert out.tobytes() == back.tobytes()


def corner_words(width: int) -> Array:
    """Return raw bits of every kind of number, and those at which rounding to 16 bits changes."""
    rng = np.random.default_rng(width)
    kind = np.dtype(f"u{width}")
    turns = "0 1 7C00 7F80 3F000000 477FEFFF 477FF000 7F7F7FFF 7F7F8000 38800000 387FFFFF 7F800000 7F800001"
    turns += " 7FC00000 33000000 33000001 007FFFFF 00800000"
    found = np.array([int(each, 16) for each in turns.split()], np.uint64)
    if width == 8:
        singles = found.astype(np.uint32).view(np.float32)[
            ~np.isnan(found.astype(np.uint32).view(np.float32))
        ]
        exact = singles.astype(np.float64).view(np.uint64)
        nan = np.array([0x7FF0000000000001, 0x7FF8000000000000], np.uint64)
        found = np.concatenate([exact, exact + np.uint64(1), exact - np.uint64(1), nan])
    drawn = rng.integers(0, 2 ** (8 * width), 2000, dtype=np.uint64)
    both = np.concatenate([found, drawn])
    return np.concatenate([both, both | np.uint64(1 << (8 * width - 1))]).astype(kind)


@pytest.mark.parametrize("width", [4, 8])
@pytest.mark.parametrize("stored", [np.dtype(np.float16), BFLOAT16], ids=str)
def test_narrowing(emulator: Emulator, width: int, stored: Any) -> None:
    words = corner_words(width)
    name = f"{'half' if stored == np.float16 else 'bfloat16'}_from_f{8 * width}"
    expected = np.empty(words.size, np.uint16)
    over = getattr(narrow, name)(words, expected)
    made, flag = elements.narrow(emulator, emulator.put(words), stored)
    assert made.tobytes() == expected.tobytes()
    infinity = np.uint16(0x7C00 if stored == np.float16 else 0x7F80)
    wide = words.dtype.type(0x7F800000 if width == 4 else 0x7FF << 52)
    at = narrow.first_overflow(expected, infinity, words, wide, words.dtype.type(2 ** (8 * width - 1) - 1))
    assert over
    assert flag[0] == at
    few = emulator.put(np.ones(5, words.dtype))
    assert elements.narrow(emulator, few, stored)[1][0] == elements.NOWHERE


def test_widening(emulator: Emulator) -> None:
    words = np.arange(2**16, dtype=np.uint32).astype(np.uint16)
    for kind in (np.dtype(np.float16), BFLOAT16):
        made, _ = elements.to_float32(emulator, emulator.put(words), kind)
        assert made.tobytes() == to_float32(words.view(kind), "test").tobytes()
        assert elements.from_float32(emulator, made[:2], kind).tobytes() == words[:2].tobytes()


def test_doubles(emulator: Emulator) -> None:
    words = corner_words(8)
    x = words.view(np.float64)
    with np.errstate(all="ignore"):
        single = x.astype(np.float32)
    made, over = elements.to_float32(emulator, emulator.put(words), np.float64)
    number = ~np.isnan(x)
    assert made[number].tobytes() == bits_of(single)[number].tobytes()
    assert over[0] == np.flatnonzero(np.isinf(single) & np.isfinite(x))[0]
    words = corner_words(4)
    made = elements.from_float32(emulator, emulator.put(words), np.float64)
    back = wc.value.raw._to_float64(words.view(np.float32))
    assert made.tobytes() == back.tobytes()


def test_gathering(emulator: Emulator, dtype: Any) -> None:
    words = bits_of(np.random.default_rng(1).standard_normal(3000).astype(dtype))
    numbers = np.random.default_rng(2).integers(0, 3000, 1000).astype(np.uint32)
    made = elements.gather(emulator, emulator.put(words), emulator.put(numbers))
    assert made.tobytes() == words[numbers].tobytes()
