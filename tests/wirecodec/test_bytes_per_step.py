"""Tests of ``Compressor(bytes_per_step=)``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wirecodec as wc

DATA = Path(__file__).parents[1] / "data"


def model() -> dict[str, Any]:
    """Return gradients of a model with large and small tensors."""
    rng = np.random.default_rng(4)
    shapes = {"embedding": (300, 64), "linear": (128, 400), "bias": (400,)}
    return {name: rng.laplace(size=shape).astype(np.float32) for name, shape in shapes.items()}


def test_a_step_takes_its_bytes() -> None:
    compressor = wc.Compressor(
        {"bias": "all | raw-index | raw", "*": "budget(1) | rice | error-bounded"}, bytes_per_step=9000
    )
    for _ in range(4):
        assert 0.95 * 9000 <= compressor.compress(model()).nbytes <= 9000


def test_budgets_keep_their_ratio() -> None:
    """The bits of two schemes are scaled by one factor."""
    schemes = {"embedding": "budget(0.5) | rice | error-bounded", "*": "budget(2) | rice | error-bounded"}
    tensors = {name: x for name, x in model().items() if name != "bias"}
    found = wc.inspect(wc.Compressor(schemes, bytes_per_step=20_000).compress(tensors))
    bits = [(entry.index_bytes + entry.value_bytes) / entry.size for entry in found.entries]
    assert bits[1] / bits[0] == pytest.approx(4, rel=0.1)


def test_the_scheme_is_a_budget_by_default() -> None:
    x = {"w": np.random.default_rng(1).normal(size=50_000).astype(np.float32)}
    compressor = wc.Compressor(bytes_per_step=1500)
    assert 0.95 * 1500 <= compressor.compress(x).nbytes <= 1500
    assert "bytes per step 1500" in compressor.signature


def test_refusals() -> None:
    with pytest.raises(wc.EncodeError, match="bytes_per_step needs a scheme with a budget"):
        wc.Compressor("topk(0.01) | rice | raw", bytes_per_step=1000)
    compressor = wc.Compressor(
        {"bias": "all | raw-index | raw", "*": "budget(1) | rice | error-bounded"}, bytes_per_step=1000
    )
    with pytest.raises(wc.EncodeError, match="tensors without a budget may take"):
        compressor.compress(model())


def test_a_group_spends_the_bytes_where_they_help_most() -> None:
    """One threshold and one step for all tensors leave less error than a budget for each."""
    rng = np.random.default_rng(9)
    tensors = {f"t{i}": (rng.laplace(size=20_000) * 4.0**i).astype(np.float32) for i in range(3)}
    tensors["bias"] = rng.laplace(size=10).astype(np.float32)
    group = wc.Compressor(bytes_per_step=6000, feedback=None)
    each = wc.Compressor(
        {"bias": "all | raw-index | raw", "*": "budget(1) | rice | error-bounded"},
        bytes_per_step=6000,
        feedback=None,
    )
    errors = []
    for compressor in (group, each):
        blob = compressor.compress(tensors)
        assert 0.95 * 6000 <= blob.nbytes <= 6000
        found = wc.decode_many(blob)
        errors.append(sum(np.square(found[name].to_dense() - x).sum() for name, x in tensors.items()))
    assert errors[0] < 0.5 * errors[1]


def weighted_error(blob: Any, tensors: dict[str, Any], weights: dict[str, float]) -> float:
    """Return the sum of weight · squared error."""
    found = wc.decode_many(blob)
    errors = {
        name: np.square(found[name].to_dense() - x, dtype=np.float64).sum() for name, x in tensors.items()
    }
    return sum(weights.get(name, 1.0) * float(error) for name, error in errors.items())


def real_tensors() -> dict[str, Any]:
    """Return the saved gradients, each with the root mean square 1."""
    data = {path.stem: np.load(path).astype(np.float32) for path in sorted(DATA.glob("*.npy"))}
    return {
        name: (x / np.sqrt(np.square(x, dtype=np.float64).mean())).astype("f4") for name, x in data.items()
    }


def test_equal_weights_change_no_byte() -> None:
    tensors = model()
    plain, weighted = (
        wc.Compressor("budget(0.5) | rice | error-bounded", scope="group", weights=weights)
        for weights in (None, {"embedding": 3.0, "*": 3})
    )
    for _ in range(2):
        assert bytes(plain.compress(tensors)) == bytes(weighted.compress(tensors))


@pytest.mark.parametrize("weight", [0.1, 0.5, 3.0])
def test_weights_lower_the_weighted_error(weight: float) -> None:
    """At equal bytes, on real gradients: by 2 % or more where the weight is far from 1."""
    tensors = real_tensors()
    scheme, size = "budget(0.5) | rice | error-bounded", sum(x.size for x in tensors.values())
    plain = wc.Compressor(scheme, scope="group", feedback=None).compress(tensors)
    for name in tensors:
        weights = {name: weight}
        blob = wc.Compressor(scheme, scope="group", feedback=None, weights=weights).compress(tensors)
        assert 0.95 <= 8 * blob.nbytes / (0.5 * size) <= 1
        ratio = weighted_error(blob, tensors, weights) / weighted_error(plain, tensors, weights)
        assert ratio < (1.0 if weight == 0.5 else 0.98), name


def test_weights_and_groups_and_feedback() -> None:
    """A key's tensors share its budget, residuals stay those of the sums, and the bytes those of the step."""
    compressor = wc.Compressor(bytes_per_step=6000, weights={"embed*": 0.5})
    for _ in range(3):
        tensors = {name: x for name, x in model().items() if name != "bias"}
        before = {name: compressor.residual(name) for name in tensors}
        prepared = compressor.prepare(tensors)
        prepared.commit()
        assert 0.95 * 6000 <= prepared.blob.nbytes <= 6000
        for name, x in tensors.items():
            total = x.ravel() + (0 if before[name] is None else before[name])
            np.testing.assert_array_equal(
                compressor.residual(name), total - prepared.sent[name].to_dense().ravel()
            )
    assert "weights {'embed*': 0.5}" in compressor.signature


