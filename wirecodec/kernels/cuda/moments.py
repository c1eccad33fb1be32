"""Launch ``moments.cu`` and ``adacomp.cu``: sums, samples and bins for the selectors that fit or sample.

Inputs are float32 or float64. Sums are computed in the order of the CPU's kernels, so that the bits are the
same.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.kernels.cuda.device import THREADS, Device, blocks_for
from wirecodec.kernels.cuda.prng import stream_words

__all__ = ["mark_bins", "sample", "sum_moments"]

_ROW, _LANES = 4096, 64
_WARPS = THREADS // 32


def _bits(x: float, dtype: Any = np.float64) -> Any:
    kind = np.dtype(dtype)
    return np.array([x], kind).view(f"u{kind.itemsize}")[0]


def sum_moments(
    device: Device, raw: Any, low: int, high: int, origin: float, scale: float
) -> tuple[Any, Any]:
    """Sum the keys from ``low`` to below ``high``.

    Args:
        device: where the elements are.
        raw: (n,) u32 or u64, raw bits of float32 or float64 numbers x.
        low: a key, which is the raw bits of a magnitude.
        high: another.
        origin: y = |x| · scale - origin.
        scale: a power of two.

    Returns (3,) float64: the count, Σ y and Σ y²; and (1,) u64, the largest key.
    """
    rows = 1 + blocks_for(raw.size // _LANES * _LANES, _ROW)
    each, top = device.empty(3 * rows, np.float64), device.empty(1, np.uint64)
    device.clear(top)
    device.launch(
        "moments",
        f"sums_u{8 * raw.dtype.itemsize}",
        blocks_for(rows, THREADS // _LANES),
        raw,
        np.uint32(raw.size),
        np.uint64(low),
        np.uint64(high),
        _bits(origin),
        _bits(scale),
        each,
        top,
    )
    out = device.empty(3, np.float64)
    device.launch("moments", "fold_sums", 1, each, np.uint32(rows), out)
    return out, top


def sample(device: Device, raw: Any, stream: Any, out: Any) -> None:
    """Draw one element from each of n stretches of equal length, into (n,) ``out``.

    ``stream`` seeds the draws, a u64 or (1,) u64 on the device.
    """
    name = f"sample_u{8 * raw.dtype.itemsize}"
    size = np.uint64(raw.size), np.uint32(out.size)
    blocks = blocks_for(out.size, THREADS)
    device.launch("moments", name, blocks, raw, *size, *stream_words(stream), out)


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
    numbers = np.uint32(summed), np.uint32(gradient.size), np.uint32(width), _bits(factor, kind)
    name = f"adacomp_f{8 * kind.itemsize}"
    blocks = blocks_for(count, _WARPS)
    device.launch("adacomp", name, blocks, gradient, residual, *numbers, total, keys, tops, bad)
    wide = np.uint32(kind.itemsize == 8)
    device.launch("adacomp", "adacomp_scale", 1, tops, np.uint32(count), wide, mean)
    return keys, mean, bad
