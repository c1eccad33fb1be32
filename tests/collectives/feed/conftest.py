"""Fixtures of feeds: a training, and stores, which the tests of rounds have."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.collectives.feed.weights import Training, start_training
from tests.collectives.store.conftest import s3, store

__all__ = ["s3", "store"]


@pytest.fixture
def training() -> Training:
    return start_training()


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return os.fspath(tmp_path / "store")
