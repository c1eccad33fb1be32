"""Launch ``moments.cu``: sums for the selectors that fit a distribution, samples for those that sample.

Inputs are float32 or float64. Sums are computed in the order of the CPU's kernels, so that the bits are the
same.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.kernels.cuda.device import THREADS, Device, blocks_for
from wirecodec.kernels.cuda.prng import stream_words

SQUARES_ROW = 65536

_ROW, _LANES = 4096, 64


def _bits(x: float) -> Any:
    """Return the raw bits of a float64."""
    return np.float64(x).view(np.uint64)


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


def sum_squares(device: Device, raw: Any, out: Any) -> None:
    """Compute Σ x² of each row of ``SQUARES_ROW`` elements, as ``cpu.momentum.sum_squares`` adds them.

    Args:
        device: where the elements are.
        raw: (n,) u32 or u64, raw bits of float32 or float64 numbers; n > 0.
        out: (rows,) float64; written.
    """
    name, blocks = f"squares_u{8 * raw.dtype.itemsize}", blocks_for(out.size, THREADS // _LANES)
    device.launch("moments", name, blocks, raw, np.uint64(raw.size), out)


def sample(device: Device, raw: Any, stream: int, out: Any) -> None:
    """Draw one element from each of n stretches of equal length, into (n,) ``out``.

    The u64 ``stream`` seeds the draws.
    """
    name = f"sample_u{8 * raw.dtype.itemsize}"
    size = np.uint64(raw.size), np.uint32(out.size)
    blocks = blocks_for(out.size, THREADS)
    device.launch("moments", name, blocks, raw, *size, *stream_words(stream), out)
