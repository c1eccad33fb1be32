"""GPU benchmark: exit without a GPU, a run on a stand-in device, speed-ups."""

from __future__ import annotations

import importlib.util
import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import wirecodec as wc

pytest.importorskip("rich", reason="benchmarks need the extra [bench]")

from benchmarks.gpu import __main__ as gpu
from benchmarks.gpu import figure16, kernels, rows, steps, timing
from benchmarks.gpu.cases import KernelTime
from benchmarks.gpu.model import build_model, list_shapes
from benchmarks.gpu.targets import LARGE, check_targets
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
def clocked(standin: StandInDevice, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> StandInDevice:
    """Stand-in with the CuPy functions that the benchmark uses; every call takes 2 ms."""
    cupy = standin.cupy
    runtime = cupy.cuda.runtime
    runtime.getDeviceProperties = lambda number: {"name": b"a stand-in"}
    runtime.runtimeGetVersion = lambda: 13000
    cupy.__version__ = "0"
    cupy.zeros_like = cupy.empty_like = lambda x: standin.put(np.zeros(x.shape, x.dtype))
    cupy.abs, cupy.sort, cupy.argpartition, cupy.where = np.abs, np.sort, np.argpartition, np.where
    cupy.get_default_memory_pool = lambda: SimpleNamespace(free_all_blocks=lambda: None)

    def draw_laplace(module: Any, size: int) -> Any:
        return standin.put(np.random.default_rng(0).laplace(size=size).astype(np.float32))

    def call_twice(module: Any, call: Any) -> float:
        call()
        call()
        return 2.0

    monkeypatch.setattr(gpu, "cupy_device", lambda: standin)
    monkeypatch.setattr(timing, "draw_laplace", draw_laplace)
    monkeypatch.setattr(timing, "measure_event_time", call_twice)
    monkeypatch.setattr(timing, "measure_host_time", call_twice)
    monkeypatch.setattr("benchmarks.common.results.RESULTS", tmp_path)
    return standin


@pytest.mark.sweep
def test_run_on_a_stand_in(clocked: StandInDevice, tmp_path: Path) -> None:
    """Every case runs and the page and picture are written, with artificial times."""
    gpu.main(["--quick", "--seconds", "900", "--rows", str(tmp_path / "rows")])
    text = (tmp_path / "gpu.md").read_text()
    assert "a stand-in" in text
    for case in ("exact top-k, warm", "residual + exact top-k, warm + rice + qsgd", "Compressor step"):
        assert f"| {case}" in text
    assert "| decode_add of a container on the host | 20,000 | 2.000 | 1.00 |" in text
    assert "| encode: at most 3 copies | 1.00 copies | yes |  |" in text
    assert "| diff, kernels: at most 6 copies | 1.00 copies | yes |  |" in text
    assert "| apply | 20,000 |" in text
    assert "| 3 × small | float32 | `topk(0.01) \\| rice \\| qsgd` | `compress` | 2.000 |" in text
    for name in ("topk, warm", "dgc", "sidco, gp", "sidco, one stage", "cupy.argpartition"):
        assert f"| {name}, 9,000 | 1.00× (2.000 ms) |" in text
    assert {"flag_sum_f32", "begin_warm", "fold_sums", "sample_u32"} <= set(clocked.launched)
    failed = [line for line in text.splitlines() if line.startswith("Failed")]
    lacking = "Failed: cusparse", "Failed: peers", "Failed: training: DeviceError: torch is not installed"
    assert all(line.startswith(lacking) for line in failed), failed
    if importlib.util.find_spec("matplotlib"):
        assert (tmp_path / "gpu.png").read_bytes().startswith(b"\x89PNG")


def test_a_section_and_its_report(
    clocked: StandInDevice, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Rows are kept on disk, and formatted without a device."""
    folder = tmp_path / "rows"
    gpu.main(["--quick", "--only", "figure", "--rows", str(folder)])
    first = (tmp_path / "gpu.md").read_text()
    assert [path.name for path in folder.iterdir()] == ["figure.json"]
    monkeypatch.setattr(gpu, "cupy_device", lambda: pytest.fail("a report needs no device"))
    gpu.main(["--report", "--rows", str(folder)])
    assert (tmp_path / "gpu.md").read_text() == first
    assert first.count("Nothing was measured.") == 3


def test_rows_survive_an_interrupt_a_failure_and_the_end_of_time(tmp_path: Path) -> None:
    path, shown = tmp_path / "deep" / "figure.json", list[str]()

    def fail() -> list[Any]:
        raise RuntimeError("out of memory")

    def interrupt() -> list[Any]:
        raise KeyboardInterrupt

    def prepare() -> Iterator[rows.Job]:
        yield rows.Job("one", lambda: [figure16.SelectorTime("topk", 10, 0.1, 3.0)])
        raise ValueError("no such array")

    jobs = [*rows.guard("all", prepare()), rows.Job("two", fail), rows.Job("three", interrupt)]
    with pytest.raises(KeyboardInterrupt):
        rows.measure(path, "a machine", jobs, 100.0, shown.append)
    found = rows.load(path)
    assert found is not None
    assert rows.make(figure16.SelectorTime, found) == [figure16.SelectorTime("topk", 10, 0.1, 3.0)]
    assert [name for name, _ in found.failures] == ["all", "two"]
    assert found.failures[1][1].startswith("RuntimeError: out of memory (test_gpu.py:")
    assert shown == ["one", "all", "two", "three"]
    rows.measure(path, "a machine", jobs[:1], -1.0, shown.append)
    found = rows.load(path)
    assert found is not None
    assert (found.rows, found.complete) == ([], False)


def test_calls_are_counted_where_the_library_makes_them(standin: StandInDevice) -> None:
    x = standin.put(np.arange(3000, dtype=np.float32))

    def step() -> None:
        wc.encode(x, "topk(0.01) | rice | qsgd")

    step()
    before, fetched = len(standin.launched), len(standin.fetched)
    launches, waits = steps.count_calls(standin, step)  # type: ignore[arg-type]
    assert launches == len(standin.launched) - before
    assert waits == len(standin.fetched) - fetched > 0
    nothing = steps.count_calls(
        standin,  # type: ignore[arg-type]
        lambda: standin.launch("checksum", "crc32", 0, None, np.uint64(0), None),
    )
    assert nothing == (0, 0)
    assert StandInDevice.launch.__name__ == "launch"


def test_targets_have_the_worst_size_and_the_ratio_to_the_peer() -> None:
    times = [
        KernelTime("exact top-k, cold", LARGE, 8, 2.1, 1.0),
        KernelTime("exact top-k, warm", LARGE, 4.1, 1.2, 1.0),
        KernelTime("torch.topk + gather", LARGE, 8, 13.0, 1.0),
        KernelTime("encode", 1000, 4.1, 3.5, 1.0),
        KernelTime("encode", LARGE, 4.1, 2.5, 1.0),
        KernelTime("decode_add", LARGE, 4, 0.7, 1.0),
    ]
    found = {each.target: each for each in check_targets(times)}
    assert found["encode: at most 3 copies"].worst == "3.50 copies"
    assert found["encode: at most 3 copies"].met is False
    assert found["top-k of 1 % of 260M: at most 2 copies"].case == "exact top-k, cold (1 of 2)"
    ratio = found["top-k of 1 % of 260M: at least 10 times as fast as torch.topk + gather"]
    assert (ratio.worst, ratio.met) == ("6.2×", False)
    assert found["decode_add: at most 1.5× the time of its minimum traffic"].worst == "1.40×"
    assert found["qsgd: at least 70% of the copy bandwidth"].met is None


def test_sectors() -> None:
    assert kernels.count_sectors(np.array([], np.int32)) == 0
    assert kernels.count_sectors(np.array([0, 7, 8, 15, 31], np.int32)) == 3


def test_shapes_of_the_model() -> None:
    assert len(list_shapes()) == 148
    assert sum(int(np.prod(shape)) for shape in list_shapes()) == 124_475_904
    pytest.importorskip("torch", reason="torch is not installed")
    model = build_model(True)
    assert sorted(map(tuple, (p.shape for p in model.parameters()))) == sorted(list_shapes(2, 64))


def test_slow_calls_are_made_three_times(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = itertools.count()
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(ticks)))
    calls = itertools.count()
    timing.repeat(lambda: float(next(calls)))
    assert next(calls) == 1 + timing.FEWEST_CALLS


def test_speed_ups_use_the_same_vector_and_density() -> None:
    measured = [
        figure16.SelectorTime(name, elements, density, ms * elements * density)
        for name, ms in (("sidco", 0.5), ("cupy.argpartition", 3.0), ("torch.topk + gather", 1.5))
        for elements in (figure16.SHOWN_SIZE, 5 * figure16.SHOWN_SIZE)
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
    jobs = kernels.generate_jobs(device, [1_000_000])
    made = [row for job in jobs if not job.name.startswith(("cusparse", "peers")) for row in job.run()]
    assert {"copy", "qsgd", "exact top-k, warm", "residual + select + rice", "decode_add"} <= {
        row.name for row in made
    }
    assert all(row.ms > 0 and np.isfinite(row.ms) for row in made)


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore::UserWarning")  # those of torch's profiler
def test_every_step_is_timed() -> None:
    try:
        device = cupy_device()
    except wc.DeviceError as error:
        skip_or_fail(str(error))
    made = [row for job in steps.generate_jobs(device, quick=True) for row in job.run()]
    assert {row.place for row in made} == {"GPU", "host"}
    assert all(row.launches > 0 and row.waits > 0 for row in made if row.place == "GPU")
