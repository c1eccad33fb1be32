"""Containers encoded on a device: the bytes of ``wc.encode``, and its errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from tests.gpu_emulated.emulator import Emulator
from tests.inputs import Array
from wirecodec.arrays import bits_of
from wirecodec.container import table
from wirecodec.cpu import chunk as cpu_chunk
from wirecodec.cpu import fast
from wirecodec.element_types import DTYPES
from wirecodec.gpu import chunk as gpu_chunk
from wirecodec.gpu import encode
from wirecodec.gpu.chunk import has_kernels
from wirecodec.gpu.fast import plan
from wirecodec.settings.scheme import as_scheme
from wirecodec.tensors import DeviceFlat

SELECTORS = ["all", "nonzero", "topk(0.01)", "topk(k=700)", "threshold(1.5)", "topk(1.0)"]
FITTED = {"dgc(0.01)": "sample_u", "dgc(0.3, sample=0.1)": "sample_u", "dgc(1.0, sample=1.0)": "nonfinite_u"}
FITTED |= {
    "dgc(0.999, sample=0.05)": "sample_u",
    "adacomp": "set_magnitude_u",
    "adacomp(bin=7, factor=1.5)": "set_magnitude_u",
}
FITTED |= {"adacomp(bin=500, factor=3e38)": "set_magnitude_u"}
FITTED |= dict.fromkeys(["sidco(0.01)", "sidco(0.2, sid=gp, stages=5, tolerance=0.01)"], "fold_sums")
FITTED |= dict.fromkeys(["sidco(0.001, mode=faithful, stages=4)", "sidco(1.0)"], "fold_sums")
INDEXES = ["raw-index", "bitmap", "rice", "elias-fano", "bloom(p0, 0.01)", "bloom(p1, 0.3)"]
VALUES = [
    "raw",
    "raw(float16)",
    "raw(bfloat16)",
    "qsgd(bits=4)",
    "qsgd(bits=7, bucket=48, norm=l2)",
    "offset-float(bits=8)",
    "offset-float(bits=6, rounding=stochastic)",
    "sign-scale",
]
STAGED = [
    "redsync(0.01) | rice | raw",
    "topk(0.01) | bloom(p2, 0.01) | raw",
    "topk(0.05) | auto-index | zstd",
]
STAGED += [
    "topk(0.02) | bloom(naive, 0.1) | qsgd",
    "topk(0.1) | rice | polyfit",
    "sidco(0.01, sid=gamma-gp) | rice | raw",
]
STAGED += ["rfft | topk(0.1) | bitmap | offset-float(bits=10)", "budget(2) | rice | error-bounded"]


def tensor(dtype: Any, size: int = 9001) -> Array:
    x = np.random.default_rng(size).standard_normal(size)
    x[::5] = 0
    x[3::50] = -0.0
    return x.astype(dtype)


def on_device(device: Emulator, x: Array, scheme: Any, seed: int = 5, tag: bytes = b"") -> Any:
    """Encode on another device as ``wc.encode`` does for a CuPy array, both ways; return the plain one's."""
    flat = DeviceFlat(device.put(bits_of(x.reshape(-1))), x.dtype, x.shape)
    try:
        batched = encode.encode(device, flat, as_scheme(scheme), seed, tag).tobytes()
    except wc.EncodeError:
        batched = None
    with fast.off():
        plain = encode.encode(device, flat, as_scheme(scheme), seed, tag)
    assert batched == plain.tobytes()
    return plain


@pytest.mark.sampled
@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("select", SELECTORS)
def test_bytes_equal_the_cpu(select: str, value: str) -> None:
    check_bytes(select, value, np.float32)


class CountingEmulator(Emulator):
    """An Emulator that counts the bytes that are copied to the host."""

    copied = 0

    def get(self, array: Any) -> Array:
        self.copied += array.nbytes
        return super().get(array)


