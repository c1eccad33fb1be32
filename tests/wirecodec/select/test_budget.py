"""budget: bytes within the band, errors at most those of a grid, and the elements of a top k."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from tests import oracles
from wirecodec.select.budget import notice as budget_notice

DATA = Path(__file__).parents[2] / "data"
BAND = 0.95, 1.0
"""Bytes of a container in budgets."""
SCHEME = "budget(bits={}) | rice | error-bounded"


def gradients() -> dict[str, Any]:
    """Return {name: (n,) float32}: real gradients, and values of which nothing was tuned."""
    rng = np.random.default_rng(7)
    real = {path.stem: np.load(path).astype(np.float32).ravel() for path in sorted(DATA.glob("*.npy"))}
    layers = np.repeat([1e-6, 1.0, 1e-3, 30.0], 25_000)
    return real | {
        "student": rng.standard_t(2, 100_000).astype(np.float32),
        "layers": (rng.normal(size=100_000) * layers).astype(np.float32),
        "rows": np.repeat(rng.random(2000) < 0.1, 64).astype(np.float32)
        * rng.normal(size=128_000).astype("f4"),
    }


GRADIENTS = gradients()


def square_error(x: Any, blob: Any) -> float:
    """Return the squared error of a container in units of Σx²."""
    wide = x.astype(np.float64)
    return float(((wide - wc.decode(blob).to_dense().astype(np.float64)) ** 2).sum() / (wide**2).sum())


@pytest.mark.parametrize("name", GRADIENTS)
def test_bytes_are_within_the_band(name: str) -> None:
    x = GRADIENTS[name]
    for bits in (0.03, 0.1, 0.25, 0.64):
        spent = 8 * wc.encode(x, SCHEME.format(bits)).nbytes / (bits * x.size)
        assert BAND[0] <= spent <= BAND[1], bits


@pytest.mark.parametrize("name", ["resnet20_raw", "resnet20_residual", "lstm_raw_slice"])
def test_error_is_at_most_that_of_a_grid(name: str) -> None:
    """No density and error bound, and no density and number of bits, has less error at no more bytes."""
    x = GRADIENTS[name]
    schemes = [
        f"topk({density}) | rice | {value}"
        for density in (0.003, 0.01, 0.03, 0.1)
        for value in (
            "error-bounded(error=0.05)",
            "error-bounded(error=0.2)",
            "error-bounded(error=0.4)",
            "qsgd",
        )
    ]
    grid = [(blob.nbytes, square_error(x, blob)) for blob in (wc.encode(x, scheme) for scheme in schemes)]
    for bits in (0.1, 0.25, 0.64):
        blob = wc.encode(x, SCHEME.format(bits))
        best = min(error for size, error in grid if size <= blob.nbytes)
        assert square_error(x, blob) <= best, bits


def test_elements_are_a_top_k(dtype: np.dtype[Any]) -> None:
    x = np.random.default_rng(2).integers(-50, 50, 20_000).astype(dtype)  # many ties
    for bits in (0.05, 0.5):
        found = wc.decode(wc.encode(x, SCHEME.format(bits)))
        assert found.indices.tolist() == oracles.top_k(x, found.nnz)


@pytest.mark.parametrize(
    ("index", "value"),
    [
        ("auto-index", "error-bounded"),
        ("huffman", "qsgd(bits=4)"),
        ("bitmap", "raw"),
        ("rice", "polyfit"),
        ("context", "error-bounded(error=0.2)"),
    ],
)
def test_any_codecs(index: str, value: str) -> None:
    x = GRADIENTS["resnet20_raw"]
    bits = 2.0 if index == "bitmap" else 0.3
    blob = wc.encode(x, f"budget({bits}) | {index} | {value}")
    assert BAND[0] <= 8 * blob.nbytes / (bits * x.size) <= BAND[1]


def test_one_value_beyond_float32() -> None:
    """No step of the value codec fits it, so the values are sent unchanged, without a warning."""
    x = np.append(np.random.default_rng(0).laplace(size=2000), 1e300)
    found = wc.decode(wc.encode(x, SCHEME.format(2))).to_dense()
    assert found[-1] == 1e300


def test_forms_of_auto_index_count() -> None:
    """Whole rows take few index bits, so that more bits are left for values."""
    x = GRADIENTS["rows"]
    rice, structured = (
        square_error(x, wc.encode(x, f"budget(0.5) | {index} | error-bounded"))
        for index in ("rice", "auto-index")
    )
    assert structured < 0.5 * rice


def test_header_counts() -> None:
    """The container's own bytes are part of the budget: shape, tag, names, transform."""
    x = GRADIENTS["resnet20_raw"][:65_536].reshape(4, 4, 64, 64)
    most = 0.03 * x.size / 8
    assert 0.93 * most <= wc.encode(x, SCHEME.format(0.03), tag=bytes(60)).nbytes <= most
    assert wc.encode(x, "dct | budget(0.03) | rice | error-bounded").nbytes <= most
    tensors = {"a rather long name of a tensor": x, "b": x[0].copy(), "c": x[1:].copy()}
    assert wc.encode_many(tensors, SCHEME.format(0.07)).nbytes <= 0.07 * 2 * x.size / 8


