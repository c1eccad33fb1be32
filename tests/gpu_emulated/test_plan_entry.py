"""``wirecodec.gpu.Plan``, except CuPy itself."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from tests.gpu_emulated.standin import OnGPU, StandInDevice, marked, standin
from tests.gpu_emulated.test_gpu_encode import tensor
from wirecodec.arrays import BFLOAT16
from wirecodec.gpu import Plan

__all__ = ["standin"]

README = Path(__file__).parents[2] / "wirecodec" / "gpu" / "README.md"
SCHEME = "topk(0.05) | rice | qsgd(bits=4)"


@pytest.mark.parametrize("shape", [9001, (9001,), [1, 9001], (9001, 1, 1)])
def test_consecutive_steps_equal_the_cpu(standin: StandInDevice, shape: Any) -> None:
    plan = Plan(shape, "float32", SCHEME, tag=b"tag")
    assert np.size(np.empty(plan.shape)) == 9001
    assert plan.dtype == np.dtype(np.float32)
    assert str(plan.scheme) == str(wc.Scheme.parse(SCHEME))
    for seed in (3, 2**64 - 1, 0):
        x = (tensor(np.float32) * np.float32(seed % 7 + 1)).reshape(plan.shape)
        blob = plan.encode(marked(x), seed=seed).get()
        assert isinstance(blob, OnGPU)
        assert blob.tobytes() == wc.encode(x, SCHEME, seed=seed, tag=b"tag").tobytes()


def test_the_seed_persists(standin: StandInDevice) -> None:
    plan, x = Plan(9001, np.float32, SCHEME), tensor(np.float32)
    there = marked(x.copy())
    plain, other = (wc.encode(x, SCHEME, seed=seed).tobytes() for seed in (0, 8))
    assert plan.encode(there).get().tobytes() == plain
    assert plan.encode(there, seed=8).get().tobytes() == other
    assert plan.encode(there).get().tobytes() == other
    plan.reseed(0)
    assert plan.encode(there).get().tobytes() == plain
    plan.seed[0] = 8
    assert plan.encode(there).get().tobytes() == other
    with pytest.raises(wc.EncodeError, match="seed"):
        plan.reseed("one")  # type: ignore[arg-type]


def test_a_new_container_invalidates_the_last(standin: StandInDevice) -> None:
    plan = Plan(9001, np.float32, SCHEME)
    first = plan.encode(marked(tensor(np.float32)))
    assert first.get().tobytes() == first.get().tobytes()
    second = plan.encode(marked(-tensor(np.float32)))
    with pytest.raises(ValueError, match="another container since"):
        first.get()
    assert second.get().tobytes() == wc.encode(-tensor(np.float32), SCHEME).tobytes()


def test_get_raises_errors_of_elements(standin: StandInDevice) -> None:
    x = tensor(np.float32)
    x[77] = np.nan
    pending = Plan(9001, np.float32, SCHEME).encode(marked(x))
    with pytest.raises(wc.EncodeError, match="element 77"):
        pending.get()


def test_bfloat16_with_limited_capacity(standin: StandInDevice) -> None:
    x = tensor(BFLOAT16)
    blob = Plan(9001, "bfloat16", "nonzero | rice | raw", capacity=8000).encode(marked(x)).get()
    assert blob.tobytes() == wc.encode(x, "nonzero | rice | raw").tobytes()


def test_encode_rejects_other_tensors(standin: StandInDevice) -> None:
    plan = Plan((30, 100), np.float32, SCHEME)
    assert repr(plan).startswith("Plan((30, 100), float32, 'topk(0.05)")
    x = np.ones((30, 100), np.float32)
    for given, said in (
        (
            marked(x.astype(np.float64)),
            r"the tensor is float64 of \(30, 100\); the plan is for float32 of",
        ),
        (marked(x.reshape(-1)), r"the tensor is float32 of \(3000,\)"),
        (marked(x.copy())[::-1], "not contiguous"),
        (x, "ndarray is not on a GPU"),
    ):
        with pytest.raises(wc.EncodeError, match=said):
            plan.encode(given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((9, np.int32, SCHEME), "int32"),
        ((9, np.float32, "redsync(0.1) | rice | raw"), "a plan has no redsync"),
        ((9, np.float32, None), "a plan has no auto-index"),
        ((0, np.float32, SCHEME), "1 to 2.31 - 1 elements"),
        (((2**16, 2**15), np.float32, SCHEME), "1 to 2.31 - 1 elements"),
        (((-1, -9), np.float32, SCHEME), "not a shape"),
        ((2.5, np.float32, SCHEME), "not a shape"),
        (("9", np.float32, SCHEME), "not a shape"),
        (((1,) * 33, np.float32, SCHEME), "33 dimensions"),
    ],
)
def test_unsupported_plans(given: tuple[Any, ...], said: str) -> None:
    """The checks need no GPU."""
    with pytest.raises(wc.EncodeError, match=said):
        Plan(*given)


@pytest.mark.parametrize("capacity", [0, -1, 1.5])
def test_invalid_capacity(capacity: Any) -> None:
    with pytest.raises(wc.EncodeError, match="capacity"):
        Plan(9, np.float32, SCHEME, capacity=capacity)


def test_without_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(wc.DeviceError, match=r"wirecodec\[cuda12\]"):
        Plan(9, np.float32, SCHEME)


def test_the_example_of_the_readme(
    standin: StandInDevice, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (code,) = re.findall(r"^```py\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)
    exec(compile(code, "README.md", "exec", dont_inherit=True), {})
    x, expected = np.zeros(100_000, np.float32), []
    for step in range(3):
        x[step::7] = 1 + step
        expected.append(wc.encode(x, "topk(0.01) | rice | qsgd(bits=4)", seed=step).nbytes)
    assert capsys.readouterr().out.split() == list(map(str, expected))


def test_a_tensor_on_another_gpu(standin: StandInDevice) -> None:
    class There(OnGPU):
        device = SimpleNamespace(id=1)

    plan = Plan(9001, np.float32, SCHEME)
    plan._plan.seed = plan.seed.view(There)
    with pytest.raises(wc.EncodeError, match="another GPU"):
        plan.encode(marked(tensor(np.float32)), seed=3)
    assert plan.seed.tolist() == [0]
