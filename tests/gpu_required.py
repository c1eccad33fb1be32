"""Whether a missing GPU is a reason to skip, or a failure: REQUIRE_GPU=1 says the latter."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

__all__ = ["skip_or_fail"]


def skip_or_fail(reason: str) -> NoReturn:
    """Skip the test with the driver's reason; fail it where a GPU is required."""
    if os.environ.get("REQUIRE_GPU", "0") not in ("", "0"):
        pytest.fail(f"REQUIRE_GPU is set: {reason}", pytrace=False)
    pytest.skip(reason)
