"""Several tensors transformed as one vector: ``scope="group"`` with a transform (formats/SPEC.md, 3.11)."""

from __future__ import annotations

import struct
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from scipy import fft

import collectives as co
import wirecodec as wc
from formats.reference import decode
from wirecodec.cpu import fast

SHAPES: dict[str, tuple[int, ...]] = {"a": (30, 40), "b": (7,), "c": (), "d": (0, 3), "e": (500,)}
SIZES = {name: int(np.prod(shape)) for name, shape in SHAPES.items()}
N = sum(SIZES.values())
FEEDBACKS = [
    None,
    wc.ErrorFeedback(),
    wc.ErrorFeedback(beta=0.5, decay=0.9),
    wc.MomentumCorrection(nesterov=True),
]


def draw(rng: np.random.Generator, dtype: Any = np.float32) -> dict[str, Any]:
    return {name: np.asarray(rng.standard_normal(shape), dtype) for name, shape in SHAPES.items()}


def join(tensors: Any) -> Any:
    return np.concatenate([np.asarray(x).reshape(-1) for x in tensors.values()])


@pytest.mark.parametrize("name", ["rfft", "dct"])
def test_coefficients_are_those_of_the_concatenation(name: str) -> None:
    """The entry holds the transform of the vector, by SciPy; 1707 elements are padded to 1728."""
    g = draw(np.random.default_rng(0))
    blob = wc.Compressor(f"{name} | all | raw-index | raw", scope="group").compress(g).tobytes()
    x = np.pad(join(g).astype(np.float64), (0, 1728 - N))
    wanted = fft.rfft(x, norm="ortho") if name == "rfft" else fft.dct(x, norm="ortho")
    if name == "rfft":
        wanted[1:-1] *= np.sqrt(2)
    (n_entries,), (extension,) = struct.unpack_from("<I", blob, 8), struct.unpack_from("<I", blob, 64)
    stored = np.frombuffer(
        blob, wanted.astype("c8" if name == "rfft" else "f4").dtype, wanted.size, 64 + extension
    )
    assert n_entries == 1
    assert np.allclose(stored, wanted, rtol=0, atol=1e-5)
    for tensor in decode(blob).tensors:
        assert tensor.shape == SHAPES[tensor.name]
        assert np.allclose(np.frombuffer(tensor.values, np.float32), g[tensor.name].reshape(-1), atol=1e-5)


@pytest.mark.parametrize("feedback", FEEDBACKS, ids=str)
@pytest.mark.parametrize(
    "scheme",
    [
        "rfft | topk(0.15) | bitmap | offset-float(bits=10)",
        "dct | topk(0.05) | bloom(p0, 0.01) | raw",
        "rfft | randomk(0.1) | rice | polyfit",
    ],
)
def test_a_group_has_the_bits_of_one_tensor(scheme: str, feedback: Any) -> None:
    """What is sent, and what is kept, is that of a Compressor of the concatenation."""
    rng = np.random.default_rng(1)
    group = wc.Compressor(scheme, scope="group", feedback=feedback, clip=10.0)
    flat = wc.Compressor(scheme, feedback=feedback, clip=10.0)
    for turn in range(4):
        g = draw(rng)
        with fast.off() if turn % 2 else nullcontext():
            prepared, whole = group.prepare(g), flat.prepare({"x": join(g)})
        received = wc.decode_many(prepared.blob)
        sent = join({name: x.to_dense() for name, x in received.items()})
        assert sent.tobytes() == whole.sent["x"].to_dense().tobytes()
        assert all(
            prepared.sent[name].to_dense().tobytes() == received[name].to_dense().tobytes() for name in g
        )
        assert all(received[name].shape == shape for name, shape in SHAPES.items())
        prepared.commit()
        whole.commit()
        for kept in ("residual", "momentum"):
            if getattr(flat, kept)("x") is not None:
                found = np.concatenate([getattr(group, kept)(name) for name in SHAPES])
                assert found.tobytes() == getattr(flat, kept)("x").tobytes()


