"""Tests of ``context``: sizes against zstd and other codecs, periods, hostile sections."""

from __future__ import annotations

import time
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wirecodec as wc
from formats import reference
from formats.reference.writing.index.context import find_period
from tests import inputs, oracles
from wirecodec.kernels.cpu.index import context
from wirecodec.limits import UNLIMITED

SUPPORTS = inputs.supports(np.random.default_rng(1))


def striped(rng: np.random.Generator, rows: int, period: int, high: float = 0.6, low: float = 0.01) -> Any:
    """Return a support in which a tenth of the columns are dense and the others sparse."""
    likely = np.where(rng.random(period) < 0.1, high, low)
    return np.flatnonzero(rng.random((rows, period)).ravel() < np.tile(likely, rows)).astype(np.uint32)


def size(codec: Any, indices: Any, d: int) -> int:
    return int(codec.encode(indices, d, 0).size)


def top(x: Any, ratio: float) -> Any:
    k = max(1, int(x.size * ratio))
    return np.sort(np.argpartition(-np.abs(x), k - 1)[:k]).astype(np.uint32)


@pytest.mark.parametrize("ratio", [0.1, 0.01, 0.001])
def test_gradients_are_smaller_than_huffman_and_zstd(gradient: Any, ratio: float) -> None:
    """Compare with huffman at high density, and with zstd of the gaps in the narrowest integer type."""
    indices = top(gradient, ratio)
    found = size(wc.codecs.ContextIndex(), indices, gradient.size)
    assert found < size(wc.codecs.Huffman(), indices, gradient.size) or ratio < 0.1
    zstandard = pytest.importorskip("zstandard")
    gaps = np.diff(indices.astype(np.int64), prepend=-1) - 1
    narrow = gaps.astype(np.min_scalar_type(int(gaps.max())))
    assert found < len(zstandard.ZstdCompressor(level=19).compress(narrow.tobytes()))


@pytest.mark.parametrize(("density", "ratio"), [(0.1, 1.01), (0.01, 1.02), (0.001, 1.06)])
def test_uniform_supports_take_nearly_the_entropy(density: float, ratio: float) -> None:
    d = 2_000_000
    indices = inputs.support(np.random.default_rng(4), d, int(d * density))
    assert 8 * size(wc.codecs.ContextIndex(), indices, d) <= ratio * oracles.entropy_bits(d, indices.size)


def test_stripes_take_the_entropy_of_their_columns() -> None:
    rows, period = 1000, 700
    indices = striped(np.random.default_rng(3), rows, period)
    counts = np.bincount(indices % period, minlength=period)
    entropy = sum(oracles.entropy_bits(rows, int(n)) for n in counts if 0 < n < rows)
    assert 8 * size(wc.codecs.ContextIndex(), indices, rows * period) <= 1.12 * entropy
    assert 8 * size(wc.codecs.ContextIndex(0), indices, rows * period) > 1.5 * entropy


