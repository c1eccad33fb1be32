"""A Compressor of gradients on a device has the bytes and residuals of one on the host."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from tests.gpu_emulated.standin import OnGPU, StandInDevice, marked, standin
from tests.inputs import Array
from wirecodec.arrays import BFLOAT16, bits_of
from wirecodec.container import reader
from wirecodec.cpu import chunk
from wirecodec.gpu import chunk as gpu_chunk

__all__ = ["standin"]

SIZE = 5003
STEPS = 4
SCHEMES = [
    "topk(0.02) | rice | raw",
    "topk(0.02) | rice | qsgd(bits=4)",
    "topk(0.05) | elias-fano | sign-scale",
    "topk(0.05) | bloom(p0, 0.1) | qsgd",
    "topk(0.05) | bloom(p1, 0.1) | raw",
    "topk(1.0) | rice | qsgd",
    "adacomp | rice | sign-scale",
    "adacomp(bin=7, factor=1.5) | bitmap | raw",
    "adacomp | bloom(p0, 0.1) | raw",
    "sidco(0.01) | rice | raw(bfloat16)",
    "sidco(0.02, mode=faithful, window=2) | rice | offset-float",
    "dgc(0.01) | rice | raw",
    "threshold(1.5) | bitmap | raw(float16)",
    "nonzero | rice | offset-float(bits=6)",
    "all | raw-index | qsgd(bits=4)",
    "all | raw-index | raw",
    "nonzero | rice | raw",
]
STAGED = [
    "randomk(0.05) | rice | raw",
    "redsync(0.02) | rice | raw",
    "sidco(0.02, sid=gamma-gp) | rice | raw",
    "topk(0.05) | bloom(p2, 0.1) | raw",
    "adacomp | bloom(naive, 0.1) | raw",
    "topk(0.05) | auto-index | zstd",
    "topk(0.05) | rice | 3lc",
    "dct | topk(0.1) | rice | raw",
    "rfft | topk(0.1) | bitmap | offset-float(bits=10)",
]
GRADIENTS: dict[str, Callable[[np.random.Generator], Array]] = {
    "normal": lambda rng: rng.standard_normal(SIZE),
    "laplace in layers": lambda rng: rng.laplace(size=SIZE) * np.repeat([1, 30.0], [4000, SIZE - 4000]),
    "ties": lambda rng: rng.integers(-2, 3, SIZE).astype(float),
    "alike": lambda rng: np.full(SIZE, -0.5),
    "zeros": lambda rng: np.where(rng.random(SIZE) < 0.5, -0.0, 0.0),
    "few": lambda rng: np.where(rng.random(SIZE) < 0.01, rng.standard_normal(SIZE), 0.0),
    "tiny": lambda rng: rng.standard_normal(SIZE) * 1e-41,
    "growing": lambda rng: rng.standard_normal(SIZE) * 10.0 ** rng.integers(0, 4),
}


def same(a: Any, b: Any) -> bool:
    """Return whether two arrays have one type and the same bits."""
    x, y = (np.asarray(each.view(np.ndarray) if isinstance(each, OnGPU) else each) for each in (a, b))
    return x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()


def alike(there: wc.Compressor, here: wc.Compressor) -> None:
    """Compare the whole state of two Compressors."""
    one, other = there.state_dict(), here.state_dict()
    assert one.keys() == other.keys()
    assert all(type(x) is np.ndarray for x in one.values())
    for key, x in one.items():
        assert same(x, other[key]), key


def step(there: wc.Compressor, here: wc.Compressor, gradients: Mapping[str, Array]) -> wc.Prepared:
    """Run one step of both from the same gradients."""
    on_device = {name: marked(x.copy()) for name, x in gradients.items()}
    made, expected = there.prepare(on_device, rank=1), here.prepare(gradients, rank=1)
    assert isinstance(made.blob, OnGPU)
    assert same(made.blob, expected.blob)
    assert same(made.blob_on_host, expected.blob)
    for name, sent in expected.sent.items():
        assert same(made.sent[name].values, sent.values)
        assert same(made.sent[name].indices, sent.indices)
        assert isinstance(made.sent[name].values, OnGPU) == (sent.dtype != BFLOAT16)
        assert same(on_device[name], gradients[name]), "the gradient was written to"
    for each in (made, expected):
        each.commit()
    alike(there, here)
    return made


def pair(scheme: Any, **options: Any) -> tuple[wc.Compressor, wc.Compressor]:
    there, here = (wc.Compressor(scheme, seed=7, **options) for _ in range(2))
    return there, here


@pytest.mark.sampled
@pytest.mark.parametrize("beta", [1.0, 0.3])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_steps_have_the_bits_of_the_cpu(standin: StandInDevice, scheme: str, beta: float, dtype: Any) -> None:
    rng = np.random.default_rng(1)
    there, here = pair(scheme, feedback=wc.ErrorFeedback(beta))
    for _ in range(STEPS):
        step(there, here, {"w": rng.standard_normal(SIZE).astype(dtype)})
    residual = there.residual("w")
    assert scheme == "all | raw-index | raw" or isinstance(residual, OnGPU)


@pytest.mark.sampled
@pytest.mark.parametrize("kind", GRADIENTS)
@pytest.mark.parametrize("scheme", [SCHEMES[0], SCHEMES[1], SCHEMES[6], SCHEMES[9], SCHEMES[13]])
def test_gradients_of_every_shape(standin: StandInDevice, scheme: str, kind: str) -> None:
    for dtype in (np.float32, np.float64, np.float16):
        rng = np.random.default_rng(2)
        there, here = pair(scheme)
        for _ in range(STEPS):
            step(there, here, {"w": GRADIENTS[kind](rng).astype(dtype)})


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("scheme", STAGED)
def test_stages_without_kernels_run_on_the_host(standin: StandInDevice, scheme: str, dtype: Any) -> None:
    rng = np.random.default_rng(3)
    there, here = pair(scheme)
    for _ in range(3):
        step(there, here, {"w": rng.standard_normal(2000).astype(dtype)})


@pytest.mark.sampled
@pytest.mark.parametrize("size", [0, 1, 2, 40])
@pytest.mark.parametrize("scheme", [*SCHEMES[:3], *SCHEMES[6:12], "topk(k=3) | rice | raw"])
def test_few_elements(standin: StandInDevice, scheme: str, size: int) -> None:
    rng = np.random.default_rng(size)
    there, here = pair(scheme)
    for _ in range(3):
        step(there, here, {"w": rng.standard_normal((size, 1)).astype(np.float32)})


def test_without_feedback(standin: StandInDevice) -> None:
    rng = np.random.default_rng(4)
    there, here = pair("topk(0.02) | rice | qsgd", feedback=None)
    for _ in range(3):
        step(there, here, {"w": rng.standard_normal(SIZE).astype(np.float32)})
    assert there.residual("w") is None


def test_several_tensors_and_schemes(standin: StandInDevice) -> None:
    rng = np.random.default_rng(5)
    schemes = {
        "*.bias": "all | raw-index | raw",
        "conv*": "adacomp | rice | sign-scale",
        "*": "topk(0.1) | rice | qsgd",
    }
    variants: list[dict[str, Any]] = [{}, {"fuse": 700}, {"names": False, "fuse": 50}]
    for options in variants:
        there, here = pair(schemes, schedule=wc.WarmUp(0.05, 2, start=0.5), **options)
        for _ in range(4):
            tensors: dict[str, Array] = {
                "fc.weight": rng.standard_normal((40, 50)).astype(np.float32),
                "fc.bias": rng.standard_normal(40).astype(np.float32),
                "conv1": rng.standard_normal(500).astype(np.float32),
                "conv2": rng.standard_normal((3, 200)).astype(np.float32),
                "b": rng.standard_normal(90).astype(np.float64),
                "a": rng.standard_normal(33).astype(np.float64),
                "none": np.empty(0, np.float32),
                "wide": rng.standard_normal((30, 20)).astype(np.float32),
            }
            step(there, here, tensors)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_fused_entries(standin: StandInDevice, scheme: str) -> None:
    rng = np.random.default_rng(6)
    there, here = pair(scheme, fuse=1000)
    for _ in range(3):
        tensors = {
            name: rng.standard_normal(90 * (i + 1)).astype(np.float32) for i, name in enumerate("dbca")
        }
        tensors["none"] = np.zeros(70, np.float32)
        step(there, here, tensors)


@pytest.mark.parametrize("scheme", [SCHEMES[0], SCHEMES[3], SCHEMES[7], SCHEMES[14]])
@pytest.mark.parametrize("beta", [1.0, 0.3])
def test_several_chunks(
    standin: StandInDevice, scheme: str, beta: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Use shorter chunks, so that three of them take less than a minute."""
    for module in (reader, chunk, gpu_chunk):
        monkeypatch.setattr(module, "CHUNK", 4096)
    rng = np.random.default_rng(15)
    there, here = pair(scheme, feedback=wc.ErrorFeedback(beta))
    for _ in range(3):
        x = rng.standard_normal(10_000).astype(np.float32)
        x[4096:8192] = 0
        step(there, here, {"w": x})


