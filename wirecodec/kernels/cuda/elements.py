"""Launching ``narrow.cu``: elements of one type as another, rounded once; gathering and scattering.

Results are unsigned words, the bits of numbers; of the first ``count[0]`` where a count is given. What
narrows returns a flag beside them: (1,) u32, the first position at which a finite number became infinite,
``NOWHERE`` where there is none.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.kernels.cuda.device import THREADS, Device, blocks_for

__all__ = [
    "NOWHERE",
    "as_single",
    "converted",
    "from_single",
    "gathered",
    "narrowed",
    "rounded",
    "scattered",
    "widened",
    "with_magnitude",
]

NOWHERE = 0xFFFFFFFF
_HALVES = {"float16": "half", "bfloat16": "bfloat16"}


def as_single(device: Device, words: Any, kind: Any, count: Any = None) -> tuple[Any, Any]:
    """(n,) words of the element type ``kind`` as (n,) u32 of binary32, and the flag."""
    over = device.put(np.array([NOWHERE], np.uint32))
    name = np.dtype(kind).name
    if name == "float32":
        return words, over
    out = device.empty(words.size, np.uint32)
    size, blocks = np.uint32(words.size), blocks_for(words.size, THREADS)
    if name == "float64":
        device.launch("narrow", "single_from_f64", blocks, words, size, count, out, over)
    else:
        device.launch("narrow", f"single_from_{_HALVES[name]}", blocks, words, size, count, out)
    return out, over


def widened(device: Device, words: Any, kind: Any, count: Any = None) -> Any:
    """(n,) words of the element type ``kind`` as numbers: float64 as it is, others as float32, exactly."""
    if np.dtype(kind).name == "float64":
        return words.view(np.float64)
    return as_single(device, words, kind, count)[0].view(np.float32)


def narrowed(device: Device, words: Any, stored: Any, count: Any = None) -> tuple[Any, Any]:
    """(n,) u32 or u64 words as (n,) u16 of the 16-bit type ``stored``, and the flag."""
    over = device.put(np.array([NOWHERE], np.uint32))
    out = device.empty(words.size, np.uint16)
    name = f"{_HALVES[np.dtype(stored).name]}_from_f{8 * words.dtype.itemsize}"
    size = np.uint32(words.size)
    device.launch("narrow", name, blocks_for(words.size, THREADS), words, size, count, out, over)
    return out, over


def from_single(device: Device, words: Any, kind: Any) -> Any:
    """(n,) u32 words of binary32 as words of the element type ``kind``, which must hold them all."""
    name = np.dtype(kind).name
    if name == "float32":
        return words
    if name in _HALVES:
        return narrowed(device, words, kind)[0]
    out = device.empty(words.size, np.uint64)
    size = np.uint32(words.size)
    device.launch("narrow", "double_from_single", blocks_for(words.size, THREADS), words, size, out)
    return out


def converted(device: Device, words: Any, kind: Any, wanted: Any) -> Any:
    """(n,) words of the element type ``kind`` as numbers, float32 or float64, rounded where they must be."""
    if np.dtype(kind) != wanted:
        single, _ = as_single(device, words, kind)
        words = from_single(device, single, wanted)
    return words.view(wanted)


def gathered(device: Device, words: Any, numbers: Any, count: Any = None) -> Any:
    """The words at (n,) u32 ``numbers``."""
    out = device.empty(numbers.size, words.dtype)
    name = f"gather_u{8 * words.dtype.itemsize}"
    blocks, size = blocks_for(numbers.size, THREADS), np.uint32(numbers.size)
    device.launch("narrow", name, blocks, words, numbers, size, count, out)
    return out


def scattered(device: Device, words: Any, numbers: Any, size: int) -> Any:
    """(size,) words: these at their (n,) u32 ``numbers``, 0 elsewhere."""
    out = device.empty(size, words.dtype)
    device.clear(out)
    name = f"scatter_u{8 * words.dtype.itemsize}"
    blocks, count = blocks_for(numbers.size, THREADS), np.uint32(numbers.size)
    device.launch("narrow", name, blocks, words, numbers, count, out)
    return out


def with_magnitude(device: Device, words: Any, magnitude: Any, numbers: Any = None, count: Any = None) -> Any:
    """Words with their signs, all else the bits of one magnitude.

    Args:
        device: where.
        words: (n,).
        magnitude: an integer, or (1,) word on the device.
        numbers: (m,) u32, whose words; None for all of them.
        count: see above.
    """
    size = (words if numbers is None else numbers).size
    out = device.empty(size, words.dtype)
    given = (np.uint64(magnitude), None) if isinstance(magnitude, int) else (np.uint64(0), magnitude)
    name = f"signed_u{8 * words.dtype.itemsize}"
    blocks = blocks_for(size, THREADS)
    device.launch("narrow", name, blocks, words, numbers, np.uint32(size), count, *given, out)
    return out


def rounded(device: Device, number: Any, kind: Any) -> Any:
    """(1,) float64 as a word of the element type ``kind``, as NumPy has it: bfloat16 from binary32."""
    words = number.view(np.uint64)
    if np.dtype(kind).name == "float64":
        return words
    if np.dtype(kind).name == "float16":
        return narrowed(device, words, kind)[0]
    return from_single(device, as_single(device, words, np.float64)[0], kind)
