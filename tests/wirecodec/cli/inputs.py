"""Gradient and network of the tests of the command line."""

from __future__ import annotations

import numpy as np

__all__ = ["AT_1_GBIT", "X"]

X = np.where(np.arange(1000) % 9 == 0, np.arange(1000) - 500.0, 0).astype(np.float32).reshape(10, 100)
AT_1_GBIT = ("--bandwidth", "1Gbit", "--ranks", "4")
