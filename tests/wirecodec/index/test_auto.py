"""Tests of ``auto-index``: never larger than its candidates, and small for structured supports."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import wirecodec as wc
from tests import inputs, oracles
from tests.wirecodec.index.grains import grained
from wirecodec.arrays import read_only
from wirecodec.index import rice, rle
from wirecodec.kernels.cpu.index import gap_probe
from wirecodec.limits import UNLIMITED


def rows(rng: np.random.Generator, d: int, density: float, width: int, phase: int = 0) -> Any:
    """Return the indices of random whole rows, ascending u32."""
    n = (d - phase) // width
    kept = inputs.support(rng, n, max(1, int(n * density))).astype(np.int64)
    return (phase + kept[:, None] * width + np.arange(width)).ravel().astype(np.uint32)


@pytest.mark.parametrize(("density", "bits"), [(0.1, 0.10), (0.01, 0.14), (0.001, 0.19)])
@pytest.mark.parametrize(("d", "phase"), [(2_600_000, 0), (2**24, 0), (2**24, 40)])
def test_bits_per_index_of_embedding_rows(density: float, bits: float, d: int, phase: int) -> None:
    rng = np.random.default_rng(7)
    total = r = 0
    for _ in range(20 if density == 0.001 else 1):
        indices = rows(rng, d, density, 64, phase)
        codec, section = wc.codecs.AutoIndex().choose(indices, d, 0)
        assert codec.name == "structured"
        total += section.size
        r += indices.size
    assert 8 * total <= bits * r


def test_long_runs_take_nearly_the_entropy_of_their_lengths() -> None:
    """Encode a Markov support: n geometric gaps, and n geometric run lengths of mean 8."""
    rng = np.random.default_rng(3)
    n, gap, length = 20_000, 72, 8
    gap_lengths, run_lengths = rng.geometric(1 / gap, n), rng.geometric(1 / length, n)
    starts = np.cumsum(gap_lengths) + np.cumsum(run_lengths) - run_lengths
    indices = np.concatenate([np.arange(s, s + k) for s, k in zip(starts, run_lengths, strict=True)])
    d = int(indices[-1]) + 10
    _, section = wc.codecs.AutoIndex().choose(indices.astype(np.uint32), d, 0)
    entropy = sum(oracles.entropy_bits(n * mean, n) for mean in (gap, length))
    assert 8 * section.size <= 1.03 * entropy


def test_a_nearly_full_support_costs_its_absent_elements() -> None:
    rng = np.random.default_rng(5)
    d = 1_000_000
    absent = inputs.support(rng, d, 10_000)
    indices = np.setdiff1d(np.arange(d, dtype=np.uint32), absent)
    codec, section = wc.codecs.AutoIndex().choose(indices, d, 0)
    assert codec.name == "structured"
    assert 8 * section.size <= 1.01 * oracles.entropy_bits(d, 10_000)


@pytest.mark.parametrize("case", SUPPORTS := inputs.supports(np.random.default_rng(1)))
def test_auto_index_is_never_larger(case: str) -> None:
    d, indices = SUPPORTS[case]
    codec, section = wc.codecs.AutoIndex().choose(indices, d, 0)
    assert np.array_equal(type(codec).decode(section, d, indices.size, UNLIMITED), indices)
    for other in (wc.codecs.Rice(), wc.codecs.Bitmap(), wc.codecs.RLE()):
        assert section.size <= other.encode(indices, d, 0).size


@settings(max_examples=120)
@given(grained())
def test_auto_index_is_never_larger_on_any_grains(support: tuple[int, Any]) -> None:
    d, indices = support
    codec, section = wc.codecs.AutoIndex().choose(indices, d, 0)
    assert np.array_equal(type(codec).decode(section, d, indices.size, UNLIMITED), indices)
    assert section.size <= min(rice.measure_section(indices), -(-d // 8), rle.measure_section(indices))


def test_auto_index_codes_gaps_of_unstructured_supports() -> None:
    """Check for rice, or huffman at the densities at which it saves about 1 %."""
    rng = np.random.default_rng(6)
    for r in (1025, 5000, 20_000, 50_000):
        codec, section = wc.codecs.AutoIndex().choose(support := inputs.support(rng, 200_000, r), 200_000, 0)
        assert codec in (wc.codecs.Rice(), wc.codecs.Huffman())
        assert 0.985 * wc.codecs.Rice().encode(support, 200_000, 0).size < section.size


@pytest.mark.parametrize("uneven", [False, True])
def test_auto_index_chooses_huffman_for_uneven_gaps(uneven: bool) -> None:
    """Gaps of 4, 70 and 400 have few classes and suit no Rice parameter; geometric gaps suit one."""
    rng = np.random.default_rng(2)
    steps = rng.choice([4, 70, 400], 20_000) if uneven else rng.geometric(0.01, 20_000)
    indices = np.cumsum(steps).astype(np.uint32)
    d = int(indices[-1]) + 1
    codec, section = wc.codecs.AutoIndex().choose(indices, d, 0)
    assert codec.name == ("huffman" if uneven else "rice")
    if uneven:
        assert section.size < 0.8 * rice.measure_section(indices)


def test_the_probe_is_close_to_the_exact_counts(gradient: Any) -> None:
    """Compare the probe's integer logarithms with floats over all blocks of 256 gaps."""
    indices = np.argsort(-np.abs(gradient))[:7681]
    indices = np.sort(indices).astype(np.uint32)
    huffman_bits, rice_bits = gap_probe.estimate_bits(indices, 30)
    gaps_ = np.diff(indices.astype(np.int64)) - 1
    extra = np.maximum(0, np.floor(np.log2(np.maximum(gaps_, 1))).astype(int) - 3)
    counts = np.unique(extra * 1000 + (gaps_ >> extra), return_counts=True)[1]
    entropy = float((counts * np.log2(gaps_.size / counts)).sum()) + extra.sum()
    assert huffman_bits == pytest.approx(entropy, rel=0.003)
    best = [
        min(256 * b + 256 + int((block >> b).sum()) for b in range(25)) for block in gaps_.reshape(30, 256)
    ]
    assert rice_bits == pytest.approx(sum(best), rel=0.01)


