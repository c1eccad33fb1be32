"""Launching ``feedback.cu``: gradient + residual, and what is left of it (``wirecodec/feedback.py``).

Of float32 and float64, flat; all arrays of a call have one type.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.kernels.cuda.device import THREADS, Device, blocks_for
from wirecodec.kernels.cuda.select import Selected

__all__ = ["add", "clipped", "lowpass", "put_back", "subtract"]

_MOST = 2048
"""Blocks from where on each does more."""


def _name(kernel: str, x: Any) -> str:
    return f"{kernel}_f{8 * x.dtype.itemsize}"


def _bits(number: float, dtype: Any) -> Any:
    """A number, rounded to the type, as the word that a kernel takes."""
    kind = np.dtype(dtype)
    return np.uint64(np.array([number], kind).view(f"u{kind.itemsize}")[0])


def add(device: Device, gradient: Any, residual: Any, out: Any, *, gate: Any = None) -> Any:
    """(n,) ``out`` = gradient + residual; (1,) u32, whether a gradient was not finite, or a sum NaN.

    Other sums beyond the type's range are held at its end. ``gate``, (1,) u64: nothing is done where it is 0.
    """
    odd = device.empty(1, np.uint32)
    device.clear(odd)
    size, blocks = np.uint32(gradient.size), blocks_for(gradient.size, THREADS)
    device.launch("feedback", _name("add", out), blocks, gate, gradient, residual, size, out, odd)
    return odd


def clipped(device: Device, x: Any, most: float) -> Any:
    """(n,) finite ``x``, held between -most and most."""
    out = device.empty(x.size, x.dtype)
    size, blocks = np.uint32(x.size), blocks_for(x.size, THREADS)
    device.launch("feedback", _name("clip", x), blocks, x, size, _bits(most, x.dtype), out)
    return out


def subtract(device: Device, left: Any, indices: Any, sent: Any) -> None:
    """left[indices] -= sent, 0 where that is not finite; ``indices`` (k,) u32, or None for all."""
    size, blocks = np.uint32(sent.size), blocks_for(sent.size, THREADS)
    device.launch("feedback", _name("subtract", left), blocks, left, indices, sent, size)


def lowpass(
    device: Device,
    x: Any,
    residual: Any,
    weights: tuple[float, float],
    left: Any,
    indices: Any = None,
    sent: Any = None,
) -> None:
    """left = beta · (x - sent) + keep · residual, 0 where that is not finite.

    Args:
        device: where.
        x: (n,).
        residual: as many; nothing is added where it is None.
        weights: beta and keep, rounded to their type.
        left: as many; set at the indices alone.
        indices: (k,) u32, or None for all.
        sent: (k,), or None for 0.
    """
    size = x.size if sent is None else sent.size
    rounded = (_bits(weight, left.dtype) for weight in weights)
    given = x, residual, indices, sent, np.uint32(size), *rounded, left
    device.launch("feedback", _name("lowpass", left), blocks_for(size, THREADS), *given)


def put_back(device: Device, taken: Selected, rest: Any) -> None:
    """rest[indices] = what was taken there; (n,) words ``rest``, and as much as there was room for."""
    room = taken.indices.size
    name, blocks = f"put_back_u{8 * rest.dtype.itemsize}", blocks_for(room, THREADS, _MOST)
    device.launch("feedback", name, blocks, taken.found, np.uint32(room), taken.indices, taken.values, rest)