@pytest.mark.parametrize("bits", [0.05, 0.6, 3.0, 40.0])
def test_odd_tensors(bits: float, dtype: np.dtype[Any]) -> None:
    """Nothing is above its budget; what can be exact is exact."""
    rng = np.random.default_rng(3)
    n = 20_000
    cases = {
        "zeros": np.zeros(n),
        "constant": np.full(n, -2.5),
        "one": np.where(np.arange(n) == 77, 3.0, 0.0),
        "range": rng.normal(size=n) * np.exp(rng.normal(0, 3, n)).clip(0, 6e3),
        "tiny": rng.normal(size=n) * 1e-42,
    }
    for name, values in cases.items():
        x = values.astype(dtype)
        blob = wc.encode(x, SCHEME.format(bits))
        assert blob.nbytes <= bits * n / 8, name
        if name in ("zeros", "one") or bits > 8 * dtype.itemsize:
            assert np.array_equal(wc.decode(blob).to_dense(), x), name


def test_refusals() -> None:
    with pytest.raises(wc.EncodeError, match="exact index codec, not bloom"):
        wc.encode(np.ones(10_000, np.float32), "budget(1) | bloom | raw")
    with pytest.raises(wc.EncodeError, match="cannot follow rfft; use dct"):
        wc.encode(np.ones(10_000, np.float32), "rfft | budget(1) | rice | raw")


@pytest.fixture
def untold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the tensors that were warned of."""
    monkeypatch.setattr(budget_notice, "_told", set())


@pytest.mark.parametrize("value", ["error-bounded", "raw", "qsgd(bits=4)", "error-bounded(error=0.2)"])
@pytest.mark.parametrize("size", [1, 2, 32, 33, 255, 2080])
def test_small_tensors_are_sent(size: int, value: str, dtype: np.dtype[Any], untold: None) -> None:
    """If the bits hold no element, the sections take 128 bytes, or the bits: all of 32 float32 elements."""
    x = np.random.default_rng(size).laplace(size=size).astype(dtype)
    scheme = f"budget(0.25) | rice | {value}"
    with pytest.warns(UserWarning, match=rf"^the tensor: budget\(0\.25\) does not hold .* {size} elements"):
        blob = wc.encode(x, scheme)
    assert blob.nbytes <= 64 + max(128, size // 32)
    assert blob.nbytes <= wc.max_encoded_bytes(x.shape, dtype, scheme)
    found = wc.decode(blob)
    assert found.nnz >= min(size, 10)
    if value in ("error-bounded", "raw") and size * dtype.itemsize <= 128:
        error = found.to_dense().astype(np.float64) - x.astype(np.float64)
        assert np.abs(error).max() <= 1e-6 * float(np.abs(x).max())


@pytest.mark.parametrize(
    ("scope", "names", "joins"), [("tensor", "ab", True), ("tensor", "a", False), ("group", "ab", False)]
)
def test_scope_is_advised_where_it_helps(scope: Any, names: str, joins: bool, untold: None) -> None:
    """Not for one tensor, as in ``fsdp_hook``, nor if it is set. The warning names the user's line."""
    tensors = {name: np.ones(40, np.float32) for name in names}
    compressor = wc.Compressor("budget(0.25) | rice | error-bounded", scope=scope)
    with pytest.warns(UserWarning, match="does not hold the header") as told:
        compressor.compress(tensors)
    assert ("scope=" in str(told[0].message)) == joins
    assert told[0].filename == __file__


