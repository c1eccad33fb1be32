"""all: every element, whatever its value."""

from __future__ import annotations

import numpy as np

import wirecodec as wc


def test_all_is_every_element() -> None:
    assert wc.selectors.All().select(np.array([np.nan, 0, 1], np.float32)).indices is None
