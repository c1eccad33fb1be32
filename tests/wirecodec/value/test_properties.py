"""Tests of every value codec as a quantiser: unbiased, contractive, safe under error feedback.

``traits`` declares the properties; a codec without an entry fails.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from tests.wirecodec.value.traits import CODECS, TRAITS, traits_of, wire_name
from wirecodec.arrays import read_only
from wirecodec.limits import UNLIMITED
from wirecodec.prng import mix
from wirecodec.registry import value_codecs
from wirecodec.tensors import as_bytes

if sys.version_info >= (3, 11):
    pass
else:
    pass

ROOT = Path(__file__).parents[3]
SECTIONS = re.split(r"^### ", (ROOT / "benchmarks/results/codecs.md").read_text(), flags=re.MULTILINE)
PAGES = {section.partition("\n")[0]: section for section in SECTIONS[1:]}
"""What the page of the codecs' costs says of each."""
SEEDS, TILES = 300, 10
Z = 6.0
"""Accepted standard errors of a mean; the seeds are fixed, and therefore the result."""


def round_trip(codec: Any, values: Any, seed: int = 0) -> Any:
    return wc.decode(
        wc.encode(values, wc.Scheme(wc.selectors.All(), wc.codecs.RawIndex(), codec), seed=seed)
    ).values


def decode_draw(codec: Any, values: Any, stream: int) -> Any:
    """Encode and decode with the codec alone, which is faster."""
    section = as_bytes(codec.encode(read_only(values), stream))
    return codec.decode(section, values.size, values.dtype, UNLIMITED)


def label(codec: Any) -> str:
    return repr(codec) if not isinstance(codec, wc.codecs.Raw) else wire_name(codec)


def with_trait(name: str) -> list[Any]:
    return [codec for codec in CODECS if getattr(traits_of(codec), name) not in (None, False)]


def test_every_codec_has_traits() -> None:
    assert {cls.name for cls in value_codecs().values()} <= TRAITS.keys()
    assert {wire_name(codec) for codec in CODECS} >= {cls.name for cls in value_codecs().values()}


@pytest.mark.parametrize("codec", with_trait("exact"), ids=label)
def test_exact_codecs_preserve_every_bit(codec: Any, gradient: Any) -> None:
    values = gradient[:20_000]
    assert np.array_equal(round_trip(codec, values).view(np.uint32), values.view(np.uint32))


@pytest.mark.parametrize("codec", [c for c in with_trait("unbiased") if not traits_of(c).exact], ids=label)
def test_the_mean_over_seeds_is_the_value(codec: Any) -> None:
    """The mean of every value is within Z standard errors, and the draws differ.

    The vector is tiled, so that one seed gives several draws.
    """
    values = np.array([1, -0.9, 0.5, 0.37, -0.25, 0.1, -0.01, 1e-3, 0, 0.75, -1, 0.66, 3e-5], np.float32)
    tiled = np.tile(values, TILES)
    decoded = np.array([decode_draw(codec, tiled, mix(seed)) for seed in range(SEEDS)], np.float64)
    assert np.unique(decoded, axis=0).shape[0] > 1
    decoded = decoded.reshape(-1, values.size)
    draws, slack = len(decoded), traits_of(codec).slack
    offset = decoded.mean(axis=0) - values
    allowed = Z * decoded.std(axis=0) / np.sqrt(draws) + slack
    # If almost every draw gives the same level, the sample's deviation is too small. The bias is then at most
    # the level of a few draws.
    assert (np.abs(offset) <= allowed + 5 * np.abs(decoded).max() / draws).all(), offset / allowed
    assert abs(offset.sum()) <= Z * decoded.sum(axis=1).std() / np.sqrt(draws) + values.size * slack


@pytest.mark.parametrize("codec", CODECS, ids=label)
def test_results_depend_on_the_seed_as_declared(codec: Any, rng: np.random.Generator) -> None:
    """Another seed gives other values if and only if the codec draws."""
    values = rng.normal(size=300).astype(np.float32)
    same = np.array_equal(round_trip(codec, values, 1), round_trip(codec, values, 2))
    assert traits_of(codec).draws in (None, not same)


