"""The reference decoder and writer: round trips, floats and randomness against independent definitions."""

from __future__ import annotations

import ast
import contextlib
import math
import re
import struct
import sys
import time
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import formats
from formats.reference import (
    Limits,
    Qsgd,
    Raw,
    Rice,
    Row,
    SchemaMismatch,
    Tensor,
    WireError,
    assemble,
    decode,
    draws,
    floats,
    reseal,
    write,
)
from formats.reference.bits import any_bit_from, pack_lanes, pack_stream, unpack_lanes, unpack_stream
from formats.reference.index_writers import best_parameter, write_rice
from formats.reference.rice import decode_rice
from formats.reference.writer import Index

FORMATS = Path(formats.__file__).resolve().parent
DTYPES = ["float32", "float16", "bfloat16", "float64"]
quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


# ---- the house rules ----


@pytest.mark.parametrize("path", sorted(FORMATS.rglob("*.py")), ids=lambda p: str(p.relative_to(FORMATS)))
def test_standard_library_only(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree), "a file opens with what it promises"
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
        for name in names:
            top = name.partition(".")[0]
            assert top == "formats" or top in sys.stdlib_module_names, name


# ---- randomness (SPEC section 5) ----


def _spec_calls() -> list[tuple[str, str]]:
    rows = re.findall(
        r"^\| ((?:mix|draw)[^|]*) \| (0x[0-9a-f]+) \|$", (FORMATS / "SPEC.md").read_text(), re.M
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
        return int(getattr(draws, node.func.id)(*map(value, node.args)))

    assert value(ast.parse(call, mode="eval").body) == int(result, 16)


def test_draw16_uses_every_half_once() -> None:
    stream = draws.mix(5)
    words = [draws.draw32(stream, i) for i in range(512)]
    halves = sorted(h for w in words for h in (w >> 16, w & 0xFFFF))
    assert sorted(draws.draw16(stream, p) for p in range(1024)) == halves


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
@settings(max_examples=500, deadline=None)
def test_widening_is_exact_and_comes_back(bits: int, narrow: floats.Format) -> None:
    for wide in (floats.FLOAT32, floats.FLOAT64):
        there = floats.convert(bits, narrow, wide)
        back = floats.convert(there, wide, narrow)
        if bits & (narrow.sign - 1) > narrow.infinity:
            assert there & (wide.sign - 1) > wide.infinity
            bits |= 1 << (narrow.fraction_bits - 1)  # narrowing makes NaNs quiet
        assert back == bits


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=500, deadline=None)
def test_bfloat16_rounding_is_the_known_trick(bits: int) -> None:
    """Round to nearest even by adding 0x7FFF plus the last kept bit, as is done for finite numbers."""
    if bits & 0x7FFFFFFF < 0x7F800000:
        expected = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
        assert floats.convert(bits, floats.FLOAT32, floats.BFLOAT16) == expected


@pytest.mark.parametrize("x", [3.5e38, -3.5e38, math.inf, -math.inf])
def test_round32_overflows_to_infinity(x: float) -> None:
    assert floats.round32(x) == math.copysign(math.inf, x)


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
    assert not any_bit_from(packed, len(some) * width)


# ---- round trips ----


