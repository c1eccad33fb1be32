"""Tests of ``bloom``: filter sizes, false positive rates, policies, and the cost of decoding."""

from __future__ import annotations

import contextlib
import math
import time
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wirecodec as wc
from formats import reference
from formats.reference.floats import FLOAT32
from formats.reference.index.bloom import element_bits
from formats.reference.writing.index.bloom import POLICIES, choose_windows, choose_words
from formats.reference.writing.value.qsgd import write_qsgd
from tests import inputs
from wirecodec.index.bloom import filter_bytes, windows
from wirecodec.limits import UNLIMITED

Array = Any
HEAD = 16


def positives(indices: Array, d: int, fpr: float) -> Array:
    return wc.codecs.Bloom("p0", fpr).approximate(indices, d, 0).found


def rate(indices: Array, d: int, fpr: float) -> float:
    """Return the rate of false positives among the elements that were not inserted."""
    return float((positives(indices, d, fpr).size - indices.size) / (d - indices.size))


# ---- sizes ----

rates = st.one_of(
    st.floats(2.0**-32, 1, exclude_max=True),
    st.integers(1, 31).map(lambda n: math.nextafter(2.0**-n, 1)),
    st.integers(1, 31).map(lambda n: math.nextafter(2.0**-n, 0)),
    st.integers(1, 32).map(lambda n: 2.0**-n),
    st.sampled_from([0.6, 1 - 2.0**-53, 1e-3]),
)