def test_the_last_threshold_is_used(standin: StandInDevice) -> None:
    """From the second step on, the search runs while residual and gradient are added."""
    rng = np.random.default_rng(7)
    there, here = pair("topk(0.02) | rice | raw")
    for number, factor in enumerate((1, 1, 1, 1e6, 1)):
        standin.launched.clear()
        step(there, here, {"w": (rng.laplace(size=SIZE) * factor).astype(np.float32)})
        assert ("begin_warm" in standin.launched) == (number > 0)
        assert ("select_sum_f32" in standin.launched) == (number > 0)
    search = there._last["w"]._search
    assert search is not None
    standin.launched.clear()
    step(there, here, {"w": rng.laplace(size=SIZE).astype(np.float64)})
    assert "begin_search" in standin.launched, "another type needs another search"


def test_a_copy_continues_alike(standin: StandInDevice) -> None:
    rng = np.random.default_rng(16)
    there, here = pair("topk(0.02) | rice | raw")
    for _ in range(2):
        step(there, here, {"w": rng.standard_normal(SIZE).astype(np.float32)})
    step(copy.deepcopy(there), here, {"w": rng.standard_normal(SIZE).astype(np.float32)})


def test_adacomp_adds_and_selects_in_one_pass(standin: StandInDevice) -> None:
    rng = np.random.default_rng(8)
    there, here = pair("adacomp | rice | raw")
    for _ in range(2):
        standin.launched.clear()
        step(there, here, {"w": rng.standard_normal(SIZE).astype(np.float32)})
    assert "adacomp_f32" in standin.launched
    assert "add_f32" not in standin.launched


