"""The GPU benchmark refuses without a GPU, and its arithmetic with one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import gpu
from tests.gpu_required import skip_or_fail
from wirecodec.errors import DeviceError
from wirecodec.kernels.cuda.device import cupy_device


def test_without_a_gpu_it_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse() -> Any:
        raise DeviceError("no GPU can be used: the driver's reason")

    monkeypatch.setattr(gpu, "cupy_device", refuse)
    monkeypatch.setattr("benchmarks.measure.RESULTS", tmp_path)
    monkeypatch.setattr(sys, "argv", ["gpu"])
    with pytest.raises(SystemExit, match="nothing was measured: no GPU can be used: the driver's reason"):
        gpu.main()
    assert not list(tmp_path.iterdir())


@pytest.mark.gpu
def test_every_kernel_is_timed() -> None:
    try:
        device = cupy_device()
    except DeviceError as error:
        skip_or_fail(str(error))
    found = list(gpu.rows(device, 1_000_000))
    assert {row[0] for row in found} >= {"copy", "qsgd", "exact top k, warm", "residual + select + rice"}
    assert all(float(row[2]) > 0 for row in found)
    assert np.isfinite([float(row[2]) for row in found]).all()
