"""Registers the launcher of multi-rank tests (tests/mpi_launch.py); the fixtures that several folders
share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from tests import mpi_launch

DATA = Path(__file__).parent / "data"
DTYPES = [np.dtype(np.float32), np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16), np.dtype(np.float64)]


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(mpi_launch.make_plugin(), "mpi-launch")


@pytest.fixture
def rng() -> np.random.Generator:
    """A fresh generator for each test."""
    return np.random.default_rng(20)


@pytest.fixture(params=DTYPES, ids=str)
def dtype(request: pytest.FixtureRequest) -> np.dtype[Any]:
    """Each element type of the wire format."""
    found: np.dtype[Any] = request.param
    return found


@pytest.fixture(params=sorted(path.stem for path in DATA.glob("*.npy")))
def gradient(request: pytest.FixtureRequest) -> npt.NDArray[np.float32]:
    """Each real gradient in tests/data."""
    found: npt.NDArray[np.float32] = np.load(DATA / f"{request.param}.npy")
    return found