def vector_families(rng: np.random.Generator) -> dict[str, Any]:
    """Draw vectors of many shapes, including hard ones for a scale, a grid, a bucket or a curve."""
    found = {
        "one": [0.7],
        "two": [1.0, -1e-3],
        "constant": np.full(100, -0.3),
        "signs": rng.choice([-0.3, 0.3], 100),
        "normal": rng.normal(size=1000),
        "laplace": rng.laplace(size=1000),
        "largest of laplace": (4.6 + rng.exponential(size=700)) * rng.choice([-1, 1], 700),
        "student": rng.standard_t(1.5, 1000).clip(-1000, 1000),
        "one among zeros": np.eye(1, 64, 5)[0] * -64,
        "one among small ones": np.where(np.arange(600) == 77, 100, 1e-3),
        "powers of two": 2.0 ** -np.arange(40) * rng.choice([-1, 1], 40),
        "powers of three": 3.0 ** np.arange(-10, 9),
        "two clusters": np.where(np.arange(500) % 2, 1, 1.49) * rng.choice([-1, 1], 500),
        "half way": (np.arange(255) - 127 + 0.4999) / 128,
        "ramp": np.linspace(-1, 1, 1001),
        "positive": rng.exponential(size=300) + 1,
        "small": rng.normal(size=400) * 1e-3,
        "a step": np.repeat([1e-2, 5.0], 150),
        "layers": np.concatenate([rng.normal(size=300) * scale for scale in (1e-3, 1.0, 30.0)]),
        "zeros between": np.where(rng.random(500) < 0.9, 0, rng.normal(size=500)),
    }
    return {name: np.asarray(values, np.float32) for name, values in found.items()}


@pytest.mark.sampled
@pytest.mark.parametrize("codec", with_trait("contracts"), ids=label)
def test_codecs_contract_as_declared(codec: Any, gradient: Any) -> None:
    """‖Q(v) - v‖² ≤ (1 - c) ‖v‖², with an allowance for float32 rounding."""
    vectors = vector_families(np.random.default_rng(4)) | {"gradient": gradient[:5000]}
    for name, values in vectors.items():
        v, q = values.astype(np.float64), round_trip(codec, values).astype(np.float64)
        fraction = 1 - traits_of(codec).contracts(v.size)
        assert ((q - v) ** 2).sum() <= (fraction * (1 + 1e-5) + 1e-13) * (v**2).sum(), name


@pytest.mark.sampled(17)
@pytest.mark.parametrize("codec", CODECS, ids=label)
def test_error_feedback_converges_or_the_page_says_so(codec: Any) -> None:
    """Least squares with the largest fifth: the loss falls to 1 %, or the page of costs states divergence."""
    if traits_of(codec).feedback is None or any(converges(codec, *pace) for pace in PACES):
        return
    page = PAGES.get(wire_name(codec), "")
    statements = [
        s for s in re.split(r"(?<=[.:])\s", page) if "error feedback" in s.lower() and "diverge" in s
    ]
    assert statements, "the page does not say that error feedback diverges"
    assert not traits_of(codec).feedback


PACES = ((0.1, 100), (0.03, 300))
"""Learning rates and steps; a codec with a large residual needs a small rate."""


def converges(codec: Any, rate: float, steps: int) -> bool:
    """Check if the loss falls to 1 %."""
    rng = np.random.default_rng(6)
    a = rng.normal(size=(1000, 200))
    squares = a.T @ a / 1000
    offset = -rng.laplace(size=200)
    first = float(offset @ squares @ offset)
    c = wc.Compressor(wc.Scheme(wc.selectors.TopK(0.2), wc.codecs.Rice(), codec))
    for _ in range(steps):
        gradient = squares @ offset
        if not float(offset @ gradient) < 1e6 * first:
            return False
        sent = c.decompress(c.compress({"w": gradient.astype(np.float32)}))["w"]
        offset[sent.indices] -= rate * sent.values.astype(np.float64)
    return float(offset @ squares @ offset) < first / 100


def test_norm_l2_with_two_bits_diverges() -> None:
    """The spec page states it; this shows that ``converges`` can be False."""
    assert not any(converges(wc.codecs.QSGD(bits=2, norm="l2"), *pace) for pace in PACES)
