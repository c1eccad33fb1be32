"""Steps of a Compressor on the device: every scheme has the container and the state of the host's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from tests.gpu_emulated.compressor_pair import GRADIENTS, SCHEMES, SIZE, STAGED, STEPS, make_pair, step_both
from tests.gpu_emulated.standin import OnGPU, StandInDevice, marked, standin
from wirecodec.container import table
from wirecodec.cpu import chunk, fast
from wirecodec.gpu import chunk as gpu_chunk

__all__ = ["standin"]


@pytest.fixture(autouse=True)
def plain() -> Iterator[None]:
    """Take the plain way; ``test_batch`` tests the fast one."""
    with fast.off():
        yield


@pytest.mark.sampled
@pytest.mark.parametrize("beta", [1.0, 0.3])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_steps_have_the_bits_of_the_cpu(standin: StandInDevice, scheme: str, beta: float, dtype: Any) -> None:
    rng = np.random.default_rng(1)
    there, here = make_pair(scheme, feedback=wc.ErrorFeedback(beta))
    for _ in range(STEPS):
        step_both(there, here, {"w": rng.standard_normal(SIZE).astype(dtype)})
    residual = there.residual("w")
    assert scheme == "all | raw-index | raw" or isinstance(residual, OnGPU)


@pytest.mark.sampled
@pytest.mark.parametrize("kind", GRADIENTS)
@pytest.mark.parametrize("scheme", [SCHEMES[0], SCHEMES[1], SCHEMES[6], SCHEMES[9], SCHEMES[13]])
def test_gradients_of_every_shape(standin: StandInDevice, scheme: str, kind: str) -> None:
    for dtype in (np.float32, np.float64, np.float16):
        rng = np.random.default_rng(2)
        there, here = make_pair(scheme)
        for _ in range(STEPS):
            step_both(there, here, {"w": GRADIENTS[kind](rng).astype(dtype)})


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("scheme", STAGED)
def test_stages_without_kernels_run_on_the_host(standin: StandInDevice, scheme: str, dtype: Any) -> None:
    rng = np.random.default_rng(3)
    there, here = make_pair(scheme)
    for _ in range(3):
        step_both(there, here, {"w": rng.standard_normal(2000).astype(dtype)})


@pytest.mark.sampled
@pytest.mark.parametrize("size", [0, 1, 2, 40])
@pytest.mark.parametrize("scheme", [*SCHEMES[:3], *SCHEMES[6:12], "topk(k=3) | rice | raw"])
def test_few_elements(standin: StandInDevice, scheme: str, size: int) -> None:
    rng = np.random.default_rng(size)
    there, here = make_pair(scheme)
    for _ in range(3):
        step_both(there, here, {"w": rng.standard_normal((size, 1)).astype(np.float32)})


@pytest.mark.parametrize("scheme", SCHEMES)
def test_fused_entries(standin: StandInDevice, scheme: str) -> None:
    rng = np.random.default_rng(6)
    there, here = make_pair(scheme, fuse=1000)
    for _ in range(3):
        tensors = {
            name: rng.standard_normal(90 * (i + 1)).astype(np.float32) for i, name in enumerate("dbca")
        }
        tensors["none"] = np.zeros(70, np.float32)
        step_both(there, here, tensors)


@pytest.mark.parametrize("scheme", [SCHEMES[0], SCHEMES[3], SCHEMES[7], SCHEMES[14]])
@pytest.mark.parametrize("beta", [1.0, 0.3])
def test_several_chunks(
    standin: StandInDevice, scheme: str, beta: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Use shorter chunks, so that three of them take less than a minute."""
    for module in (table, chunk, gpu_chunk):
        monkeypatch.setattr(module, "CHUNK", 4096)
    rng = np.random.default_rng(15)
    there, here = make_pair(scheme, feedback=wc.ErrorFeedback(beta))
    for _ in range(3):
        x = rng.standard_normal(10_000).astype(np.float32)
        x[4096:8192] = 0
        step_both(there, here, {"w": x})


def test_the_last_threshold_is_used(standin: StandInDevice) -> None:
    """From the second step on, the search runs while residual and gradient are added."""
    rng = np.random.default_rng(7)
    there, here = make_pair("topk(0.02) | rice | raw")
    for number, factor in enumerate((1, 1, 1, 1e6, 1)):
        standin.launched.clear()
        step_both(there, here, {"w": (rng.laplace(size=SIZE) * factor).astype(np.float32)})
        assert ("begin_warm" in standin.launched) == (number > 0)
        assert ("flag_sum_f32" in standin.launched) == (number > 0)
    search = there._holder.memory.searches["w"]._search
    assert search is not None
    standin.launched.clear()
    step_both(there, here, {"w": rng.laplace(size=SIZE).astype(np.float64)})
    assert "begin_guess_u64" in standin.launched, "another type needs another search"


def test_adacomp_adds_and_selects_in_one_pass(standin: StandInDevice) -> None:
    rng = np.random.default_rng(8)
    there, here = make_pair("adacomp | rice | raw")
    for _ in range(2):
        standin.launched.clear()
        step_both(there, here, {"w": rng.standard_normal(SIZE).astype(np.float32)})
    assert "adacomp_f32" in standin.launched
    assert "add_f32" not in standin.launched


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
