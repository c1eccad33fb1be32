"""Sections of error-bounded with cells (formats/spec/value/error-bounded.md, forms 1 and 2).

Initial levels have one row per context. Each level is two hexadecimal digits: the escape's, then the bins'.
Absent bins are left out. The levels were counted on real gradients and on Laplace, Gaussian and Student
values.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from wirecodec.arrays import Array, Bytes, bits_of, read_only
from wirecodec.errors import Invalid, Malformed
from wirecodec.kernels.bounded_step import MAX_START
from wirecodec.kernels.layout import BOUNDED_ROWS
from wirecodec.kernels.scratch import borrow
from wirecodec.value.error_bounded_cells import CENTRED, OFFSET, Cells, split_blocks
from wirecodec.value.float32_convert import from_float32, max_float32

OFFSET_LEVELS = (
    "ff0179ceeffefefffffffefffefffffffffffefffffffefefffffffffffe",
    "ff0156afc8ededffffdd",
    "ff0151a0caedfdfd",
    "ff014e99c6d7effffefefffffffffffe",
    "ff014b8cb4d1dcfde2feed",
    "ff024788adbfdef6f0fffe",
    "ff024582a8b3d2fefeeef4fefffe",
    "ff02407ea2b7cffae1eafefefefffefffffe",
    "ff033b789fbec8dff7dfeef1fffffffe",
    "f903356f9cb2ced0ddcffef6fefe",
    "ff042f6793aabbd4d3d7fef9fefefefffffe",
    "ff06295b819eafc5cdd3d8e1fff5fefefffe",
    "fe08234e718da2b8c1c0cfdbefecfef9fefefffefefffe",
    "ff0a1f43658095a8b6b6cddae4d3fefefefefefffefffffffffe",
    "ff0d1e36536e8699a9aebecfd9d5f4f8fefefefefefe",
    "fe111e2e445b71829193a7bbc3cbcadefeeefefefefffffefefffe",
    "fe15202b38495d6e7e8195abb6b8c5d4e1dce8fefefefefffefefffffffffefe",
    "ff1b2229313c4e5c696b8295a8adc3d4e4eaf5fefefefefe",
    "fe20262c3137404a5453677b8b8da4b8cbc9d5e1e8fbfefefefefefefffe",
    "fe272b2f33373c41473f53637173879aa9abc0c6d6dbebf4fefafefefffefefe",
    "fe2c303336393c404339444f595a6f839395aebecac8d6e5fef8fefefefefefe",
    "fe3437393b3d3f4144373c424843576877788ca0afafc3cdd4d9f1f6fefefe",
    "fe3a3c3e4042434546383c3f433a47535f5f7487989bb3bfcecddceffef9fefefe",
    "f24143454647494a4c3d3f4144383d444b46576778788c9eb0adc0c3d2deebf3fb",
)
"""Rows 0 to 23 of form 1."""

CENTRED_LEVELS = (
    "ff019ae8f5fefefefefefefefefefefefefefffefefe",
    "ff015a",
    "ff0160",
    "ff0155",
    "ff014effe1",
    "ff014dca",
    "ff0248c3",
    "ff023ec6ffe4",
    "ff0338a3d0bed5ddddf3",
    "ff0430a3dbfffffffffffffffff1",
    "ff05298cd5d8ecfff2daf2fffe",
    "ff072276bbdbd3eefff5f5fffe",
    "ff091c63a0d0ddf1effefefefefffefffffffff6",
    "ff0d165082afc8e0eee7fefefefdfefffffe",
    "ff14113e628aa3b6c7cde8f1fefefefefefefffffffffffe",
    "ff1f0c37547c9cb3c6cbe3f4fefefefefefefefefefffffffffffe",
    "ff1f14253b5a758ba1aac2d1e5ebfafefefefefffefefffffffffefe",
    "ff241c242f3d4d5d747f9aafc2c4ddeafbfefefefffefefe",
    "ff2a22272d343e4a5b647f95abb2c9d8e9f4fefefefefefefefefffffffffe",
    "ff32292c2f34393f464252637c839eb2c5c5dfeef7fbfefefffefffe",
    "ff382f313436393c4036414e636d8aa4bac4def4fefefefefffffefe",
    "fe4138383a3b3d3e403439404947596b7c839fb2bcc4deeefefefefefffefe",
    "fe483f404142434445373a3e4138414c58608199acb4cce1f1f1fefefefefe",
    "fe504546474848494a3b3d3f41343a414a4a6275868faabdc7cfeaf6fefefefe",
)
"""Rows 0 to 23 of form 2."""

SHIFTED_LEVELS = (
    "fe3e3e3f4041434445373b3e423944515e648095a5a9bed0dcd8ebf9fefefefefe",
    "fe454446474848494a3b3d3f41353b424b4a63798c93acbdcacce2effef6fefefe",
)
"""Rows 24 and 25 of both forms."""


@cache
def default_levels(form: int) -> Array:
    """Return (26, 33) u8 levels of a form: the bins', then the escape's; 255 marks an absent bin."""
    levels = np.full((BOUNDED_ROWS, 33), 255, np.uint8)
    for row, digits in enumerate((OFFSET_LEVELS if form == OFFSET else CENTRED_LEVELS) + SHIFTED_LEVELS):
        escape, *bins = bytes.fromhex(digits)
        levels[row, : len(bins)] = bins
        levels[row, -1] = escape
    return read_only(levels)


EXACT = 0
"""Form of unchanged elements."""
_HEADER = struct.Struct("<BfffI")
_BLOCK_HEADER = struct.Struct("<BI")
_ALL_ROWS = (1 << BOUNDED_ROWS) - 1
_MAX_BLOCKS_KEPT, _COUNT_STRIDE = 4, 4
"""Up to this many blocks, all are counted and their contexts are kept for writing.

