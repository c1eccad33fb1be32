"""Rice sections of many tensors, or one short section, in one call."""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, kernel
from wirecodec.kernels.cpu.index.rice import directory_words, plan_span
from wirecodec.kernels.cpu.index.rice_read import SPAN_ONES, read_directory, read_span
from wirecodec.kernels.cpu.index.rice_write import SPAN_CODES, SPAN_EIGHTS, write_directory, write_span
from wirecodec.kernels.cpu.simd.memory import copy_elements
from wirecodec.kernels.cpu.threads import next_unit
from wirecodec.kernels.layout import RICE_BLOCK, RICE_SPAN


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
        lengths[unit] = 4 * _plan_section(here, blocks, spans)
        unit = next_unit(turns, unit)


@inline
def _plan_section(indices: Array, parameters: Array, span_words: Array) -> int:
    """Plan one section; return its length in words."""
    size = directory_words(indices.size)
    for span in range(span_words.size):
        span_words[span] = plan_span(indices, span, parameters)
        size += span_words[span]
    return size


@kernel
def write_short(indices: Array) -> Array:
    """Return the section of (r,) u32 indices as u32 words, 0 < r <= 4096."""
    parameters = np.empty((indices.size - 1) // RICE_BLOCK + 1, np.uint8)
    span_words = np.empty((indices.size - 1) // RICE_SPAN + 1, np.int64)
    section = np.empty(_plan_section(indices, parameters, span_words), np.uint32)
    codes, eights = np.empty(SPAN_CODES, np.uint32), np.empty(SPAN_EIGHTS, np.uint64)
    _write_section(indices, parameters, span_words, section, codes, eights)
    return section


@inline
def _write_section(
    indices: Array, parameters: Array, span_words: Array, section: Array, codes: Array, eights: Array
) -> None:
    """Write one planned section; ``codes`` and ``eights`` are the scratch of ``write_span``."""
    at = directory_words(indices.size)
    write_directory(indices, parameters, span_words, section[:at])
    for span in range(span_words.size):
        write_span(indices, parameters, span, section[at : at + span_words[span]], codes, eights)
        at += span_words[span]


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
    codes, eights = np.empty(SPAN_CODES, np.uint32), np.empty(SPAN_EIGHTS, np.uint64)
    unit = next_unit(turns, -1)
    while unit >= 0:
        if starts[unit] >= 0:
            here, blocks, spans = _slices(indices, cuts, parameters, span_words, unit)
            stop = starts[unit] + directory_words(here.size) + spans.sum()
            _write_section(here, blocks, spans, words[starts[unit] : stop], codes, eights)
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
    most = np.int64(1)
    for i in range(starts.size):
        most = max(most, cuts[i + 1] - cuts[i])
    parameters, places, bases, ones = _make_scratch(most)
    unit = next_unit(turns, -1)
    while unit >= 0:
        section = words[starts[unit] : starts[unit] + (lengths[unit] >> 2)]
        out = indices[cuts[unit] : cuts[unit + 1]]
        whole = lengths[unit] & 3 == 0
        faults[unit] = not (
            whole and _read_section(section, sizes[unit], parameters, places, bases, ones, out)
        )
        unit = next_unit(turns, unit)


@kernel
def read_short(section: Array, d: int, indices: Array) -> bool:
    """Check and read one section of u32 words into (r,) u32; return whether it is sound."""
    parameters, places, bases, ones = _make_scratch(indices.size)
    return _read_section(section, d, parameters, places, bases, ones, indices)


@inline
def _make_scratch(r: int) -> tuple[Array, Array, Array, Array]:
    """Return the scratch of ``_read_section`` for at most r indices."""
    spans = (r - 1) // RICE_SPAN + 1
    return (
        np.empty((r - 1) // RICE_BLOCK + 1, np.uint8),
        np.empty(spans + 1, np.int64),
        np.empty(spans, np.uint32),
        np.empty(SPAN_ONES, np.uint32),
    )


@inline
def _read_section(
    section: Array, d: int, parameters: Array, places: Array, bases: Array, ones: Array, out: Array
) -> bool:
    """Check and read one section; return whether it is sound.

    Args:
        section: u32, the section.
        d: elements of the tensor.
        parameters, places, bases, ones: from ``_make_scratch``.
        out: (r,) u32, written.
    """
    r = out.size
    if section.size < directory_words(r):
        return False
    spans, parameters = (r - 1) // RICE_SPAN + 1, parameters[: (r - 1) // RICE_BLOCK + 1]
    if read_directory(section, r, parameters, places[: spans + 1]) != 0:
        return False
    copy_elements(section, 0, spans - 1, bases, 0)  # they are read twice
    for span in range(spans):
        first = span * RICE_SPAN
        here = out[first : first + RICE_SPAN]
        if span > 0 and np.int64(bases[span - 1]) != np.int64(out[first - 1]) + 1:
            return False
        if read_span(section, bases, places, parameters, d, span, ones, here) != 0:
            return False
    return True
