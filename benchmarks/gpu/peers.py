"""Third-party selectors on a GPU: CuPy's, torch's, cuSPARSE's, and CUB's stream compaction in torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.gpu.cases import DENSITY, SENT_BYTES, TOPK_BYTES, Case
from benchmarks.gpu.trace import has_cuda

__all__ = ["TORCH_TOPK", "generate_peers"]

TORCH_TOPK = "torch.topk + gather"
ROWS = 1000
"""Rows of the matrix that cuSPARSE compresses."""


def generate_peers(cupy: Any, x: Any) -> Iterator[Case]:
    """Yield third-party selectors on a float32 array: those of torch if it has CUDA, and CuPy's."""
    threshold, k = float(-np.log(DENSITY)), int(DENSITY * x.size)  # the Laplace distribution's quantile
    if has_cuda():
        yield from _generate_torch(x, threshold, k)
    yield Case("cupy.argpartition", TOPK_BYTES, lambda: cupy.argpartition(cupy.abs(x), x.size - k)[-k:])
    yield Case("cupy.sort", TOPK_BYTES, lambda: cupy.sort(cupy.abs(x)))
    yield from _generate_cusparse(cupy, x, threshold)


def _generate_torch(x: Any, threshold: float, k: int) -> Iterator[Case]:
    """Yield top-k by radix selection, and compaction with CUB."""
    import torch

    tensor = torch.from_dlpack(x)
    yield Case(TORCH_TOPK, TOPK_BYTES, lambda: tensor[torch.topk(tensor.abs(), k, sorted=False)[1]])

    def run_nonzero() -> object:
        (indices,) = torch.nonzero(tensor.abs() > threshold, as_tuple=True)
        return indices, tensor[indices]

    yield Case("torch.nonzero + gather (CUB)", 4 + SENT_BYTES, run_nonzero)
    mask = tensor.abs() > threshold
    yield Case(
        "torch.masked_select (CUB), values only",
        4 + SENT_BYTES / 2,
        lambda: torch.masked_select(tensor, tensor.abs() > threshold),
    )
    yield Case(
        "torch.masked_select (CUB), mask given", 5 + SENT_BYTES / 2, lambda: torch.masked_select(tensor, mask)
    )


def _generate_cusparse(cupy: Any, x: Any, threshold: float) -> Iterator[Case]:
    """Yield cuSPARSE's conversion of a matrix whose small elements are zeros already."""
    from cupyx import cusparse

    columns = x.size // ROWS
    zeroed = cupy.where(cupy.abs(x) > threshold, x, np.float32(0))[: ROWS * columns]
    matrix = zeroed.reshape(columns, ROWS).T  # column by column in memory, as the conversion reads it
    yield Case(
        "cusparse.denseToSparse (CSC)", 4 + SENT_BYTES, lambda: cusparse.denseToSparse(matrix, format="csc")
    )
