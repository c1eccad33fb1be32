"""structured and auto-index: sizes against bounds and definitions, the choice, and hostile sections."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wirecodec as wc
from formats import reference
from formats.reference.writing.index.structured import pack_bits, to_bits
from tests import inputs, oracles
from wirecodec.index.rice import planned_bytes
from wirecodec.index.rle import planned_bytes as rle_bytes
from wirecodec.index.structured_plan import Head, count_runs
from wirecodec.kernels.cpu.coding import gap_stream
from wirecodec.kernels.cpu.index import gap_probe
from wirecodec.limits import UNLIMITED

CODES = {"smallest": None, "gaps": 0, "runs": 1, "bitmap": 2}


def rows(rng: np.random.Generator, d: int, density: float, width: int, phase: int = 0) -> Any:
    """Whole rows at random, as ascending u32."""
    n = (d - phase) // width
    kept = inputs.support(rng, n, max(1, int(n * density))).astype(np.int64)
    return (phase + kept[:, None] * width + np.arange(width)).ravel().astype(np.uint32)


def header_bytes(indices: Any, d: int) -> Head:
    return Head.of(wc.Structured().encode(indices, d, 0), d)


@st.composite
def grained(draw: st.DrawFn) -> tuple[int, Any]:
    """(d, indices): grains of any size and phase, each present or not, parts at both ends included."""
    d = draw(st.integers(2, 1200))
    grain = draw(st.integers(1, min(d, 90)))
    phase = draw(st.integers(0, grain - 1))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    part = (np.arange(d) + grain - phase) // grain
    present = (rng.random(d + 2) < draw(st.sampled_from([0.05, 0.3, 0.5, 0.95])))[part]
    present[draw(st.integers(0, d - 1))] ^= not present.any() or present.all()
    return d, np.flatnonzero(present).astype(np.uint32)


@settings(max_examples=400, deadline=None)
@given(grained(), st.sampled_from(sorted(CODES)))
def test_sections_are_the_reference_writers(support: tuple[int, Any], form: str) -> None:
    d, indices = support
    section = wc.Structured(form).encode(indices, d, 0)
    assert np.array_equal(wc.Structured.decode(section, d, indices.size, UNLIMITED), indices)
    head = Head.of(section, d)
    if head.listed(indices.size, d) not in (0, head.whole(d)):
        assert section.tobytes() == reference.Structured(CODES[form]).write_section(indices.tolist(), d)


@settings(max_examples=300, deadline=None)
@given(grained())
def test_the_grain_is_the_greatest(support: tuple[int, Any]) -> None:
    d, indices = support
    present = np.isin(np.arange(d), indices)
    ends = [i for i in range(1, d) if present[i] != present[i - 1]]
    expected = math.gcd(*(b - a for a, b in itertools.pairwise(ends))) or 1
    runs = count_runs(indices)
    assert runs == 1 + np.count_nonzero(np.diff(indices.astype(int)) != 1)
    head = header_bytes(indices, d)
    assert head.grain == expected
    assert expected == 1 or all(end % expected == head.phase for end in ends)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 20).map(lambda n: 2**n // 3), min_size=1, max_size=700))
def test_gap_streams_are_as_long_as_planned(steps: list[int]) -> None:
    numbers = (np.cumsum(np.array(steps, np.int64) + 1) - 1).astype(np.uint32)
    parameters = np.empty(-(-numbers.size // 256), np.uint8)
    bits = gap_stream.plan(numbers, parameters)
    blocks = [steps[i : i + 256] for i in range(0, len(steps), 256)]
    assert parameters.tolist() == [oracles.best_rice_parameter(block) for block in blocks]
    words = np.zeros(-(-bits // 64), np.uint64)
    assert gap_stream.write(numbers, parameters, words, 0) == bits
    data = np.concatenate([words.view(np.uint8), np.zeros(16, np.uint8)])
    out = np.empty_like(numbers)
    assert gap_stream.read(data, 0, bits, int(numbers[-1]) + 1, out) == bits
    assert np.array_equal(out, numbers)
    assert gap_stream.read(data, 0, bits - 1, int(numbers[-1]) + 1, out) == gap_stream.BAD_LENGTH
    assert gap_stream.read(data, 0, bits, int(numbers[-1]), out) == gap_stream.BAD_RANGE


@pytest.mark.parametrize(("density", "bits"), [(0.1, 0.10), (0.01, 0.14), (0.001, 0.19)])
@pytest.mark.parametrize(("d", "phase"), [(2_600_000, 0), (2**24, 0), (2**24, 40)])
def test_embedding_rows(density: float, bits: float, d: int, phase: int) -> None:
    rng = np.random.default_rng(7)
    total = r = 0
    for _ in range(20 if density == 0.001 else 1):
        indices = rows(rng, d, density, 64, phase)
        codec, section = wc.AutoIndex().choose(indices, d, 0)
        assert codec.name == "structured"
        total += section.size
        r += indices.size
    assert 8 * total <= bits * r


def test_long_runs_take_the_entropy_of_their_ends() -> None:
    """A Markov support of mean run 8: n geometric gaps and n geometric lengths."""
    rng = np.random.default_rng(3)
    n, gap, length = 20_000, 72, 8
    gap_lengths, run_lengths = rng.geometric(1 / gap, n), rng.geometric(1 / length, n)
    starts = np.cumsum(gap_lengths) + np.cumsum(run_lengths) - run_lengths
    indices = np.concatenate([np.arange(s, s + k) for s, k in zip(starts, run_lengths, strict=True)])
    d = int(indices[-1]) + 10
    _, section = wc.AutoIndex().choose(indices.astype(np.uint32), d, 0)
    entropy = sum(oracles.entropy_bits(n * mean, n) for mean in (gap, length))
    assert 8 * section.size <= 1.03 * entropy


def test_nearly_full_costs_what_is_absent() -> None:
    rng = np.random.default_rng(5)
    d = 1_000_000
    absent = inputs.support(rng, d, 10_000)
    indices = np.setdiff1d(np.arange(d, dtype=np.uint32), absent)
    codec, section = wc.AutoIndex().choose(indices, d, 0)
    assert codec.name == "structured"
    assert 8 * section.size <= 1.01 * oracles.entropy_bits(d, 10_000)


@pytest.mark.parametrize("case", SUPPORTS := inputs.supports(np.random.default_rng(1)))
def test_auto_index_is_never_larger(case: str) -> None:
    d, indices = SUPPORTS[case]
    codec, section = wc.AutoIndex().choose(indices, d, 0)
    assert np.array_equal(type(codec).decode(section, d, indices.size, UNLIMITED), indices)
    for other in (wc.Rice(), wc.Bitmap(), wc.RLE()):
        assert section.size <= other.encode(indices, d, 0).size


@settings(max_examples=300, deadline=None)
@given(grained())
def test_auto_index_is_never_larger_on_any_grains(support: tuple[int, Any]) -> None:
    d, indices = support
    codec, section = wc.AutoIndex().choose(indices, d, 0)
    assert np.array_equal(type(codec).decode(section, d, indices.size, UNLIMITED), indices)
    assert section.size <= min(planned_bytes(indices), -(-d // 8), rle_bytes(indices))


def test_auto_index_codes_gaps_where_there_is_no_structure() -> None:
    """By rice, or by huffman where that saves the 1 % that rice is off at some densities."""
    rng = np.random.default_rng(6)
    for r in (1025, 5000, 20_000, 50_000):
        codec, section = wc.AutoIndex().choose(support := inputs.support(rng, 200_000, r), 200_000, 0)
        assert codec in (wc.Rice(), wc.Huffman())
        assert 0.985 * wc.Rice().encode(support, 200_000, 0).size < section.size


@pytest.mark.parametrize("uneven", [False, True])
def test_huffman_is_looked_at_where_classes_promise_it(uneven: bool) -> None:
    """Gaps of 4, 70 and 400 are of few classes, and no parameter suits them: rice keeps geometric ones."""
    rng = np.random.default_rng(2)
    steps = rng.choice([4, 70, 400], 20_000) if uneven else rng.geometric(0.01, 20_000)
    indices = np.cumsum(steps).astype(np.uint32)
    d = int(indices[-1]) + 1
    codec, section = wc.AutoIndex().choose(indices, d, 0)
    assert codec.name == ("huffman" if uneven else "rice")
    if uneven:
        assert section.size < 0.8 * planned_bytes(indices)


def test_a_glance_is_close_to_what_is_counted(gradient: Any) -> None:
    """The integer logarithms of the probe, against floats over all blocks of 256 gaps."""
    indices = np.argsort(-np.abs(gradient))[:7681]
    indices = np.sort(indices).astype(np.uint32)
    classes, rice = gap_probe.classes_and_rice(indices, 30)
    gaps_ = np.diff(indices.astype(np.int64)) - 1
    extra = np.maximum(0, np.floor(np.log2(np.maximum(gaps_, 1))).astype(int) - 3)
    counts = np.unique(extra * 1000 + (gaps_ >> extra), return_counts=True)[1]
    entropy = float((counts * np.log2(gaps_.size / counts)).sum()) + extra.sum()
    assert classes == pytest.approx(entropy, rel=0.003)
    best = [
        min(256 * b + 256 + int((block >> b).sum()) for b in range(25)) for block in gaps_.reshape(30, 256)
    ]
    assert rice == pytest.approx(sum(best), rel=0.01)


def test_auto_index_on_gradients(gradient: Any) -> None:
    """Never larger than rice or the bitmap, mostly smaller: layers and channels leave runs."""
    for ratio in (0.1, 0.01):
        scheme = f"topk({ratio}) | {{}} | raw(bfloat16)"
        sizes = {name: wc.encode(gradient, scheme.format(name)).size for name in ("auto-index", "rice")}
        assert sizes["auto-index"] <= sizes["rice"]


def test_unknown_forms_are_refused() -> None:
    with pytest.raises(wc.EncodeError, match="form is 'row'; one of smallest, gaps, runs, bitmap"):
        wc.Structured("row")


def test_memory_is_bounded_by_bytes_and_r() -> None:
    """16 million absent elements in 2 MB decode to one index without an array of them."""
    d = 2**24
    section = np.frombuffer(
        b"\x04" + pack_bits(("00000" + "1" * 256) * 65535 + "00000" + "1" * 255), np.uint8
    )
    runs = b"\x05" + pack_bits("00000" + "1" + "11000" + to_bits(0, 24))
    for data in (section, np.frombuffer(runs, np.uint8)):
        tracemalloc.start()
        try:
            found = wc.Structured.decode(data, d, 1, UNLIMITED)
        except wc.WireError:
            found = None
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak <= 65536 + 4 * (data.size + 12)
        assert found is None or found.tolist() == [d - 1]
