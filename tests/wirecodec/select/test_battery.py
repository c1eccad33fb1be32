"""One battery for every registered selector, compared with the definitions in tests/oracles.py."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from tests import oracles
from tests.wirecodec.select.choices import SEED, chosen
from wirecodec import registry, select
from wirecodec.arrays import bits_of

SELECTORS = registry._stages["selector"]

Choose = Callable[[Any], list[int]]


def share(x: Any, ratio: str, some: Choose) -> list[int]:
    """Compute ``some`` if fewer than all elements are kept."""
    return list(range(x.size)) if oracles.selected_count(ratio, x.size) == x.size else some(x)


def by_ratio(ratio: str) -> dict[Any, Choose]:
    """Return the selectors with a ratio, and the selection that each must make."""
    number = float(ratio)

    def k(x: Any) -> int:
        return oracles.selected_count(ratio, x.size)

    return {
        wc.selectors.TopK(number): lambda x: oracles.top_k(x, k(x)),
        wc.selectors.RandomK(number): lambda x: oracles.random_k(x.size, k(x), SEED),
        wc.selectors.DGC(number): lambda x: share(x, ratio, lambda x: oracles.dgc(x, ratio, SEED, "0.01")),
        wc.selectors.DGC(number, sample=0.2): lambda x: share(
            x, ratio, lambda x: oracles.dgc(x, ratio, SEED, "0.2")
        ),
        wc.selectors.RedSync(number): lambda x: share(x, ratio, lambda x: oracles.redsync(x, k(x), 10)),
        wc.selectors.GaussianK(number): lambda x: share(
            x, ratio, lambda x: oracles.gaussiank(x, k(x), number)
        ),
        **{
            wc.selectors.ChunkTopK(number, c): lambda x, c=c: oracles.chunk_top_k(x, ratio, c)
            for c in (1, 50, 300)
        },
    }


EXPECTED: dict[Any, Choose] = {
    wc.selectors.All(): lambda x: list(range(x.size)),
    wc.selectors.NonZero(): lambda x: np.flatnonzero(bits_of(x)).tolist(),
    **{
        wc.selectors.Threshold(t): lambda x, t=t: oracles.threshold_indices(x, t)
        for t in (0, 0.5, 1.3, 1e-41, 1e5, 1e300)
    },
    **{
        wc.selectors.AdaComp(b): lambda x, b=b: oracles.adacomp(x, x, b, 2.0)[0]
        for b in (1, 50, 64, 200, 10**6)
    },
    **{
        selector: choose for ratio in ("0.3", "0.05", "0.004") for selector, choose in by_ratio(ratio).items()
    },
}


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


@pytest.mark.sampled
@pytest.mark.parametrize("selector", EXPECTED, ids=str)
def test_selection_is_the_definition(selector: Any, dtype: np.dtype[Any]) -> None:
    for name, shape in VECTORS.items():
        x = shape.astype(dtype)
        assert chosen(selector, x) == EXPECTED[selector](x), name


def test_every_selector_has_a_definition() -> None:
    """SIDCo is defined by its threshold, and Budget by its bytes, in tests of their own."""
    assert {type(selector) for selector in EXPECTED} == set(SELECTORS.values()) - {
        wc.selectors.SIDCo,
        wc.selectors.Budget,
    }


def example(name: str, ratio: float = 0.05) -> Any:
    """Return a selector with that name."""
    given = {"ratio": ratio, "chunk": 30, "t": 0.5, "bits": 20 * ratio}
    cls = SELECTORS[name]
    fields = {f.name for f in dataclasses.fields(cls)}
    return cls(**{key: value for key, value in given.items() if key in fields})


@pytest.mark.sampled
@pytest.mark.parametrize("name", SELECTORS)
def test_selection_depends_on_numbers_alone(name: str, dtype: np.dtype[Any]) -> None:
    """It does not depend on memory layout, on write permission, or on earlier selections."""
    x = np.random.default_rng(1).normal(size=2000).astype(dtype)
    first = wc.encode(x, wc.Scheme(example(name), wc.codecs.Rice(), wc.codecs.Raw()), seed=5)
    strided = np.empty((2000, 3), dtype)[:, 1]
    strided[...] = x
    frozen = x.copy()
    frozen.flags.writeable = False
    shifted = np.empty(x.nbytes + 1, np.uint8)[1:].view(dtype)
    shifted[...] = x
    for same in (x, strided, frozen, shifted, x.astype(dtype.newbyteorder(">"))):
        assert np.array_equal(
            wc.encode(same, wc.Scheme(example(name), wc.codecs.Rice(), wc.codecs.Raw()), seed=5), first
        )
    assert chosen(example(name), x) == chosen(example(name), frozen)


@pytest.mark.sampled
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


@pytest.mark.sampled
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
    scheme = wc.Scheme(example(name), wc.codecs.Rice(), wc.codecs.Raw())
    assert wc.Scheme.parse(str(scheme)) == scheme
    c = wc.Compressor(scheme, schedule=lambda step, own: 1.0 if step == 0 else 0.1)
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
        lambda: wc.selectors.Threshold(-1),
        lambda: wc.selectors.Threshold(float("inf")),
        lambda: wc.selectors.Threshold(float("nan")),
        lambda: wc.selectors.DGC(0.1, sample=0),
        lambda: wc.selectors.ChunkTopK(0.1, 0),
        lambda: wc.selectors.ChunkTopK(0.1, 2.5),
        lambda: wc.selectors.DGC(10**400),
        lambda: wc.selectors.AdaComp(0),
        lambda: wc.selectors.Budget(0),
        lambda: wc.selectors.Budget(65),
        lambda: wc.selectors.AdaComp(50, factor=0.5),
        lambda: wc.selectors.AdaComp(50, factor=float("inf")),
    ):
        with pytest.raises(wc.EncodeError):
            wrong()
    assert wc.selectors.DGC(np.float32(0.1)) == wc.selectors.DGC(0.1)


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


def test_every_exported_selector_is_in_the_list() -> None:
    exported = {getattr(select, name) for name in select.__all__ if name not in ("SELECTORS", "Selector")}
    assert {cls for cls in exported if hasattr(cls, "select")} == set(select.SELECTORS)
