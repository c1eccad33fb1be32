"""Tests of transforms: orthogonality, equality with SciPy, every codec, selector and entry point."""

from __future__ import annotations

import io
import math
from typing import Any

import numpy as np
import pytest
from scipy import fft

import wirecodec as wc
from formats import reference
from formats.reference.transform.coefficients import coefficient_count
from formats.reference.transform.coefficients import smooth_length as reference_length
from formats.zstd import find_decompressor
from wirecodec import registry
from wirecodec.transform.base import smooth_length

TRANSFORMS = [wc.codecs.RFFT(), wc.codecs.DCT()]
NAMES = [t.name for t in TRANSFORMS]
SIZES = [0, 1, 2, 3, 4, 7, 8, 9, 11, 13, 100, 1000, 1001, 4099]
PRECISION = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8, "float64": 2.0**-53}

both = pytest.mark.parametrize("transform", TRANSFORMS, ids=NAMES)
either = pytest.mark.parametrize("name", NAMES)


def wide(x: Any) -> Any:
    return np.asarray(x).astype(np.float64)


def test_smooth_length() -> None:
    """SciPy and the reference find the same lengths."""
    for n in [*range(2000), 2**20 + 1, 269_722, 26_000_000, 2**28 - 1]:
        assert smooth_length(n) == reference_length(n)
        assert smooth_length(n) == (fft.next_fast_len(n, real=True) if n else 0)


@pytest.mark.sampled
@both
@pytest.mark.parametrize("size", SIZES)
def test_transforms_are_orthogonal(transform: Any, size: int, dtype: Any, rng: np.random.Generator) -> None:
    """The norm is preserved, and the inverse returns the elements up to one rounding each way."""
    x = rng.normal(size=size).astype(dtype)
    c = transform.forward(x)
    assert c.size == transform.count(size) == coefficient_count(transform.domain, size)
    assert c.dtype == {1: {8: np.complex128}, 2: {8: np.float64}}[transform.domain].get(
        x.itemsize, np.complex64 if transform.width == 2 else np.float32
    )
    assert np.linalg.norm(c.astype(np.complex128)) == pytest.approx(np.linalg.norm(wide(x)), rel=1e-6)
    back = transform.inverse(c, size, x.dtype)
    assert back.dtype == dtype
    scale = max(1.0, np.linalg.norm(wide(x)))
    rounding = max(PRECISION[x.dtype.name], 2.0**-24 if dtype != np.float64 else 2.0**-50)
    assert np.abs(wide(back) - wide(x)).max(initial=0) <= 2 * rounding * scale


