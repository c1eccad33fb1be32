"""A small tensor that the tests of the container share."""

from __future__ import annotations

import numpy as np

X = np.array([0, 1.5, 0, -2, 0, 0, 0.25, 0], np.float32)
