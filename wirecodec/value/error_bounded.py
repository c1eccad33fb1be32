"""``error-bounded``: as few bits as an error allows (formats/spec/value/error-bounded.md).

A uniform quantiser whose step is found by measuring, and an entropy coder that learns: each value's context
is the mean magnitude of those before it, its sign's whether signs stay.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np

from wirecodec.arrays import Array, Bytes, bits_of
from wirecodec.errors import EncodeError, Invalid, Malformed
from wirecodec.kernels.layout import BOUNDED_BLOCK, BOUNDED_ROWS
from wirecodec.limits import DecodeLimits
from wirecodec.parameters import as_real, settle
from wirecodec.value.bounded_levels import usual_levels
from wirecodec.value.raw import widened
from wirecodec.value.single import LARGEST, from_single

__all__ = ["ErrorBounded"]

T = TypeVar("T")
EXACT, OFFSET, CENTRED = range(3)
_HEAD = struct.Struct("<BfffI")
_BLOCK = struct.Struct("<BI")
_LAST_START = 57
_SLACK = 1 - 2.0**-20
_LEAST_STEP, _MOST_CELLS = 2.0**-100, 2.0**24 - 2
_KEPT = 4
"""Blocks whose contexts are kept from one pass to the other."""
_SHARE = np.float32(0.625)
"""Of a step: where the first cell begins, around zero."""


@dataclass(frozen=True)
class ErrorBounded:
    """No chunk's values v come back with an l2 error above ``error`` times ‖v‖₂.

    Args:
        error: above 0 and below 1.
    """

    name: ClassVar[str] = "error-bounded"
    wire_id: ClassVar[int] = 14
    carries_nonfinite: ClassVar[bool] = False
    error: float = 0.01

    def __post_init__(self) -> None:
        settle(self, error=as_real(self.error, "error-bounded: error"))
        if not 0 < self.error < 1:
            raise EncodeError(f"error-bounded: error is {self.error!r}; it must be above 0 and below 1")

    def encode(self, values: Array, stream: int) -> Bytes:
        """The values in cells if that is smaller than the values themselves."""
        found = _Values(values, self.error)
        cells = found.cells()
        if cells is not None:
            section = _coded(found.bits, cells)
            if section.size < 1 + values.nbytes:
                return section
        return np.concatenate([np.array([EXACT], np.uint8), values.view(np.uint8)])

    @classmethod
    def decode(cls, section: Bytes, r: int, dtype: np.dtype[Any], limits: DecodeLimits) -> Array:
        """The values, each near the middle of its cell."""
        if section[0] == EXACT:
            return _exact(section[1:], r, dtype)
        return _decoded(_Section(section, r, dtype))


@dataclass(frozen=True, eq=False)
class _Cells:
    """What numbers of cells mean, and the half octaves that blocks start with."""

    form: int
    first: np.float32
    step: np.float32
    place: np.float32
    starts: list[int]

    def numbers(self, dtype: np.dtype[Any]) -> tuple[int, Any, Any, Any, Any]:
        """As kernels take it."""
        return self.form - 1, self.first, self.step, self.place, np.float32(LARGEST[dtype.name])

    def inverse(self) -> tuple[int, Any, Any]:
        """What is needed to find cells, as kernels take it."""
        return self.form - 1, self.first, np.float32(1) / self.step


class _Values:
    """Values, and how wide their cells may be."""

    def __init__(self, values: Array, error: float) -> None:
        self.values, self.error = values, error
        self.blocks = _blocks(values.size)
        x = self.wide = values
        if values.dtype.itemsize == 2:
            x = self.wide = widened(bits_of(values), values.dtype)
        elif values.dtype != np.float32:
            with np.errstate(over="ignore"):
                x = values.astype(np.float32)
        self.bits = bits_of(x)
        self.allowed = 0.0

    def cells(self) -> _Cells | None:
        """The widest that keep the promise, or None where none were found."""
        from wirecodec.kernels.cpu import bounded

        found = self._blockwise(lambda part: bounded.survey(self.bits[part], self.wide[part]))
        ends = np.array([min(one[0] for one in found), max(one[1] for one in found)], np.uint32)
        self.least, self.most = ends.view(np.float32).tolist()
        whole = sum(one[2] for one in found)
        if whole == 0 and not self.wide.any():
            return self._measured(np.float32(1), 0.0)[0]
        if not (math.isfinite(self.most) and 2.0**-900 < whole < math.inf):
            return None
        self.allowed = self.error * self.error * whole * _SLACK
        guess = np.float32(min(self.error * math.sqrt(12 * whole / self.values.size), 2.0**120))
        kept = self._search(guess)
        if kept is None:
            return None
        step, mean = kept
        for _ in range(4):
            cells, error = self._measured(step, mean)
            if error <= self.allowed:
                return cells
            step = np.float32(float(step) * min(math.sqrt(self.allowed / error), 0.9990234375))
            if not self._possible(step):
                return None
            _, mean = self._expected(step)
        return None

    def _possible(self, step: np.float32) -> bool:
        return float(step) >= _LEAST_STEP and self.most / float(step) < _MOST_CELLS

    def _search(self, step: np.float32) -> tuple[np.float32, float] | None:
        """The widest step of a few whose fractions promise no more than the allowed error, and their mean."""
        best = None
        for n in range(16):
            if not self._possible(step) or (n >= 8 and best is not None):
                break
            error, mean = self._expected(step)
            if error <= self.allowed:
                best = (step, mean) if best is None else max(best, (step, mean))
                if error >= 0.995 * self.allowed or error == 0:
                    break
            ratio = math.sqrt(self.allowed / error) if n < 8 else 0.5
            step = np.float32(float(step) * min(max(ratio, 0.25), 2.0) * 0.9990234375)
        return best

    def _first(self, step: np.float32) -> tuple[int, np.float32]:
        """The form, and where its first cell begins."""
        around = np.float32(_SHARE * step)
        return (CENTRED, around) if self.least < around else (OFFSET, np.float32(self.least))

    def _expected(self, step: np.float32) -> tuple[float, float]:
        """The sum of the squares of the errors, but for rounding, and the mean fraction of a step."""
        from wirecodec.kernels.cpu import bounded

        _, first = self._first(step)
        inverse = np.float32(1) / step
        sums, seconds, lows, below = 0.0, 0.0, 0.0, 0
        for found in self._blockwise(lambda part: bounded.expect(self.bits[part], first, inverse)):
            sums, seconds, lows = sums + found[0], seconds + found[1], lows + found[2]
            below += found[3]
        mean = sums / max(self.bits.size - below, 1)
        return lows + float(step) * float(step) * max(seconds - sums * mean, 0.0), mean

    def _measured(self, step: np.float32, mean: float) -> tuple[_Cells, float]:
        """Cells, and the error of what will be read."""
        from wirecodec.kernels.cpu import bounded

        starts: list[int] = []
        cells = _Cells(*self._first(step), step, np.float32(mean), starts)
        numbers, inverse = cells.numbers(self.values.dtype), cells.inverse()

        def errors(part: slice) -> tuple[float, int]:
            error, total = bounded.measure(self.bits[part], self.wide[part], inverse, numbers)
            if self.values.dtype.itemsize == 2:
                out = np.empty(part.stop - part.start + 63, np.float32)
                bounded.restore(self.bits[part], inverse, numbers, bits_of(out))
                read = from_single(out[: part.stop - part.start], self.values.dtype)
                error = bounded.difference(self.wide[part], widened(bits_of(read), read.dtype))
            return error, total

        found = self._blockwise(errors)
        for (_, total), part in zip(found, self.blocks, strict=True):
            starts.append(_half_octave((total << 10) // (part.stop - part.start)))
        return cells, sum(error for error, _ in found)

    def _blockwise(self, work: Callable[[slice], T]) -> list[T]:
        """What each block gives, in order, from as many threads as there are."""
        from wirecodec.kernels.cpu.threads import in_ranges

        found = in_ranges(
            lambda first, last: [work(part) for part in self.blocks[first:last]], len(self.blocks), 1
        )
        return [one for some in found for one in some]


def _blocks(r: int) -> list[slice]:
    """The fewest blocks of at most 2^17 values, as long as each other."""
    count = -(-r // BOUNDED_BLOCK)
    return [slice(r * n // count, r * (n + 1) // count) for n in range(count)]


def _lanes(m: int) -> int:
    return 32 if m >= 16_384 else 4 if m >= 1024 else 1


def _half_octave(mean: int) -> int:
    """The number of the start nearest below a mean in 1024ths."""
    octave = (mean + 4).bit_length() - 1
    return min(2 * (octave - 2) + ((mean + 4) >> (octave - 1) & 1), _LAST_START)


def _coded(bits: Array, cells: _Cells) -> Bytes:
    """The section of forms 1 and 2."""
    from wirecodec.kernels.cpu import bounded_coder, bounded_tables
    from wirecodec.kernels.cpu.threads import in_ranges

    blocks = _blocks(bits.size)
    room = max(part.stop - part.start for part in blocks) + 32
    counts = np.zeros((len(blocks), BOUNDED_ROWS, bounded_coder.WIDTH), np.uint32)
    kept = np.empty((len(blocks) if len(blocks) <= _KEPT else 0, 2, room), np.uint32)

    def walked(n: int, found: Array, counts: Array) -> None:
        x, inverse = bits[blocks[n]], cells.inverse()
        bounded_coder.walk(
            x, _lanes(x.size), inverse, cells.starts[n], found[0], found[1], counts.reshape(-1)
        )

    def walk(first: int, last: int) -> None:
        again = np.empty((0 if kept.size else 2, room), np.uint32)
        for n in range(first, last):
            walked(n, kept[n] if kept.size else again, counts[n])

    in_ranges(walk, len(blocks), 1)
    levels = usual_levels(cells.form).copy()
    mask = bounded_tables.fit(counts.sum(0, np.uint32), levels)
    table = np.empty(counts.shape[1:], np.uint32)
    bounded_tables.fill(levels, table)

    def write(first: int, last: int) -> list[bytes]:
        found = []
        words, states = np.empty(4 * room, np.uint16), np.empty(bounded_coder.MANY, np.uint32)
        again = np.empty((0 if kept.size else 2, room), np.uint32)
        for n in range(first, last):
            codes, records = kept[n] if kept.size else again
            if not kept.size:  # what was kept of so many blocks would lie in fresh memory, which is slower
                walked(n, again, np.empty_like(counts[n]))
            m = blocks[n].stop - blocks[n].start
            lanes = _lanes(m)
            count = bounded_coder.write(m, lanes, codes, records, table.reshape(-1), states, words)
            found += [states[:lanes].tobytes(), words[:count].tobytes()]
        return found

    parts = [_HEAD.pack(cells.form, cells.first, cells.step, cells.place, mask)]
    for row in range(BOUNDED_ROWS):
        if mask >> row & 1:
            bins = levels[row, :-1]
            used = int(np.flatnonzero(bins != 255)[-1]) + 1 if (bins != 255).any() else 0
            parts.append(bytes([used, levels[row, -1], *bins[:used]]))
    pieces = [piece for found in in_ranges(write, len(blocks), 1) for piece in found]
    for start, states, words in zip(cells.starts, pieces[::2], pieces[1::2], strict=True):
        parts += [_BLOCK.pack(start, len(words) // 2), states, words]
    return np.frombuffer(b"".join(parts), np.uint8)


def _exact(elements: Bytes, r: int, dtype: np.dtype[Any]) -> Array:
    if elements.size != r * dtype.itemsize:
        raise Malformed("error-bounded-length", f"{elements.size} bytes for {r} values of {dtype.itemsize}")
    values: Array = elements.copy().view(dtype)
    infinity = bits_of(np.array([np.inf], dtype))[0]
    if ((bits_of(values) << 1) >= infinity << 1).any():
        raise Invalid("error-bounded-value", "an element is not finite")
    return values


class _Section:
    """A section of form 1 or 2, taken apart and checked, but for its words."""

    def __init__(self, section: Bytes, r: int, dtype: np.dtype[Any]) -> None:
        self.section, self.dtype, self.at = section, dtype, 0
        self.form = int(section[0])
        if self.form > CENTRED:
            raise Malformed("error-bounded-form", f"form {self.form}")
        _, first, step, place, mask = _HEAD.unpack(self._take(_HEAD.size).tobytes())
        numbers = np.array([first, step, place], np.float32)
        self.cells = _Cells(self.form, numbers[0], numbers[1], numbers[2], [])
        bits = bits_of(numbers)
        most = LARGEST[dtype.name]
        if (bits >> 31).any() or not (first <= most and 2.0**-126 <= step < math.inf and place <= 1):
            raise Invalid("error-bounded-number", f"cells begin at {first}, step {step}, place {place}")
        if mask >> BOUNDED_ROWS:
            raise Malformed("error-bounded-rows", f"mask {mask:#x}")
        self.levels = usual_levels(self.form).copy()
        for row in range(BOUNDED_ROWS):
            if mask >> row & 1:
                self._row(self.levels[row])
        self.blocks = [self._block(part) for part in _blocks(r)]
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
        from wirecodec.kernels.cpu.bounded_coder import BEHIND, MANY, PAD

        start, count = _BLOCK.unpack(self._take(_BLOCK.size).tobytes())
        if start > _LAST_START:
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


def _decoded(s: _Section) -> Array:
    from wirecodec.kernels.cpu import bounded_coder, bounded_tables
    from wirecodec.kernels.cpu.threads import in_ranges

    table = np.empty((BOUNDED_ROWS, bounded_coder.WIDTH), np.uint32)
    bounded_tables.fill(s.levels, table)
    numbers = s.cells.numbers(s.dtype)
    out = np.empty(s.blocks[-1][0].stop, np.float32)
    bits = bits_of(out)

    def read(first: int, last: int) -> bool:
        many = s.blocks[first][1] == bounded_coder.MANY
        width = bounded_coder.SLOTS if many else bounded_coder.COARSE
        slots = np.empty(BOUNDED_ROWS * width, np.uint32)
        tables = table.reshape(-1), slots, np.zeros(1, np.uint32)
        return all(
            bounded_coder.read(words, lanes, start, states, tables, numbers, bits[part])
            for part, lanes, start, states, words in s.blocks[first:last]
        )

    if not all(in_ranges(read, len(s.blocks), 1)):
        raise Invalid("error-bounded-code", "the words do not end where the values do")
    return from_single(out, s.dtype)
