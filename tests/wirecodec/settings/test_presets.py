"""Tests of presets: the papers' parameters, round trips, and training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from formats import reference
from wirecodec.cli import main

NAMES = list(wc.PRESETS)
WITHOUT_FEEDBACK = ("qsgd", "qsgd-3-bits", "terngrad", "terngrad-noclip")

PUBLISHED = {
    "deepreduce-bf-p0": (wc.selectors.TopK(0.01), wc.codecs.Bloom(policy="p0", fpr=0.001), wc.codecs.Raw()),
    "deepreduce-bf-p1": (wc.selectors.TopK(0.01), wc.codecs.Bloom(policy="p1", fpr=0.001), wc.codecs.Raw()),
    "deepreduce-bf-p2": (wc.selectors.TopK(0.01), wc.codecs.Bloom(policy="p2", fpr=0.001), wc.codecs.Raw()),
    "deepreduce-fit-poly": (wc.selectors.TopK(0.01), wc.codecs.RawIndex(), wc.codecs.PolyFit(degree=5)),
    "deepreduce-fit-dexp": (wc.selectors.TopK(0.01), wc.codecs.RawIndex(), wc.codecs.DExpFit()),
    "deepreduce-both": (
        wc.selectors.TopK(0.01),
        wc.codecs.Bloom(policy="p2", fpr=0.001),
        wc.codecs.PolyFit(degree=5),
    ),
    "deepreduce-sparse": (
        wc.selectors.NonZero(),
        wc.codecs.Bloom(policy="p2", fpr=0.01),
        wc.codecs.PolyFit(degree=5),
    ),
    "deepreduce-qsgd-bf-p0": (
        wc.selectors.NonZero(),
        wc.codecs.Bloom(policy="p0", fpr=0.6),
        wc.codecs.QSGD(bits=7, bucket=512, norm="max"),
    ),
    "skcompress": (
        wc.selectors.NonZero(),
        wc.codecs.Huffman(symbols="gaps"),
        wc.codecs.SketchML(buckets=2**7),
    ),
    "sketchml": (wc.selectors.NonZero(), wc.codecs.Delta(), wc.codecs.SketchML(buckets=2**6)),
    "3lc": (wc.selectors.All(), wc.codecs.RawIndex(), wc.codecs.ThreeLC(sparsity=1.0)),
    "qsgd": (wc.selectors.All(), wc.codecs.RawIndex(), wc.codecs.QSGD(bits=4, bucket=512, norm="max")),
    "qsgd-3-bits": (wc.selectors.All(), wc.codecs.RawIndex(), wc.codecs.QSGD(bits=3, bucket=512, norm="max")),
    "terngrad-noclip": (wc.selectors.All(), wc.codecs.RawIndex(), wc.codecs.TernGrad(clip=None)),
    "terngrad": (wc.selectors.All(), wc.codecs.RawIndex(), wc.codecs.TernGrad(clip=2.5)),
    "fft": (wc.selectors.TopK(0.15), wc.codecs.Bitmap(), wc.codecs.OffsetFloat(bits=10), wc.codecs.RFFT()),
    "adacomp": (wc.selectors.AdaComp(bin=50, factor=2.0), wc.codecs.Binned(bin=50), wc.codecs.SignScale()),
    "sidco": (
        wc.selectors.SIDCo(0.001, sid="exponential", mode="faithful", first=0.25, window=5, tolerance=0.2),
        wc.codecs.RawIndex(),
        wc.codecs.Raw(),
    ),
    "dgc": (wc.selectors.DGC(0.001, sample=0.01), wc.codecs.RawIndex(), wc.codecs.Raw()),
}


def test_presets_have_the_papers_parameters() -> None:
    assert {name: one.scheme for name, one in wc.PRESETS.items()} == {
        name: wc.Scheme(*stages) for name, stages in PUBLISHED.items()
    }
    assert all(one.source for one in wc.PRESETS.values())


@pytest.mark.parametrize("name", NAMES)
def test_its_string_is_a_scheme(name: str) -> None:
    scheme = wc.preset(name)
    assert wc.Scheme.parse(str(scheme)) == scheme == wc.preset(name) == wc.PRESETS[name].scheme


def test_schemes_know_no_presets() -> None:
    assert wc.Scheme.parse("all | raw-index | qsgd(bits=2)").value == wc.codecs.QSGD(bits=2)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("deepreduce-both", ["is a preset; use wc.preset('deepreduce-both')"]),
        (
            "dgc(ratio=0.01)",
            ["is one stage (selector)", "the preset of this name is wc.preset('dgc(ratio=0.01)')"],
        ),
        ("qsgd", ["as in 'topk(0.01) | rice | qsgd'; the preset of this name is wc.preset('qsgd')"]),
        (
            "topk(0.01)",
            ["is one stage (selector); it must have three stages", "as in 'topk(0.01) | rice | qsgd'"],
        ),
        ("rle", ["(index codec)", "as in 'topk(0.01) | rle | qsgd'"]),
        ("dct", ["(transform)", "as in 'dct | topk(0.01) | rice | qsgd'"]),
        ("topk(0.01) | rice", ["it must have three stages"]),
        ("dcg", ["it must have three stages"]),
    ],
)
def test_text_that_is_no_scheme_names_what_to_write(text: str, says: list[str]) -> None:
    with pytest.raises(wc.EncodeError) as caught:
        wc.encode(np.ones(3, np.float32), text)
    assert all(part in str(caught.value) for part in says)


@pytest.mark.parametrize(
    ("name", "overrides", "scheme"),
    [
        ("deepreduce-both", {"ratio": 0.001}, "topk(0.001) | bloom(policy=p2) | polyfit"),
        (
            "deepreduce-both",
            {"fpr": 1e-4, "degree": 3},
            "topk(0.01) | bloom(policy=p2, fpr=0.0001) | polyfit(3)",
        ),
        ("deepreduce-both", {"ratio": None, "k": 9}, "topk(k=9) | bloom(policy=p2) | polyfit"),
        ("dgc", {"index": "rice", "value": wc.codecs.QSGD()}, "dgc(0.001) | rice | qsgd"),
        ("dgc", {"value": "qsgd(bits=3)", "bucket": 64}, "dgc(0.001) | raw-index | qsgd(bits=3, bucket=64)"),
        ("dgc", {"select": "topk(0.1)", "ratio": 0.2}, "topk(0.2) | raw-index | raw"),
        ("adacomp", {"bin": 500}, "adacomp(bin=500) | binned(bin=500) | sign-scale"),
        (
            "fft",
            {"transform": "dct", "bits": 8},
            "dct | topk(0.15) | bitmap | offset-float",
        ),
        ("fft", {"transform": None}, "topk(0.15) | bitmap | offset-float(bits=10)"),
        ("3lc", {"transform": wc.codecs.DCT()}, "dct | all | raw-index | 3lc"),
    ],
)
def test_overrides(name: str, overrides: dict[str, Any], scheme: str) -> None:
    assert wc.preset(name, **overrides) == wc.Scheme.parse(scheme)


@pytest.mark.parametrize(
    ("name", "overrides", "said"),
    [
        ("deepreduce-bth", {}, "unknown preset 'deepreduce-bth'; did you mean 'deepreduce-both'?"),
        (None, {}, "unknown preset None"),
        ("qsgd", {"bitz": 3}, "preset 'qsgd': unknown override 'bitz'; did you mean 'bits'?"),
        ("qsgd", {"ratio": 0.1}, "known: bits, bucket, index, norm, select, transform, value"),
        ("qsgd", {"bits": 40}, "preset 'qsgd': qsgd: bits is 40"),
        ("qsgd", {"index": "rces"}, "unknown index codec 'rces'; did you mean 'rice'?"),
        ("qsgd", {"index": 3}, "index codec is 3"),
        ("dgc", {"value": "raw", "bits": 3}, "unknown override 'bits'"),
    ],
)
def test_what_is_wrong_is_named(name: str, overrides: dict[str, Any], said: str) -> None:
    with pytest.raises(wc.EncodeError) as caught:
        wc.preset(name, **overrides)
    assert said in str(caught.value)


def test_presets_as_text() -> None:
    assert wc.preset("dgc(ratio=0.1, index=rice)") == wc.preset("dgc", ratio=0.1, index="rice")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("dgc(0.1)", "write each override once"),
        ("dgc(ratio=0.1, ratio=0.2)", "write each override once"),
        ("dgc(ratio", "it must be name or name"),
        ("dgc(ratio=[1])", "argument is"),
        ("dgc(ratio=2)", "at most 1"),
    ],
)
def test_what_is_wrong_in_a_preset_as_text(text: str, says: str) -> None:
    with pytest.raises(wc.EncodeError, match=says):
        wc.preset(text)


@pytest.mark.sampled
@pytest.mark.parametrize("name", NAMES)
def test_real_gradients(name: str, gradient: Any) -> None:
    """The error is less than the gradient, or the codec is unbiased; what is exact is exact."""
    scheme = wc.preset(name)
    tensor = wc.decode(wc.encode(gradient, scheme))
    back = tensor.to_dense().astype(np.float64)
    if scheme.value == wc.codecs.Raw():
        assert np.array_equal(tensor.values, gradient[tensor.indices])
    assert back @ gradient > 0
    if name not in WITHOUT_FEEDBACK:
        assert np.linalg.norm(back - gradient) < np.linalg.norm(gradient)


def hard(dtype: np.dtype[Any]) -> dict[str, Any]:
    rng = np.random.default_rng(8)
    spike = np.zeros(3000)
    spike[1234] = -7
    cases = {
        "one": [0.5],
        "one zero": [0.0],
        "two": [1.0, -2.0],
        "zeros": np.zeros(3000),
        "a spike": spike,
        "a spike among small ones": spike + 1e-3 * rng.normal(size=3000),
        "equal": np.full(700, 0.25),
        "normal": rng.normal(size=3000),
        "sparse": np.where(rng.random(3000) < 0.4, 0, rng.laplace(size=3000)),
    }
    return {name: np.asarray(values).astype(dtype) for name, values in cases.items()}


@pytest.mark.sampled
@pytest.mark.parametrize("name", NAMES)
def test_hard_inputs(name: str, dtype: np.dtype[Any]) -> None:
    """Library and reference read the same; zeros stay zeros, and nothing becomes large."""
    for case, x in hard(dtype).items():
        blob = wc.encode(x, wc.preset(name), seed=3)
        tensor, (read,) = wc.decode(blob), reference.decode(blob.tobytes()).tensors
        assert (tensor.shape, tensor.dtype) == (x.shape, dtype), case
        if wc.preset(name).transform is None:
            assert list(read.indices) == tensor.indices.tolist(), case
            assert read.values == tensor.values.tobytes(), case
        dense = tensor.to_dense().astype(float)
        assert np.abs(dense).max() <= 2 * np.abs(x.astype(float)).max(), case


def test_both_lossy_stages_at_once(gradient: Any) -> None:
    """Bloom and a curve: the indices are those the filter gives back, the values are fitted there, in order,
    and the map takes ⌈log2 r⌉ bits each."""
    scheme = wc.preset("deepreduce-both")
    blob = wc.encode(gradient, scheme, seed=5)
    tensor, (entry,) = wc.decode(blob), wc.inspect(blob).entries
    exact = wc.decode(wc.encode(gradient, wc.preset("deepreduce-both", value="raw"), seed=5))
    chosen = wc.decode(wc.encode(gradient, "topk(0.01) | rice | raw"))
    assert np.array_equal(tensor.indices, exact.indices)
    assert not np.array_equal(tensor.indices, chosen.indices)
    assert np.array_equal(exact.values, gradient[exact.indices])
    alone = wc.decode(wc.encode(exact.values, "all | raw-index | polyfit", seed=5))
    assert np.array_equal(tensor.values, alone.values)
    assert np.linalg.norm(tensor.values - exact.values) < 0.05 * np.linalg.norm(exact.values)
    r = tensor.nnz
    assert entry.map_bytes == -(-r * (r - 1).bit_length() // 8)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", NAMES)
def test_it_trains(name: str) -> None:
    """Least squares, of which every step's batch leaves 40 % of the features untouched."""
    rng = np.random.default_rng(6)
    off = 0.05 * rng.laplace(size=60)  # small, since fft ends its range at 1
    first = np.square(off).sum()
    feedback = None if name in WITHOUT_FEEDBACK else wc.ErrorFeedback()
    compressor = wc.Compressor(wc.preset(name), feedback=feedback)
    for _ in range(300):
        batch = rng.normal(size=(30, 60)) * (rng.random(60) < 0.6)
        gradient = (batch.T @ (batch @ off) / 30).astype(np.float32)
        sent = compressor.decompress(compressor.compress({"w": gradient}))["w"]
        off[sent.indices] -= 0.03 * sent.values.astype(np.float64)
    assert np.square(off).sum() < first / 20


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.random.default_rng(1).laplace(size=(40, 50)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    paths = [str(tmp_path / "x.npy"), "-o", str(tmp_path / "x.wc")]
    assert main(["encode", *paths, "--preset", "deepreduce-both(ratio=0.05)"]) == 0
    assert (tmp_path / "x.wc").read_bytes() == wc.encode(
        x, wc.preset("deepreduce-both", ratio=0.05)
    ).tobytes()
    assert main(["presets"]) == 0
    printed = capsys.readouterr().out
    assert all(
        f"{name}: {one.scheme}\n" in printed and one.source in printed for name, one in wc.PRESETS.items()
    )
    assert main(["encode", *paths, "--preset", "dcg"]) == 2
    assert "did you mean 'dgc'?" in capsys.readouterr().err
    assert main(["encode", *paths, "--preset", "dgc", "--scheme", "all | raw-index | raw"]) == 2