@pytest.mark.parametrize(
    "scheme", ["topk(0.02) | rice | raw", "adacomp | rice | raw", "topk(1.0) | rice | qsgd"]
)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_nonfinite_raises(standin: StandInDevice, scheme: str, bad: float, dtype: Any) -> None:
    rng = np.random.default_rng(9)
    there, here = pair(scheme)
    for steps in range(3):
        broken = {"v": np.ones(5, dtype), "w": rng.standard_normal(SIZE).astype(dtype)}
        broken["w"][[4000, 4500]] = bad
        before = there.state_dict()
        with pytest.raises(wc.EncodeError) as expected:
            here.prepare(broken)
        with pytest.raises(wc.EncodeError) as found:
            there.prepare({name: marked(x) for name, x in broken.items()})
        assert str(found.value) == str(expected.value)
        assert (found.value.tensor, found.value.position) == ("w", 4000)
        assert all(same(x, before[key]) for key, x in there.state_dict().items())
        assert there.step == steps
        step(there, here, {name: rng.standard_normal(x.size).astype(dtype) for name, x in broken.items()})


@pytest.mark.sampled
@pytest.mark.parametrize(
    "scheme", ["nonzero | rice | raw", "nonzero | rice | raw(bfloat16)", "all | rice | raw"]
)
@pytest.mark.parametrize("beta", [1.0, 0.5])
def test_raw_carries_nonfinite(standin: StandInDevice, scheme: str, beta: float, dtype: Any) -> None:
    rng = np.random.default_rng(10)
    there, here = pair(scheme, feedback=wc.ErrorFeedback(beta))
    for _ in range(3):
        x = rng.standard_normal(300).astype(dtype)
        x[[3, 7, 11]] = np.nan, np.inf, -np.inf
        step(there, here, {"w": x})


@pytest.mark.parametrize(
    "scheme", ["topk(k=1) | rice | raw", "threshold(1) | rice | raw", "adacomp | rice | raw"]
)
def test_sums_are_clamped(standin: StandInDevice, scheme: str) -> None:
    for dtype in (np.float32, np.float64, np.float16, BFLOAT16):
        largest = {2: 60_000.0, 4: 3e38, 8: 1.7e308}[np.dtype(dtype).itemsize]
        there, here = pair(scheme)
        for _ in range(4):
            step(there, here, {"w": np.array([largest, 0.9 * largest, -largest, 1]).astype(dtype)})
        if "topk" in scheme:
            assert there.state_dict()["residual/w"].any()


