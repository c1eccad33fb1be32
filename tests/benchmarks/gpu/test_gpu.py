"""GPU benchmark: exit without a GPU, a run on a stand-in device, speed-ups."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wirecodec as wc
from benchmarks.gpu import __main__ as gpu
from benchmarks.gpu import figure16, kernels, timing
from tests.gpu_emulated.standin import StandInDevice, standin
from tests.gpu_required import skip_or_fail
from wirecodec.kernels.cuda.device import cupy_device

__all__ = ["standin"]


def test_exit_without_a_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail() -> Any:
        raise wc.DeviceError("no GPU can be used: the driver's reason")

    monkeypatch.setattr(gpu, "cupy_device", fail)
    monkeypatch.setattr("benchmarks.common.results.RESULTS", tmp_path)
    with pytest.raises(SystemExit, match="nothing was measured: no GPU can be used: the driver's reason"):
        gpu.main([])
    assert not list(tmp_path.iterdir())


@pytest.fixture
def clocked(standin: StandInDevice, monkeypatch: pytest.MonkeyPatch) -> StandInDevice:
    """Stand-in with the CuPy functions that the benchmark uses; every call takes 2 ms."""
    cupy = standin.cupy
    runtime = cupy.cuda.runtime
    runtime.getDeviceProperties = lambda number: {"name": b"a stand-in"}
    cupy.__version__ = "0"
    cupy.zeros_like = cupy.empty_like = lambda x: standin.put(np.zeros(x.shape, x.dtype))
    cupy.abs, cupy.sort, cupy.argpartition = np.abs, np.sort, np.argpartition

    def draw_laplace(module: Any, size: int) -> Any:
        return standin.put(np.random.default_rng(0).laplace(size=size).astype(np.float32))

    def measure_event_time(module: Any, call: Any) -> float:
        call()
        call()
        return 2.0

    monkeypatch.setattr(gpu, "cupy_device", lambda: standin)
    monkeypatch.setattr(timing, "draw_laplace", draw_laplace)
    monkeypatch.setattr(timing, "measure_event_time", measure_event_time)
    return standin


@pytest.mark.sweep
def test_run_on_a_stand_in(clocked: StandInDevice, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Every case runs and the page and picture are written, with artificial times."""
    monkeypatch.setattr("benchmarks.common.results.RESULTS", tmp_path)
    gpu.main(["--elements", "20000", "--figure", "3000", "9000"])
    text = (tmp_path / "gpu.md").read_text()
    assert "a stand-in" in text
    for case in ("exact top-k, warm", "residual + exact top-k, warm + rice + qsgd", "Compressor step"):
        assert case in text
    for name in ("topk, warm", "dgc", "sidco, gp", "sidco, one stage", "cupy.argpartition"):
        assert f"| {name}, 9,000 | 1.00× (2.000 ms) |" in text
    assert {"select_sum_f32", "begin_warm", "fold_sums", "sample_u32"} <= set(clocked.launched)
    if importlib.util.find_spec("matplotlib"):
        assert (tmp_path / "gpu.png").read_bytes().startswith(b"\x89PNG")


def test_speed_ups_use_the_same_vector_and_density() -> None:
    measured = [
        figure16.SelectorTime(name, elements, density, ms * elements * density)
        for name, ms in (("sidco", 0.5), ("cupy.argpartition", 3.0), ("torch.topk + gather", 1.5))
        for elements in (1000, 5000)
        for density in (0.1, 0.01)
    ]
    assert {figure16.compute_speed_up(measured, each) for each in measured} == {3.0, 0.5, 1.0}
    assert figure16.find_baseline(measured) == "torch.topk + gather"
    assert figure16.format_table(measured).count("3.00×") == 4


@pytest.mark.gpu
def test_every_kernel_is_timed() -> None:
    try:
        device = cupy_device()
    except wc.DeviceError as error:
        skip_or_fail(str(error))
    found = list(kernels.measure_rows(device, 1_000_000))
    assert {row[0] for row in found} >= {"copy", "qsgd", "exact top-k, warm", "residual + select + rice"}
    assert any("warm + rice + qsgd" in row[0] for row in found)
    assert all(float(row[2]) > 0 for row in found)
    assert np.isfinite([float(row[2]) for row in found]).all()
