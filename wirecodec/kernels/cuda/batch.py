"""Tables that the kernels of ``batch.cu`` read: tensors, entries of a container, and their places."""

from __future__ import annotations

import numpy as np

TENSOR = np.dtype(
    [
        *(
            (name, np.uint64)
            for name in (
                "gradient",
                "residual",
                "total",
                "search",
                "counts",
                "tiles",
                "kept_tiles",
                "indices",
                "values",
                "kept_indices",
                "kept_values",
                "status",
            )
        ),
        *((name, np.uint32) for name in ("size", "k", "capacity", "unused")),
    ]
)
ENTRY = np.dtype(
    [
        *(
            (name, np.uint64)
            for name in (
                "indices",
                "values",
                "parameters",
                "quotients",
                "spans",
                "words",
                "section",
                "total",
                "sent",
                "report",
                "status",
            )
        ),
        *((name, np.uint32) for name in ("base", "d", "k", "size", "low", "high", "first", "r")),
    ]
)
PLACE = np.dtype([(name, np.uint64) for name in ("index", "value", "stop", "value_words")])
STATUS = 9
"""u32 words of a tensor's status."""
KEPT_FIRST, BAD, NONZERO, RETRY = 5, 6, 7, 8
"""Words of the status: first of the top k that is not finite, any sum that is not, any gradient that is not 0,
and whether the candidates did not hold the top k."""
SUFFIX = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}