def test_a_value_that_a_codec_cannot_encode(standin: StandInDevice) -> None:
    there, here = pair("topk(k=2) | rice | raw(float16)")
    huge = np.array([1, 2, 1e300, 3])
    for compressor, x in ((here, huge), (there, marked(huge.copy()))):
        with pytest.raises(wc.EncodeError, match="tensor 'w', element 2"):
            compressor.prepare({"w": x})
    alike(there, here)


def test_commit_and_rollback(standin: StandInDevice) -> None:
    rng = np.random.default_rng(11)
    there, here = pair("topk(0.02) | rice | qsgd")
    for _ in range(2):
        step(there, here, {"w": rng.standard_normal(SIZE).astype(np.float32)})
    lost = rng.standard_normal(SIZE).astype(np.float32)
    first = there.prepare({"w": marked(100 * lost)})
    alike(there, here)
    first.rollback()
    alike(there, here)
    with pytest.raises(RuntimeError):
        first.commit()
    step(there, here, {"w": lost})


def test_states_move_between_host_and_device(standin: StandInDevice) -> None:
    """Load a state that was saved on the device on the host, and the reverse."""
    rng = np.random.default_rng(12)
    scheme = {"s": "sidco(0.02, mode=faithful, window=2) | rice | raw", "*": "topk(0.02) | rice | qsgd"}
    there, here = pair(scheme)
    tensors = [{n: rng.standard_normal(SIZE).astype(np.float32) for n in "sw"} for _ in range(6)]
    for each in tensors[:3]:
        step(there, here, each)
    file = io.BytesIO()
    arrays: dict[str, Any] = there.state_dict()
    np.savez(file, **arrays)
    file.seek(0)
    with np.load(file, allow_pickle=False) as saved:
        state = dict(saved)
    for compressor in (there, here):
        compressor.load_state_dict(state)
    step(there, here, tensors[3])
    step(here, there, tensors[4])  # swap host and device
    step(there, here, tensors[5])


def test_a_residual_of_a_wider_type(standin: StandInDevice) -> None:
    """Load a state of float64 gradients, then compress narrower ones."""
    rng = np.random.default_rng(13)
    for scheme in ("topk(0.05) | rice | raw", "adacomp | rice | qsgd"):
        for dtype in (np.float32, np.float16, BFLOAT16):
            there, here = pair(scheme)
            step(there, here, {"w": rng.standard_normal(SIZE)})
            step(there, here, {"w": rng.standard_normal(SIZE).astype(dtype)})
            assert there.state_dict()["residual/w"].dtype == np.float64


def test_tensors_must_be_on_one_device(standin: StandInDevice) -> None:
    there, here = pair("topk(0.5) | rice | raw")
    x = np.ones(9, np.float32)
    with pytest.raises(wc.EncodeError, match="tensor 'b': is on the host"):
        there.prepare({"a": marked(x), "b": x})
    with pytest.raises(wc.EncodeError, match="tensor 'a': dtype int64"):
        there.prepare({"a": marked(np.arange(3))})
    step(there, here, {"w": x})
    with pytest.raises(wc.EncodeError, match=r"tensor 'w': .* its residual has 9"):
        there.prepare({"w": marked(x[:5])})


def test_only_compressed_bytes_leave(standin: StandInDevice) -> None:
    """In a step the host fetches the container and a few counts, for any size of the gradient."""
    rng = np.random.default_rng(14)
    for scheme in (
        "topk(0.01) | rice | qsgd",
        "adacomp(bin=500) | elias-fano | sign-scale",
        "dgc(0.01) | rice | raw",
    ):
        c = wc.Compressor(scheme)
        for _ in range(3):
            standin.fetched.clear()
            made = c.prepare({"w": marked(rng.laplace(size=50_000).astype(np.float32))})
            made.commit()
            assert sum(standin.fetched) < made.blob_on_host.nbytes + 500


def test_bits_are_compared(standin: StandInDevice) -> None:
    assert not same(np.array([0.0]), np.array([-0.0]))
    assert bits_of(np.array([-0.0])).any()
