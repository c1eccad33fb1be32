"""Error feedback: the part of a gradient that was not sent is kept, and added to the next gradient.

The arithmetic is in ``wirecodec.cpu.residual`` and ``wirecodec.gpu.residual``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from wirecodec.errors import EncodeError
from wirecodec.validation import as_real, set_fields

__all__ = ["ErrorFeedback"]


@dataclass(frozen=True)
class ErrorFeedback:
    """Error feedback with an optional low-pass filter.

    The residual m of a tensor becomes (1 - beta) * m + beta * (m + gradient - sent). With beta 1, everything
    that was not sent is kept. A smaller beta is a low-pass filter (ScaleCom, Algorithm 1) for large batches.

    Args:
        beta: weight of the newest step, above 0 and at most 1.

    Raises:
        EncodeError: if beta is out of range.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> compressor = wc.Compressor("topk(k=1) | rice | raw", feedback=wc.ErrorFeedback(beta=1.0))
        >>> _ = compressor.compress({"w": np.array([3, 1, 2], np.float32)})
        >>> compressor.residual("w")
        array([0., 1., 2.], dtype=float32)
    """

    beta: float = 1.0

    def __post_init__(self) -> None:
        set_fields(self, beta=as_real(self.beta, "feedback: beta"))
        if not 0 < self.beta <= 1:
            raise EncodeError(f"feedback: beta is {self.beta!r}; it must be above 0 and at most 1")

    def sum_dtype(self, gradient: np.dtype[Any], residual: np.dtype[Any] | None) -> np.dtype[Any]:
        """Return the type of gradient + residual: the wider of both, and at least float32."""
        dtype: np.dtype[Any] = np.result_type(gradient, np.float32)
        return dtype if residual is None else np.result_type(dtype, residual)
