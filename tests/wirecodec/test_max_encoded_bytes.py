"""Tests of ``max_encoded_bytes``: no container is longer; containers of fixed length are equal to it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import ml_dtypes
import numpy as np
import pytest

import wirecodec as wc
from tests import inputs
from tests.wirecodec.test_battery import INDEX, SUPPORTS, VALUE, VARIANTS
from wirecodec import registry
from wirecodec.container import size_bound
from wirecodec.value.sort_permutation import sort_ascending

Array = np.ndarray[Any, Any]
DTYPES = [np.float32, np.float16, ml_dtypes.bfloat16, np.float64]
ADVERSARIAL_DENSITIES = (0.0005, 0.004, 0.03, 0.12, 0.3, 0.5, 0.7, 0.95, 0.999)


def _from_gaps(gaps: Any) -> tuple[int, Array]:
    """Return (d, indices) of a support with these gaps, and some absent elements behind."""
    indices = np.cumsum(np.asarray(gaps, np.int64) + 1) - 1
    return int(indices[-1]) + 3, indices.astype(np.uint32)


def adversarial_supports() -> dict[str, tuple[int, Array]]:
    """Return supports whose gaps are at the edges of what codes hold, and dense ones at many densities."""
    rng = np.random.default_rng(7)
    found = {}
    for edge in (0, 1, 2, 3, 63, 64, 127, 128, 129, 255, 256, 16_383, 16_384):
        for count in (1, 255, 256, 257, 300):
            found[f"{count} gaps of {edge}"] = _from_gaps(np.full(count, edge))
    found["gaps of all sizes"] = _from_gaps(2 ** rng.integers(0, 12, 4500) - 1)
    found["blocks of other gaps"] = _from_gaps(np.repeat(2 ** rng.integers(0, 12, 20), 256))
    found["runs of 128"] = _from_gaps(np.where(np.arange(9000) % 128, 0, 128))
    found["runs of 2"] = _from_gaps(np.arange(9000) % 2)
    for density in ADVERSARIAL_DENSITIES:
        d = 70_001
        found[f"{density} of {d}"] = d, inputs.support(rng, d, max(1, int(density * d)))
        found[f"{density} in grains"] = (
            d,
            (3 * inputs.support(rng, d // 3, max(1, int(density * (d // 3))))[:, None] + np.arange(3))
            .ravel()
            .astype(np.uint32),
        )
    found["present where expected absent"] = _from_gaps(np.tile([70, 0, 0, 0, 150, 1, 2, 400], 400))
    return found


def _variants(codec: Any) -> Iterator[Any]:
    yield from (codec(**parameters) for parameters in VARIANTS.get(codec.name, [{}]))


@pytest.mark.parametrize("codec", [*INDEX, wc.codecs.AutoIndex], ids=lambda c: c.name)
def test_index_sections_stay_within_their_bound(codec: Any) -> None:
    for one in [*_variants(codec)] + (
        [wc.codecs.AutoIndex(smallest=True)] if codec is wc.codecs.AutoIndex else []
    ):
        for name, (d, indices) in (SUPPORTS | adversarial_supports()).items():
            if d > 2_000_000 and codec.name == "bloom":
                continue  # asks the filter for every element
            r = indices.size
            try:
                section = one.choose(indices, d, 3)[1]
            except wc.EncodeError:
                assert codec.name == "bloom"
                continue
            assert len(section) <= one.max_bytes(r, d), (one, name, len(section), one.max_bytes(r, d))
            if one.lossy:
                found = one.approximate(indices, d, 3).found
                assert found is None or found.size <= one.max_decoded(r, d)


@pytest.mark.parametrize("codec", [*INDEX, wc.codecs.AutoIndex], ids=lambda c: c.name)
def test_bounds_of_indices_do_not_fall(codec: Any) -> None:
    for one, d in itertools.product(_variants(codec), (2, 3, 100, 70_001, 2**24)):
        counts = sorted({*range(1, min(d, 600)), *np.geomspace(1, d - 1, 60).astype(int).tolist()})
        bounds = [one.max_bytes(r, d) for r in counts]
        assert bounds == sorted(bounds), (one, d)


def hard_values(dtype: Any) -> Iterator[Array]:
    """Yield value vectors, among them bits that no compressor shortens."""
    rng = np.random.default_rng(9)
    yield from inputs.value_vectors(rng, dtype).values()
    for r in (1, 2, 3, 31, 4096, 4097, 9000, 70_000):
        bits = rng.integers(0, 256, r * np.dtype(dtype).itemsize, np.uint8).view(dtype)
        with np.errstate(invalid="ignore"):
            yield np.where(
                np.isfinite(bits.astype(np.float64)) & (abs(bits.astype(np.float64)) < 1e30), bits, 0
            ).astype(dtype)
        yield rng.normal(size=r).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: np.dtype(t).name)
@pytest.mark.parametrize("codec", [*VALUE, wc.codecs.AutoValue], ids=lambda c: c.name)
def test_value_sections_stay_within_their_bound(codec: Any, dtype: Any) -> None:
    for one, vector in itertools.product(_variants(codec), hard_values(dtype)):
        if codec is wc.codecs.AutoValue and vector.size > 9000:
            continue  # tries every codec
        values = sort_ascending(vector)[0] if one.ordered else vector
        try:
            section = one.choose(values, 3)[1]
        except wc.EncodeError:
            continue  # beyond the codec's range
        r = values.size
        most = one.max_bytes(r, np.dtype(dtype))
        assert len(section) <= most <= one.max_bytes(r + 1, np.dtype(dtype)), (one, r, len(section), most)


SELECTORS = [
    *("all", "nonzero", "topk(0.1)", "topk(k=300)", "topk(1.0)", "randomk(0.03)", "threshold(0.5)"),
    *("sidco(0.05)", "dgc(0.02)", "dgc(1.0)", "redsync(0.05)", "gaussiank(0.05)"),
    *("chunk-topk(0.1, chunk=64)", "chunk-topk(0.01, chunk=7)", "adacomp", "budget(3)"),
]
SCHEMES = [
    *(f"{select} | rice | raw" for select in SELECTORS),
    *(f"topk(0.1) | {codec.name} | raw" for codec in (*INDEX, wc.codecs.AutoIndex)),
    *(f"nonzero | bloom(policy={policy}, fpr=0.1) | raw" for policy in ("naive", "p0", "p1", "leftmost")),
    *(
        f"topk(0.1) | raw-index | {codec.name}"
        for codec in VALUE
        if registry._stages["value codec"].get(codec.name)
    ),
    *(
        f"all | raw-index | {codec.name}"
        for codec in VALUE
        if registry._stages["value codec"].get(codec.name)
    ),
    *("topk(0.1) | bloom | raw(dtype=float16)", "nonzero | auto-index | auto-value"),
    *(f"{transform} | topk(0.1) | rice | raw" for transform in ("rfft", "dct")),
    *("rfft | all | rice | polyfit", "dct | nonzero | bitmap | qsgd"),
]
SHAPES: list[tuple[int, ...]] = [
    *((), (0,), (1,), (2,), (3, 5), (255,), (256,), (257,), (4096,), (4097,), (64, 3, 1, 41)),
]


def test_every_selector_and_codec_is_covered() -> None:
    text = " ".join(SCHEMES)
    for stage in ("selector", "index codec", "value codec", "transform"):
        assert not [
            name for name in registry._stages[stage] if name not in text and not name.startswith("test")
        ]


def _tensors(shape: tuple[int, ...], dtype: Any) -> Iterator[Array]:
    rng = np.random.default_rng(11)
    size = int(np.prod(shape))
    for values in (
        rng.normal(size=size),
        rng.standard_t(1.5, size).clip(-6e4, 6e4),
        np.arange(size) % 2 * 1.5,
        np.zeros(size),
        np.ones(size),
        rng.normal(size=size) * (rng.random(size) < 0.05),
    ):
        yield values.astype(dtype).reshape(shape)


@pytest.mark.parametrize("text", SCHEMES)
def test_no_container_is_longer(text: str) -> None:
    for shape in SHAPES:
        if text.startswith("budget") and 0 < np.prod(shape) < 255:
            continue  # the header alone takes more
        for dtype in (np.float32, ml_dtypes.bfloat16) if len(shape) % 2 else (np.float16, np.float64):
            most = wc.max_encoded_bytes(shape, dtype, text)
            for x in _tensors(shape, dtype):
                assert wc.encode(x, text).nbytes <= most, (shape, dtype)


@pytest.mark.parametrize(
    "text",
    [
        *("all | raw-index | raw", "topk(1.0) | rice | qsgd", "dgc(1.0) | rice | sign-scale"),
        *(
            "topk(k=300) | raw-index | raw",
            "topk(0.1) | bitmap | offset-float",
            "randomk(0.2) | bitmap | terngrad",
        ),
        *(
            "topk(k=100) | bloom(policy=p1) | mean",
            "chunk-topk(0.1, chunk=64) | raw-index | raw(dtype=float16)",
        ),
        *("rfft | topk(0.1) | bitmap | raw", "dct | topk(0.1) | raw-index | qsgd(bits=7, bucket=48)"),
    ],
)
def test_fixed_lengths_meet_the_bound(text: str) -> None:
    for shape, dtype in itertools.product([(4097,), (64, 3, 1, 41), (70_000,)], DTYPES):
        x = np.random.default_rng(5).normal(size=shape).astype(dtype)
        assert wc.encode(x, text).nbytes == wc.max_encoded_bytes(shape, dtype, text), (shape, dtype)


def test_an_integer_is_one_dimension() -> None:
    assert wc.max_encoded_bytes(10, "bfloat16") == wc.max_encoded_bytes((10,), ml_dtypes.bfloat16)
    with pytest.raises(wc.EncodeError, match="shape is"):
        wc.max_encoded_bytes((3, -1), "float32")


def test_several_chunks() -> None:
    size = 2**24 + 5000
    x = np.zeros(size, np.float32)
    x[::90] = 1.0
    for text in ("topk(0.01) | raw-index | raw", "nonzero | bitmap | raw", "all | rice | sign-scale"):
        real, most = wc.encode(x, text).nbytes, wc.max_encoded_bytes(size, "float32", text)
        assert real <= most
        assert text.startswith("nonzero") or most <= 1.02 * real + 64, text


@dataclass(frozen=True)
class _Cost:
    """A chunk whose length in bytes is a table."""

    table: tuple[int, ...]

    @property
    def d(self) -> int:
        return len(self.table) - 1

    def max_bytes(self, r: int) -> int:
        return max(self.table[: r + 1])


def test_shared_elements_are_bounded_whatever_their_distribution() -> None:
    rng = np.random.default_rng(3)
    for _ in range(40):
        chunks = [
            _Cost((0, *np.sort(rng.integers(1, 60, 5)).tolist())),
            _Cost((0, *rng.integers(1, 40, 3).tolist())),
        ]
        most = int(rng.integers(1, 13))
        best = 0
        for counts in itertools.product(range(6), range(6), range(4)):
            if sum(counts) <= most:
                costs = (chunks[0], chunks[0], chunks[1])
                best = max(best, sum(c.table[r] for c, r in zip(costs, counts, strict=True)))
        found: Any = [(chunks[0], 2), (chunks[1], 1)]
        assert best <= size_bound._max_total(found, most)


def test_a_registered_codec_says_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass(frozen=True)
    class Unbounded:
        name: ClassVar[str] = "unbounded"
        wire_id: ClassVar[int] = 0xF3
        carries_nonfinite: ClassVar[bool] = True

        def encode(self, values: Array, stream: int) -> Array:
            return values.view(np.uint8)

        @classmethod
        def decode(cls, section: Array, r: int, dtype: Any, limits: Any) -> Array:
            return section.view(dtype)

    scheme = wc.Scheme(wc.selectors.TopK(k=3), wc.codecs.RawIndex(), Unbounded())
    with pytest.raises(wc.EncodeError, match=r"define max_bytes\(r, dtype\)"):
        wc.max_encoded_bytes(10, "float32", scheme)
    monkeypatch.setattr(Unbounded, "max_bytes", lambda self, r, dtype: r * dtype.itemsize, raising=False)
    x = np.arange(10, dtype=np.float32)
    assert wc.max_encoded_bytes(10, "float32", scheme) == wc.encode(x, "topk(k=3) | raw-index | raw").nbytes
