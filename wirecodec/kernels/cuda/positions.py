"""Launch ``positions.cu``: weights of elements for the index codec by-class (formats/spec/patch.md).

Elements are unsigned integers on the device, of 1, 2, 4 or 8 bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cuda.device import THREADS, Device, blocks_for
from wirecodec.kernels.scale import Scale

RUN = 256
"""Elements whose weights are added up at a time."""
_WARPS = THREADS // 32
_MOST_COUNTING = 256
"""Blocks that count; each adds its numbers to those of all."""


def _runs_of(scale: Scale) -> int:
    """Return the runs of a lane."""
    return blocks_for(scale.each, RUN)


def count_rows(device: Device, bits: Any, shift: int, step: int, rows: int) -> Array:
    """Count the rows of every ``step``-th run of 8 elements; waits for the device.

    Args:
        device: where the elements are.
        bits: (size,) elements.
        shift: the row of an element is bits >> shift, of ``rows``.
        step: 1 for all elements.
        rows: a power of two, at most 2048.

    Returns (rows,) i64 on the host.
    """
    counts = device.empty(rows, np.uint32)
    device.clear(counts)
    sizes = np.uint64(bits.size), np.uint32(shift), np.uint32(rows), np.uint32(step)
    blocks = blocks_for(blocks_for(bits.size, step), 16 * THREADS, _MOST_COUNTING)
    device.launch("positions", f"count_rows_u{8 * bits.dtype.itemsize}", blocks, bits, *sizes, counts)
    return device.get(counts).astype(np.int64)


def _weigh(device: Device, bits: Any, scale: Scale) -> tuple[tuple[Any, ...], Any]:
    """Return the arguments of a scale, and the sums of weights before each run."""
    runs = _runs_of(scale)
    sums = device.empty(scale.lanes * (runs + 1), np.uint64)
    given = np.uint32(runs), np.uint32(scale.shift), np.uint32(scale.first), device.put(scale.table)
    sizes = np.uint64(bits.size), np.uint32(scale.lanes), np.uint64(scale.each)
    name = f"weigh_runs_u{8 * bits.dtype.itemsize}"
    device.launch("positions", name, blocks_for(scale.lanes * runs, _WARPS), bits, *sizes, *given, sums)
    device.launch("positions", "add_runs", scale.lanes, np.uint32(runs), sums)
    return given, sums


def measure(device: Device, bits: Any, scale: Scale, indices: Array) -> tuple[Array, Array]:
    """Compute the sum of the weights before some elements, in their lanes; waits for the device.

    Args:
        device: where the elements are.
        bits: (size,) elements.
        scale: of all elements.
        indices: (r,) u32, below size, on the host.

    Returns (r,) u64 the sums, and (r,) u32 the elements' own weights, on the host.
    """
    given, sums = _weigh(device, bits, scale)
    here, own = device.empty(indices.size, np.uint64), device.empty(indices.size, np.uint32)
    name, blocks = f"measure_u{8 * bits.dtype.itemsize}", blocks_for(indices.size, _WARPS)
    chosen = device.put(indices), np.uint32(indices.size)
    device.launch("positions", name, blocks, bits, np.uint64(scale.each), *given, sums, *chosen, here, own)
    return device.get(here), device.get(own)


def read(
    device: Device, bits: Any, scale: Scale, cuts: Array, cumulative: Array, words: Array
) -> tuple[Any, bool]:
    """Read the positions of a section; waits for the device.

    Args:
        device: where the elements are.
        bits: (size,) elements.
        scale: of all elements; at most 8 lanes.
        cuts: (lanes + 1,), the first position of each lane, and r.
        cumulative: (18,) u32 frequencies.
        words: (n,) u32 of the section's stream, on the host.

    Returns (r,) u32 positions on the device, and whether the section is valid.
    """
    given, sums = _weigh(device, bits, scale)
    indices, bad = device.empty(int(cuts[-1]), np.uint32), device.empty(1, np.uint32)
    device.clear(bad)
    sizes = np.uint64(bits.size), np.uint32(scale.lanes), np.uint64(scale.each)
    tables = device.put(cuts.astype(np.uint32)), device.put(cumulative)
    coded = device.put(words), np.uint32(words.size)
    name = f"read_positions_u{8 * bits.dtype.itemsize}"
    device.launch("positions", name, 1, bits, *sizes, *given, sums, *tables, *coded, indices, bad)
    return indices, not device.get(bad)[0]