@pytest.mark.parametrize("size", SIZES[1:])
def test_coefficients_follow_the_spec_formulas(size: int, rng: np.random.Generator) -> None:
    """The spec pages' sums are written as matrices."""
    x, m = rng.normal(size=size), smooth_length(size)
    if m > 1001:
        return
    j, k = np.arange(size), np.arange(m)[:, None]
    weights = np.sqrt(np.where(k == 0, 1, 2) / m)
    cosines = weights * np.cos(np.pi * (2 * j + 1) * k / (2 * m))
    assert np.allclose(wc.codecs.DCT.forward(x), cosines @ x, atol=1e-12)
    k = k[: m // 2 + 1]
    weights = np.sqrt(np.where((k == 0) | (2 * k == m), 1, 2) / m)
    turns = weights * np.exp(-2j * np.pi * (j * k % m) / m)
    assert np.allclose(wc.codecs.RFFT.forward(x), turns @ x, atol=1e-12)


def test_dct_equals_scipy(rng: np.random.Generator) -> None:
    x = rng.normal(size=360)
    assert np.allclose(wc.codecs.DCT.forward(x), fft.dct(x, norm="ortho"), atol=1e-13)
    assert np.allclose(wc.codecs.DCT.inverse(x, 360, x.dtype), fft.idct(x, norm="ortho"), atol=1e-13)


@either
def test_all_coefficients_lose_only_rounding(name: str, dtype: Any, rng: np.random.Generator) -> None:
    for shape in ((), (1,), (7, 11), (0, 3), (1000,)):
        x = rng.normal(size=shape).astype(dtype)
        decoded = wc.decode(wc.encode(x, f"{name} | all | raw-index | raw"), schema=(shape, dtype))
        assert (decoded.shape, decoded.dtype, decoded.is_full) == (shape, dtype, True)
        scale = max(1.0, np.linalg.norm(wide(x)))
        assert np.abs(wide(decoded.to_dense()) - wide(x)).max(initial=0) <= 4 * PRECISION[dtype.name] * scale


INDEX = sorted(registry.index_codecs())
VALUE = [
    wc.codecs.Raw(),
    wc.codecs.Raw("bfloat16"),
    *(c() for c in registry.value_codecs().values() if c.wire_id > 3),
]


@pytest.mark.sampled
@both
@pytest.mark.parametrize("index", INDEX, ids=lambda i: registry.index_codec(i).name)
@pytest.mark.parametrize("value", VALUE, ids=str)
def test_every_pair_of_codecs(transform: Any, index: int, value: Any, rng: np.random.Generator) -> None:
    """The error of the coefficients is that of the tensor; library and reference decode alike."""
    codec = registry.index_codec(index)
    codec = (
        wc.codecs.Bloom("p0")
        if codec is wc.codecs.Bloom
        else wc.codecs.Binned(50)
        if codec is wc.codecs.Binned
        else codec()
    )
    x = rng.normal(size=600).cumsum().astype(np.float32)
    blob = wc.encode(x, wc.Scheme(wc.selectors.TopK(0.2), codec, value, transform), seed=4)
    entry = wc.inspect(blob).entries[0]
    assert (entry.transform, entry.size, entry.shape) == (transform.name, 600, (600,))
    kept = np.abs(transform.forward(x))
    lost = math.sqrt(1 - (np.sort(kept)[::-1][: entry.nnz // transform.width] ** 2).sum() / (kept**2).sum())
    error = np.linalg.norm(wc.decode(blob).values - x) / np.linalg.norm(x)
    if isinstance(value, wc.codecs.Raw):
        assert error == pytest.approx(lost, abs=0.004)
    (t,) = reference.decode(blob.tobytes(), zstd=find_decompressor()).tensors
    near = 2.0**-19 * np.linalg.norm(x)
    assert np.allclose(np.frombuffer(t.values, np.float32), wc.decode(blob).values, rtol=0, atol=near)


SELECTORS = [
    *("nonzero", "threshold(0.5)", "randomk(0.1)", "sidco(0.05)", "sidco(0.05, mode=faithful)", "dgc(0.1)"),
    *("redsync(0.1)", "gaussiank(0.05)", "chunk-topk(0.1, chunk=100)", "topk(k=3)", "all"),
]


@both
@pytest.mark.parametrize("selector", SELECTORS)
def test_every_selector_receives_coefficients(
    transform: Any, selector: str, rng: np.random.Generator
) -> None:
    """The selection equals that of an array of the coefficients, or of the magnitudes of complex ones."""
    scheme = wc.Scheme.parse(f"{transform.name} | {selector} | rice | raw")
    x = (rng.laplace(size=5000) * rng.random(5000)).astype(np.float32)
    c = transform.forward(x)
    seen = np.abs(c) if transform.width == 2 else c
    selected = wc.decode(
        wc.encode(seen, wc.Scheme(scheme.select, wc.codecs.Rice(), wc.codecs.Raw()), seed=3)
    ).indices
    masked = np.zeros_like(c)
    masked[selected] = c[selected]
    blob = wc.encode(x, scheme, seed=3)
    assert wc.inspect(blob).entries[0].nnz == selected.size * transform.width
    assert np.array_equal(wc.decode(blob).values, transform.inverse(masked, x.size, x.dtype))


@either
def test_scaling_selectors_raise(name: str) -> None:
    with pytest.raises(wc.EncodeError, match=r"tensor 'w': adacomp sends one magnitude"):
        wc.encode_many({"w": np.ones(9, np.float32)}, f"{name} | adacomp | rice | raw")


@either
def test_nonfinite_elements_raise_with_their_position(name: str, dtype: Any) -> None:
    x = np.ones(300, dtype)
    x[[70, 200]] = np.inf, np.nan
    for scheme in ("all | raw-index | raw", "topk(0.1) | rice | qsgd"):
        with pytest.raises(
            wc.EncodeError, match=rf"tensor 'w', element 70: {name} cannot carry inf"
        ) as caught:
            wc.encode_many({"w": x}, f"{name} | {scheme}")
        assert (caught.value.tensor, caught.value.position) == ("w", 70)


@either
def test_coefficients_out_of_range_raise(name: str) -> None:
    """Coefficients grow with the square root of the size; codecs report a coefficient, not an element."""
    for x in (
        np.full(100, 3e38, np.float32),
        np.full(4, 1e301),
        np.full(4, 1.7e308),
        np.array([1e308] + 99 * [0.0] + [1.79e308]),
    ):
        with pytest.raises(wc.EncodeError, match=f"too large for {name}"):
            wc.encode(x, f"{name} | all | raw-index | raw")
    x = np.full(100, 60_000, np.float16)
    assert np.array_equal(wc.decode(wc.encode(x, f"{name} | topk(k=1) | rice | raw")).values, x)
    with pytest.raises(wc.EncodeError, match=r"^coefficient 0: 600000\.0 is too large for float16") as caught:
        wc.encode(x, f"{name} | topk(k=1) | rice | raw(float16)")
    assert caught.value.position is None


def test_scheme_string_round_trip() -> None:
    text = "rfft | topk(0.15) | bitmap | raw"
    scheme = wc.Scheme.parse(text)
    assert scheme == wc.Scheme(
        wc.selectors.TopK(0.15), wc.codecs.Bitmap(), wc.codecs.Raw(), transform=wc.codecs.RFFT()
    )
    assert str(scheme) == text
    assert wc.Scheme.parse("dct | all | rice | raw") != wc.Scheme.parse("all | rice | raw")
    assert isinstance(wc.codecs.DCT(), wc.codecs.Transform)
    for wrong in (wc.codecs.DCT, "dct", wc.selectors.TopK(0.1), 3):
        with pytest.raises(wc.EncodeError, match="transform is"):
            wc.Scheme(wc.selectors.All(), wc.codecs.Rice(), wc.codecs.Raw(), transform=wrong)
    with pytest.raises(wc.EncodeError, match=r"dct: argument .* is one too many"):
        wc.Scheme.parse("dct(2) | all | rice | raw")


def mixed_tensors(rng: np.random.Generator) -> tuple[dict[str, Any], dict[str, str]]:
    tensors: dict[str, Any] = {
        "a.bias": rng.normal(size=5).astype(np.float32),
        "a.weight": rng.normal(size=(20, 30)).astype(np.float32),
        "b.bias": rng.normal(size=6).astype(np.float32),
        "b.weight": rng.normal(size=(7, 9)).astype(np.float64),
        "c.weight": wc.SparseTensor([3, 70], np.array([2.0, -1.0], np.float16), (90,)).to_dense(),
        "d.weight": np.empty((0, 2), np.float32),
    }
    schemes = {"*.bias": "nonzero | rice | raw", "a*": "rfft | topk(0.3) | rice | raw"}
    return tensors, {**schemes, "*": "dct | all | raw-index | raw"}


def test_many_tensors_some_transformed(rng: np.random.Generator) -> None:
    tensors, schemes = mixed_tensors(rng)
    for names, fuse in ((True, 0), (True, 1000), (False, 1000)):
        blob = wc.encode_many(tensors, schemes, names=names, fuse=fuse, tag=b"t")
        entries = wc.inspect(blob).entries
        forms = [e.transform for e in entries]
        assert forms == (["", "rfft", "dct", "dct", "dct"] if fuse else ["", "rfft", "", "dct", "dct", "dct"])
        found = wc.decode_many(blob, schema={n: (np.shape(t), t.dtype) for n, t in tensors.items()})
        for name, tensor in tensors.items():
            x = wide(tensor)
            atol = {"a.weight": 3.0, "c.weight": 1e-3}.get(name, 1e-6)
            assert np.allclose(wide(found[name]), x, atol=atol, rtol=0), name
    with pytest.raises(wc.SchemaMismatch) as caught:
        wc.decode_many(blob, schema={n: (np.shape(t), np.float32) for n, t in tensors.items()})
    assert caught.value.code == "schema-dtype"
    stream = io.BytesIO(blob.tobytes() * 2)
    assert [np.array_equal(blob, one) for one in wc.iter_blobs(stream)] == [True, True]


def test_decode_add(rng: np.random.Generator) -> None:
    tensors, schemes = mixed_tensors(rng)
    blob = wc.encode_many(tensors, schemes)
    out = {n: np.ones(np.shape(t), np.float32) for n, t in tensors.items()}
    wc.decode_add(blob, out, scale=-2.0)
    for name, tensor in wc.decode_many(blob).items():
        assert np.allclose(out[name], 1 - 2 * wide(tensor), atol=1e-5)
    with pytest.raises(wc.SchemaMismatch):
        wc.decode_add(blob, {**out, "a.weight": np.ones(608, np.float32)})


@either
def test_sparse_tensors_are_refused(name: str) -> None:
    """Each coefficient depends on all elements, so a transform of a sparse tensor is not sparse."""
    tensor = wc.SparseTensor([1, 50], np.array([2.0, -1.0], np.float32), (8, 8))
    with pytest.raises(wc.EncodeError, match=f"the tensor is sparse, and {name} spreads its elements"):
        wc.encode(tensor, f"{name} | all | rice | raw")


@either
def test_no_coefficients_decode_to_no_elements(name: str) -> None:
    for size in (1, 5, 3_000_000):
        decoded = wc.decode(wc.encode(np.zeros(size, np.float32), f"{name} | nonzero | rice | raw"))
        assert (decoded.nnz, decoded.size) == (0, size)
        out = np.ones(size, np.float64)
        wc.decode_add(wc.encode(np.zeros(size, np.float32), f"{name} | nonzero | rice | raw"), out)
        assert out.sum() == size


@pytest.mark.sampled(1)
@both
def test_several_chunks(transform: Any, rng: np.random.Generator) -> None:
    """2^24 elements have 2^23 + 1 bins, so the last bin is a chunk of its own."""
    size = 2**24 if transform.width == 2 else smooth_length(2**24 + 1)
    c = np.zeros(transform.count(size), transform.forward(np.ones(1, np.float32)).dtype)
    indices = np.array([0, 5, 700_000, c.size - 2, c.size - 1])
    c[indices] = [9000, -2000, 700, 3000, 8000]
    x = transform.inverse(c, size, np.dtype(np.float32))
    blob = wc.encode(x, f"{transform.name} | topk(k=5) | rice | raw")
    (entry,) = wc.inspect(blob).entries
    assert (entry.chunks, entry.size, entry.nnz) == (2, size, 5 * transform.width)
    assert np.abs(wc.decode(blob, schema=(size, np.float32)).values - x).max() < 1e-5
    if transform.width == 2:
        base, d, r = (int(blob[64:104][a:b].view(f"<u{b - a}")[0]) for a, b in ((8, 16), (16, 20), (20, 24)))
        assert (base, d, r) == (2**23, 1, 1)


# State.


@either
@pytest.mark.parametrize(
    "scheme", ["topk(0.1) | rice | raw", "topk(0.1) | bitmap | qsgd(bits=4)", "all | rice | raw"]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_sent_plus_residual_is_the_total(
    name: str, scheme: str, dtype: Any, rng: np.random.Generator
) -> None:
    c = wc.Compressor(f"{name} | {scheme}", seed=4)
    total, got = np.zeros((20, 30)), np.zeros((20, 30))
    for _ in range(10):
        g = rng.normal(size=(20, 30)).astype(dtype)
        prepared = c.prepare({"w": g})
        tensor = c.decompress(prepared.blob)["w"]
        assert np.array_equal(tensor.values, prepared.sent["w"].values)
        prepared.commit()
        assert (tensor.dtype, tensor.shape) == (dtype, (20, 30))
        total += g
        got += tensor.to_dense()
        assert np.allclose(got + c.residual("w").reshape(20, 30), total, atol=1e-4)


def test_feedback_with_a_low_pass_filter_and_a_schedule(rng: np.random.Generator) -> None:
    schedule = wc.WarmUp(3, start=0.5)
    c = wc.Compressor("dct | topk(0.05) | rice | raw", feedback=wc.ErrorFeedback(0.5), schedule=schedule)
    held = np.zeros(400)
    for step in range(4):
        g = rng.normal(size=400).astype(np.float32)
        blob = c.compress({"w": g})
        assert wc.inspect(blob).entries[0].nnz == int(schedule(step, 0.05) * 400 + 1e-9)
        held = held + 0.5 * (g - wide(wc.decode_many(blob)["w"]))
        assert np.allclose(c.residual("w"), held, atol=1e-5)


def test_selectors_with_state_keep_it(rng: np.random.Generator) -> None:
    c = wc.Compressor("rfft | sidco(0.01, mode=faithful) | rice | raw")
    for _ in range(12):
        c.compress({"w": rng.laplace(size=20_000).astype(np.float32)})
    assert any(key.startswith("selector/") for key in c.state_dict())


@both
def test_feedback_converges(transform: Any) -> None:
    """On a quadratic, with 2 % of the coefficients per step."""
    rng = np.random.default_rng(5)
    target, curvature = rng.normal(size=400), 10.0 ** rng.uniform(-1, 0, 400)
    c = wc.Compressor(wc.Scheme(wc.selectors.TopK(0.02), wc.codecs.Rice(), wc.codecs.QSGD(4), transform))
    w = np.zeros(400)
    for _ in range(1000):
        w -= 0.02 * wide(c.decompress(c.compress({"w": curvature * (w - target)}))["w"])
    assert np.linalg.norm(w - target) < 0.1 * np.linalg.norm(target)