def test_nothing_is_lost() -> None:
    """The residual is the sum minus what was sent, in one rounding."""
    rng = np.random.default_rng(2)
    c = wc.Compressor("rfft | topk(0.02) | rice | qsgd", scope="group")
    kept = {name: np.zeros(size, np.float32) for name, size in SIZES.items()}
    for _ in range(3):
        g = draw(rng)
        received = wc.decode_many(c.compress(g))
        for name, x in g.items():
            total = x.reshape(-1) + kept[name]
            kept[name] = total - received[name].to_dense().reshape(-1)
            assert c.residual(name).tobytes() == kept[name].tobytes()


def test_vectors_of_keys_and_types() -> None:
    """Each key and element type is a vector; held, sparse-selected and single tensors are in none."""
    rng = np.random.default_rng(3)
    schemes = {
        "*.bias": "nonzero | rice | raw",
        "x.*": "dct | topk(0.2) | rice | raw",
        "z": "rfft | topk(0.2) | rice | raw",
        "*": "rfft | topk(0.1) | rice | raw",
    }
    sizes = {"b.bias": 5, "m": 40, "n": 60, "o.bias": 7, "p": 80, "x.1": 30, "x.2": 31, "z": 25}
    g = {name: rng.standard_normal(n).astype(np.float32) for name, n in sizes.items()}
    g |= {"h1": np.ones(20, np.float16), "h2": np.ones(9, np.float16), "zero": np.zeros(50, np.float32)}
    c = wc.Compressor(schemes, scope="group")
    prepared = c.prepare(g, hold_zeros=True)
    info = wc.inspect(prepared.blob)
    forms = {tuple(name for name, _ in one.members): (one.transform, one.dtype) for one in info.entries}
    assert forms == {
        ("b.bias", "o.bias"): ("", "float32"),
        ("h1", "h2"): ("rfft", "float16"),
        ("m", "n", "p"): ("rfft", "float32"),
        ("x.1", "x.2"): ("dct", "float32"),
        ("z",): ("rfft", "float32"),
        ("zero",): ("", "float32"),
    }
    assert info.version == "1.1"
    assert prepared.sent["zero"].nnz == 0
    received = wc.decode_many(prepared.blob, schema={name: (x.shape, x.dtype) for name, x in g.items()})
    for tensor in decode(prepared.blob.tobytes()).tensors:
        own = received[tensor.name].to_dense()
        assert np.allclose(own, prepared.sent[tensor.name].to_dense(), rtol=0, atol=0)
        if len(tensor.indices) == own.size and own.dtype == np.float32:
            assert np.allclose(np.frombuffer(tensor.values, np.float32), own, rtol=0, atol=1e-5)
    alone = wc.Compressor(schemes["z"], scope="group").compress({"z": g["z"]})
    assert wc.inspect(alone).version == "1.0"


def test_sums_and_means() -> None:
    """Containers are added, scaled and averaged as those of plain tensors."""
    drawn = [draw(np.random.default_rng(rank)) for rank in range(3)]
    scheme = "rfft | all | raw-index | raw"
    blobs = [wc.Compressor(scheme, scope="group").compress(g) for g in drawn]
    out = {name: np.ones(shape, np.float32) for name, shape in SHAPES.items()}
    wc.decode_add(blobs, out, scale=2.0)
    for name in SHAPES:
        assert np.allclose(out[name], 1 + 2 * sum(g[name] for g in drawn), atol=1e-4)

    def run(comm: Any) -> Any:
        return co.allreduce(comm, drawn[comm.rank], wc.Compressor(scheme, scope="group"))

    first, *others = co.simulate(3, run)
    for name in SHAPES:
        assert np.allclose(first[name], np.mean([g[name] for g in drawn], axis=0), atol=1e-5)
        assert all(one[name].tobytes() == first[name].tobytes() for one in others)


def test_a_budget_of_coefficients_keeps_its_bytes() -> None:
    g = draw(np.random.default_rng(5))
    for nbytes in (700, 1500):
        c = wc.Compressor("dct | budget(1) | rice | error-bounded", scope="group", bytes_per_step=nbytes)
        for _ in range(2):
            assert 0.8 * nbytes < c.compress(g).nbytes <= nbytes


def test_faults_name_tensor_and_element() -> None:
    g = draw(np.random.default_rng(6))
    g["e"][17] = np.nan
    with pytest.raises(wc.EncodeError, match="rfft") as caught:
        wc.Compressor("rfft | topk(0.1) | rice | raw", scope="group").compress(g)
    assert (caught.value.tensor, caught.value.position) == ("e", 17)
