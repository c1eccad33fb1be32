"""Launch ``feedback.cu``: gradient + residual, and the next residual (``wirecodec.cpu.residual``).

Arrays are flat, float32 or float64; all arrays of a call have one type.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.kernels.cuda.device import THREADS, Device, blocks_for


def _name(kernel: str, x: Any) -> str:
    return f"{kernel}_f{8 * x.dtype.itemsize}"


def _bits(number: float, dtype: Any) -> Any:
    """Return a number, rounded to the type, as the raw bits that a kernel's argument holds."""
    kind = np.dtype(dtype)
    return np.uint64(np.array([number], kind).view(f"u{kind.itemsize}")[0])


def add(device: Device, gradient: Any, residual: Any, out: Any) -> Any:
    """Compute (n,) ``out`` = gradient + residual; sums beyond the type's range are clamped.

    Returns (1,) u32, whether a gradient is not finite or a sum is NaN.
    """
    bad = device.empty(1, np.uint32)
    device.clear(bad)
    size, blocks = np.uint32(gradient.size), blocks_for(gradient.size, THREADS)
    device.launch("feedback", _name("add", out), blocks, gradient, residual, size, out, bad)
    return bad


def clamp(device: Device, x: Any, bound: float) -> Any:
    """Clamp (n,) finite ``x`` to -bound … bound."""
    out = device.empty(x.size, x.dtype)
    size, blocks = np.uint32(x.size), blocks_for(x.size, THREADS)
    device.launch("feedback", _name("clip", x), blocks, x, size, _bits(bound, x.dtype), out)
    return out


def subtract(device: Device, left: Any, indices: Any, sent: Any) -> None:
    """Compute left[indices] -= sent, 0 if not finite; ``indices`` is (k,) u32, or None for all."""
    size, blocks = np.uint32(sent.size), blocks_for(sent.size, THREADS)
    device.launch("feedback", _name("subtract", left), blocks, left, indices, sent, size)


def filter_residual(
    device: Device,
    x: Any,
    residual: Any,
    weights: tuple[float, float],
    left: Any,
    indices: Any = None,
    sent: Any = None,
) -> None:
    """Compute left = beta · (x - sent) + keep · residual, 0 if not finite.

    Args:
        device: where the arrays are.
        x: (n,).
        residual: (n,); None adds nothing.
        weights: beta and keep, rounded to their type.
        left: (n,); only the elements at the indices are written.
        indices: (k,) u32, or None for all.
        sent: (k,), or None for 0.
    """
    size = x.size if sent is None else sent.size
    rounded = (_bits(weight, left.dtype) for weight in weights)
    given = x, residual, indices, sent, np.uint32(size), *rounded, left
    device.launch("feedback", _name("lowpass", left), blocks_for(size, THREADS), *given)


def accumulate_momentum(
    device: Device, gradient: Any, before: Any, weights: tuple[float, float], out: Any, ahead: Any
) -> Any:
    """Compute out = keep · before + factor · gradient, and ahead = keep · out + factor · gradient.

    Args:
        device: where the arrays are.
        gradient: (n,).
        before: (n,) the old momentum; None adds nothing.
        weights: keep and factor, rounded to their type.
        out: (n,).
        ahead: (n,), or None if it is not wanted.

    Returns (1,) u32, whether a result is not finite.
    """
    bad = device.empty(1, np.uint32)
    device.clear(bad)
    size, rounded = np.uint32(gradient.size), (_bits(weight, out.dtype) for weight in weights)
    given = gradient, before, size, *rounded, out, ahead, bad
    device.launch("feedback", _name("momentum", out), blocks_for(gradient.size, THREADS), *given)
    return bad


def clear_at(device: Device, left: Any, indices: Any) -> None:
    """Set left[indices] to 0; ``indices`` is (k,) u32, or None for all."""
    size = left.size if indices is None else indices.size
    if size:
        name, blocks = _name("clear_at", left), blocks_for(size, THREADS)
        device.launch("feedback", name, blocks, left, indices, np.uint32(size))
