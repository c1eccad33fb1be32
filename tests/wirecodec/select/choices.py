"""The choice of a selector as a list of indices."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["SEED", "chosen"]


SEED = 2**64 - 3


def chosen(selector: Any, x: Any, **given: Any) -> list[int]:
    indices = selector.select(x, seed=SEED, **given).indices
    if indices is None:
        return list(range(x.size))
    assert indices.dtype == np.int32
    return [int(i) for i in indices]