def test_auto_index_on_gradients(gradient: Any) -> None:
    """Check that sections of gradients are never larger than rice."""
    for ratio in (0.1, 0.01):
        scheme = f"topk({ratio}) | {{}} | raw(bfloat16)"
        sizes = {name: wc.encode(gradient, scheme.format(name)).size for name in ("auto-index", "rice")}
        assert sizes["auto-index"] <= sizes["rice"]


def test_auto_index_is_not_larger() -> None:
    rng = np.random.default_rng(4)
    for d in (10, 1000, 2000, 100_000):
        for density in (0.9, 0.5, 0.3, 0.2, 0.1, 0.065, 0.06, 0.03, 0.001):
            r = max(1, int(d * density))
            indices = inputs.support(rng, d, r)
            sizes = {c: c.encode(indices, d, 0).size for c in (wc.codecs.Bitmap(), wc.codecs.Rice())}
            assert wc.codecs.AutoIndex().choose(indices, d, 0)[1].size <= min(sizes.values()), (d, r)


def draw_supports(rng: np.random.Generator, count: int) -> list[tuple[int, Any]]:
    """Return (d, indices) of uniform, clustered, strided and periodic supports, most of them small."""
    found = []
    for _ in range(count):
        d = int(np.exp(rng.uniform(np.log(2), np.log(200_000))))
        r = max(1, min(d - 1, int(d * 10 ** rng.uniform(-4, 0))))
        grain = int(rng.choice([1, 1, 1, 2, 7, 64]))
        indices = inputs.support(rng, d, r).astype(np.int64)
        if rng.random() < 0.3:  # gaps of few sizes, or clusters
            indices = np.cumsum(rng.choice(rng.integers(1, 1 + max(2, 2 * d // r), 3), r)) - 1
        indices = np.unique((indices[:, None] // grain * grain + np.arange(grain)).ravel())
        indices = indices[indices < d]
        if 0 < indices.size < d:
            found.append((d, indices.astype(np.uint32)))
    return found


def test_many_tensors_get_the_sections_of_one_by_one() -> None:
    """Compare ids and sections with those of ``choose``, of supports of all kinds."""
    codec = wc.codecs.AutoIndex()
    chosen = draw_supports(np.random.default_rng(8), 2000)
    chosen += [(100_000, inputs.support(np.random.default_rng(9), 100_000, 30_000))]
    sizes = np.array([d for d, _ in chosen])
    cuts = np.cumsum([0, *(indices.size for _, indices in chosen)])
    streams = np.zeros(sizes.size, np.uint64)
    batch = codec.encode_batch(read_only(np.concatenate([x for _, x in chosen])), cuts, sizes, streams)
    assert batch is not None
    expected = [codec.choose(indices, d, 0) for d, indices in chosen]
    assert batch.lengths.tolist() == [section.size for _, section in expected]
    assert np.asarray(batch.wire_id).tolist() == [codec.wire_id for codec, _ in expected]
    spans = batch.lengths + 7 >> 3 << 1
    starts = np.cumsum(spans) - spans
    words = np.zeros(int(spans.sum()), np.uint32)
    batch.write(words, starts)
    for (_, section), start in zip(expected, starts.tolist(), strict=True):
        padded = words[start : start + (section.size + 7 >> 3 << 1)].tobytes()
        assert padded == section.tobytes().ljust(len(padded), b"\0")
    assert {codec.name for codec, _ in expected} >= {"rice", "bitmap", "rle", "structured", "huffman"}


def test_the_batch_plans_small_sections_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Uniform supports of a model need no call per tensor."""
    rng = np.random.default_rng(2)
    chosen = [(d, inputs.support(rng, d, max(1, d // 100))) for d in (64, 500, 2048, 4096, 65_536, 100_000)]
    sizes = np.array([d for d, _ in chosen])
    cuts = np.cumsum([0, *(indices.size for _, indices in chosen)])
    monkeypatch.setattr(wc.codecs.AutoIndex, "choose", None)
    indices = read_only(np.concatenate([x for _, x in chosen]))
    batch = wc.codecs.AutoIndex().encode_batch(indices, cuts, sizes, np.zeros(sizes.size, np.uint64))
    assert batch is not None
    assert batch.lengths.size == sizes.size


def test_the_bound_of_huffman_is_a_bound() -> None:
    """``auto-index`` skips huffman if its bound is not below the best: a wrong bound would change no test."""
    rng = np.random.default_rng(12)
    supports = draw_supports(rng, 1500)
    for classes in (1, 2, 3, 6):  # codes of whole bits, so that the entropy is reached
        weights = 0.5 ** np.arange(1, classes + 1)
        counts = (4096 * weights / weights[-1] * weights[-1]).astype(int)
        gaps = rng.permutation(np.repeat(2 ** np.arange(classes) + 1, counts))
        supports.append((2**24, np.cumsum(gaps).astype(np.uint32)))
    slack = []
    for d, indices in supports:
        bound, nbytes = gap_probe.bound_bytes(indices), wc.codecs.Huffman().encode(indices, d, 0).size
        assert bound <= nbytes
        slack.append(nbytes - bound)
    assert min(slack) == 0
