"""The sections of error-bounded with cells (formats/spec/value/error-bounded.md, forms 1 and 2)."""

from __future__ import annotations

import math
import struct
from functools import cache
from typing import Any

import numpy as np

from wirecodec.arrays import Array, Bytes, bits_of
from wirecodec.errors import Invalid, Malformed
from wirecodec.kernels.layout import BOUNDED_ROWS
from wirecodec.value.error_bounded_cells import CENTRED, LAST_START, OFFSET, Cells, blocks_of
from wirecodec.value.error_bounded_levels import usual_levels
from wirecodec.value.float32_convert import from_single, largest_single

__all__ = ["Section", "coded", "decoded"]

_HEAD = struct.Struct("<BfffI")
_BLOCK = struct.Struct("<BI")
_ALL_ROWS = (1 << BOUNDED_ROWS) - 1
_ALL, _STRIDE = 4, 4
"""Most blocks that are all counted, and whose contexts are kept for their words; of more, one of how many."""
_LEAST = 2**12
"""Symbols of a row that make it worth a fit where not all blocks are counted."""


def _lanes(m: int) -> int:
    return 32 if m >= 16_384 else 4 if m >= 1024 else 1


def coded(bits: Array, cells: Cells) -> Bytes:
    """The section of forms 1 and 2."""
    from wirecodec.kernels.cpu.threads import map_ranges
    from wirecodec.kernels.cpu.value import error_bounded_lanes, error_bounded_tables, error_bounded_write

    blocks = blocks_of(bits.size)
    room = max(part.stop - part.start for part in blocks) + 32
    few = len(blocks) <= _ALL
    counted = range(0, len(blocks), 1 if few else _STRIDE)
    shape = error_bounded_write.TABLES, 2048 // error_bounded_lanes.WIDTH, error_bounded_lanes.WIDTH
    counts = np.zeros((len(counted), *shape), np.uint32)
    kept = np.empty((len(blocks) if few else 0, 2, room), np.uint32)

    def walked(n: int, found: Array, counts: Array) -> None:
        x, inverse = bits[blocks[n]], cells.inverse()
        error_bounded_write.walk(
            x, _lanes(x.size), inverse, cells.starts[n], found[0], found[1], counts.reshape(-1)
        )

    def walk(first: int, last: int) -> None:
        again = np.empty((0 if few else 2, room), np.uint32)
        for i, n in enumerate(counted[first:last], first):
            walked(n, kept[n] if few else again, counts[i])

    map_ranges(walk, len(counted), 1)
    levels = usual_levels(cells.form).copy()
    mask = error_bounded_tables.fit(
        counts.sum((0, 1), np.uint32)[:BOUNDED_ROWS], 1 if few else _LEAST, levels
    )
    table = np.empty((BOUNDED_ROWS, error_bounded_lanes.WIDTH), np.uint32)
    error_bounded_tables.fill(levels, _ALL_ROWS, table)

    def write(first: int, last: int) -> list[bytes]:
        found = []
        words, states = np.empty(4 * room, np.uint16), np.empty(error_bounded_lanes.MANY, np.uint32)
        again = np.empty((0 if few else 2, room), np.uint32)
        for n in range(first, last):
            codes, records = kept[n] if few else again
            if not few:  # what was kept of so many blocks would lie in fresh memory, which is slower
                walked(n, again, counts[0, :0])
            m = blocks[n].stop - blocks[n].start
            lanes = _lanes(m)
            count = error_bounded_write.write(m, lanes, codes, records, table.reshape(-1), states, words)
            found += [states[:lanes].tobytes(), words[:count].tobytes()]
        return found

    parts = [_HEAD.pack(cells.form, cells.first, cells.step, cells.place, mask)]
    for row in range(BOUNDED_ROWS):
        if mask >> row & 1:
            *bins, escape = levels[row].tolist()
            used = bytes(bins).rstrip(b"\xff")
            parts.append(bytes([len(used), escape]) + used)
    pieces = [piece for found in map_ranges(write, len(blocks), 1) for piece in found]
    for start, states, words in zip(cells.starts, pieces[::2], pieces[1::2], strict=True):
        parts += [_BLOCK.pack(start, len(words) // 2), states, words]
    return np.frombuffer(b"".join(parts), np.uint8)


class Section:
    """A section of form 1 or 2, taken apart and checked, but for its words."""

    def __init__(self, section: Bytes, r: int, dtype: np.dtype[Any]) -> None:
        self.section, self.dtype, self.at = section, dtype, 0
        self.form = int(section[0])
        if not OFFSET <= self.form <= CENTRED:  # the caller read another form if the buffer has changed
            raise Malformed("error-bounded-form", f"form {self.form}")
        _, first, step, place, mask = _HEAD.unpack(self._take(_HEAD.size).tobytes())
        self.cells = Cells(self.form, np.float32(first), np.float32(step), np.float32(place), [])
        most = largest_single(dtype)
        negative = any(math.copysign(1, x) < 0 for x in (first, step, place))
        if negative or not (first <= most and 2.0**-126 <= step < math.inf and place <= 1):
            raise Invalid("error-bounded-number", f"cells begin at {first}, step {step}, place {place}")
        if mask >> BOUNDED_ROWS:
            raise Malformed("error-bounded-rows", f"mask {mask:#x}")
        self.mask = mask
        self.levels = usual_levels(self.form).copy() if mask else usual_levels(self.form)
        for row in range(BOUNDED_ROWS):
            if mask >> row & 1:
                self._row(self.levels[row])
        self.blocks = [self._block(part) for part in blocks_of(r)]
        if self.at != section.size:
            raise Malformed("error-bounded-length", f"{section.size - self.at} bytes after the last block")

    def _take(self, size: int) -> Bytes:
        taken = self.section[self.at : self.at + size]
        if taken.size != size:
            raise Malformed("error-bounded-length", f"{self.section.size} bytes")
        self.at += size
        return taken

    def _row(self, levels: Array) -> None:
        used, escape = self._take(2)
        if used >= levels.size:
            raise Malformed("error-bounded-rows", f"{used} levels")
        levels[:-1] = 255
        levels[-1] = escape
        levels[:used] = self._take(int(used))

    def _block(self, part: slice) -> tuple[slice, int, int, Array, Array]:
        from wirecodec.kernels.cpu.value.error_bounded_lanes import MANY
        from wirecodec.kernels.cpu.value.error_bounded_read import BEHIND, PAD

        start, count = _BLOCK.unpack(self._take(_BLOCK.size).tobytes())
        if start > LAST_START:
            raise Malformed("error-bounded-start", f"start {start}")
        lanes = _lanes(part.stop - part.start)
        states = np.full(MANY, 2**16, np.uint32)
        states[:lanes].view(np.uint8)[:] = self._take(4 * lanes)
        if (least := int(states.min())) < 2**16:
            raise Invalid("error-bounded-state", f"a state is {least}")
        taken = self._take(2 * count)
        words = np.zeros(PAD + count + BEHIND, np.uint16)
        words[PAD : PAD + count].view(np.uint8)[:] = taken
        return part, lanes, start, states, words


@cache
def _usual_table(form: int) -> Array:
    """The table of a section without rows of its own."""
    from wirecodec.kernels.cpu.value import error_bounded_lanes, error_bounded_tables

    table = np.empty((BOUNDED_ROWS, error_bounded_lanes.WIDTH), np.uint32)
    error_bounded_tables.fill(usual_levels(form).copy(), _ALL_ROWS, table)
    return table


def decoded(s: Section) -> Array:
    """The section's values; Invalid where the words do not end with them."""
    from wirecodec.kernels.cpu.threads import map_ranges
    from wirecodec.kernels.cpu.value import error_bounded_lanes, error_bounded_read, error_bounded_tables

    table = _usual_table(s.form)
    if s.mask:
        table = table.copy()
        error_bounded_tables.fill(s.levels, s.mask, table)
    numbers = s.cells.numbers(s.dtype)
    out = np.empty(s.blocks[-1][0].stop, np.float32)
    bits = bits_of(out)

    def read(first: int, last: int) -> bool:
        many = s.blocks[first][1] == error_bounded_lanes.MANY
        width = error_bounded_read.SLOTS if many else error_bounded_read.COARSE
        slots = np.empty(BOUNDED_ROWS * width, np.uint32)
        tables = table.reshape(-1), slots, np.zeros(1, np.uint32)
        return all(
            error_bounded_read.read(words, lanes, start, states, tables, numbers, bits[part])
            for part, lanes, start, states, words in s.blocks[first:last]
        )

    if not all(map_ranges(read, len(s.blocks), 1)):
        raise Invalid("error-bounded-code", "the words do not end where the values do")
    return from_single(out, s.dtype)