@pytest.mark.parametrize(("bits", "size"), [(0.06, 40_000), (20, 20_000), (3, 300_000)])
def test_a_budget_copies_candidates_only(bits: float, size: int) -> None:
    """Sample, segments and candidates are collected on the device, and give the bytes of the host."""
    x = np.random.default_rng(size).standard_t(3, size).astype(np.float32)
    device, scheme = CountingEmulator(), f"budget({bits}) | rice | error-bounded"
    got = on_device(device, x, scheme)
    assert bits == 20 or any(name.startswith("gather_u") for name in device.launched)
    assert bits != 0.06 or device.copied / 2 < x.nbytes / 2  # of both ways
    assert device.get(got).tobytes() == wc.encode(x, scheme, seed=5).tobytes()


def test_budgets_of_every_element_type(dtype: Any) -> None:
    x, scheme, device = tensor(dtype), "budget(0.5) | auto-index | error-bounded", Emulator()
    assert device.get(on_device(device, x, scheme)).tobytes() == wc.encode(x, scheme, seed=5).tobytes()


@pytest.mark.sampled
@pytest.mark.parametrize("value", VALUES)
def test_every_element_type(value: str, dtype: Any) -> None:
    check_bytes("topk(0.01)", value, dtype)


def check_bytes(select: str, value: str, dtype: Any) -> None:
    device = Emulator(len(select + value), 3)
    x = tensor(dtype).reshape(-1, 1)
    for index in INDEXES:
        scheme = f"{select} | {index} | {value}"
        parsed = as_scheme(scheme)
        assert has_kernels(parsed.index, parsed.value)
        assert on_device(device, x, scheme).tobytes() == wc.encode(x, scheme, seed=5).tobytes()


@pytest.mark.sampled
@pytest.mark.parametrize("size", [0, 1, 2, 70, 1000, 9001])
@pytest.mark.parametrize("select", FITTED)
def test_samples_and_fits(select: str, size: int, dtype: Any) -> None:
    device = Emulator(size, 3)
    x = tensor(dtype, size)
    for seed, rest in ((5, "rice | sign-scale"), (6, "bitmap | qsgd(bits=4)"), (7, "bloom(p0, 0.01) | raw")):
        scheme = f"{select} | {rest}"
        assert on_device(device, x, scheme, seed).tobytes() == wc.encode(x, scheme, seed=seed).tobytes()
    assert size < 70 or any(name.startswith(FITTED[select]) for name in device.launched)


@pytest.mark.parametrize("power", [-140, -45, 45, 120, -1000, 1000])
def test_fits_of_tiny_or_huge_magnitudes(power: int) -> None:
    """Sums of squares would underflow or overflow without scaling."""
    kind = np.float64 if abs(power) > 140 else np.float32
    x = np.ldexp(np.random.default_rng(power % 99).laplace(size=5000).astype(kind), power)
    made = on_device(Emulator(2, 3), x, "sidco(0.02) | rice | raw")
    assert made.tobytes() == wc.encode(x, "sidco(0.02) | rice | raw", seed=5).tobytes()


@pytest.mark.sampled
@pytest.mark.parametrize("values", ["alike", "zeros", "ties"])
@pytest.mark.parametrize("select", FITTED)
def test_few_magnitudes(select: str, values: str) -> None:
    """Far more elements reach a threshold than expected, or none except zeros."""
    x = {"alike": np.ones(3001), "zeros": np.zeros(3001), "ties": np.arange(3001) % 3}[values]
    for kind in (np.float32, np.float64):
        made = on_device(Emulator(2, 3), x.astype(kind), f"{select} | rice | raw")
        assert made.tobytes() == wc.encode(x.astype(kind), f"{select} | rice | raw", seed=5).tobytes()


@pytest.mark.parametrize("scheme", STAGED)
def test_stages_without_kernels(scheme: str) -> None:
    x = tensor(np.float32)
    made = on_device(Emulator(2, 3), x, scheme, tag=b"tag")
    assert made.tobytes() == wc.encode(x, scheme, seed=5, tag=b"tag").tobytes()


