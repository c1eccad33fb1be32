"""``error-bounded``: few bits for a bounded l2 error (formats/spec/value/error-bounded.md).

The sections of many tensors, or a short one, take two kernel calls to write and one to read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, ClassVar

import numpy as np

from wirecodec.arrays import Array, Bytes, bits_of, read_only
from wirecodec.errors import EncodeError, Invalid, Malformed, WireError
from wirecodec.kernels.layout import BOUNDED_BLOCK
from wirecodec.limits import UNLIMITED, DecodeLimits
from wirecodec.support import SectionBatch
from wirecodec.validation import as_real, set_fields
from wirecodec.value.base import ValueCodec
from wirecodec.value.error_bounded_cells import CENTRED, OFFSET, Cells, CellSearch
from wirecodec.value.error_bounded_section import (
    EXACT,
    LEAST_VALUES,
    CellSection,
    build_default_table,
    count_lanes,
    default_levels,
    read_section,
    write_smaller,
)
from wirecodec.value.float32_convert import from_float32, max_float32

DEFAULT_ERROR = 0.01
"""Relative l2 error if neither the scheme nor the selector gives one."""


@dataclass(frozen=True)
class ErrorBounded(ValueCodec):
    """Error-bounded value codec.

    The decoded values v̂ of each chunk satisfy ‖v̂ - v‖₂ ≤ error · ‖v‖₂, so error feedback converges. A
    uniform quantiser is as coarse as this bound allows, by measurement. Adaptive rANS codes cells and signs;
    the context is the mean magnitude of the preceding values. The top 1 % of Laplace-distributed values take
    4.8 bits per value for an error of 0.01, and 2.5 for 0.05. Not unbiased.

    Source: formats/spec/value/error-bounded.md; for rANS, Duda, *Asymmetric Numeral Systems*, 2013.

    Args:
        error: relative l2 error, above 0 and below 1. None stands for 0.01, or for the step that the selector
            chose, as ``budget`` does.

    Raises:
        EncodeError: if ``error`` is out of range.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> x = np.random.default_rng(0).laplace(size=10_000).astype(np.float32)
        >>> y = wc.decode(wc.encode(x, "all | raw-index | error-bounded(error=0.05)")).values
        >>> bool(np.linalg.norm(y - x) <= 0.05 * np.linalg.norm(x))
        True
    """

    name: ClassVar[str] = "error-bounded"
    wire_id: ClassVar[int] = 14
    carries_nonfinite: ClassVar[bool] = False
    error: float | None = None

    def __post_init__(self) -> None:
        if self.error is None:
            return
        set_fields(self, error=as_real(self.error, "error-bounded: error"))
        if not 0 < self.error < 1:
            raise EncodeError(f"error-bounded: error is {self.error!r}; it must be above 0 and below 1")

    def encode(self, values: Array, stream: int) -> Bytes:
        """Encode values as cells, or unchanged if that is smaller."""
        if _is_short(values):
            sections, _, lengths = write_sections(values, np.array([0, values.size]), self._bound)
            return sections[: lengths[0]]
        search = CellSearch(values, self._bound)
        return write_smaller(search.bits, values, search.find_cells())

    def encode_batch(self, values: Array, cuts: Array, streams: Array) -> SectionBatch | None:
        """Encode the values of many tensors, each as ``encode`` does; see ``ValueCodec``."""
        batch = write_batch(self.wire_id, values, cuts, self._bound)
        return super().encode_batch(values, cuts, streams) if batch is None else batch

    @property
    def takes_step(self) -> bool:
        """Whether a selector may choose the width of the cells: without a bound of the error."""
        return self.error is None

    def choose_with_step(self, values: Array, stream: int, step: float) -> tuple[ValueCodec, Bytes]:
        """Encode values as cells of a width, or unchanged if that is smaller or the width is not possible."""
        if _is_short(values):
            cuts, steps = np.array([0, values.size]), np.array([step])
            sections, _, lengths = write_sections(values, cuts, steps)
            return self, sections[: lengths[0]]
        search = CellSearch(values, DEFAULT_ERROR)
        return self, write_smaller(search.bits, values, search.cells_of(step))

    def encode_batch_with_steps(self, values: Array, cuts: Array, steps: Array) -> SectionBatch:
        """Encode the values of many tensors as cells of these widths; see ``ValueChoice``."""
        batch = write_batch(self.wire_id, values, cuts, steps)
        return super().encode_batch_with_steps(values, cuts, steps) if batch is None else batch

    @property
    def _bound(self) -> float:
        return DEFAULT_ERROR if self.error is None else self.error

    def max_bytes(self, r: int, dtype: np.dtype[Any]) -> int:
        """Return the maximum number of bytes of a section of at most r values of ``dtype``."""
        return 1 + r * dtype.itemsize

    @classmethod
    def decode(cls, section: Bytes, r: int, dtype: np.dtype[Any], limits: DecodeLimits) -> Array:
        """Decode cells to values near their middle."""
        if section[0] == EXACT:
            return _read_exact(section[1:], r, dtype)
        values = read_short(section, r, dtype)
        if values is not None:
            return values
        return read_section(CellSection(section, r, dtype))

    @classmethod
    def decode_batch(
        cls, words: Array, starts: Array, lengths: Array, cuts: Array, dtype: np.dtype[Any]
    ) -> tuple[Array, Array] | None:
        """Decode the sections of many tensors; see ``ValueCodec``."""
        return read_batch(
            words,
            starts,
            lengths,
            cuts,
            dtype,
            lambda section, r: cls.decode(section, r, dtype, UNLIMITED),
        )


def _read_exact(elements: Bytes, r: int, dtype: np.dtype[Any]) -> Array:
    """Read unchanged elements, which must be finite."""
    if elements.size != r * dtype.itemsize:
        raise Malformed(
            "error-bounded-length", f"{elements.size} bytes for {r} values of {dtype.itemsize} bytes"
        )
    values: Array = elements.copy().view(dtype)
    infinity = bits_of(np.array([np.inf], dtype))[0]
    if ((bits_of(values) << 1) >= infinity << 1).any():
        raise Invalid("error-bounded-value", "an element is not finite")
    return values


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
    if values.dtype.itemsize == 2 or int(np.diff(cuts).max()) > BOUNDED_BLOCK:
        return None
    return SectionBatch.of_slices(wire_id, *write_sections(values, cuts, error))


def _is_short(values: Array) -> bool:
    """Tell whether a section is written alone by the kernels of many tensors; 16-bit types are not."""
    return values.dtype.itemsize != 2 and values.size <= MAX_SHORT


def write_sections(values: Array, cuts: Array, error: float | Array) -> tuple[Bytes, Array, Array]:
    """Write the sections of many tensors; return their bytes, and the place and length of each.

    Args:
        values, cuts, error: as for ``write_batch``, which checks them.
    """
    from wirecodec.kernels.cpu.threads import least_units, map_ranges, run_parallel
    from wirecodec.kernels.cpu.value import error_bounded, error_bounded_section

    counts = np.diff(cuts)
    n, values = counts.size, read_only(values)
    with np.errstate(over="ignore"):
        bits = read_only(bits_of(values.astype(np.float32, copy=False)))
    most = np.float32(max_float32(values.dtype))
    forms, numbers, starts = np.empty(n, np.int64), np.empty((n, 3), np.float32), np.empty(n, np.int64)
    units = least_units(MIN_VALUES_PER_THREAD, n, values.size)
    find_cells: Any = error_bounded.find_cells
    if isinstance(error, np.ndarray):
        find_cells = error_bounded.find_cells_of_steps
    cells = forms, numbers, starts
    run_parallel(partial(find_cells, bits, values, cuts, error, most, *cells), n, units)
    lanes, elements = _count_few_lanes(counts), values.view(np.uint8)
    longest = 1 + counts * values.itemsize
    places, lengths = np.cumsum(longest) - longest, np.empty(n, np.int64)
    out = np.empty(int(longest.sum()), np.uint8)
    given = bits, elements, cuts, *cells, lanes, *_default_tables()
    run_parallel(partial(error_bounded_section.write, *given, out, places, lengths), n, units)
    others = np.flatnonzero(lanes == 0).tolist()

    def write_others(start: int, stop: int) -> None:
        for i in others[start:stop]:
            here = slice(cuts[i], cuts[i + 1])
            first, step, place = numbers[i]
            own = Cells(int(forms[i]), first, step, place, [int(starts[i])])
            section = write_smaller(bits[here], values[here], own if forms[i] else None)
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
    from wirecodec.kernels.cpu.value import error_bounded_section as kernels

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
    from wirecodec.kernels.cpu.value import error_bounded_section as kernels

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
    from wirecodec.kernels.cpu.value import error_bounded_section as kernels

    n, most = firsts.size, np.float32(max_float32(dtype))
    floats, results = np.zeros(int(cuts[-1]), np.float32), np.empty(n, np.int64)
    given = data, firsts, lengths, cuts, lanes, most, *_default_tables()
    read = partial(kernels.read, *given, bits_of(floats), results)
    run_parallel(read, n, least_units(MIN_VALUES_PER_THREAD, n, floats.size))
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
