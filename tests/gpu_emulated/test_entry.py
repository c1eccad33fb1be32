"""``encode``, ``decode`` and ``decode_add`` of arrays on a GPU, except CuPy itself."""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from tests.gpu_emulated.standin import OnGPU, StandInDevice, marked, standin
from tests.gpu_emulated.test_gpu_encode import STAGED, tensor
from tests.inputs import Array
from wirecodec.arrays import bits_of
from wirecodec.container import table, writer
from wirecodec.cpu import chunk
from wirecodec.cpu.chunk import encode_chunks
from wirecodec.cpu.select import select
from wirecodec.element_types import BFLOAT16
from wirecodec.prng import mix
from wirecodec.settings.scheme import as_scheme
from wirecodec.tensors import as_device_flat, on_gpu

__all__ = ["standin"]

SCHEMES = [
    "topk(0.05) | rice | qsgd(bits=4)",
    "topk(0.05) | elias-fano | raw(float16)",
    "nonzero | bitmap | raw(bfloat16)",
    "threshold(1.0) | raw-index | sign-scale",
    "all | rice | offset-float",
    "nonzero | rice | raw",
    "topk(0.02) | bloom(p0, 0.1) | qsgd",
    "topk(0.02) | bloom(p1, 0.1) | raw",
    *STAGED,
]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_encode_and_decode_equal_the_cpu(standin: StandInDevice, scheme: str) -> None:
    x = tensor(np.float32).reshape(9001, 1)
    expected = wc.encode(x, scheme, seed=3)
    blob = wc.encode(marked(x.copy()), scheme, seed=3)
    assert isinstance(blob, OnGPU)
    assert blob.tobytes() == expected.tobytes()
    there, here = wc.decode(blob), wc.decode(expected)
    assert isinstance(there.values, OnGPU)
    assert isinstance(there.indices, OnGPU)
    assert there.shape == here.shape
    assert there.indices.tobytes() == here.indices.tobytes()
    assert there.values.tobytes() == here.values.tobytes()
    assert isinstance(there.to_dense(), OnGPU)
    assert there.to_dense().tobytes() == here.to_dense().tobytes()
    with pytest.raises(TypeError, match="is on a GPU"):
        np.asarray(there)


@pytest.mark.sampled
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("scheme", SCHEMES[:8])
def test_decode_add_equals_the_cpu(standin: StandInDevice, scheme: str, kind: Any, dtype: Any) -> None:
    x = tensor(dtype)
    blob = wc.encode(x, scheme, seed=3)
    here = np.random.default_rng(1).standard_normal(x.size).astype(kind)
    there = standin.put(here)
    wc.decode_add(blob, here, scale=-0.3)
    for given in (blob, standin.put(blob)):
        before = there.copy()
        wc.decode_add(given, there, scale=-0.3)
        assert there.tobytes() == here.tobytes()
        there[:] = before


def test_decode_add_checks_values(standin: StandInDevice) -> None:
    """NaN and a norm above the limit are refused before anything is added."""
    out = standin.put(np.zeros(2, np.float32))
    for x, code in (([1, np.nan], "nonfinite"), ([3, 4], "max-norm")):
        with pytest.raises(wc.WireError) as info:
            wc.decode_add(wc.encode(np.array(x, "f4")), out, finite=True, max_norm=4.9)
        assert info.value.code == code
    assert not out.any()
    wc.decode_add(wc.encode(np.array([3, 4], "f4")), out, finite=True, max_norm=5)
    assert out.tolist() == [3, 4]


def test_several_tensors(standin: StandInDevice) -> None:
    tensors = {"a": tensor(np.float32), "b": tensor(np.float32, 300), "c": tensor(np.float64, 50)}
    for fuse in (0, 1000):
        blob = wc.encode_many(tensors, "topk(0.1) | rice | qsgd", fuse=fuse)
        there = wc.decode_many(standin.put(blob))
        for name, here in wc.decode_many(blob).items():
            assert there[name].values.tobytes() == here.values.tobytes()
            assert there[name].indices.tobytes() == here.indices.tobytes()
        out = {name: np.ones(x.size, np.float32) for name, x in tensors.items()}
        on_device = {name: standin.put(x) for name, x in out.items()}
        wc.decode_add(blob, on_device)
        wc.decode_add(blob, out)
        assert all(on_device[name].tobytes() == out[name].tobytes() for name in out)