With more blocks, one in ``_COUNT_STRIDE`` is counted.
"""
_MIN_SYMBOLS_TO_FIT = 2**12
"""Minimum symbols of a row to fit its levels if not all blocks are counted."""


LEAST_VALUES = {4: 1024, 32: 16_384}
"""{lanes: least number of values of a block that has them}; a smaller one has one lane."""


def count_lanes(m: int) -> int:
    """Return the number of lanes of a block of m values."""
    return 32 if m >= LEAST_VALUES[32] else 4 if m >= LEAST_VALUES[4] else 1


def write_section(bits: Array, cells: Cells) -> Bytes:
    """Write the section of forms 1 and 2.

    Args:
        bits: (r,) u32, float32 bits of the values.
        cells: result of ``CellSearch``.
    """
    blocks = split_blocks(bits.size)
    kept = len(blocks) if len(blocks) <= _MAX_BLOCKS_KEPT else 0
    with borrow("error-bounded contexts", (kept, 2, _capacity(blocks)), np.uint32) as contexts:
        return _write_blocks(bits, cells, blocks, contexts)


def _capacity(blocks: Sequence[slice]) -> int:
    """Return the elements of codes, or of records, that suffice for each block."""
    return int(max(part.stop - part.start for part in blocks)) + 32


def _write_blocks(bits: Array, cells: Cells, blocks: Sequence[slice], contexts: Array) -> Bytes:
    """Write a section; ``contexts`` has room for the codes and records of all blocks, or of none."""
    from wirecodec.kernels.cpu.threads import map_ranges
    from wirecodec.kernels.cpu.value import error_bounded_coder, error_bounded_section

    capacity, keep_all = _capacity(blocks), len(contexts) > 0
    counted_blocks = range(0, len(blocks), 1 if keep_all else _COUNT_STRIDE)
    shape = (
        error_bounded_coder.COUNT_TABLES,
        error_bounded_coder.COUNTERS // error_bounded_coder.ROW_STRIDE,
        error_bounded_coder.ROW_STRIDE,
    )
    counts = np.zeros((len(counted_blocks), *shape), np.uint32)
    own = (0 if keep_all else 2, capacity)

    def walk_block(n: int, outputs: Array, counts: Array) -> None:
        x, quantiser = bits[blocks[n]], cells.quantiser()
        error_bounded_coder.walk(
            x, count_lanes(x.size), quantiser, cells.starts[n], outputs[0], outputs[1], counts.reshape(-1)
        )

    def walk(first: int, last: int) -> None:
        with borrow("error-bounded block", own, np.uint32) as block:
            for i, n in enumerate(counted_blocks[first:last], first):
                walk_block(n, contexts[n] if keep_all else block, counts[i])

    map_ranges(walk, len(counted_blocks), 1)
    levels = default_levels(cells.form).copy()
    mask = error_bounded_section.fit(
        counts.sum((0, 1), np.uint32)[:BOUNDED_ROWS], 1 if keep_all else _MIN_SYMBOLS_TO_FIT, levels
    )
    table = _build_table(cells.form, levels, mask)

    def write(first: int, last: int) -> list[bytes]:
        payload = []
        states = np.empty(error_bounded_coder.MAX_LANES, np.uint32)
        with (
            borrow("error-bounded block", own, np.uint32) as block,
            borrow("error-bounded words", (4 * capacity,), np.uint16) as words,
        ):
            for n in range(first, last):
                codes, records = contexts[n] if keep_all else block
                if not keep_all:  # so many contexts in fresh memory would be slower than computing them again
                    walk_block(n, block, counts[0, :0])
                m = blocks[n].stop - blocks[n].start
                lanes = count_lanes(m)
                count = error_bounded_coder.write(m, lanes, codes, records, table.reshape(-1), states, words)
                payload += [states[:lanes].tobytes(), words[:count].tobytes()]
        return payload

    parts = [_HEADER.pack(cells.form, cells.first, cells.step, cells.place, mask)]
    for row in range(BOUNDED_ROWS):
        if mask >> row & 1:
            *bins, escape = levels[row].tolist()
            used = bytes(bins).rstrip(b"\xff")
            parts.append(bytes([len(used), escape]) + used)
    pieces = [piece for group in map_ranges(write, len(blocks), 1) for piece in group]
    for start, states, words in zip(cells.starts, pieces[::2], pieces[1::2], strict=True):
        parts += [_BLOCK_HEADER.pack(start, len(words) // 2), states, words]
    return np.frombuffer(b"".join(parts), np.uint8)


def write_smaller(bits: Array, values: Array, cells: Cells | None) -> Bytes:
    """Write a section of cells, or of unchanged elements if there are no cells or that is smaller.

    Args:
        bits: (r,) u32, float32 bits of the values.
        values: (r,) of an element type.
        cells: result of ``CellSearch``.
    """
    if cells is not None:
        section = write_section(bits, cells)
        if section.size < 1 + values.nbytes:
            return section
    return np.concatenate([np.array([EXACT], np.uint8), values.view(np.uint8)])


class CellSection:
    """Parsed and validated section of form 1 or 2; only the words are unchecked.

    Args:
        section: the bytes.
        r: number of values.
        dtype: element type.

    Raises:
        Malformed, Invalid: as in the spec page's table.
    """

    def __init__(self, section: Bytes, r: int, dtype: np.dtype[Any]) -> None:
        self.section, self.dtype, self.at = section, dtype, 0
        self.form = int(section[0])
        if not OFFSET <= self.form <= CENTRED:  # the caller read another form if the buffer has changed
            raise Malformed("error-bounded-form", f"form is {self.form}; it must be 0 to 2")
        _, first, step, place, mask = _HEADER.unpack(self._read_bytes(_HEADER.size).tobytes())
        self.cells = Cells(self.form, np.float32(first), np.float32(step), np.float32(place), [])
        largest = max_float32(dtype)
        negative = any(math.copysign(1, x) < 0 for x in (first, step, place))
        if negative or not (first <= largest and 2.0**-126 <= step < math.inf and place <= 1):
            raise Invalid("error-bounded-number", f"cells begin at {first}, step is {step}, place is {place}")
        if mask >> BOUNDED_ROWS:
            raise Malformed("error-bounded-rows", f"mask is {mask:#x}; it has {BOUNDED_ROWS} bits")
        self.mask = mask
        self.levels = default_levels(self.form).copy() if mask else default_levels(self.form)
        for row in range(BOUNDED_ROWS):
            if mask >> row & 1:
                self._read_row(self.levels[row])
        self.blocks = [self._read_block(part) for part in split_blocks(r)]
        if self.at != section.size:
            raise Malformed("error-bounded-length", f"{section.size - self.at} bytes after the last block")

    def _read_bytes(self, size: int) -> Bytes:
        data = self.section[self.at : self.at + size]
        if data.size != size:
            raise Malformed("error-bounded-length", f"{self.section.size} bytes; the section is truncated")
        self.at += size
        return data

    def _read_row(self, levels: Array) -> None:
        used, escape = self._read_bytes(2)
        if used >= levels.size:
            raise Malformed(
                "error-bounded-rows", f"a row has {used} levels; it must have at most {levels.size - 1}"
            )
        levels[:-1] = 255
        levels[-1] = escape
        levels[:used] = self._read_bytes(int(used))

    def _read_block(self, part: slice) -> tuple[slice, int, int, Array, Array]:
        from wirecodec.kernels.cpu.value.error_bounded_coder import HEAD_WORDS, MAX_LANES, TAIL_WORDS

        start, count = _BLOCK_HEADER.unpack(self._read_bytes(_BLOCK_HEADER.size).tobytes())
        if start > MAX_START:
            raise Malformed("error-bounded-start", f"start is {start}; it must be at most {MAX_START}")
        lanes = count_lanes(part.stop - part.start)
        states = np.full(MAX_LANES, 2**16, np.uint32)
        states[:lanes].view(np.uint8)[:] = self._read_bytes(4 * lanes)
        if (least := int(states.min())) < 2**16:
            raise Invalid("error-bounded-state", f"a state is {least}; it must be at least 65536")
        data = self._read_bytes(2 * count)
        words = np.zeros(HEAD_WORDS + count + TAIL_WORDS, np.uint16)
        words[HEAD_WORDS : HEAD_WORDS + count].view(np.uint8)[:] = data
        return part, lanes, start, states, words


@cache
def build_default_table(form: int) -> Array:
    """Build the frequency table of a section that replaces no row."""
    from wirecodec.kernels.cpu.value import error_bounded_coder, error_bounded_section

    table = np.empty((BOUNDED_ROWS, error_bounded_coder.ROW_STRIDE), np.uint32)
    error_bounded_section.fill(default_levels(form).copy(), _ALL_ROWS, table)
    return table


def _build_table(form: int, levels: Array, mask: int) -> Array:
    """Build the frequency table of a section that replaces the levels of the rows in ``mask``."""
    table = build_default_table(form)
    if mask:
        from wirecodec.kernels.cpu.value import error_bounded_section

        table = table.copy()
        error_bounded_section.fill(levels, mask, table)
    return table


def read_section(s: CellSection) -> Array:
    """Decode a section's values; raise Invalid if the words do not end with the last value."""
    from wirecodec.kernels.cpu.threads import map_ranges
    from wirecodec.kernels.cpu.value import error_bounded_coder

    table = _build_table(s.form, s.levels, s.mask)
    reconstruction = s.cells.reconstruction(s.dtype)
    out = np.empty(s.blocks[-1][0].stop, np.float32)
    bits = bits_of(out)

    def read(first: int, last: int) -> bool:
        all_lanes = s.blocks[first][1] == error_bounded_coder.MAX_LANES
        width = error_bounded_coder.SLOTS if all_lanes else error_bounded_coder.COARSE_SLOTS
        with borrow("error-bounded slots", (BOUNDED_ROWS * width,), np.uint32) as slots:
            tables = table.reshape(-1), slots, np.zeros(1, np.uint32)
            return all(
                error_bounded_coder.read(words, lanes, start, states, tables, reconstruction, bits[part])
                for part, lanes, start, states, words in s.blocks[first:last]
            )

    if not all(map_ranges(read, len(s.blocks), 1)):
        raise Invalid("error-bounded-code", "the words do not end where the values do")
    return from_float32(out, s.dtype)
