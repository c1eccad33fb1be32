"""Named gradients of a small model, and the schemes of its tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

SCHEMES = {"*.bias": "all | raw-index | raw", "*": "topk(0.1) | rice | qsgd(bits=4)"}


def gradients(rng: np.random.Generator, dtype: Any = np.float32) -> dict[str, Any]:
    return {
        "fc.weight": rng.normal(size=(20, 30)).astype(dtype),
        "fc.bias": rng.normal(size=20).astype(dtype),
        "scale": np.asarray(rng.normal()).astype(dtype),
    }
