"""Tests of ``Compressor(bytes_per_step=)``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import wirecodec as wc
from wirecodec.cpu.costs import CodecCosts
from wirecodec.select.budget import notice as budget_notice

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


# Every container keeps to its limit.


def small_model() -> dict[str, Any]:
    """Return tensors of all kinds: empty, of few elements, of many dimensions, and with long names."""
    rng = np.random.default_rng(11)
    shapes = {
        "scale": (),
        "norm.bias": (32,),
        "norm.weight": (32,),
        "empty": (0,),
        "empty.bias": (3, 0, 2),
        "a" * 300 + ".bias": (1,),
        "b" * 300: (7, 1, 1, 2),
        "dense": (60, 50),
        "dense.bias": (50,),
        "embedding": (300, 40),
    }
    return {name: rng.laplace(size=shape).astype(np.float32) for name, shape in shapes.items()}


def models() -> dict[str, dict[str, Any]]:
    """Return {kind: tensors}."""
    rng, model = np.random.default_rng(12), small_model()
    types = ["float16", "float32", "float64", ml_dtypes.bfloat16]
    return {
        "all kinds": model,
        "budgets only": {name: x for name, x in model.items() if not name.endswith("bias")},
        "no elements beside one": {f"empty.{i}": np.zeros(0, np.float32) for i in range(20)}
        | {"dense": model["dense"]},
        "tiny": {f"t{i}": rng.normal(size=i % 3 + 1).astype(np.float32) for i in range(30)},
        "types": {f"{i}.{name}": x.astype(types[i % 4]) for i, (name, x) in enumerate(model.items())},
        "empty of every type": {f"e{i}": np.zeros(0, dtype) for i, dtype in enumerate(types)}
        | {f"w{i}": rng.normal(size=900).astype(dtype) for i, dtype in enumerate(types)},
        "some zeros": {name: x * (i % 2) for i, (name, x) in enumerate(model.items())},
        "dense": {"dense": model["dense"], "embedding": model["embedding"]},
    }


MODELS = models()
BUDGET = "budget(1) | rice | error-bounded"
SETTINGS: dict[str, dict[str, Any]] = {
    "tensors": {"scheme": BUDGET},
    "groups": {"scheme": BUDGET, "scope": "group"},
    "raw biases": {"scheme": {"*bias": "all | raw-index | raw", "*": BUDGET}},
    "raw biases, group": {"scheme": {"*bias": "all | raw-index | raw", "*": BUDGET}, "scope": "group"},
    "two groups": {"scheme": {"*e*": BUDGET, "*": "budget(0.1) | auto-index | raw"}, "scope": "group"},
    "two keys": {"scheme": {"*e*": BUDGET, "*": BUDGET}, "scope": "group", "names": False},
    "fused": {"scheme": {"*bias": "topk(0.2) | raw-index | raw", "*": BUDGET}, "fuse": 5000},
    "weights": {"scheme": BUDGET, "scope": "group", "weights": {"*e*": 0.3, "t*": 2}},
    "momentum": {"scheme": None, "feedback": wc.MomentumCorrection(0.9)},
    "transform": {"scheme": "dct | budget(1) | rice | raw", "names": False},
}


def least_limit(settings: dict[str, Any], tensors: dict[str, Any], *, hold: bool) -> int:
    """Return the limit that the error of a limit of one byte asks for."""
    with pytest.raises(wc.EncodeError, match=r"^bytes_per_step is 1; .* must be at least \d+$") as caught:
        wc.Compressor(**settings, bytes_per_step=1).prepare(tensors, hold_zeros=hold)
    return int(str(caught.value).rpartition(" ")[2])


@pytest.mark.filterwarnings("ignore:tensor .* the share of bytes_per_step")
@pytest.mark.sampled
@pytest.mark.parametrize("hold", [False, True])
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("kind", MODELS)
def test_no_container_is_larger(kind: str, settings: str, hold: bool) -> None:
    """From the least limit on, which the error of a lower one names; and nothing of a gradient is lost."""
    tensors, chosen = MODELS[kind], SETTINGS[settings]
    least = least_limit(chosen, tensors, hold=hold)
    with pytest.raises(wc.EncodeError, match=f"must be at least {least}$"):
        wc.Compressor(**chosen, bytes_per_step=least - 1).prepare(tensors, hold_zeros=hold)
    for more in (0, 1, 24, 40, 100, 300, 1000, 4000, 100_000):
        compressor = wc.Compressor(**chosen, bytes_per_step=least + more)
        for _ in range(2):
            before = {name: compressor.residual(name) for name in tensors}
            prepared = compressor.prepare(tensors, hold_zeros=hold)
            assert prepared.blob.nbytes <= least + more
            prepared.commit()
            if settings == "momentum":
                continue
            for name, x in tensors.items():
                received = np.asarray(prepared.sent[name].to_dense(), np.float64).ravel()
                total = x.astype(np.float64).ravel() + as_array(before[name], x.size)
                left = total - received - as_array(compressor.residual(name), x.size)
                scale = max(np.abs(received).max(initial=0), np.abs(total).max(initial=0))
                assert np.abs(left).max(initial=0) <= 1e-5 * scale, name


def as_array(residual: Any, size: int) -> Any:
    """Return a residual, or zeros for None."""
    return np.zeros(size) if residual is None else residual.astype(np.float64)


def test_only_tensors_without_a_budget() -> None:
    """A step, or a bucket, may have no tensor with a budget."""
    schemes, x = {"bias": "all | raw-index | raw", "*": BUDGET}, np.ones(20_000, np.float32)
    with pytest.raises(wc.EncodeError, match=r"^bytes_per_step is 1000; .* must be at least 80096$"):
        wc.Compressor(schemes, bytes_per_step=1000).compress({"bias": x})
    assert wc.Compressor(schemes, bytes_per_step=80_096).compress({"bias": x}).nbytes == 80_096
    with pytest.raises(wc.EncodeError, match=r"must be at least 64$"):
        wc.Compressor(bytes_per_step=63, names=False).compress({"e": x[:0]})


@pytest.mark.filterwarnings("ignore:tensor .* the share of bytes_per_step")
@pytest.mark.parametrize(
    ("index", "value"),
    [("rice", "auto-value"), ("bitmap", "polyfit"), ("context", "error-bounded"), ("raw-index", "raw")],
)
def test_codecs_that_depend_on_the_seed_or_the_entry(index: str, value: str) -> None:
    rng, scheme = np.random.default_rng(5), f"budget(1) | {index} | {value}"
    tensors = {f"t{i}": rng.laplace(size=700 * i + 1).astype(np.float32) for i in range(6)}
    for options in ({"fuse": 10_000}, {"scope": "group"}, {"scope": "group", "weights": {"t5": 0.1}}):
        for limit in (2500, 4000, 9000):
            compressor = wc.Compressor(scheme, bytes_per_step=limit, **options)
            for _ in range(3):
                assert compressor.compress(tensors).nbytes <= limit


def test_a_larger_container_than_measured_is_encoded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    measure = CodecCosts.measure
    monkeypatch.setattr(CodecCosts, "measure", lambda *arguments: measure(*arguments) * 2 // 3)
    compressor = wc.Compressor(bytes_per_step=3000)
    for _ in range(3):
        prepared = compressor.prepare(model())
        prepared.commit()
        assert 1000 <= prepared.blob.nbytes <= 3000
        assert sum(sent.nnz for sent in prepared.sent.values()) > 100


def test_a_group_of_several_entries() -> None:
    """An entry begins with a tensor, and has at most 2^24 elements."""
    x = np.zeros(9_000_000, np.float32)
    x[:: 2**10] = np.random.default_rng(0).laplace(size=x[:: 2**10].size)
    compressor = wc.Compressor(bytes_per_step=700, feedback=None)
    assert compressor.compress({"a": x, "b": x[::-1].copy(), "c": x}).nbytes <= 700


def test_a_transform_has_more_coefficients_than_elements() -> None:
    tensors = {f"t{i}": np.random.default_rng(i).laplace(size=1009).astype(np.float32) for i in range(4)}
    compressor = wc.Compressor("dct | budget(1) | rice | raw", bytes_per_step=1100)
    assert 0.9 * 1100 <= compressor.compress(tensors).nbytes <= 1100


def test_small_tensors_get_one_element(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step sends their largest sum; without the bytes for that, the large tensors have what there is."""
    monkeypatch.setattr(budget_notice, "_told", set())
    rng = np.random.default_rng(1)
    tensors = {f"b{i}": rng.normal(size=32).astype(np.float32) for i in range(9)}
    tensors["w"] = rng.laplace(size=10_000).astype(np.float32)
    compressor = wc.Compressor(BUDGET, bytes_per_step=2000)
    with pytest.warns(UserWarning, match=r"'b0' and 8 others: .* bytes_per_step=2000 .* one element is sent"):
        compressor.compress(tensors)
    for _ in range(40):
        prepared = compressor.prepare({name: 0 * x for name, x in tensors.items()})
        prepared.commit()
        assert all(prepared.sent[name].nnz <= 1 for name in tensors if name != "w")
    assert not any(compressor.residual(f"b{i}").any() for i in range(9))
    monkeypatch.setattr(budget_notice, "_told", set())
    least = least_limit({"scheme": BUDGET}, tensors, hold=False)
    compressor = wc.Compressor(BUDGET, bytes_per_step=least + 100)
    with pytest.warns(UserWarning, match=r"'b0' and 8 others: .* so nothing is sent"):
        prepared = compressor.prepare(tensors)
    assert [prepared.sent[name].nnz > 1 for name in tensors] == [False] * 9 + [True]


