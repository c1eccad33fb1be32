"""Launch ``adacomp.cu``: the largest element of each bin, and the elements that reach it.

Inputs are float32 or float64. Sums are computed in the order of the CPU's kernel, so the bits are the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.kernels.cuda.device import THREADS, Device, blocks_for

_WARPS = THREADS // 32


def mark_bins(
    device: Device,
    gradient: Any,
    residual: Any,
    width: int,
    factor: float,
    total: Any,
    *,
    summed: bool = False,
) -> tuple[Any, Any, Any]:
    """Mark the elements that AdaComp sends from bins of ``width`` elements.

    Args:
        device: where the elements are.
        gradient: (n,) float32 or float64, n > 0.
        residual: (n,), or None.
        width: elements per bin.
        factor: H = G + factor · gradient, G = residual + gradient.
        total: (n,), receives G; it may be ``residual``.
        summed: whether ``total`` holds G already; then ``residual`` is not read.

    Returns (n,) u16, 1 for each element to send; (1,) float64, the scale; (1,) u32, whether an element is not
    finite.
    """
    kind = np.dtype(gradient.dtype)
    count = blocks_for(gradient.size, width)
    keys, tops = device.empty(gradient.size, np.uint16), device.empty(count, np.uint64)
    mean, bad = device.empty(1, np.float64), device.empty(1, np.uint32)
    device.clear(bad)
    numbers = (
        np.uint32(summed),
        np.uint32(gradient.size),
        np.uint32(width),
        np.array([factor], kind).view(f"u{kind.itemsize}")[0],
    )
    name = f"adacomp_f{8 * kind.itemsize}"
    blocks = blocks_for(count, _WARPS)
    device.launch("adacomp", name, blocks, gradient, residual, *numbers, total, keys, tops, bad)
    wide = np.uint32(kind.itemsize == 8)
    device.launch("adacomp", "adacomp_scale", 1, tops, np.uint32(count), wide, mean)
    return keys, mean, bad