def test_chunks_are_concatenated(standin: StandInDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (chunk, table):
        monkeypatch.setattr(module, "CHUNK", 4096)
    x = tensor(np.float32, 10_000)
    x[4096:8192] = 1
    x[8192:] = 0
    blob = wc.encode(x, "nonzero | rice | raw")
    here, there = wc.decode(blob), wc.decode(standin.put(blob))
    assert there.indices.tobytes() == here.indices.tobytes()
    assert there.values.tobytes() == here.values.tobytes()


@pytest.mark.parametrize("scheme", SCHEMES[:8])
def test_invalid_containers_raise_the_same_error(standin: StandInDevice, scheme: str) -> None:
    """Flip bits of sections and correct the checksum: both raise the same error, or decode the same."""
    x = tensor(np.float32, 700)
    entries = encode_entries(x, scheme)
    rng = np.random.default_rng(3)
    refused = 0
    for _ in range(40):
        blob = flip_bit(rng, entries)
        out = np.zeros(x.size, np.float32)
        there = standin.put(out)
        expected, found = (error_of(given, to) for given, to in ((blob, out), (standin.put(blob), there)))
        assert found == expected
        assert there.tobytes() == out.tobytes()
        refused += expected is not None
    assert refused


def error_of(blob: Array, out: Array) -> tuple[Any, ...] | None:
    """Return the error of decode_add, or None."""
    try:
        wc.decode_add(blob, out)
    except wc.WireError as error:
        return type(error), error.code, error.entry, error.offset, str(error)
    return None


def encode_entries(x: Array, scheme: str) -> Any:
    one = as_scheme(scheme)
    return list(encode_chunks(0, select(x, one, seed=mix(0, 0)), one, 0))


def flip_bit(rng: np.random.Generator, entries: Any) -> Array:
    """Return a container of the entries with one flipped bit in a section."""
    entry = entries[0]
    field = "index_section" if entry.index_section.size and rng.random() < 0.5 else "value_section"
    section = getattr(entry, field).copy()
    section[rng.integers(min(section.size, rng.choice([12, section.size])))] ^= np.uint8(1 << rng.integers(8))
    return writer.pack([dataclasses.replace(entry, **{field: section})], b"")[0]


def test_named_tensors(standin: StandInDevice) -> None:
    tensors = {
        "b": tensor(np.float32).reshape(-1, 1),
        "a": tensor(np.float64, 300),
        "c": tensor(np.float32, 8),
    }
    there = {name: marked(x.copy()) for name, x in tensors.items()}
    schemes = {"a": "topk(0.1) | rice | qsgd", "b": "dct | topk(0.1) | rice | raw", "*": None}
    for names in (True, False):
        made = wc.encode_many(there, schemes, seed=4, tag=b"t", names=names)
        assert isinstance(made, OnGPU)
        assert made.tobytes() == wc.encode_many(tensors, schemes, seed=4, tag=b"t", names=names).tobytes()
    with pytest.raises(wc.EncodeError, match="tensor 'b': is on the host"):
        wc.encode_many({**there, "b": tensors["b"]})
    fused = {name: x.reshape(-1) for name, x in tensors.items()} | {"d": tensor(np.float32, 90)}
    for scheme in (
        "topk(0.1) | rice | qsgd",
        "nonzero | bloom(p0, 0.1) | raw",
        "adacomp | bloom(p1, 0.1) | raw",
    ):
        expected = wc.encode_many(fused, scheme, fuse=100)
        made = wc.encode_many({name: marked(x.copy()) for name, x in fused.items()}, scheme, fuse=100)
        assert made.tobytes() == expected.tobytes()
        assert expected.tobytes() != wc.encode_many(fused, scheme).tobytes()
    there["c"][3] = np.nan
    with pytest.raises(wc.EncodeError, match="tensor 'c', element 3"):
        wc.encode_many(there, "topk(0.5) | rice | raw")
    with pytest.raises(wc.EncodeError, match=r"tensor 'c', element 3: bloom\(policy=p1.* cannot carry nan"):
        wc.encode_many(there, "nonzero | bloom(p1, 0.1) | raw")
    found = wc.decode_many(wc.encode_many(there, "nonzero | bloom(p0, 0.1) | raw").tobytes())
    assert np.isnan(found["c"].to_dense()[3])


def test_decode_add_rejects_unsuitable_arrays(standin: StandInDevice) -> None:
    blob = wc.encode(tensor(np.float32), "topk(0.1) | rice | raw")
    for out in (standin.empty(9001, np.float16), standin.empty(18_002, np.float32)[::2]):
        with pytest.raises(ValueError, match="not a writable, contiguous"):
            wc.decode_add(blob, out)
    both = wc.encode_many({"a": np.ones(3, np.float32), "b": np.ones(3, np.float32)})
    with pytest.raises(ValueError, match="on one device"):
        wc.decode_add(both, {"a": standin.empty(3, np.float32), "b": np.zeros(3, np.float32)})


def test_bfloat16_needs_another_type(standin: StandInDevice) -> None:
    blob = wc.encode(tensor(BFLOAT16), "topk(0.1) | rice | raw")
    with pytest.raises(wc.DeviceError, match="bfloat16"):
        wc.decode(standin.put(blob))


def test_a_gpu_receives_floats_alone(standin: StandInDevice) -> None:
    blob = standin.put(wc.encode_many({"a": np.ones(3, np.int16)}, "all | raw-index | raw"))
    for decode in (wc.decode, wc.decode_many):
        with pytest.raises(wc.Unsupported, match=r"a GPU receives floats .*tensor 0 is int16"):
            decode(blob)


def test_without_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    for call in (wc.encode, wc.decode, lambda x: wc.encode_many({"a": x})):
        with pytest.raises(wc.DeviceError, match="pip install cupy-cuda12x"):
            call(marked(np.ones(9, np.float32)))


def test_on_gpu_recognizes_arrays() -> None:
    class Packed:
        def __init__(self, kind: int) -> None:
            self.kind = kind

        def __dlpack_device__(self) -> tuple[int, int]:
            return self.kind, 0

    assert on_gpu(marked(np.ones(3)))
    assert on_gpu(Packed(2))
    for other in (Packed(1), Packed(10), np.ones(3), [1.0], None, memoryview(b"")):
        assert not on_gpu(other)


def test_as_device_flat_gives_raw_bits(standin: StandInDevice, dtype: Any) -> None:
    x = np.arange(12).astype(dtype).reshape(3, 4)
    if dtype != BFLOAT16:
        flat = as_device_flat(marked(x).T, standin.cupy)
        assert flat.raw_bits.tobytes() == bits_of(np.ascontiguousarray(x.T)).tobytes()
        assert (flat.dtype, flat.shape) == (dtype, (4, 3))
    with pytest.raises(wc.EncodeError, match="int64"):
        as_device_flat(marked(np.arange(3)), standin.cupy)
