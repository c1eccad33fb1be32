"""What kernels run on in the tests of this folder: the emulator, in two orders of blocks, and a GPU."""

from __future__ import annotations

import pytest

from tests.gpu_emulated.emulator import Emulator, why_not
from tests.gpu_emulated.mirror import Mirror
from tests.gpu_required import gpu_required, missing_gpu, skip_or_fail
from wirecodec.errors import DeviceError
from wirecodec.kernels.cuda import nvrtc


def device(seed: int, resident: int) -> Emulator:
    """A device on this CPU; the test is skipped where there cannot be one."""
    if (why := why_not()) is not None:
        pytest.skip(why)
    return Emulator(seed, resident)


WITH_A_GPU = gpu_required() or missing_gpu() is None
DEVICES = ["alone", "together", *([pytest.param("on a GPU", marks=pytest.mark.gpu)] if WITH_A_GPU else [])]


@pytest.fixture(params=DEVICES)
def emulator(request: pytest.FixtureRequest) -> Emulator:
    """A device whose blocks run one or six at a time, and a real one."""
    if request.param == "on a GPU":
        try:
            return Mirror()
        except DeviceError as error:
            skip_or_fail(str(error))
    return device(1, 1) if request.param == "alone" else device(2, 6)


@pytest.fixture
def compiler() -> None:
    """NVRTC; the test is skipped where it is not installed."""
    try:
        nvrtc.version()
    except DeviceError as error:
        pytest.skip(str(error))


@pytest.fixture(params=["alone", "together"])
def probed(request: pytest.FixtureRequest) -> Emulator:
    """The emulator alone."""
    return device(1, 1) if request.param == "alone" else device(2, 6)
