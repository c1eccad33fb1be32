"""A Compressor on the emulated device beside one on the host: the same steps, compared bit by bit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import wirecodec as wc
from tests.gpu_emulated.standin import OnGPU, marked
from tests.inputs import Array
from wirecodec.element_types import BFLOAT16

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
    "sidco(0.02, mode=adaptive, window=2) | rice | raw",
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
    "budget(2) | rice | error-bounded",
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


def same_bits(a: Any, b: Any) -> bool:
    """Return whether two arrays have one type and the same bits."""
    x, y = (np.asarray(each.view(np.ndarray) if isinstance(each, OnGPU) else each) for each in (a, b))
    return x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()


def assert_same_state(there: wc.Compressor, here: wc.Compressor) -> None:
    """Compare the whole state of two Compressors."""
    one, other = there.state_dict(), here.state_dict()
    assert one.keys() == other.keys()
    assert all(type(x) is np.ndarray for x in one.values())
    for key, x in one.items():
        assert same_bits(x, other[key]), key


def step_both(there: wc.Compressor, here: wc.Compressor, gradients: Mapping[str, Array]) -> wc.Prepared:
    """Run one step of both from the same gradients."""
    on_device = {name: marked(x.copy()) for name, x in gradients.items()}
    made, expected = there.prepare(on_device, rank=1), here.prepare(gradients, rank=1)
    assert isinstance(made.blob, OnGPU)
    assert same_bits(made.blob, expected.blob)
    assert same_bits(made.blob_on_host, expected.blob)
    for name, sent in expected.sent.items():
        assert same_bits(made.sent[name].values, sent.values)
        assert same_bits(made.sent[name].indices, sent.indices)
        assert isinstance(made.sent[name].values, OnGPU) == (sent.dtype != BFLOAT16)
        assert same_bits(on_device[name], gradients[name]), "the gradient was written to"
    for each in (made, expected):
        each.commit()
    assert_same_state(there, here)
    return made


def make_pair(scheme: Any, **options: Any) -> tuple[wc.Compressor, wc.Compressor]:
    there, here = (wc.Compressor(scheme, seed=7, **options) for _ in range(2))
    return there, here
