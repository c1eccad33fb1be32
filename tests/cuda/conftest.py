"""The emulator, in several orders of blocks and threads."""

from __future__ import annotations

import pytest

from tests.cuda.emulator import Emulator, why_not


def device(seed: int, resident: int) -> Emulator:
    """A device on this CPU; the test is skipped where there cannot be one."""
    if (why := why_not()) is not None:
        pytest.skip(why)
    return Emulator(seed, resident)


@pytest.fixture(params=[(1, 1), (2, 6)], ids=["alone", "together"])
def emulator(request: pytest.FixtureRequest) -> Emulator:
    """A device whose blocks run one or six at a time."""
    return device(*request.param)
