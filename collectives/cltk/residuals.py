"""Sums of gradients and residuals of CLT-k, and the memory in which they are computed."""

from __future__ import annotations

from typing import Any

import numpy as np

import wirecodec as wc
from collectives.device import find_gpu, stage_on_host
from collectives.transport.reduce import Dense
from wirecodec.interop import (
    AccumulatedGradient,
    Memory,
    accumulate,
    accumulate_on_gpu,
    aligned,
    copy_to_host,
)

MIN_KEPT = 2**16
"""Elements below which a new array costs less than its bookkeeping."""


def accumulate_in(
    memory: Memory,
    feedback: wc.ErrorFeedback,
    name: str,
    grad: Any,
    residual: Any,
    *,
    on_gpu: bool,
    selector: wc.selectors.TopK | None = None,
) -> AccumulatedGradient:
    """Add a tensor's residual to its gradient, in memory that is not the residual's.

    Args:
        memory: of the step.
        feedback: computes the next residual.
        name: of the tensor.
        grad: its gradient.
        residual: (size,) on any device, or None.
        on_gpu: whether all gradients are on one GPU, where the sum is then computed.
        selector: the selector whose ``top`` follows if this rank leads, else None.

    Raises EncodeError, which names the tensor, if an element is not finite or the sizes differ.
    """
    if on_gpu:
        total = accumulate_on_gpu(feedback, grad, residual, memory.searches, name)
        if total is not None:
            return total
    residual = on_host(residual)
    out = _find_memory(memory.sums, name, residual)
    return accumulate(feedback, stage_on_host(grad), residual, "clt-k", name, out, selector)


def _find_memory(sums: dict[str, list[Dense]], name: str, residual: Dense | None) -> Dense | None:
    """Return an array of the residual's size and type that is not the residual; None for small ones.

    A tensor has two arrays, which swap their roles after each successful step.
    """
    if residual is None or residual.size < MIN_KEPT:
        return None
    kept = [x for x in sums.get(name, []) if x.size == residual.size and x.dtype == residual.dtype]
    for x in kept:
        if not np.may_share_memory(x, residual):
            return x
    new: Dense = aligned(residual.size, residual.dtype)
    sums[name] = [*kept, new][-2:]
    return new


def on_host(residual: Any) -> Any:
    """Return a residual on the host: a finished copy if it is on a GPU; None for None."""
    gpu = None if residual is None else find_gpu(residual)
    if gpu is None:
        return residual
    gpu.synchronize()
    return copy_to_host(residual)