@st.composite
def supports(draw: st.DrawFn) -> tuple[int, list[int]]:
    d = draw(st.one_of(st.integers(0, 70), st.sampled_from([255, 256, 257, 4096, 4097, 9000, 70_000, 2**24])))
    r = draw(st.one_of(st.integers(0, min(d, 40)), st.sampled_from([min(d, n) for n in (256, 4097)])))
    step = max(d // max(r, 1), 1)
    seed = draw(st.integers(0, 2**32))
    if r > 40:
        return d, [i * step + draws.draw32(seed, i) % step for i in range(r)]
    return d, sorted(draw(st.sets(st.integers(0, d - 1), min_size=r, max_size=r))) if r else []


INDEX: list[Index] = ["raw-index", "bitmap", Rice(), Rice((0, 3)), Rice((24,)), Rice((7, 1, 0))]


@given(supports(), st.sampled_from(INDEX), st.sampled_from(DTYPES), st.binary(min_size=8, max_size=8))
@quick
def test_raw_round_trip(support: tuple[int, list[int]], index: Index, dtype: str, seed: bytes) -> None:
    d, indices = support
    if d > 10_000 and (index == "bitmap" or (isinstance(index, Rice) and index.parameters)):
        index = Rice()
    size = floats.BY_NAME[dtype].itemsize * len(indices)
    values = (seed * (size // 8 + 1))[:size]
    t = Tensor("w", dtype, (d,), indices, values)
    (back,) = decode(write([t], index)).tensors
    assert (back.name, back.dtype, back.shape, back.values) == ("w", dtype, (d,), values)
    assert list(back.indices) == indices


@st.composite
def models(draw: st.DrawFn) -> list[Tensor]:
    names = draw(st.lists(st.text(max_size=6), unique=True, max_size=6))
    tensors = []
    for name in names:
        shape = tuple(draw(st.lists(st.integers(0, 5), max_size=3)))
        size = math.prod(shape)
        indices = sorted(draw(st.sets(st.integers(0, size - 1)))) if size else []
        values = draw(st.binary(min_size=4 * len(indices), max_size=4 * len(indices)))
        tensors.append(Tensor(name, "float32", shape, indices, values))
    return tensors


@given(models(), st.sampled_from(INDEX[:3]), st.data())
@quick
def test_many_tensors_fused_or_not(tensors: list[Tensor], index: Index, data: st.DataObject) -> None:
    names = [t.name for t in tensors]
    cut = data.draw(st.integers(0, len(names)))
    groups = [group for group in (names[:cut], names[cut:]) if len(group) > 1 and data.draw(st.booleans())]
    tag = data.draw(st.binary(max_size=9))
    blob = write(tensors, index, groups=groups, tag=tag)
    back = decode(blob, schema={t.name: (t.shape, t.dtype) for t in tensors})
    assert back.tag == tag
    wanted = sorted(tensors, key=lambda t: t.name.encode())
    assert [(t.name, t.shape, list(t.indices), t.values) for t in back.tensors] == [
        (t.name, t.shape, t.indices, t.values) for t in wanted
    ]
    digits = decode(write(tensors, index, groups=groups, names=False))
    assert [t.name for t in digits.tensors] == [str(key) for key in range(len(tensors))]


@given(
    st.lists(st.floats(-(2.0**99), 2.0**99, width=32), min_size=1, max_size=600),
    st.integers(2, 8),
    st.sampled_from([16, 48, 512, 2**24]),
    st.sampled_from(["max", "l2"]),
    st.integers(0, 2**64 - 1),
)
@quick
def test_qsgd_is_within_a_step(
    numbers: list[float], bits: int, bucket: int, norm: Literal["max", "l2"], seed: int
) -> None:
    """Every value lies on one of the two levels around it, as the codec's paper has it."""
    t = Tensor(
        "w", "float32", (len(numbers),), range(len(numbers)), struct.pack(f"<{len(numbers)}f", *numbers)
    )
    (back,) = decode(write([t], value=Qsgd(bits, bucket, norm), seed=seed)).tensors
    values = struct.unpack(f"<{len(numbers)}f", back.values)
    s = 2 ** (bits - 1) - 1
    for first in range(0, len(numbers), bucket):
        part = numbers[first : first + bucket]
        scale = max(map(abs, part)) if norm == "max" else math.sqrt(math.fsum(x * x for x in part))
        for x, y in zip(part, values[first:], strict=False):
            assert abs(x - y) <= scale / s * (1 + 1e-4) + 2.0**-100


def test_qsgd_is_unbiased() -> None:
    n = 4096
    t = Tensor("w", "float32", (n,), range(n), struct.pack("<f", 0.3) * (n - 1) + struct.pack("<f", 1.0))
    (back,) = decode(write([t], value=Qsgd(2, 2**24), seed=1)).tensors
    mean = sum(struct.unpack(f"<{n}f", back.values)) / n
    assert abs(mean - 0.3) < 4 * math.sqrt(0.21 / n)


@pytest.mark.parametrize("bits", [0x7F800000, 0xFF800000, 0x7FC00000])
def test_writers_refuse_what_they_cannot_hold(bits: int) -> None:
    t = Tensor("w", "float32", (2,), [0, 1], struct.pack("<2I", 0, bits))
    with pytest.raises(ValueError, match="value 1"):
        write([t], value=Qsgd())
    big = Tensor("w", "float32", (2,), [0, 1], struct.pack("<2f", 0, 65_520.0))
    with pytest.raises(ValueError, match="value 1"):
        write([big], value=Raw("float16"))


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
@settings(max_examples=400, deadline=None)
def test_four_parameters_are_enough(gaps: list[int]) -> None:
    """The claim of spec/index/rice.md: the best b is one of f-1 … f+2."""
    assert -1 <= best_parameter(gaps) - _guess(gaps) <= 2


@pytest.mark.parametrize(
    ("gaps", "beyond"), [([23], -1), ([0], 0), ([3, 1], 1), ([64] * 82 + [192] * 18, 2)], ids=str
)
def test_each_of_the_four_is_best_somewhere(gaps: list[int], beyond: int) -> None:
    assert best_parameter(gaps) == _guess(gaps) + beyond


def _guess(gaps: Sequence[int]) -> int:
    """The page's f."""
    return math.floor(math.log2(max(1, 0.7 * sum(gaps) / len(gaps))))


def test_rice_by_hand() -> None:
    """Two gaps, 5 and 2, at b = 1: parameter; low bits 1, 0; quotients 2 and 1: 001 01."""
    assert write_rice([5, 8], [1]) == struct.pack("<III", 1, 0b01, 0b10100)
    assert decode_rice(struct.pack("<III", 1, 0b01, 0b10100), 2, 9) == [5, 8]


# ---- refusals ----


def _small() -> dict[str, bytes]:
    ones = struct.pack("<40f", *range(40))
    some = [Tensor("a", "float32", (60,), sorted(range(0, 60, 3))[:20], ones[:80])]
    two = [Tensor("a", "float32", (2, 4), [1, 6], ones[:8]), Tensor("b", "float32", (3,), [2], ones[:4])]
    return {
        "raw": write(some),
        "bitmap-half": write(some, "bitmap", Raw("float16")),
        "rice-qsgd": write(some, Rice(), Qsgd(4, 16)),
        "rice-lanes": write([Tensor("a", "float16", (600,), range(0, 600, 2), bytes(600))], Rice(), Qsgd(2)),
        "fused": write(two, groups=["ab"], tag=b"tag"),
    }


@pytest.mark.parametrize("name", _small())
def test_resealed_bit_flips_decode_or_are_refused(name: str) -> None:
    data = _small()[name]
    outcomes = set()
    for bit in range(8 * len(data)):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            decode(reseal(bytes(damaged)))
        except WireError as error:
            outcomes.add(error.kind)
    assert {"Malformed", "Invalid", "Unsupported"} <= outcomes


@given(
    st.sampled_from(sorted(_small())),
    st.lists(st.tuples(st.integers(0, 399), st.binary(max_size=8)), max_size=4),
)
@settings(max_examples=300, deadline=None)
def test_resealed_damage_decodes_or_is_refused(name: str, edits: list[tuple[int, bytes]]) -> None:
    data = bytearray(_small()[name])
    for at, patch in edits:
        data[at : at + len(patch)] = patch
    with contextlib.suppress(WireError):
        decode(reseal(bytes(data)), Limits(max_elements=2**20))


def test_reseal_changes_nothing_that_is_right() -> None:
    for data in _small().values():
        assert reseal(data) == data


def test_single() -> None:
    one, two = _small()["raw"], _small()["fused"]
    assert len(decode(one, single=True).tensors) == 1
    for data in (two, two[:-1] + b"\1", write([])):
        with pytest.raises(SchemaMismatch) as caught:
            decode(data, single=True)
        assert caught.value.code == "schema-count"


def test_positions() -> None:
    data = _small()["raw"]
    damaged = reseal(data[:-80] + b"")  # a row of the frame
    with pytest.raises(WireError) as caught:
        decode(damaged)
    assert caught.value.offset == len(data) - 80
    head = len(write([Tensor("a", "float32", (60,), [], b"")]))
    with pytest.raises(WireError) as caught:
        decode(reseal(data[:head] + b"\7" + data[head + 1 :]))
    error = caught.value
    assert (error.kind, error.code, error.entry, error.offset) == ("Invalid", "index-order", 0, head)
    assert str(error).startswith("index-order: ")


def test_a_full_support_costs_nothing() -> None:
    values = struct.pack("<BBHII", 2, 0, 0, 2**24, 0) + b"\x55" * 4
    t = decode(assemble([Row(0, 0, 16, 16, 1, 1, 4, value_section=values)])).tensors[0]
    assert t.indices == range(16)
    rows = [Row(0, n << 24, 1 << 24, 0, 1, 1, 1) for n in range(200)]
    assert decode(assemble(rows)).tensors[0].shape == (200 << 24,)


def test_hostile_sizes_are_cheap() -> None:
    hostile = [
        assemble([Row(0, 0, 2**24, 2**24, 1, 1, codec, value_section=bytes(16))]) for codec in (1, 2, 3, 4)
    ] + [assemble([Row(0, 0, 2**24, 2**24 - 1, 1, codec, 1, bytes(16), bytes(16))]) for codec in (1, 2, 3)]
    tracemalloc.start()
    started = time.perf_counter()
    for data in hostile:
        with pytest.raises(WireError):
            decode(data, Limits(max_expansion=2**32))
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()
    assert time.perf_counter() - started < 1


def test_4097_indices_decode_fast_enough() -> None:
    t = Tensor("w", "float32", (40_970,), range(0, 40_970, 10), bytes(4 * 4097))
    data = write([t], Rice(), Qsgd(4))
    started = time.perf_counter()
    decode(data)
    assert time.perf_counter() - started < 1  # it takes a few milliseconds