def test_two_keys_with_one_scheme_keep_their_steps() -> None:
    """Tensors of two groups share no entry: each group has a step of its own."""
    rng = np.random.default_rng(2)
    tensors = {
        f"{name}{i}": rng.laplace(size=9000).astype("f4") * 50.0**k
        for k, name in enumerate("ab")
        for i in "01"
    }
    scheme = "budget(1) | rice | error-bounded"
    both = wc.Compressor({"a*": scheme, "*": scheme}, scope="group", feedback=None)
    found = wc.decode_many(both.compress(tensors))
    for name, x in tensors.items():
        assert np.square(found[name].to_dense() - x).sum() < 0.35 * np.square(x).sum(), name


def test_refused_weights() -> None:
    with pytest.raises(wc.EncodeError, match="weights divide the bytes of a group"):
        wc.Compressor("budget(1) | rice | error-bounded", weights={"a": 2})
    with pytest.raises(wc.EncodeError, match=r"weights: a is 0\.0; it must be above 0"):
        wc.Compressor(bytes_per_step=1000, weights={"a": 0})


def test_schedules_of_budgets() -> None:
    """A budget's ratio is bits / 32; that of a step is its part of the raw bytes. At 1, all is raw."""
    x = {"w": np.random.default_rng(1).laplace(size=50_000).astype(np.float32)}
    schedules: list[tuple[Any, list[float]]] = [
        (wc.WarmUp(2), [32, 32 * (0.5 / 32) ** 0.5, 0.5]),
        (wc.WarmUp(1, hold=True), [32, 0.5, 0.5]),
        (wc.Steps({0: 1 / 8, 2: 1 / 16}), [4, 4, 2]),
        (wc.Steps({1: 4}, factor=True), [0.5, 2, 2]),
    ]
    for schedule, bits in schedules:
        for settings in ({"scheme": "budget(0.5) | rice | error-bounded"}, {"bytes_per_step": 50_000 // 16}):
            compressor = wc.Compressor(**settings, schedule=schedule, feedback=None)
            for wanted in bits:
                spent = 8 * compressor.compress(x).nbytes / 50_000
                assert (32 < spent < 32.1) if wanted == 32 else 0.95 * wanted <= spent <= wanted
    with pytest.raises(wc.EncodeError, match=r"ratio is 2\.0 at step 0"):
        wc.Compressor(bytes_per_step=1000, schedule=lambda step, ratio: 2.0).compress(x)
