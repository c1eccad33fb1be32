"""Fixture of a file with a gradient."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.wirecodec.cli.inputs import X


@pytest.fixture
def grad(tmp_path: Path) -> Path:
    np.save(tmp_path / "grad.npy", X)
    return tmp_path / "grad.npy"
