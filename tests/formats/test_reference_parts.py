"""Parts of the reference decoder against independent definitions: draws, floats, bits, Rice."""

from __future__ import annotations

import ast
import math
import re
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import formats
from formats.reference import floats, prng
from formats.reference.bits import has_bit_from, pack_lanes, pack_stream, unpack_lanes, unpack_stream
from formats.reference.index.rice import decode_rice
from formats.reference.writing.index.rice import choose_parameter, write_rice

FORMATS = Path(formats.__file__).resolve().parent
quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


# ---- randomness (SPEC section 5) ----


def _spec_calls() -> list[tuple[str, str]]:
    rows = re.findall(
        r"^\| ((?:mix|draw)[^|]*) \| (0x[0-9a-f]+) \|$", (FORMATS / "spec" / "writing.md").read_text(), re.M
    )
    assert len(rows) == 13
    return rows


@pytest.mark.parametrize(("call", "result"), _spec_calls())
def test_spec_randomness(call: str, result: str) -> None:
    def value(node: ast.expr) -> int:
        if isinstance(node, ast.Constant):
            assert isinstance(node.value, int)
            return node.value
        assert isinstance(node, ast.Call)
        assert isinstance(node.func, ast.Name)
        return int(getattr(prng, node.func.id)(*map(value, node.args)))

    assert value(ast.parse(call, mode="eval").body) == int(result, 16)


def test_draw16_uses_every_half_once() -> None:
    stream = prng.mix(5)
    words = [prng.draw32(stream, i) for i in range(512)]
    halves = sorted(h for w in words for h in (w >> 16, w & 0xFFFF))
    assert sorted(prng.draw16(stream, p) for p in range(1024)) == halves


# ---- floats ----


def _bits(letter: str, x: float) -> int:
    return int.from_bytes(struct.pack("<" + letter, x), "little")


@given(st.floats(allow_nan=False))
@quick
def test_convert_agrees_with_struct(x: float) -> None:
    wide = _bits("d", x)
    for letter, target in (("f", floats.FLOAT32), ("e", floats.FLOAT16)):
        try:
            expected = _bits(letter, x)
        except OverflowError:
            expected = target.infinity | (target.sign if x < 0 else 0)
        assert floats.convert(wide, floats.FLOAT64, target) == expected


@given(st.integers(0, 2**16 - 1), st.sampled_from([floats.FLOAT16, floats.BFLOAT16]))
@settings(max_examples=150)
def test_widening_is_exact_and_comes_back(bits: int, narrow: floats.Format) -> None:
    for wide in (floats.FLOAT32, floats.FLOAT64):
        there = floats.convert(bits, narrow, wide)
        back = floats.convert(there, wide, narrow)
        if bits & (narrow.sign - 1) > narrow.infinity:
            assert there & (wide.sign - 1) > wide.infinity
            bits |= 1 << (narrow.fraction_bits - 1)  # narrowing makes NaNs quiet
        assert back == bits


def test_narrowing_makes_nans_quiet() -> None:
    """Decoders never narrow a NaN, but writers do."""
    for target, quiet in ((floats.FLOAT16, 0x7E00), (floats.BFLOAT16, 0x7FC0), (floats.FLOAT32, 0x7F800001)):
        assert floats.convert(0x7F800001, floats.FLOAT32, target) == quiet


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=150)
def test_bfloat16_rounding_is_the_known_trick(bits: int) -> None:
    """Adding 0x7FFF plus the last kept bit rounds finite numbers to nearest even."""
    if bits & 0x7FFFFFFF < 0x7F800000:
        expected = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
        assert floats.convert(bits, floats.FLOAT32, floats.BFLOAT16) == expected


@pytest.mark.parametrize("x", [3.5e38, -3.5e38, math.inf, -math.inf])
def test_round32_overflows_to_infinity(x: float) -> None:
    assert floats.round_to_float32(x) == math.copysign(math.inf, x)


# ---- bits ----


@given(st.data(), st.integers(0, 24), st.sampled_from([8, 16]))
@quick
def test_lanes_and_streams_come_back(data: st.DataObject, width: int, lanes: int) -> None:
    numbers = st.integers(0, 2**width - 1)
    block = data.draw(st.lists(numbers, min_size=32 * lanes, max_size=32 * lanes))
    packed = pack_lanes(block, lanes, width)
    assert len(packed) == 4 * lanes * width
    assert unpack_lanes(packed, lanes, width) == block
    row, lane = 7, 3  # the definition, for one value: bits row*width … of the words lane, lane + lanes, ...
    words = struct.unpack(f"<{lanes * width}I", packed)[lane::lanes]
    stream = sum(word << 32 * w for w, word in enumerate(words))
    assert stream >> row * width & (2**width - 1) == block[row * lanes + lane]
    some = block[: data.draw(st.integers(0, 40))]
    packed = pack_stream(some, width, 4)
    assert len(packed) == -(-len(some) * width // 32) * 4
    assert unpack_stream(packed, len(some), width) == some
    assert not has_bit_from(packed, len(some) * width)


# ---- rice ----

gap_blocks = st.one_of(
    st.lists(st.integers(0, 2**24 - 1), min_size=1, max_size=256),
    st.builds(
        lambda n, k, m: [2**k] * n + [m * 2**k] * 9, st.integers(1, 90), st.integers(0, 20), st.integers(0, 9)
    ),
    st.builds(lambda n, k: [2**k - 1] * n, st.integers(1, 256), st.integers(0, 24)),
    st.builds(lambda n, g: [0] * n + [g], st.integers(0, 255), st.integers(0, 2**24 - 1)),
)


@given(gap_blocks)
@settings(max_examples=150)
def test_four_parameters_are_enough(gaps: list[int]) -> None:
    """spec/index/rice.md states that the best b is one of f-1 … f+2."""
    assert -1 <= choose_parameter(gaps) - _guess(gaps) <= 2


@pytest.mark.parametrize(
    ("gaps", "beyond"), [([23], -1), ([0], 0), ([3, 1], 1), ([64] * 82 + [192] * 18, 2)], ids=str
)
def test_each_of_the_four_is_best_somewhere(gaps: list[int], beyond: int) -> None:
    assert choose_parameter(gaps) == _guess(gaps) + beyond


def _guess(gaps: Sequence[int]) -> int:
    """Return the f of the page."""
    return math.floor(math.log2(max(1, 0.7 * sum(gaps) / len(gaps))))


def test_rice_by_hand() -> None:
    """Two gaps, 5 and 2, at b = 1: parameter; low bits 1, 0; quotients 2 and 1: 001 01."""
    assert write_rice([5, 8], [1]) == struct.pack("<III", 1, 0b01, 0b10100)
    assert decode_rice(struct.pack("<III", 1, 0b01, 0b10100), 2, 9) == [5, 8]
