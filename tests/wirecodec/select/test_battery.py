"""One battery for every registered selector, compared with the definitions in tests/oracles.py."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from fractions import Fraction
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wirecodec as wc
from tests import oracles
from tests.conftest import DTYPES
from wirecodec import registry
from wirecodec.arrays import bits_of

SELECTORS = registry._stages["selector"]
SEED = 2**64 - 3

Choose = Callable[[Any], list[int]]


def share(x: Any, ratio: str, some: Choose) -> list[int]:
    """Compute ``some`` if fewer than all elements are kept."""
    return list(range(x.size)) if oracles.kept(ratio, x.size) == x.size else some(x)


def by_ratio(ratio: str) -> dict[Any, Choose]:
    """Return the selectors with a ratio, and the selection that each must make."""
    number = float(ratio)

    def k(x: Any) -> int:
        return oracles.kept(ratio, x.size)

    return {
        wc.TopK(number): lambda x: oracles.top_k(x, k(x)),
        wc.RandomK(number): lambda x: oracles.random_k(x.size, k(x), SEED),
        wc.DGC(number): lambda x: share(x, ratio, lambda x: oracles.dgc(x, ratio, SEED, "0.01")),
        wc.DGC(number, sample=0.2): lambda x: share(x, ratio, lambda x: oracles.dgc(x, ratio, SEED, "0.2")),
        wc.RedSync(number): lambda x: share(x, ratio, lambda x: oracles.redsync(x, k(x), 10)),
        wc.GaussianK(number): lambda x: share(x, ratio, lambda x: oracles.gaussiank(x, k(x), number)),
        **{wc.ChunkTopK(number, c): lambda x, c=c: oracles.chunk_top_k(x, ratio, c) for c in (1, 50, 300)},
    }


EXPECTED: dict[Any, Choose] = {
    wc.All(): lambda x: list(range(x.size)),
    wc.NonZero(): lambda x: np.flatnonzero(bits_of(x)).tolist(),
    **{wc.Threshold(t): lambda x, t=t: oracles.reaching(x, t) for t in (0, 0.5, 1.3, 1e-41, 1e5, 1e300)},
    **{wc.AdaComp(b): lambda x, b=b: oracles.adacomp(x, x, b, 2.0)[0] for b in (1, 50, 64, 200, 10**6)},
    **{
        selector: choose for ratio in ("0.3", "0.05", "0.004") for selector, choose in by_ratio(ratio).items()
    },
}


def chosen(selector: Any, x: Any, **given: Any) -> list[int]:
    indices = selector.select(x, seed=SEED, **given).indices
    if indices is None:
        return list(range(x.size))
    assert indices.dtype == np.int32
    return [int(i) for i in indices]


def vectors() -> dict[str, Any]:
    rng = np.random.default_rng(12)
    n = 700
    shapes = {
        "normal": rng.normal(size=n),
        "heavy": rng.standard_t(1.2, size=n).clip(-6e4, 6e4),
        "shifted": 3 + 0.1 * rng.normal(size=n),
        "ties": rng.integers(-3, 4, n).astype(float),
        "constant": np.full(n, -2.0),
        "ones": np.ones(n),
        "zeros": np.where(np.arange(n) % 2, 0.0, -0.0),
        "mostly zeros": rng.normal(size=n) * (rng.random(n) < 0.01),
        "ascending": np.arange(n, dtype=float),
        "descending": -np.arange(n, dtype=float),
        "denormals": rng.normal(size=n) * 1e-41,
        "one spike": np.where(np.arange(n) == 300, 1e4, 1e-4),
        "one": np.where(np.arange(n) == 0, -1.0, 0.0),
        "layers": rng.normal(size=n) * np.repeat([1e-6, 1.0, 1e-3, 30.0], n // 4),
        "empty": np.zeros(0),
    }
    shapes |= {
        f"{size} of them": rng.normal(size=size) for size in (1, 2, 3, 49, 51, 63, 64, 65, 127, 128, 129)
    }
    return shapes


VECTORS = vectors()


@pytest.mark.parametrize("selector", EXPECTED, ids=str)
def test_selection_is_the_definition(selector: Any, dtype: np.dtype[Any]) -> None:
    for name, shape in VECTORS.items():
        x = shape.astype(dtype)
        assert chosen(selector, x) == EXPECTED[selector](x), name


def test_every_selector_has_a_definition() -> None:
    """SIDCo is defined by its threshold, in tests/wirecodec/select/test_sidco.py."""
    assert {type(selector) for selector in EXPECTED} == set(SELECTORS.values()) - {wc.SIDCo}


def example(name: str, ratio: float = 0.05) -> Any:
    """Return a selector with that name."""
    given = {"ratio": ratio, "chunk": 30, "t": 0.5}
    cls = SELECTORS[name]
    fields = {f.name for f in dataclasses.fields(cls)}
    return cls(**{key: value for key, value in given.items() if key in fields})


@pytest.mark.parametrize("name", SELECTORS)
def test_selection_depends_on_numbers_alone(name: str, dtype: np.dtype[Any]) -> None:
    """It does not depend on memory layout, on write permission, or on earlier selections."""
    x = np.random.default_rng(1).normal(size=2000).astype(dtype)
    first = wc.encode(x, wc.Scheme(example(name), wc.Rice(), wc.Raw()), seed=5)
    strided = np.empty((2000, 3), dtype)[:, 1]
    strided[...] = x
    frozen = x.copy()
    frozen.flags.writeable = False
    shifted = np.empty(x.nbytes + 1, np.uint8)[1:].view(dtype)
    shifted[...] = x
    for same in (x, strided, frozen, shifted, x.astype(dtype.newbyteorder(">"))):
        assert np.array_equal(wc.encode(same, wc.Scheme(example(name), wc.Rice(), wc.Raw()), seed=5), first)
    assert chosen(example(name), x) == chosen(example(name), frozen)


@pytest.mark.parametrize("name", sorted(set(SELECTORS) - {"all", "nonzero"}))
@pytest.mark.parametrize("bad", [np.nan, -np.nan, np.inf, -np.inf])
def test_the_first_nonfinite_is_reported(name: str, dtype: np.dtype[Any], bad: float) -> None:
    for ratio, at in product((0.05, 1.0), ([5000, 7000], [9999], [0, 1], [63, 64])):
        x = np.random.default_rng(3).normal(size=10_000).astype(dtype)
        x[at] = bad
        with pytest.raises(wc.EncodeError, match=rf"element {at[0]}: {name} cannot carry") as caught:
            example(name, ratio).select(x)
        assert caught.value.position == at[0]


@pytest.mark.parametrize("name", sorted(set(SELECTORS) - {"all", "nonzero"}))
def test_nan_of_any_payload_is_reported(name: str) -> None:
    """NaNs of the largest payload order above an infinity at a lower index."""
    x = np.zeros(700, np.float32)
    x.view(np.uint32)[[100, 400, 699]] = 0x7F800000, 0x7FFFFFFF, 0xFFFFFFFF
    with pytest.raises(wc.EncodeError) as caught:
        example(name).select(x)
    assert caught.value.position == 100


@pytest.mark.parametrize("name", sorted(set(SELECTORS) - {"all", "nonzero"}))
def test_a_signalling_nan_is_reported_without_a_warning(name: str, dtype: np.dtype[Any]) -> None:
    x = np.ones(10_000, dtype)
    bits = bits_of(x)
    bits[:] = bits_of(np.array([np.inf], dtype)) + bits.dtype.type(1)
    with pytest.raises(wc.EncodeError, match=f"element 0: {name} cannot carry nan"):
        example(name).select(x)


@pytest.mark.parametrize("name", [n for n in SELECTORS if hasattr(example(n), "ratio")])
def test_the_smallest_ratio_keeps_little(name: str) -> None:
    x = np.random.default_rng(0).normal(size=2000).astype(np.float32)
    assert len(chosen(example(name, 5e-324), x)) <= -(-2000 // 30)  # chunk-topk: one of each chunk


@pytest.mark.parametrize("name", [n for n in SELECTORS if hasattr(example(n), "ratio")])
def test_ratios_are_fractions_and_follow_schedules(name: str) -> None:
    for wrong in (0, -0.1, 1.5, float("nan"), "much"):
        with pytest.raises(wc.EncodeError, match="ratio"):
            example(name, wrong)
    x = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    scheme = wc.Scheme(example(name), wc.Rice(), wc.Raw())
    assert wc.Scheme.parse(str(scheme)) == scheme
    c = wc.Compressor(scheme, schedule=lambda step: 1.0 if step == 0 else 0.1)
    first, second = (c.decompress(c.compress({"w": x}))["w"].nnz for _ in range(2))
    assert first == 1000 > second


@pytest.mark.parametrize("name", SELECTORS)
def test_selectors_are_frozen_values(name: str) -> None:
    one = example(name)
    assert one == example(name)
    assert hash(one) == hash(example(name))
    assert isinstance(one, wc.Selector)
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.anything = 1


def test_other_parameters_are_checked() -> None:
    for wrong in (
        lambda: wc.Threshold(-1),
        lambda: wc.Threshold(float("inf")),
        lambda: wc.Threshold(float("nan")),
        lambda: wc.DGC(0.1, sample=0),
        lambda: wc.ChunkTopK(0.1, 0),
        lambda: wc.ChunkTopK(0.1, 2.5),
        lambda: wc.DGC(10**400),
        lambda: wc.AdaComp(0),
        lambda: wc.AdaComp(50, factor=0.5),
        lambda: wc.AdaComp(50, factor=float("inf")),
    ):
        with pytest.raises(wc.EncodeError):
            wrong()
    assert wc.DGC(np.float32(0.1)) == wc.DGC(0.1)


# What the baselines promise, beyond their definitions.


def test_dgc_keeps_at_most_k_and_only_of_the_top(gradient: Any) -> None:
    for ratio in (0.1, 0.01, 0.001):
        found = chosen(wc.DGC(ratio), gradient)
        k = oracles.kept(str(ratio), gradient.size)
        assert 0 < len(found) <= k
        assert ratio < 0.01 or len(found) > k / 2  # 0.1 % of a 1 % sample are two elements here
        assert set(found) <= set(chosen(wc.TopK(k=k), gradient))


def test_redsync_finds_k_to_2k_of_light_tails() -> None:
    x = np.random.default_rng(4).laplace(size=100_000)
    for ratio in (0.1, 0.01, 0.001):
        k = oracles.kept(str(ratio), x.size)
        assert k <= len(chosen(wc.RedSync(ratio), x)) <= 2 * k


def test_redsync_and_gaussiank_miss_heavy_tails(gradient: Any) -> None:
    """These are baselines: a miss is not an error, but the selection is all elements above one threshold."""
    for selector in (wc.RedSync(0.001), wc.GaussianK(0.001)):
        found = chosen(selector, gradient)
        assert 0 < len(found) < gradient.size
        assert found == chosen(wc.TopK(k=len(found)), gradient)


def test_gaussiank_is_near_k_of_a_normal_distribution() -> None:
    x = np.random.default_rng(4).normal(size=100_000)
    for ratio in (0.1, 0.01, 0.001):
        assert len(chosen(wc.GaussianK(ratio), x)) == pytest.approx(ratio * x.size, rel=0.3)


def test_chunks_keep_less_energy(gradient: Any) -> None:
    def energy(selector: Any) -> float:
        return float((gradient[chosen(selector, gradient)].astype(float) ** 2).sum())

    assert energy(wc.ChunkTopK(0.01, 100)) < energy(wc.ChunkTopK(0.01, 10_000)) < energy(wc.TopK(0.01))
    assert chosen(wc.ChunkTopK(0.01, gradient.size), gradient) == chosen(wc.TopK(0.01), gradient)


def test_randomk_ignores_the_values() -> None:
    rng = np.random.default_rng(9)
    one, other = rng.normal(size=5000).astype(np.float32), np.zeros(5000)
    assert chosen(wc.RandomK(0.1), one) == chosen(wc.RandomK(0.1), other)
    seeds = {tuple(wc.RandomK(0.1).select(one, seed=s).indices) for s in range(20)}
    assert len(seeds) == 20


def test_randomk_draws_every_set_equally() -> None:
    """All C(6, 3) sets over 6000 seeds: chi-square with 19 degrees of freedom, below its 0.999 quantile."""
    counts = dict.fromkeys(combinations(range(6), 3), 0)
    x = np.ones(6, np.float32)
    for seed in range(6000):
        counts[tuple(wc.RandomK(0.5).select(x, seed=seed).indices.tolist())] += 1
    assert sum((c - 300) ** 2 / 300 for c in counts.values()) < 43.8


def test_randomk_of_a_million_is_uniform() -> None:
    x = np.zeros(1_000_000, np.float32)
    for ratio in (0.3, 0.01, 0.0001):
        found = wc.RandomK(ratio).select(x, seed=1).indices
        k = oracles.kept(str(ratio), x.size)
        assert found.size == np.unique(found).size == k
        counts = np.bincount(found // 100_000, minlength=10)
        assert ((counts - k / 10) ** 2 / (k / 10)).sum() < 27.9


def test_randomk_is_its_definition_at_any_size() -> None:
    for size, ratio in ((100_000, "0.1"), (99_999, "0.001"), (50_000, "0.9999")):
        found = wc.RandomK(float(ratio)).select(np.zeros(size), seed=7).indices
        assert found.tolist() == oracles.random_k(size, oracles.kept(ratio, size), 7)


def test_ranks_select_the_same_elements() -> None:
    """A Compressor mixes the rank into the codecs' draws, not into the selectors'."""
    x = np.random.default_rng(0).normal(size=3000).astype(np.float32)
    for scheme in ("randomk(0.1) | rice | qsgd", "dgc(0.1) | rice | qsgd"):
        c = wc.Compressor(scheme, seed=3)
        one, other = (c.prepare({"w": x}, rank=rank) for rank in (0, 1))
        assert np.array_equal(one.sent["w"].indices, other.sent["w"].indices)
        assert not np.array_equal(one.blob, other.blob)
        one.commit()
        again = c.prepare({"w": x}, rank=0)
        assert not np.array_equal(one.sent["w"].indices, again.sent["w"].indices)


def test_no_sample_is_drawn_twice() -> None:
    from wirecodec.select.dgc import draw_positions

    for size, n in ((10, 1), (10, 10), (1001, 10), (1_000_003, 777)):
        found = draw_positions(n, size, 0x123456789ABCDEF)
        edges = [q * size // n for q in range(n + 1)]
        assert all(a <= p < b for p, a, b in zip(found.tolist(), edges, edges[1:], strict=False))


def test_buffers_grow() -> None:
    """The buffer of the indices grows if the guess of their number was too small."""
    x = np.random.default_rng(0).normal(size=300_000).astype(np.float32)
    for t in (1e-9, 0.1, 2.0, 5.0):
        assert np.array_equal(chosen(wc.Threshold(t), x), np.flatnonzero(np.abs(x) >= np.float32(t)))
    late = np.where(np.arange(300_000) < 290_000, 0, x)
    assert np.array_equal(wc.Threshold(1e-9).select(late).indices, np.flatnonzero(late))


def test_thresholds_round_to_the_type(dtype: np.dtype[Any]) -> None:
    t = float(Fraction(1) + Fraction(1, 2**8) + Fraction(1, 2**40))
    near = np.array([oracles.rounded(t, dtype)]).astype(dtype)
    x = np.concatenate([near, np.nextafter(near, near.dtype.type(0)), -near])
    assert chosen(wc.Threshold(t), x) == [0, 2]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 5000),
    st.one_of(st.integers(1, 70), st.integers(1, 5000)),
    st.sampled_from([0.001, 0.01, 0.03, 0.1, 0.4, 0.9]),
    st.sampled_from(DTYPES),
    st.sampled_from(["scales", "few values", "zeros", "steps"]),
    st.integers(0, 2**32),
)
def test_chunks_of_any_size_and_scale(
    n: int, chunk: int, ratio: float, dtype: np.dtype[Any], kind: str, seed: int
) -> None:
    """The threshold of one chunk is a poor guess for the next if scales change between chunks."""
    rng = np.random.default_rng(seed)
    x = rng.laplace(size=n)
    scale = np.repeat(10.0 ** rng.integers(-7, 5, n // chunk + 1), chunk)[:n]
    made = {
        "scales": scale * x,
        "few values": rng.integers(-3, 4, n) * scale,
        "zeros": x * (rng.random(n) < 0.02),
        "steps": np.round(x) + scale,
    }[kind]
    x = np.clip(made, -6e4, 6e4).astype(dtype)
    assert chosen(wc.ChunkTopK(ratio, chunk), x) == oracles.chunk_top_k(x, str(ratio), chunk)