@pytest.mark.parametrize("period", [64, 65, 127, 400, 1001, 16_384])
def test_find_period_finds_the_row_length(period: int) -> None:
    indices = striped(np.random.default_rng(period), max(30, 200_000 // period), period)
    assert context.find_period(indices) == period


def test_find_period_returns_0_for_uniform_supports() -> None:
    rng = np.random.default_rng(7)
    for d, r in ((100_000, 10_000), (1_000_000, 10_000), (2**24, 17_000), (1000, 2)):
        assert context.find_period(inputs.support(rng, d, r)) == 0


@settings(max_examples=60)
@given(st.integers(2, 3000), st.integers(64, 500), st.integers(0, 2**32), st.sampled_from([0.0, 0.02, 0.3]))
def test_sections_match_the_reference_writer(d: int, period: int, seed: int, low: float) -> None:
    rng = np.random.default_rng(seed)
    indices = striped(rng, -(-d // period), period, low=low)
    indices = indices[indices < d]
    if not 0 < indices.size < d:
        indices = np.array([seed % d], np.uint32)
    for given_period in (None, 0, period, 16_384):
        section = wc.codecs.ContextIndex(given_period).encode(indices, d, 0)
        assert section.tobytes() == reference.Context(given_period).write_section(indices.tolist(), d)
        assert np.array_equal(wc.codecs.ContextIndex.decode(section, d, indices.size, UNLIMITED), indices)
    assert context.find_period(indices) == find_period(indices.tolist())


@pytest.mark.parametrize("case", SUPPORTS)
def test_the_smallest_auto_index_is_never_larger(case: str) -> None:
    d, indices = SUPPORTS[case]
    codec, section = wc.codecs.AutoIndex(smallest=True).choose(indices, d, 0)
    assert np.array_equal(type(codec).decode(section, d, indices.size, UNLIMITED), indices)
    fast, its_section = wc.codecs.AutoIndex().choose(indices, d, 0)
    assert fast.name != "context"
    assert section.size == min(its_section.size, size(wc.codecs.ContextIndex(), indices, d))


def test_the_smallest_auto_index_is_a_scheme(gradient: Any) -> None:
    scheme = "topk(0.1) | auto-index(smallest=True) | raw"
    assert str(wc.Scheme.parse(scheme)) == scheme
    blob = wc.encode(gradient, scheme)
    assert wc.inspect(blob).entries[0].index == "context"
    assert np.array_equal(wc.decode(blob).indices, top(gradient, 0.1))
    with pytest.raises(wc.EncodeError, match="smallest is 1; it must be True or False"):
        wc.codecs.AutoIndex(smallest=1)


def test_walk_returns_the_length_even_if_the_buffer_is_too_small() -> None:
    rng = np.random.default_rng(9)
    indices = inputs.support(rng, 20_000, 10_000)
    section = wc.codecs.ContextIndex().encode(indices, 20_000, 0)
    small = np.zeros(section.size - 7, np.uint8)
    needed = context.walk(small, indices.copy(), 0, 20_000, True)
    assert needed == section.size - 2
    assert np.array_equal(wc.codecs.ContextIndex.decode(section, 20_000, 10_000, UNLIMITED), indices)


def test_each_support_has_one_section() -> None:
    """Check all one-byte sections of one index among 40: only those that a writer produces decode."""
    read = set()
    for byte in range(256):
        section = np.array([0, 0, byte], np.uint8)
        try:
            found = wc.codecs.ContextIndex.decode(section, 40, 1, UNLIMITED)
        except wc.WireError:
            continue
        assert np.array_equal(wc.codecs.ContextIndex(0).encode(found, 40, 0), section)
        read.add(int(found[0]))
    assert len(read) > 20


def test_invalid_periods_raise() -> None:
    for wrong in (1, 63, 16_385, -1):
        with pytest.raises(wc.EncodeError, match=rf"period is {wrong}; it must be 0 or 64 to 16384"):
            wc.codecs.ContextIndex(wrong)
    with pytest.raises(wc.EncodeError, match="must be an integer"):
        wc.codecs.ContextIndex(400.0)


@pytest.mark.parametrize("period", [0, 64, 16_384])
def test_hostile_sections_cost_at_most_their_work(period: int) -> None:
    """Decode few bytes that need the longest loops: nearly empty and nearly full supports."""
    d = 2**24
    head = period.to_bytes(2, "little")
    for code, r in ((b"\xff" * 4, 1), (b"\0" * 4, d - 1), (b"\xff" * 400, 1), (b"\x55" * 4000, d // 2)):
        section = np.frombuffer(head + code, np.uint8)
        assert wc.codecs.ContextIndex.work(section, d, r) == d
        with pytest.raises(wc.WireError):
            wc.codecs.ContextIndex.decode(section, d, r, UNLIMITED)  # loads the kernels
        start = time.perf_counter()
        tracemalloc.start()
        try:
            with pytest.raises(wc.WireError):
                wc.codecs.ContextIndex.decode(section, d, r, UNLIMITED)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert time.perf_counter() - start < 3
        assert peak <= 65_536 + 4 * (section.size + 12 * r)
