"""Tests of ``huffman``: optimal codes, sizes near the entropy, independent spans, hostile bytes."""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wirecodec as wc
from formats.reference.writing.index.huffman import classify_gap, compute_code_lengths
from tests import inputs, oracles
from wirecodec.kernels.cpu.coding import canonical_huffman
from wirecodec.kernels.cpu.index import huffman
from wirecodec.limits import UNLIMITED


def lengths_of(counts: list[int]) -> list[int]:
    found = np.empty(len(counts), np.uint8)
    canonical_huffman.build_lengths(np.array(counts, np.int64), found)
    return found.tolist()


def huffman_bits(counts: list[int]) -> tuple[int, int]:
    """Return the total bits and the longest code of an unlimited Huffman code."""
    heap = [(count, 0) for count in counts if count]
    heapq.heapify(heap)
    total = 0
    while len(heap) > 1:
        (a, deep), (b, deeper) = heapq.heappop(heap), heapq.heappop(heap)
        total += a + b
        heapq.heappush(heap, (a + b, max(deep, deeper) + 1))
    return total, heap[0][1]


COUNTS = st.one_of(
    st.lists(st.integers(0, 9), min_size=1, max_size=256),
    st.lists(st.integers(0, 2**24), min_size=1, max_size=60),
    st.lists(st.integers(0, 24).map(lambda n: 2**n), min_size=1, max_size=30),
    st.lists(st.sampled_from([0, 0, 0, 1, 2**20]), min_size=1, max_size=256),
).filter(any)


@settings(max_examples=150)
@given(COUNTS)
def test_code_lengths(counts: list[int]) -> None:
    """Check that codes are complete, at most 12 bits long, optimal, and those of the specification."""
    found = lengths_of(counts)
    present = {symbol: count for symbol, count in enumerate(counts) if count}
    assert found == [compute_code_lengths(present).get(symbol, 0) for symbol in range(len(counts))]
    if len(present) > 1:
        assert sum(2.0**-length for symbol, length in enumerate(found) if symbol in present) == 1
        assert max(found) <= 12
        total, deepest = huffman_bits(counts)
        spent = sum(count * length for count, length in zip(counts, found, strict=True))
        assert spent >= total
        if deepest <= 12:
            assert spent == total


def limited_bits(counts: list[int], limit: int) -> int:
    """Return the least total bits under a length limit, by exhaustive search; only for few symbols."""
    ordered = sorted((c for c in counts if c), reverse=True)
    best: dict[tuple[int, int], int] = {}

    def least(i: int, code_space: int, shortest: int) -> int:
        if i == len(ordered):
            return 0 if code_space >= 0 else 10**9
        key = (i, code_space * 16 + shortest)
        if key not in best:
            best[key] = min(
                (
                    ordered[i] * length + least(i + 1, code_space - (1 << limit - length), length)
                    for length in range(shortest, limit + 1)
                    if (1 << limit - length) <= code_space
                ),
                default=10**9,
            )
        return best[key]

    return least(0, 1 << limit, 1)


def test_limited_codes_are_optimal() -> None:
    fibonacci = [1, 1]
    while len(fibonacci) < 16:
        fibonacci.append(fibonacci[-1] + fibonacci[-2])
    for counts in (fibonacci, [4**n for n in range(12)], [1, 1, 1, *(3**n for n in range(13))]):
        found = lengths_of(counts)
        assert huffman_bits(counts)[1] > 12 or len(counts) < 14
        assert sum(c * n for c, n in zip(counts, found, strict=True)) == limited_bits(counts, 12)


def test_classes_match_the_definition() -> None:
    gaps = sorted({min(2**24 - 2, max(0, 2**e + k)) for e in range(24) for k in range(-9, 10)})
    counts = np.empty(176, np.int64)
    for gap in gaps:
        huffman.count_gaps(np.array([gap], np.uint32), counts)
        assert counts.sum() == 1
        assert counts[classify_gap(gap, 3)[0]] == 1


