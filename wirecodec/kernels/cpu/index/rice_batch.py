"""Rice sections of many tensors in one call: the kernels of one section, tensor by tensor."""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.index.rice import UNIT_SPANS, _plan, directory_words
from wirecodec.kernels.cpu.index.rice_read import _find_fault, _read, read_directory
from wirecodec.kernels.cpu.index.rice_write import _write
from wirecodec.kernels.cpu.jit import inline, kernel
from wirecodec.kernels.cpu.threads import next_unit, sole_turns
from wirecodec.kernels.layout import RICE_BLOCK, RICE_SPAN

__all__ = ["plan", "read", "write"]


@inline
def _blocks_before(cuts: Array, i: int) -> int:
    """Return a place for the parameters of tensor i: no earlier tensor's blocks reach it."""
    return cuts[i] // RICE_BLOCK + i


@inline
def _spans_before(cuts: Array, i: int) -> int:
    """Return a place for the span lengths of tensor i: no earlier tensor's spans reach it."""
    return cuts[i] // RICE_SPAN + i


@kernel
def plan(
    indices: Array, cuts: Array, parameters: Array, span_words: Array, lengths: Array, turns: Array
) -> None:
    """Choose the parameters of each tensor's section, and compute its length.

    Args:
        indices: u32, of all tensors, each tensor's ascending.
        cuts: (n + 1,) i64, the place of each tensor's indices; each tensor has at least one.
        parameters: (⌊R/256⌋ + n,) u8, written.
        span_words: (⌊R/4096⌋ + n,) i64, written.
        lengths: (n,) i64, written: bytes per section.
        turns: counters of ``next_unit``; a unit is a tensor.
    """
    unit = next_unit(turns, -1)
    while unit >= 0:
        here, blocks, spans = _slices(indices, cuts, parameters, span_words, unit)
        _plan(here, blocks, spans, sole_turns(-(-spans.size // UNIT_SPANS)))
        lengths[unit] = 4 * (directory_words(here.size) + spans.sum())
        unit = next_unit(turns, unit)


@kernel
def write(
    indices: Array,
    cuts: Array,
    parameters: Array,
    span_words: Array,
    words: Array,
    starts: Array,
    turns: Array,
) -> None:
    """Write each tensor's section.

    Args:
        indices, cuts: as for ``plan``.
        parameters, span_words: from ``plan``.
        words: u32, written at the sections.
        starts: (n,) i64, the first word of each section; negative: it is not written.
        turns: counters of ``next_unit``; a unit is a tensor.
    """
    unit = next_unit(turns, -1)
    while unit >= 0:
        here, blocks, spans = _slices(indices, cuts, parameters, span_words, unit)
        stop = starts[unit] + directory_words(here.size) + spans.sum()
        if starts[unit] >= 0:
            _write(here, blocks, spans, words[starts[unit] : stop], sole_turns(-(-spans.size // UNIT_SPANS)))
        unit = next_unit(turns, unit)


@inline
def _slices(
    indices: Array, cuts: Array, parameters: Array, span_words: Array, i: int
) -> tuple[Array, Array, Array]:
    """Return the indices, parameters and span lengths of tensor i."""
    here = indices[cuts[i] : cuts[i + 1]]
    block, span = _blocks_before(cuts, i), _spans_before(cuts, i)
    return (
        here,
        parameters[block : block + (here.size + RICE_BLOCK - 1) // RICE_BLOCK],
        span_words[span : span + (here.size + RICE_SPAN - 1) // RICE_SPAN],
    )


@kernel
def read(
    words: Array,
    starts: Array,
    lengths: Array,
    sizes: Array,
    cuts: Array,
    indices: Array,
    faults: Array,
    turns: Array,
) -> None:
    """Check and read each tensor's section.

    Args:
        words: u32, the container.
        starts: (n,) i64, the first word of each section.
        lengths: (n,) i64, bytes per section.
        sizes: (n,) i64, elements of each tensor.
        cuts: (n + 1,) i64, the place of each tensor's indices; 0 < r < d.
        indices: u32, written.
        faults: (n,) bool, written: whether a section fails a check.
        turns: counters of ``next_unit``; a unit is a tensor.
    """
    unit = next_unit(turns, -1)
    while unit >= 0:
        section = words[starts[unit] : starts[unit] + (lengths[unit] >> 2)]
        whole = lengths[unit] & 3 == 0
        faults[unit] = not (
            whole and _read_section(section, sizes[unit], indices[cuts[unit] : cuts[unit + 1]])
        )
        unit = next_unit(turns, unit)


@inline
def _read_section(section: Array, d: int, out: Array) -> bool:
    """Check and read one section; return whether it is sound."""
    r = out.size
    if section.size < directory_words(r):
        return False
    parameters = np.empty((r + RICE_BLOCK - 1) // RICE_BLOCK, np.uint8)
    starts = np.empty((r + RICE_SPAN - 1) // RICE_SPAN + 1, np.int64)
    if read_directory(section, r, parameters, starts) != 0:
        return False
    spans = starts.size - 1
    bases = section[: spans - 1].copy()  # they are read twice
    faults = np.zeros(spans, np.uint8)
    _read(
        section,
        bases,
        starts,
        parameters,
        d,
        0,
        faults,
        out,
        sole_turns((spans + UNIT_SPANS - 1) // UNIT_SPANS),
    )
    return _find_fault(bases, faults, 0, out)[1] == 0
