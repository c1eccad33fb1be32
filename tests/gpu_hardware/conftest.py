"""Every test in this folder needs CuPy and a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.gpu_required import skip_or_fail
from wirecodec.errors import DeviceError
from wirecodec.kernels.cuda.device import cupy_device

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)  # before tests of a GPU are left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.gpu)


@pytest.fixture(scope="session")
def cupy() -> Any:
    """Return the module; skip the test on a machine without a GPU."""
    try:
        return cupy_device().cupy
    except DeviceError as error:
        skip_or_fail(str(error))
