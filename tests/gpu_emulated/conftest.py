"""Devices of the tests in this folder: the emulator, with two orders of blocks, and a GPU."""

from __future__ import annotations

import pytest

from tests.gpu_emulated.emulator import Emulator, why_not
from tests.gpu_emulated.mirror import Mirror
from tests.gpu_required import gpu_required, missing_gpu, skip_or_fail
from wirecodec.errors import DeviceError
from wirecodec.kernels.cuda import nvrtc


def device(seed: int, resident: int) -> Emulator:
    """Make a device on this CPU; skip the test if the machine cannot run one."""
    if (why := why_not()) is not None:
        pytest.skip(why)
    return Emulator(seed, resident)


WITH_A_GPU = gpu_required() or missing_gpu() is None
DEVICES = ["alone", "together", *([pytest.param("on a GPU", marks=pytest.mark.gpu)] if WITH_A_GPU else [])]


@pytest.fixture(params=DEVICES)
def emulator(request: pytest.FixtureRequest) -> Emulator:
    """Return a device that runs one or six blocks at a time, or a real one."""
    if request.param == "on a GPU":
        try:
            return Mirror()
        except DeviceError as error:
            skip_or_fail(str(error))
    return device(1, 1) if request.param == "alone" else device(2, 6)


@pytest.fixture
def compiler() -> None:
    """Require NVRTC; skip the test if it is not installed."""
    try:
        nvrtc.version()
    except DeviceError as error:
        pytest.skip(str(error))


@pytest.fixture(params=["alone", "together"])
def probed(request: pytest.FixtureRequest) -> Emulator:
    """Return an emulator, never a GPU."""
    return device(1, 1) if request.param == "alone" else device(2, 6)
