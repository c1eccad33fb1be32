"""The reference decoder and writer as a whole: house rules, round trips, refusals."""

from __future__ import annotations

import ast
import contextlib
import math
import struct
import sys
import time
import tracemalloc
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
    floats,
    prng,
    reseal,
    write,
)
from formats.reference.writing.container import Index

FORMATS = Path(formats.__file__).resolve().parent
DTYPES = ["float32", "float16", "bfloat16", "float64"]
quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


# ---- the house rules ----


SOURCES = sorted(path for path in FORMATS.rglob("*.py") if "reader" not in path.relative_to(FORMATS).parts)
"""All modules but what builds ``formats/reader``, by setuptools."""


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(FORMATS)))
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


# ---- round trips ----


@st.composite
def supports(draw: st.DrawFn) -> tuple[int, list[int]]:
    d = draw(st.one_of(st.integers(0, 70), st.sampled_from([255, 256, 257, 4096, 4097, 9000, 70_000, 2**24])))
    r = draw(st.one_of(st.integers(0, min(d, 40)), st.sampled_from([min(d, n) for n in (256, 4097)])))
    step = max(d // max(r, 1), 1)
    seed = draw(st.integers(0, 2**32))
    if r > 40:
        return d, [i * step + prng.draw32(seed, i) % step for i in range(r)]
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
    """Every decoded value is one of the two levels around the value, as in the codec's paper."""
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
@settings(max_examples=120)
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


def structured_chunks() -> bytes:
    """Return 255 chunks of 2^24 elements, one present in each: the complement of one listed grain."""
    section = b"\xe4" + (2**24 - 1).to_bytes(3, "little") + (1).to_bytes(3, "little")
    rows = [Row(0, n << 24, 1 << 24, 1, 1, 10, 15, section, bytes(4)) for n in range(255)]
    return assemble(rows)


def test_structured_does_not_loop_over_absent_elements() -> None:
    data = structured_chunks()
    assert len(data) == 14_304
    start = time.process_time()
    (t,) = decode(data).tensors
    assert time.process_time() - start < 0.5  # 4 ms; a step for each element takes minutes
    assert list(t.indices) == [n << 24 for n in range(255)]


def test_4097_indices_decode_fast_enough() -> None:
    t = Tensor("w", "float32", (40_970,), range(0, 40_970, 10), bytes(4 * 4097))
    data = write([t], Rice(), Qsgd(4))
    started = time.perf_counter()
    decode(data)
    assert time.perf_counter() - started < 1  # it takes a few milliseconds
