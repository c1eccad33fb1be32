"""Whether a missing GPU is a reason to leave tests out, or a failure: REQUIRE_GPU=1 makes it a failure."""

from __future__ import annotations

import os
from functools import cache
from typing import NoReturn

import pytest

from wirecodec.errors import DeviceError

__all__ = ["gpu_required", "missing_gpu", "skip_or_fail"]


def gpu_required() -> bool:
    """Return whether REQUIRE_GPU is set."""
    return os.environ.get("REQUIRE_GPU", "0") not in ("", "0")


@cache
def missing_gpu() -> str | None:
    """Return the driver's reason why no GPU can be used, or None if one can."""
    from wirecodec.kernels.cuda.device import cupy_device

    try:
        cupy_device()
    except DeviceError as error:
        return str(error)
    return None


def skip_or_fail(reason: str) -> NoReturn:
    """Skip the test with the driver's reason, or fail it if a GPU is required."""
    if gpu_required():
        pytest.fail(f"REQUIRE_GPU is set: {reason}", pytrace=False)
    pytest.skip(reason)