@pytest.mark.sampled
@pytest.mark.parametrize("size", [0, 1, 2, 40])
@pytest.mark.parametrize("select", [*SELECTORS, "threshold(1e9)"])
def test_few_elements(select: str, size: int) -> None:
    x = tensor(np.float32, size)
    for scheme in (f"{select} | rice | qsgd", f"{select} | bitmap | raw(float16)"):
        made = on_device(Emulator(2, 3), x, scheme)
        assert made.tobytes() == wc.encode(x, scheme, seed=5).tobytes()


def test_several_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use shorter chunks, so that three of them take less than a minute."""
    for module in (table, cpu_chunk, gpu_chunk, plan):
        monkeypatch.setattr(module, "CHUNK", 4096)
    x = tensor(np.float32, 10_000)
    x[4096:8192] = 0
    for select in ("nonzero", "topk(0.2)", "all"):
        for rest in (
            "rice | qsgd",
            "raw-index | raw",
            "bitmap | sign-scale",
            "bloom(p0, 0.1) | raw",
            "bloom(p1, 0.2) | qsgd",
        ):
            scheme = f"{select} | {rest}"
            made = on_device(Emulator(2, 3), x, scheme)
            assert made.tobytes() == wc.encode(x, scheme, seed=5).tobytes()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(25))
def test_random_schemes(seed: int) -> None:
    """Draw a scheme, a type and a size, and encode tensors of any density."""
    rng = np.random.default_rng(seed)
    size = int(np.exp(rng.uniform(0, 10)))
    k, ratio, t = rng.integers(1, size + 2), rng.uniform(1e-4, 1), rng.exponential()
    several = ["all", "nonzero", f"topk(k={k})", f"topk({ratio})", f"threshold({t})"]
    several += [f"dgc({ratio})", f"dgc({ratio}, sample={rng.uniform(0.01, 1)})", f"adacomp({k}, {1 + t})"]
    scheme = f"{rng.choice(several)} | {rng.choice(INDEXES)} | {rng.choice(VALUES)}"
    device, dtype = Emulator(seed, 3), DTYPES[rng.integers(4)]
    for step in range(6):
        x = rng.laplace(size=size) * rng.choice([1, 30, 0.03])
        x[rng.random(size) < rng.choice([0, 0.01, 0.5, 0.99, 1])] = rng.choice([0, 1])
        made = on_device(device, x.astype(dtype), scheme, step)
        assert made.tobytes() == wc.encode(x.astype(dtype), scheme, seed=step).tobytes()


@pytest.mark.sampled
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize(
    "scheme", ["topk(0.01)", "topk(1.0)", "threshold(1)", "all | qsgd", "nonzero | sign-scale", *FITTED]
)
def test_errors_equal_the_cpu(scheme: str, bad: float) -> None:
    x = tensor(np.float32)
    x[[4000, 8000]] = bad
    check_error(x, scheme)


@pytest.mark.parametrize("scheme", ["all | qsgd", "all | raw(float16)", "topk(0.01) | raw(bfloat16)"])
def test_overflow_of_a_narrower_type(scheme: str) -> None:
    x = tensor(np.float64)
    x[1234] = 1e300
    check_error(x, scheme)


def check_error(x: Array, scheme: str) -> None:
    with pytest.raises(wc.EncodeError) as expected:
        wc.encode(x, scheme)
    with pytest.raises(wc.EncodeError) as found:
        on_device(Emulator(2, 3), x, scheme)
    assert str(found.value) == str(expected.value)
    assert found.value.position == expected.value.position


def test_a_scale_that_is_too_large() -> None:
    """The sum of the scale overflows."""
    check_error(np.full(300, 1e308), "adacomp(bin=1) | rice | raw")


def test_raw_carries_nan(dtype: Any) -> None:
    x = tensor(dtype)
    x[7] = np.nan
    for scheme in ("all | rice | raw", "nonzero | rice | raw(float16)"):
        assert on_device(Emulator(2, 3), x, scheme).tobytes() == wc.encode(x, scheme, seed=5).tobytes()