@settings(max_examples=150)
@given(rates, st.integers(1, 2**24))
def test_sizes_match_the_formula(fpr: float, n: int) -> None:
    k, length = windows(fpr), filter_bytes(n, fpr)
    assert 2.0**-k <= fpr < 2.0 ** (1 - k)
    assert (k, length // 8) == (choose_windows(fpr), choose_words(n, fpr))
    if fpr < 1 - 1e-9:
        exact = -k / math.log1p(-(fpr ** (1 / k))) * n
        assert exact * (1 - 1e-9) <= 8 * length <= exact * (1 + 1e-9) + n / 2**16 + 65


def test_sizes_computed_by_hand() -> None:
    assert [(windows(fpr), filter_bytes(10**6, fpr)) for fpr in (0.6, 0.01, 0.001)] == [
        (1, 136_424),
        (7, 1_199_120),
        (10, 1_797_208),
    ]
    section = wc.codecs.Bloom("p1", 0.01).encode(np.arange(100, dtype=np.uint32), 1000, 2**64 - 2)
    assert section.size == HEAD + filter_bytes(100, 0.01) == HEAD + 120
    assert section[:HEAD].tobytes() == b"\xfe" + 7 * b"\xff" + b"\x64\0\0\0" + b"\7\2\0\0"


def test_bits_match_the_specification(rng: np.random.Generator) -> None:
    indices = inputs.support(rng, 5000, 300)
    for fpr in (0.6, 0.05, 1e-6):
        section = wc.codecs.Bloom("naive", fpr).encode(indices, 5000, 0)
        k, length = windows(fpr), section.size - HEAD
        found = np.flatnonzero(np.unpackbits(section[HEAD:], bitorder="little"))
        assert set(found.tolist()) == {bit for x in indices.tolist() for bit in element_bits(x, k, length)}
        held = [x for x in range(5000) if set(element_bits(x, k, length)) <= set(found.tolist())]
        assert positives(indices, 5000, fpr).tolist() == held


# ---- rates ----


@pytest.mark.parametrize("fpr", [0.6, 0.01, 0.001])
def test_the_rate_is_fpr(fpr: float) -> None:
    for d, r, trials in ((2**22, 40_000, 3), (2**18, 2621, 12), (2**20, 120_000, 6)):
        rng = np.random.default_rng(r)
        found = np.mean([rate(inputs.support(rng, d, r), d, fpr) for _ in range(trials)])
        assert 0.9 * fpr <= found <= 1.1 * fpr, (d, r)


@pytest.mark.parametrize("fpr", [0.6, 0.01, 0.001])
def test_small_filters_keep_the_rate(fpr: float) -> None:
    """Rounding enlarges a small filter noticeably; the rate is that of the rounded size."""
    for r, off in ((3, 1.0), (8, 0.3), (26, 0.15), (100, 0.1)):
        rng = np.random.default_rng(r)
        found = np.mean([rate(inputs.support(rng, 20_000, r), 20_000, fpr) for _ in range(400)])
        k = windows(fpr)
        wanted = (1 - math.exp(-k * r / (8 * filter_bytes(r, fpr)))) ** k
        assert (1 - off) * wanted <= found <= (1 + off) * wanted, r
        assert found <= 1.1 * fpr, r


CLUSTERED = {
    "every 64th": (2_600_000, np.arange(0, 2_600_000, 64)),
    "every 100th": (2_600_000, np.arange(7, 2_600_000, 100)),
    "dense prefix": (2_600_000, np.arange(26_000)),
    "rows of 64": (2_600_000, (np.arange(0, 40_000, 97)[:, None] * 64 + np.arange(64)).ravel()),
    "rows of 100": (2_600_000, (np.arange(0, 25_000, 83)[:, None] * 100 + np.arange(100)).ravel()),
    "first of the rows": (2_600_000, np.arange(0, 2_600_000, 4096)),
    "two halves": (2_600_000, np.concatenate([np.arange(9000), 2_000_000 + np.arange(9000)])),
}


@pytest.mark.parametrize("case", CLUSTERED)
@pytest.mark.parametrize("fpr", [0.6, 0.01, 0.001])
def test_clustered_supports_keep_the_rate(case: str, fpr: float) -> None:
    d, indices = CLUSTERED[case]
    assert fpr / 2 <= rate(indices.astype(np.uint32), d, fpr) <= 2 * fpr


# ---- policies ----


def decode_by(policy: str, indices: Array, d: int, fpr: float, stream: int = 5) -> Array:
    codec = wc.codecs.Bloom(policy, fpr)
    made = codec.approximate(indices, d, stream)
    found = codec.decode(made.section, d, indices.size, UNLIMITED)
    assert made.found is None or np.array_equal(made.found, found)
    return found


def test_each_policy_selects_its_positives(rng: np.random.Generator) -> None:
    d, indices = 100_000, inputs.support(rng, 100_000, 1000)
    held = positives(indices, d, 0.01)
    assert np.isin(indices, held).all()
    assert np.array_equal(decode_by("naive", indices, d, 0.01), held[:1000])
    assert np.array_equal(decode_by("leftmost", indices, d, 0.01), held[:1000])
    assert np.array_equal(decode_by("rightmost", indices, d, 0.01), held[-1000:])
    middle = (held.size - 1000) // 2
    assert np.array_equal(decode_by("middle", indices, d, 0.01), held[middle : middle + 1000])
    for policy in ("p1", "p2"):
        found = decode_by(policy, indices, d, 0.01)
        assert np.isin(found, held).all()
        assert not np.array_equal(found, decode_by(policy, indices, d, 0.01, stream=6))


def test_p1_draws_uniformly(rng: np.random.Generator) -> None:
    """Check that every positive is drawn equally often over many streams."""
    indices = inputs.support(rng, 2000, 20)
    held = positives(indices, 2000, 0.02)
    times = np.zeros(2000)
    for stream in rng.integers(0, 2**63, 4000).tolist():
        times[decode_by("p1", indices, 2000, 0.02, stream)] += 1
    expected = 20 / held.size
    assert np.abs(times[held] / 4000 - expected).max() < 5 * math.sqrt(expected * (1 - expected) / 4000)
    assert times.sum() == times[held].sum() == 80_000


@pytest.mark.parametrize(
    ("d", "density", "fpr", "min_kept"),
    [
        (2**22, 0.01, 1e-3, 0.995),
        (2**21, 0.1, 1e-3, 0.998),
        (2**22, 0.001, 1e-4, 0.998),
        (2**20, 0.01, 0.01, 0.78),
    ],
)
def test_p2_keeps_most_inserted_elements(d: int, density: float, fpr: float, min_kept: float) -> None:
    indices = inputs.support(np.random.default_rng(7), d, int(d * density))
    found = decode_by("p2", indices, d, fpr)
    assert np.isin(found, indices).mean() >= min_kept
    assert np.isin(decode_by("p1", indices, d, fpr), indices).mean() < np.isin(found, indices).mean()


@settings(max_examples=150)
@given(
    st.integers(2, 3000),
    st.floats(0.001, 0.9),
    st.floats(1e-4, 0.9),
    st.sampled_from(POLICIES),
    st.integers(0, 2**64 - 1),
)
def test_sections_match_the_reference_writer(
    d: int, density: float, fpr: float, policy: str, stream: int
) -> None:
    indices = inputs.support(np.random.default_rng(d), d, min(d - 1, 1 + int(d * density)))
    theirs = reference.Bloom(policy, fpr)
    try:
        section, found = theirs.approximate(indices.tolist(), d, stream)
    except reference.Invalid:
        with pytest.raises(wc.EncodeError, match="use an fpr below"):
            wc.codecs.Bloom(policy, fpr).approximate(indices, d, stream)
        return
    made = wc.codecs.Bloom(policy, fpr).approximate(indices, d, stream)
    assert made.section.tobytes() == section
    assert (made.found is None) == (found is None)
    assert found is None or made.found.tolist() == found


def test_filters_can_be_merged_by_or(rng: np.random.Generator) -> None:
    d, codec = 50_000, wc.codecs.Bloom("p0", 0.001)
    one, two = (inputs.support(rng, d, 400) for _ in range(2))
    both = codec.encode(one, d, 1)
    both[HEAD:] |= codec.encode(two, d, 2)[HEAD:]
    union = np.union1d(one, two)
    seen = [r for r in range(union.size, union.size + 5000) if _decodes(both, d, r)]
    assert len(seen) == 1
    assert np.isin(union, wc.codecs.Bloom.decode(both, d, seen[0], UNLIMITED)).all()


def _decodes(section: Array, d: int, r: int) -> bool:
    try:
        return wc.codecs.Bloom.decode(section, d, r, UNLIMITED).size == r
    except wc.Invalid:
        return False


def test_p2_raises_if_false_positives_are_too_many() -> None:
    x = np.zeros(1_000_000, np.float32)
    x[::10_000] = 1
    with pytest.raises(wc.EncodeError, match=r"tensor 'w': bloom: .* too many for p2; .* below 0\.01"):
        wc.encode_many({"w": x}, "nonzero | bloom(policy=p2, fpr=0.01) | raw")
    assert wc.decode(wc.encode(x, "nonzero | bloom(policy=p2, fpr=0.00001) | raw")).nnz == 100


def test_parameters() -> None:
    assert wc.codecs.Bloom() == wc.Scheme.parse("all | bloom(policy=p0, fpr=0.001) | raw").index
    assert wc.codecs.Bloom("p2", np.float32(0.1)) == wc.codecs.Bloom("p2", 0.1)
    scheme = wc.Scheme(wc.selectors.TopK(0.01), wc.codecs.Bloom("rightmost", 0.02), wc.codecs.QSGD())
    assert str(scheme) == "topk(0.01) | bloom(policy=rightmost, fpr=0.02) | qsgd"
    assert wc.Scheme.parse(str(scheme)) == scheme
    for wrong in (0, 1, -0.1, 2.0**-33, float("nan"), float("inf"), "0.1", None, True):
        with pytest.raises(wc.EncodeError, match="bloom: fpr"):
            wc.codecs.Bloom("p0", wrong)
    for wrong in ("P0", "p3", 0, None, ["p0"]):
        with pytest.raises(wc.EncodeError, match="bloom: policy"):
            wc.codecs.Bloom(wrong)


# ---- cost of decoding ----

ONES = np.full(8, 0xFF, np.uint8)


def hostile(policy: str, k: int, r: int, d: int, entries: int = 1) -> bytes:
    """Build a container whose filter has all bits set, with the fewest possible value bytes."""
    head = bytes(8) + r.to_bytes(4, "little") + bytes([k, POLICIES.index(policy), 0, 0])
    values = write_qsgd(bytes(4 * r), FLOAT32, bits=2, bucket=2**24, norm=0, stream=0)
    rows = [reference.Row(key, 0, d, r, 1, 9, 4, head + ONES.tobytes(), values) for key in range(entries)]
    return reference.assemble(rows)


@pytest.mark.parametrize("policy", [p for p in POLICIES if p not in ("p0", "p2")])
def test_the_largest_chunk_in_the_fewest_bytes_decodes_in_milliseconds(policy: str) -> None:
    blob = hostile(policy, 32, 1, 2**24)
    assert len(blob) == 24 + 40 + 24 + 16
    assert wc.decode(blob).nnz == 1
    assert min(_timed(blob) for _ in range(3)) < 0.1


def _timed(blob: bytes) -> float:
    """Return the processor time of decoding, which other processes change less than the clock's."""
    start = time.process_time()
    with contextlib.suppress(wc.WireError):
        wc.decode_many(blob)
    return time.process_time() - start


def test_many_small_entries_cannot_exceed_max_work() -> None:
    for policy, k, entries in (("p1", 1, 200), ("leftmost", 32, 200), ("p2", 1, 200)):
        blob = hostile(policy, k, 1, 2**24, entries)
        with pytest.raises(wc.WireError) as caught:
            wc.decode_many(blob)
        assert caught.value.code in ("max-work", "bloom-conflicts")
        assert _timed(blob) < 1.5
    blob = hostile("leftmost", 32, 1, 2**20, 64)
    work = 64 * 2**17 * 32
    assert len(wc.decode_many(blob, limits=wc.DecodeLimits(max_work=work))) == 64
    with pytest.raises(wc.LimitExceeded) as caught:
        wc.decode_many(blob, limits=wc.DecodeLimits(max_work=work - 1))
    assert (caught.value.code, caught.value.entry) == ("max-work", 63)


def test_memory_is_bounded_by_bytes_and_r(rng: np.random.Generator) -> None:
    """Check the policies, p2 at its limits of positives and conflicts."""
    cases = [("p1", 32, 60_000, 2**22), ("middle", 1, 60_000, 2**22), ("p2", 2, 60_000, 150_064)]
    blobs = [hostile(policy, k, r, d) for policy, k, r, d in cases]
    indices = inputs.support(rng, 2**20, 30_000)
    for policy, fpr in (("p0", 0.001), ("p2", 0.001), ("p2", 0.02), ("p0", 0.5)):
        tensor = wc.SparseTensor(indices, np.ones(30_000, np.float32), 2**20)
        blobs.append(
            wc.encode(
                tensor, wc.Scheme(wc.selectors.All(), wc.codecs.Bloom(policy, fpr), wc.codecs.Raw())
            ).tobytes()
        )
    for blob in blobs:
        r = wc.decode(blob).nnz
        tracemalloc.start()
        try:
            wc.decode(blob)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak <= 65_536 + 4 * (len(blob) + 12 * r), (len(blob), r)
