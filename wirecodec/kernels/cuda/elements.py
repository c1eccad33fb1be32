"""Launch ``elements.cu``: convert elements between types, rounding once; gather and scatter.

Results are raw bits (unsigned integers). Functions that narrow also return a flag: (1,) u32, the first
position at which a finite number became infinite, or ``NOWHERE``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.kernels.cuda.device import THREADS, Device, blocks_for

NOWHERE = 0xFFFFFFFF
_KERNEL_NAMES = {"float16": "f16", "bfloat16": "bf16"}


def to_float32(device: Device, raw: Any, kind: Any) -> tuple[Any, Any]:
    """Convert (n,) raw bits of the element type ``kind`` to those of float32, (n,) u32.

    Return them and the flag.
    """
    over = device.put(np.array([NOWHERE], np.uint32))
    name = np.dtype(kind).name
    if name == "float32":
        return raw, over
    out = device.empty(raw.size, np.uint32)
    size, blocks = np.uint32(raw.size), blocks_for(raw.size, THREADS)
    if name == "float64":
        device.launch("elements", "f32_from_f64", blocks, raw, size, out, over)
    else:
        device.launch("elements", f"f32_from_{_KERNEL_NAMES[name]}", blocks, raw, size, out)
    return out, over


def widen(device: Device, raw: Any, kind: Any) -> Any:
    """Convert (n,) raw bits of the type ``kind`` exactly, to float64 if it is that, else to float32."""
    if np.dtype(kind).name == "float64":
        return raw.view(np.float64)
    return to_float32(device, raw, kind)[0].view(np.float32)


def narrow(device: Device, raw: Any, stored: Any) -> tuple[Any, Any]:
    """Convert (n,) u32 or u64 raw bits to those of the 16-bit type ``stored``; return them and the flag."""
    over = device.put(np.array([NOWHERE], np.uint32))
    out = device.empty(raw.size, np.uint16)
    name = f"{_KERNEL_NAMES[np.dtype(stored).name]}_from_f{8 * raw.dtype.itemsize}"
    size = np.uint32(raw.size)
    device.launch("elements", name, blocks_for(raw.size, THREADS), raw, size, out, over)
    return out, over


def from_float32(device: Device, raw: Any, kind: Any) -> Any:
    """Convert (n,) u32 raw bits of float32 to raw bits of ``kind``, an element type that holds them all."""
    name = np.dtype(kind).name
    if name == "float32":
        return raw
    if name in _KERNEL_NAMES:
        return narrow(device, raw, kind)[0]
    out = device.empty(raw.size, np.uint64)
    size = np.uint32(raw.size)
    device.launch("elements", "f64_from_f32", blocks_for(raw.size, THREADS), raw, size, out)
    return out


def convert(device: Device, raw: Any, kind: Any, wanted: Any) -> Any:
    """Convert (n,) raw bits of the element type ``kind`` to float32 or float64, rounded if necessary."""
    if np.dtype(kind) != wanted:
        float32, _ = to_float32(device, raw, kind)
        raw = from_float32(device, float32, wanted)
    return raw.view(wanted)


def gather(device: Device, raw: Any, numbers: Any) -> Any:
    """Return the elements at (n,) u32 ``numbers``."""
    out = device.empty(numbers.size, raw.dtype)
    name = f"gather_u{8 * raw.dtype.itemsize}"
    blocks, size = blocks_for(numbers.size, THREADS), np.uint32(numbers.size)
    device.launch("elements", name, blocks, raw, numbers, size, out)
    return out


def scatter(device: Device, raw: Any, numbers: Any, size: int) -> Any:
    """Return (size,) elements: those given at (n,) u32 ``numbers``, 0 elsewhere."""
    out = device.empty(size, raw.dtype)
    device.clear(out)
    replace(device, out, numbers, raw)
    return out


def replace(device: Device, out: Any, numbers: Any, raw: Any) -> None:
    """Replace the elements at (n,) u32 ``numbers``, which are unique, by those of (n,) ``raw``."""
    name = f"scatter_u{8 * raw.dtype.itemsize}"
    blocks, count = blocks_for(numbers.size, THREADS), np.uint32(numbers.size)
    device.launch("elements", name, blocks, raw, numbers, count, out)


def set_magnitude(device: Device, raw: Any, magnitude: int, numbers: Any = None) -> Any:
    """Replace the magnitude of raw bits; the signs stay.

    Args:
        device: where the elements are.
        raw: (n,) raw bits.
        magnitude: raw bits of the new magnitude.
        numbers: (m,) u32, positions of the elements to return; None for all.
    """
    size = (raw if numbers is None else numbers).size
    out = device.empty(size, raw.dtype)
    name = f"set_magnitude_u{8 * raw.dtype.itemsize}"
    sizes = np.uint32(size), np.uint64(magnitude)
    device.launch("elements", name, blocks_for(size, THREADS), raw, numbers, *sizes, out)
    return out