def test_warning_skips_what_calls_a_hook(untold: None) -> None:
    """Frames of contextlib and torch lie between the user's line and the library."""
    scope = {
        "__name__": "torch.autograd.graph",
        "compress": wc.Compressor("budget(0.25) | rice | raw").compress,
    }
    exec("def run(tensors): compress(tensors)", scope)
    with pytest.warns(UserWarning, match="does not hold the header") as told:
        scope["run"]({"a": np.ones(40, np.float32)})
    assert told[0].filename == __file__


def test_a_budget_that_holds_an_element_is_kept() -> None:
    for size in range(2820, 7000, 300):
        x = np.random.default_rng(size).laplace(size=size).astype(np.float32)
        blob = wc.encode(x, SCHEME.format(0.25))
        assert blob.nbytes <= size * 0.25 / 8
        assert wc.decode(blob).nnz >= 1


def test_small_groups_are_sent(untold: None) -> None:
    """The residual keeps the rest, and each step sends a part of it."""
    rng = np.random.default_rng(3)
    tensors = {f"layer.{i}.weight": rng.laplace(size=520).astype(np.float32) for i in range(4)}
    compressor = wc.Compressor(SCHEME.format(0.25), scope="group")
    with pytest.warns(
        UserWarning, match=r"^tensor 'layer\.0\.weight': budget\(0\.25\) does not hold .* 2080"
    ):
        compressor.compress(tensors)
    for _ in range(3):
        before = {name: compressor.residual(name) for name in tensors}
        prepared = compressor.prepare(tensors)
        prepared.commit()
        assert sum(sent.nnz for sent in prepared.sent.values()) >= 10
        for name, sent in prepared.sent.items():
            np.testing.assert_array_equal(
                compressor.residual(name), tensors[name] + before[name] - sent.to_dense()
            )


def test_small_tensors_are_named_once(untold: None) -> None:
    tensors = {f"{letter}.bias": np.arange(9, dtype=np.float32) for letter in "abc"}
    tensors |= {"weight": np.ones((100, 100), np.float32), "empty": np.ones(0, np.float32)}
    warning = (
        r"^tensor 'a\.bias' and 2 others: budget\(0\.1\) .* 9 elements, .* Give small tensors to 'all \| raw"
    )
    with pytest.warns(UserWarning, match=warning) as caught:
        wc.encode_many(tensors, SCHEME.format(0.1))
    assert [one.filename for one in caught] == [__file__]
    wc.encode_many(tensors, SCHEME.format(0.1))
    wc.Compressor(SCHEME.format(0.1)).compress(tensors)
    with pytest.warns(UserWarning, match=r"so nothing is sent: bitmap takes too many bytes"):
        blob = wc.encode_many({"rows": np.ones(4000, np.float32)}, "budget(0.1) | bitmap | raw")
    assert wc.decode_many(blob)["rows"].nnz == 0


def test_kernels_of_small_tensors_are_compiled_without_a_warning(untold: None) -> None:
    wc.warm("budget(0.01) | rice | error-bounded", feedback=True)


def test_small_zeros_take_no_bytes(untold: None) -> None:
    with pytest.warns(UserWarning, match="does not hold"):
        assert wc.encode(np.zeros(500, np.float32), SCHEME.format(0.1)).nbytes == 64
    x = np.where(np.arange(600) == 7, np.nan, 0).astype(np.float32)
    for bits in (0.2, 0.9):
        with pytest.raises(wc.EncodeError, match=r"element 7: budget cannot carry nan"):
            wc.encode(x, f"budget({bits}) | rice | raw")


@pytest.mark.sweep
def test_feedback_over_many_steps() -> None:
    """Bytes stay within the band, and the residual does not grow more than that of top-k at equal bytes."""
    rng = np.random.default_rng(5)
    budget = wc.Compressor(SCHEME.format(0.2))
    n, sizes = 65_536, []
    scales = np.exp(rng.normal(size=n))
    for _ in range(1000):
        gradient = (rng.laplace(size=n) * scales).astype(np.float32)
        sizes.append(8 * budget.compress({"w": gradient}).nbytes / (0.2 * n))
    assert BAND[0] <= min(sizes) <= max(sizes) <= BAND[1]
    topk = wc.Compressor("topk(0.005) | rice | raw")
    spent = [
        topk.compress({"w": (rng.laplace(size=n) * scales).astype(np.float32)}).nbytes for _ in range(1000)
    ]
    assert math.isclose(np.mean(spent) * 8 / (0.2 * n), 1.0, abs_tol=0.1)
    assert np.linalg.norm(budget.residual("w")) < np.linalg.norm(topk.residual("w"))