def test_many_bytes_for_few_elements() -> None:
    """With 64 bits per element and more, the header of a tensor of few elements does not count."""
    tensors = {f"t{i}": np.random.default_rng(i).normal(size=i + 1).astype(np.float32) for i in range(20)}
    found = wc.Compressor(BUDGET, bytes_per_step=10_000).prepare(tensors).sent
    for name, x in tensors.items():
        np.testing.assert_allclose(found[name].to_dense(), x, rtol=1e-6)


def test_tensors_of_one_group_that_are_held() -> None:
    """Their part of the bytes is not spent: another rank may use it."""
    rng = np.random.default_rng(8)
    tensors = {"w": rng.laplace(size=9000).astype(np.float32)}
    tensors |= {f"layer.with.a.long.name.{i}": np.zeros(5, np.float32) for i in range(50)}
    prepared = wc.Compressor(BUDGET, scope="group", bytes_per_step=4500).prepare(tensors, hold_zeros=True)
    assert 0.9 * 4500 <= prepared.blob.nbytes <= 4500


def test_weights_of_empty_tensors() -> None:
    tensors = {"e": np.zeros(0, np.float32), **model()}
    weighted = wc.Compressor(bytes_per_step=5000, weights={"e": 0.5}, feedback=None)
    plain = wc.Compressor(bytes_per_step=5000, feedback=None)
    assert bytes(weighted.compress(tensors)) == bytes(plain.compress(tensors))
