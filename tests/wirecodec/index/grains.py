"""Supports that consist of whole grains."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

__all__ = ["grained"]


@st.composite
def grained(draw: st.DrawFn) -> tuple[int, Any]:
    """Draw (d, indices) of grains of any size and phase, parts at both ends included."""
    d = draw(st.integers(2, 1200))
    grain = draw(st.integers(1, min(d, 90)))
    phase = draw(st.integers(0, grain - 1))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    part = (np.arange(d) + grain - phase) // grain
    present = (rng.random(d + 2) < draw(st.sampled_from([0.05, 0.3, 0.5, 0.95])))[part]
    present[draw(st.integers(0, d - 1))] ^= not present.any() or present.all()
    return d, np.flatnonzero(present).astype(np.uint32)
