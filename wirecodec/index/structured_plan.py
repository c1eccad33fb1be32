"""Structure of a support: the header in the section, and the plan of a section, whose size is exact.

The structure is computed from the runs. Indices are read only to count and to find these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.errors import Invalid, Malformed
from wirecodec.kernels.layout import GAP_BLOCK

FORMS = ("gaps", "runs", "bitmap")
"""Ways to list grains, in the order of their codes."""

_MIN_INDICES_PER_THREAD = 2**18
"""Indices per thread below which no thread is started."""

_COMPLEMENT, _FIRST, _LAST, _PHASE = 0x04, 0x08, 0x10, 0x80


class Header(NamedTuple):
    """Header of a section.

    A chunk is ``phase`` elements, whole grains of ``grain`` elements, and a rest shorter than a grain. The
    section lists the present elements, or with ``complement`` the absent ones.

    Attributes:
        form: how grains are listed, one of ``FORMS``.
        complement: whether absent elements are listed.
        grain: elements per grain.
        phase: elements before the first whole grain.
        first: whether the elements before the whole grains are listed.
        last: whether the elements after the whole grains are listed.
    """

    form: str
    complement: bool
    grain: int
    phase: int
    first: bool
    last: bool

    def count_grains(self, d: int) -> int:
        """Return the number of whole grains among ``d`` elements."""
        return (d - self.phase) // self.grain

    def count_listed(self, r: int, d: int) -> int:
        """Return the number of listed grains.

        Raises:
            Invalid: no whole number of listed grains gives ``r`` present elements.
        """
        elements = d - r if self.complement else r
        elements -= self.first * self.phase + self.last * ((d - self.phase) % self.grain)
        if elements < 0 or elements % self.grain or elements // self.grain > self.count_grains(d):
            raise Invalid("structured-count", f"grains of {self.grain} cannot give {r} of {d} elements")
        return elements // self.grain

    @property
    def flags(self) -> int:
        """Flags of the kernels: bit 0 complement, bit 1 first, bit 2 last."""
        return self.complement | self.first << 1 | self.last << 2

    @property
    def size(self) -> int:
        """Length in bytes."""
        width = _width(self.grain)
        return 1 + width * (2 if self.phase else 1)

    def to_bytes(self) -> bytes:
        """Return the header as bytes."""
        width = _width(self.grain)
        flags = FORMS.index(self.form) | _COMPLEMENT * self.complement | _FIRST * self.first
        flags |= _LAST * self.last | width << 5 | _PHASE * (self.phase > 0)
        fields = (self.grain, self.phase)[: (self.grain > 1) + (self.phase > 0)]
        return bytes([flags]) + b"".join(field.to_bytes(width, "little") for field in fields)

    @classmethod
    def of(cls, section: Bytes, d: int) -> Header:
        """Read and check the header of a section for ``d`` elements.

        Raises:
            Malformed: a check fails.
        """
        flags = int(section[0]) if section.size else 0
        width, fields = flags >> 5 & 3, 2 if flags & _PHASE else 1
        if section.size < 1 + width * fields:
            raise Malformed("structured-length", f"{section.size} bytes; the header has {1 + width * fields}")
        if flags & 3 == len(FORMS):
            raise Malformed("structured-form", "the form is 3; it must be 0 to 2")
        grain, phase = 1, 0
        if width:
            grain = int.from_bytes(section[1 : 1 + width].tobytes(), "little")
            phase = int.from_bytes(section[1 + width : 1 + width * fields].tobytes(), "little")
        if _width(grain) != width or grain > d:
            raise Malformed("structured-grain", f"the grain is {grain}, in {width} bytes, of {d} elements")
        if (phase > 0) != (fields == 2) or phase >= grain:
            raise Malformed("structured-grain", f"the phase is {phase} of a grain of {grain}")
        header = cls(
            FORMS[flags & 3],
            bool(flags & _COMPLEMENT),
            grain,
            phase,
            bool(flags & _FIRST),
            bool(flags & _LAST),
        )
        if (header.first and not phase) or (header.last and (d - phase) % grain == 0):
            raise Malformed("structured-form", "a part without elements is marked as listed")
        return header


def _width(grain: int) -> int:
    """Return the bytes of a grain's field: 0 for grain 1, which is not written."""
    return 0 if grain == 1 else -(-grain.bit_length() // 8)


def count_runs(indices: Array) -> int:
    """Count the runs of consecutive numbers in (r,) u32 ``indices``, r > 0."""
    from wirecodec.kernels.cpu import threads
    from wirecodec.kernels.cpu.index import structured

    def count(start: int, stop: int) -> int:
        return structured.count_breaks(indices[max(0, start - 1) : stop])

    return 1 + sum(threads.map_ranges(count, indices.size, _MIN_INDICES_PER_THREAD))


@dataclass(frozen=True, eq=False)
class Plan:
    """Plan of a section: its exact size, and all that ``encode`` writes.

    Attributes:
        header: the header.
        bits: length in bits of all that follows the header.
        streams: the gap streams, each as (ascending u32 numbers, u8 parameters).
        prefix: a number before the streams, as (number, width in bits).
        bitmap: u32 grains to list as a bitmap instead of streams.
    """

    header: Header
    bits: int = 0
    streams: tuple[tuple[Array, Array], ...] = ()
    prefix: tuple[int, int] = (0, 0)
    bitmap: Array | None = None

    @property
    def bytes(self) -> int:
        """Length of the section in bytes."""
        return self.header.size + -(-self.bits // 8)

    def encode(self) -> Bytes:
        """Encode the section."""
        from wirecodec.kernels.cpu.coding import gap_stream
        from wirecodec.kernels.cpu.index import bitmap

        words = np.zeros(-(-self.bits // 64), np.uint64)
        if self.bitmap is not None:
            bitmap.set_bits(self.bitmap, words)
        elif self.streams:
            number, at = self.prefix
            words[0] |= np.uint64(number)
            for numbers, parameters in self.streams:
                at = gap_stream.write(numbers, parameters, words, at)
        header = np.frombuffer(self.header.to_bytes(), np.uint8)
        return np.concatenate([header, words.view(np.uint8)[: -(-self.bits // 8)]])


@dataclass(frozen=True, eq=False)
class Shape:
    """Support as runs [start, stop) of listed grains, some of which may be empty.

    Attributes:
        header: header of a section that lists these grains as gaps.
        starts: (runs,) u32, the first grain of each run.
        stops: (runs,) u32, the grain after each run.
        whole: number of whole grains in the chunk.
        rest: number of elements after the whole grains.
        count: number of listed grains.
        grains: (count,) u32, the listed grains, or None if they are not computed yet.
    """

    header: Header
    starts: Array
    stops: Array
    whole: int
    rest: int
    count: int
    grains: Array | None = None

    @classmethod
    def of(cls, indices: Array, d: int, runs: int) -> Shape:
        """Compute the shape of (r,) u32 ``indices`` below ``d`` that form ``runs`` runs, 0 < r < d."""
        from wirecodec.kernels.cpu.index import structured

        starts, stops = np.empty(runs + 1, np.uint32), np.empty(runs + 1, np.uint32)
        structured.find_runs(indices, starts, stops)
        starts, stops = starts[:runs], stops[:runs]
        grain, phase = structured.find_grain(starts, stops, d)
        whole, rest = divmod(d - phase, grain)
        header = Header(
            "gaps", False, grain, phase, bool(phase and starts[0] == 0), bool(rest and stops[-1] == d)
        )
        if grain == 1:
            return cls(header, starts, stops, whole, rest, indices.size, indices)
        starts, stops = _convert_to_grains(starts, stops, grain, phase)
        count = (indices.size - header.first * phase - header.last * rest) // grain
        return cls(header, starts, stops, whole, rest, count)

    @property
    def mostly_present(self) -> bool:
        """Whether more grains are listed than not."""
        return 2 * self.count > self.whole

    def plan(self, form: str) -> Plan:
        """Plan a section of this form, one of ``FORMS``."""
        if self.count in (0, self.whole):
            return Plan(self.header)
        if form == "runs":
            return self._plan_runs()
        if form == "bitmap":
            return Plan(self.header._replace(form=form), bits=self.whole, bitmap=self._list_grains())
        shape = self._invert() if self.mostly_present else self
        numbers = shape._list_grains()
        parameters, bits = _plan_stream(numbers)
        return Plan(shape.header, bits, ((numbers, parameters),))

    def _invert(self) -> Shape:
        """Return the shape of the grains that are not listed."""
        header = self.header
        first, last = header.phase > 0 and not header.first, self.rest > 0 and not header.last
        starts = np.concatenate([np.zeros(1, np.uint32), self.stops])
        stops = np.concatenate([self.starts, np.array([self.whole], np.uint32)])
        count = self.whole - self.count
        return Shape(
            header._replace(complement=True, first=first, last=last),
            starts,
            stops,
            self.whole,
            self.rest,
            count,
        )

    def _list_grains(self) -> Array:
        """Return the listed grains, (count,) u32 ascending."""
        from wirecodec.kernels.cpu.index import structured

        if self.grains is not None:
            return self.grains
        out = np.empty(self.count, np.uint32)
        structured.expand_runs(self.starts, self.stops, out)
        return out

    def _plan_runs(self) -> Plan:
        """Plan a section of two streams: absent grains before each run, present ones before its end."""
        from wirecodec.kernels.cpu.index import structured

        n = self.starts.size
        absent, present = np.empty(n, np.uint32), np.empty(n, np.uint32)
        structured.split_runs(self.starts, self.stops, absent, present)
        width = (min(self.count, self.whole - self.count + 1) - 1).bit_length()
        sequences = (absent, present[:-1]) if n > 1 else (absent,)
        streams = [_plan_stream(numbers) for numbers in sequences]
        return Plan(
            self.header._replace(form="runs"),
            width + sum(bits for _, bits in streams),
            tuple((numbers, parameters) for numbers, (parameters, _) in zip(sequences, streams, strict=True)),
            (n - 1, width),
        )


def _convert_to_grains(starts: Array, stops: Array, grain: int, phase: int) -> tuple[Array, Array]:
    """Convert runs of elements to runs of whole grains, and drop those without a whole grain."""
    g, p = np.uint32(grain), np.uint32(phase)
    starts = (np.maximum(starts, p) - p + (g - np.uint32(1))) // g
    stops = (np.maximum(stops, p) - p) // g
    nonempty = starts < stops
    return starts[nonempty], stops[nonempty]


def _plan_stream(numbers: Array) -> tuple[Array, int]:
    """Return the parameters of a gap stream (u8), and its length in bits."""
    from wirecodec.kernels.cpu.coding import gap_stream

    parameters = np.empty(-(-numbers.size // GAP_BLOCK), np.uint8)
    return parameters, int(gap_stream.plan(numbers, parameters))
