"""Sections of error-bounded of many tensors, or a short one: two kernel calls to write them, one to read."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from wirecodec.arrays import Array, Bytes, bits_of, read_only
from wirecodec.errors import WireError
from wirecodec.kernels.layout import BOUNDED_BLOCK
from wirecodec.support import SectionBatch
from wirecodec.value.error_bounded_cells import CENTRED, OFFSET, Cells, as_float32
from wirecodec.value.error_bounded_levels import default_levels
from wirecodec.value.error_bounded_section import (
    LEAST_VALUES,
    build_default_table,
    count_lanes,
    write_smaller,
)
from wirecodec.value.float32_convert import from_float32, max_float32

MAX_LANES = 4
"""Lanes of the largest block that the kernels take."""
MIN_VALUES_PER_THREAD = 2**12
MAX_SHORT = 2**12
"""Values of the longest section that is written or read alone by the kernels of many tensors.

For longer ones, the calls of several small kernels take less than a third of the time, and the small ones are
compiled four seconds sooner.
"""


def write_batch(wire_id: int, values: Array, cuts: Array, error: float | Array) -> SectionBatch | None:
    """Write the sections of the values of many tensors, each as ``ErrorBounded.encode`` does.

    Args:
        wire_id: of the codec.
        values: (R,) finite values of all tensors.
        cuts: (n + 1,) i64, the place of each tensor's values.
        error: relative l2 error; or (n,) f64, the widths of the cells.

    Returns None if the values are not float32 or float64, or a tensor has several blocks.
    """
    counts = np.diff(cuts)
    if values.dtype.itemsize == 2 or int(counts.max()) > BOUNDED_BLOCK:
        return None
    return SectionBatch.of_slices(wire_id, *_write(values, cuts, counts, error))


def write_short(values: Array, error: float) -> Bytes | None:
    """Write the section of (r,) finite values; return None for 16-bit types or above ``MAX_SHORT`` values."""
    if values.dtype.itemsize == 2 or values.size > MAX_SHORT:
        return None
    out, _, lengths = _write(values, np.array([0, values.size]), np.array([values.size]), error)
    return out[: lengths[0]]


def _write(values: Array, cuts: Array, counts: Array, error: float | Array) -> tuple[Bytes, Array, Array]:
    """Write the sections of many tensors; return their bytes, and the place and length of each.

    Args:
        values, cuts, error: as for ``write_batch``.
        counts: (n,) i64, values of each tensor.
    """
    from wirecodec.kernels.cpu.threads import least_units, map_ranges, run_parallel
    from wirecodec.kernels.cpu.value import error_bounded_batch, error_bounded_search

    n = counts.size
    values, bits = read_only(values), read_only(bits_of(as_float32(values)))
    most = np.float32(max_float32(values.dtype))
    forms, numbers, starts = np.empty(n, np.int64), np.empty((n, 3), np.float32), np.empty(n, np.int64)
    units = least_units(MIN_VALUES_PER_THREAD, n, values.size)
    find_cells: Any = error_bounded_search.find_cells
    if isinstance(error, np.ndarray):
        find_cells = error_bounded_search.find_cells_of_steps
    run_parallel(
        lambda turns: find_cells(bits, values, cuts, error, most, forms, numbers, starts, turns),
        n,
        units,
    )
    lanes, elements = _count_few_lanes(counts), values.view(np.uint8)
    longest = 1 + counts * values.itemsize
    places, lengths = np.cumsum(longest) - longest, np.empty(n, np.int64)
    out = np.empty(int(longest.sum()), np.uint8)
    run_parallel(
        lambda turns: error_bounded_batch.write(
            bits,
            elements,
            cuts,
            forms,
            numbers,
            starts,
            lanes,
            *_default_tables(),
            out,
            places,
            lengths,
            turns,
        ),
        n,
        units,
    )
    others = np.flatnonzero(lanes == 0).tolist()

    def write_others(start: int, stop: int) -> None:
        for i in others[start:stop]:
            here = slice(cuts[i], cuts[i + 1])
            first, step, place = numbers[i]
            cells = Cells(int(forms[i]), first, step, place, [int(starts[i])])
            section = write_smaller(bits[here], values[here], cells if forms[i] else None)
            out[places[i] : places[i] + section.size] = section
            lengths[i] = section.size

    if others:
        map_ranges(write_others, len(others), 1)
    return out, places, lengths


def read_batch(
    words: Array,
    starts: Array,
    lengths: Array,
    cuts: Array,
    dtype: np.dtype[Any],
    decode: Callable[[Bytes, int], Array],
) -> tuple[Array, Array] | None:
    """Decode the sections of many tensors; see ``decode_batch`` of ``ValueCodec``.

    Args:
        words, starts, lengths, cuts, dtype: as for ``decode_batch``.
        decode: decodes a section of r values, for those that the kernel does not read.
    """
    from wirecodec.kernels.cpu.threads import map_ranges
    from wirecodec.kernels.cpu.value import error_bounded_batch as kernels

    data, firsts = read_only(words).view(np.uint8), starts * 4
    floats, results = _read(data, firsts, lengths, cuts, _count_few_lanes(np.diff(cuts)), dtype)
    if (results == kernels.FAULT).any():
        return None
    values = from_float32(floats, dtype)
    exact = (results == kernels.LEFT) & (lengths == 1 + np.diff(cuts) * dtype.itemsize)
    exact &= data[np.minimum(firsts, data.size - 1)] == 0
    if exact.any():
        results[exact] = kernels.SOUND
        if not _copy_exact(data, firsts[exact], cuts, exact, values):
            return None
    left = np.flatnonzero(results == kernels.LEFT).tolist()

    def read_left(start: int, stop: int) -> bool:
        for i in left[start:stop]:
            section = data[firsts[i] : firsts[i] + lengths[i]]
            try:
                values[cuts[i] : cuts[i + 1]] = decode(section, int(cuts[i + 1] - cuts[i]))
            except WireError:
                return False
        return True

    if left and not all(map_ranges(read_left, len(left), 1)):
        return None
    return values, cuts[:-1]


def _copy_exact(data: Bytes, firsts: Array, cuts: Array, rows: Array, values: Array) -> bool:
    """Copy the values of sections of unchanged elements; return whether all values are finite.

    Args:
        data: the sections.
        firsts: the first byte of each of these sections.
        cuts: (n + 1,) i64, the place of each tensor's values.
        rows: (n,) bool, which sections these are.
        values: (R,) of all tensors; written.
    """
    from wirecodec.kernels.cpu import support

    width, places, lengths = values.itemsize, cuts[:-1][rows], np.diff(cuts)[rows]
    support.copy_slices(data, firsts + 1, lengths * width, values.view(np.uint8), places * width)
    infinity = bits_of(np.array([np.inf], values.dtype))[0]
    return int(support.find_nonfinite(read_only(bits_of(values)), infinity)) < 0


def read_short(section: Bytes, r: int, dtype: np.dtype[Any]) -> Array | None:
    """Decode a section of cells; return None if a check fails, or the kernel does not read it."""
    from wirecodec.kernels.cpu.value import error_bounded_batch as kernels

    if r > MAX_SHORT:
        return None
    first, length, cuts = np.zeros(1, np.int64), np.array([section.size]), np.array([0, r])
    floats, results = _read(section, first, length, cuts, np.array([count_lanes(r)]), dtype)
    return from_float32(floats, dtype) if results[0] == kernels.SOUND else None


def _read(
    data: Bytes, firsts: Array, lengths: Array, cuts: Array, lanes: Array, dtype: np.dtype[Any]
) -> tuple[Array, Array]:
    """Read sections; return the values as float32, and the kernel's result for each section.

    Args:
        data: the sections and what is between them; read-only.
        firsts: (n,) i64, the first byte of each section.
        lengths, cuts, dtype: as for ``read_batch``.
        lanes: (n,) i64, of the block of each section; 0 if the kernel does not take it.
    """
    from wirecodec.kernels.cpu.threads import least_units, run_parallel
    from wirecodec.kernels.cpu.value import error_bounded_batch as kernels

    n, most = firsts.size, np.float32(max_float32(dtype))
    floats, results = np.zeros(int(cuts[-1]), np.float32), np.empty(n, np.int64)
    run_parallel(
        lambda turns: kernels.read(
            data, firsts, lengths, cuts, lanes, most, *_default_tables(), bits_of(floats), results, turns
        ),
        n,
        least_units(MIN_VALUES_PER_THREAD, n, floats.size),
    )
    return floats, results


def _count_few_lanes(counts: Array) -> Array:
    """Return the lanes of the block of each tensor, (n,) i64; 0 for those that the kernels do not take."""
    lanes = np.ones_like(counts)
    for lane_count, least in LEAST_VALUES.items():
        lanes[counts >= least] = lane_count if lane_count <= MAX_LANES else 0
    return lanes


@cache
def _default_tables() -> tuple[Array, Array]:
    """Return the default levels and frequencies of both forms: (2, rows, 33) u8 and (2, rows, 64) u32."""
    forms = OFFSET, CENTRED
    levels = np.stack([default_levels(form) for form in forms])
    return read_only(levels), read_only(np.stack([build_default_table(form) for form in forms]))