@settings(max_examples=120)
@given(st.lists(st.one_of(st.integers(0, 40), st.integers(0, 24_000)), min_size=1, max_size=400))
def test_the_smallest_form_is_chosen(gaps: list[int]) -> None:
    from formats.reference import Huffman

    indices = (np.cumsum(np.array(gaps) + 1) - 1).astype(np.uint32)
    d = int(indices[-1]) + 2
    section = wc.codecs.Huffman().encode(indices, d, 0)
    sizes = [len(Huffman(m=m).write_section(indices.tolist(), d)) for m in range(4)]
    assert abs(section.size - min(sizes)) <= 1  # Forms are compared by bits, before padding to bytes.
    assert bytes(section) == Huffman().write_section(indices.tolist(), d)


@pytest.mark.parametrize(("density", "bits"), [(0.1, 4.75), (0.01, 8.13), (0.001, 11.47)])
def test_sizes_are_near_the_entropy(density: float, bits: float) -> None:
    indices = inputs.support(np.random.default_rng(5), 2**24, int(density * 2**24))
    assert 8 * wc.codecs.Huffman().encode(indices, 2**24, 0).size / indices.size <= bits


def test_small_supports_stay_small() -> None:
    rng = np.random.default_rng(6)
    for r in (1, 2, 10, 100, 500):
        for d in (1000, 100_000, 2**24):
            found = wc.codecs.Huffman().encode(inputs.support(rng, d, r), d, 0).size
            assert found <= 1.1 * oracles.entropy_bits(d, r) / 8 + 14, (d, r)


@pytest.mark.parametrize("largest", [2, 200, 4000, 100_000])
def test_every_number_of_symbols_per_load(largest: int) -> None:
    """Decode three, two and one symbol per load, in more than four spans."""
    rng = np.random.default_rng(largest)
    gaps = rng.integers(0, 3, 30_000)
    gaps[rng.integers(0, 30_000, 40)] = largest
    indices = (np.cumsum(gaps + 1) - 1).astype(np.uint32)
    d = int(indices[-1]) + 2
    section = wc.codecs.Huffman().encode(indices, d, 0)
    assert np.array_equal(wc.codecs.Huffman.decode(section, d, indices.size, UNLIMITED), indices)


def test_parameters() -> None:
    assert wc.Scheme.parse("topk(0.01) | huffman(symbols=keys) | raw").index == wc.codecs.Huffman("keys")
    assert (
        str(wc.Scheme(wc.selectors.All(), wc.codecs.Huffman("keys"), wc.codecs.Raw()))
        == "all | huffman(symbols=keys) | raw"
    )
    with pytest.raises(wc.EncodeError, match="'gaps' or 'keys'"):
        wc.codecs.Huffman("bits")


def test_any_bytes_decode_or_raise_a_wire_error(rng: np.random.Generator) -> None:
    outcomes = set()
    heads: list[Any] = [[0, 0, 1, 0x11], [3, 4, 3, 0x22, 0x22], [4, 0, 1, 0x11], [1, 9, 0], [4, 3, 0]]
    for n in range(4000):
        tail = rng.integers(0, 256, int(rng.integers(0, 40))).astype(np.uint8)
        head = np.array(heads[n % 5] if n % 10 < 5 else rng.integers(0, 6, 4), np.uint8)
        r = int(rng.integers(1, 60))
        try:
            indices = wc.codecs.Huffman.decode(np.concatenate([head, tail]), 256, r, UNLIMITED)
        except wc.WireError as error:
            outcomes.add(error.code)
        else:
            outcomes.add("ok")
            assert indices.size == r
            assert (np.diff(indices.astype(np.int64)) > 0).all()
            assert indices[-1] < 256
    assert {"ok", "huffman-span", "huffman-padding", "huffman-code", "index-range"} <= outcomes
