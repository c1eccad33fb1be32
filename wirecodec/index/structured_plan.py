"""The structure of a support: its head on the wire, and the plan of its section, whose size is exact.

What is taken off a support is arithmetic on its runs; indices are read to count and to find them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.errors import Invalid, Malformed
from wirecodec.kernels.layout import GAP_BLOCK

__all__ = ["FORMS", "Head", "Plan", "Shape", "count_runs"]

FORMS = ("gaps", "runs", "bitmap")
"""How grains are listed, in the order of their codes."""

_LEAST_COUNT = 2**18
"""Indices that are worth a thread."""

_COMPLEMENT, _HEAD, _TAIL, _PHASE = 0x04, 0x08, 0x10, 0x80


class Head(NamedTuple):
    """The first bytes of a section.

    The chunk's elements are ``phase`` elements, then whole grains of ``grain``, then what is left. Listed are
    the present elements, or with ``complement`` the absent ones: ``first`` and ``last`` say whether the
    elements before and after the whole grains are, the rest of the section says which grains.
    """

    form: str
    complement: bool
    grain: int
    phase: int
    first: bool
    last: bool

    def whole(self, d: int) -> int:
        """How many whole grains there are."""
        return (d - self.phase) // self.grain

    def listed(self, r: int, d: int) -> int:
        """How many grains are listed; Invalid where no whole number of them makes ``r`` present elements."""
        elements = d - r if self.complement else r
        elements -= self.first * self.phase + self.last * ((d - self.phase) % self.grain)
        if elements < 0 or elements % self.grain or elements // self.grain > self.whole(d):
            raise Invalid("structured-count", f"grains of {self.grain} do not make {r} of {d} elements")
        return elements // self.grain

    @property
    def flags(self) -> int:
        """As kernels take them: bits 0 complement, 1 first, 2 last."""
        return self.complement | self.first << 1 | self.last << 2

    @property
    def size(self) -> int:
        """Bytes."""
        width = _width(self.grain)
        return 1 + width * (2 if self.phase else 1)

    def to_bytes(self) -> bytes:
        """As they stand on the wire."""
        width = _width(self.grain)
        flags = FORMS.index(self.form) | _COMPLEMENT * self.complement | _HEAD * self.first
        flags |= _TAIL * self.last | width << 5 | _PHASE * (self.phase > 0)
        fields = (self.grain, self.phase)[: (self.grain > 1) + (self.phase > 0)]
        return bytes([flags]) + b"".join(field.to_bytes(width, "little") for field in fields)

    @classmethod
    def of(cls, section: Bytes, d: int) -> Head:
        """The head of a section for ``d`` elements, checked."""
        flags = int(section[0]) if section.size else 0
        width, fields = flags >> 5 & 3, 2 if flags & _PHASE else 1
        if section.size < 1 + width * fields:
            raise Malformed("structured-length", f"{section.size} bytes are too few for the head")
        if flags & 3 == len(FORMS):
            raise Malformed("structured-form", "form 3 is none")
        grain, phase = 1, 0
        if width:
            grain = int.from_bytes(section[1 : 1 + width].tobytes(), "little")
            phase = int.from_bytes(section[1 + width : 1 + width * fields].tobytes(), "little")
        if _width(grain) != width or grain > d:
            raise Malformed("structured-grain", f"grain {grain} in {width} bytes, of {d} elements")
        if (phase > 0) != (fields == 2) or phase >= grain:
            raise Malformed("structured-grain", f"phase {phase} of a grain of {grain}")
        head = cls(
            FORMS[flags & 3],
            bool(flags & _COMPLEMENT),
            grain,
            phase,
            bool(flags & _HEAD),
            bool(flags & _TAIL),
        )
        if (head.first and not phase) or (head.last and (d - phase) % grain == 0):
            raise Malformed("structured-form", "a part without elements is listed")
        return head


def _width(grain: int) -> int:
    """Bytes of a grain's field: none for 1, which is not written."""
    return 0 if grain == 1 else -(-grain.bit_length() // 8)


def count_runs(indices: Array) -> int:
    """How many runs of consecutive numbers the (r,) u32 ``indices`` form, r > 0."""
    from wirecodec.kernels.cpu import threads
    from wirecodec.kernels.cpu.index import structured

    def count(start: int, stop: int) -> int:
        return structured.count_breaks(indices[max(0, start - 1) : stop])

    return 1 + sum(threads.map_ranges(count, indices.size, _LEAST_COUNT))


@dataclass(frozen=True, eq=False)
class Plan:
    """A section that is not written yet.

    ``streams`` are the sequences that it lists as gap streams, each with its parameters; ``opening`` is a
    number of so many bits before them; ``bitmap`` are grains that it lists as a bitmap instead; ``bits`` is
    the length of all of that.
    """

    head: Head
    bits: int = 0
    streams: tuple[tuple[Array, Array], ...] = ()
    opening: tuple[int, int] = (0, 0)
    bitmap: Array | None = None

    @property
    def bytes(self) -> int:
        """The section's length."""
        return self.head.size + -(-self.bits // 8)

    def section(self) -> Bytes:
        """Write it."""
        from wirecodec.kernels.cpu.coding import gap_stream
        from wirecodec.kernels.cpu.index import bitmap

        words = np.zeros(-(-self.bits // 64), np.uint64)
        if self.bitmap is not None:
            bitmap.set_bits(self.bitmap, words)
        elif self.streams:
            number, at = self.opening
            words[0] |= np.uint64(number)
            for numbers, parameters in self.streams:
                at = gap_stream.write(numbers, parameters, words, at)
        head = np.frombuffer(self.head.to_bytes(), np.uint8)
        return np.concatenate([head, words.view(np.uint8)[: -(-self.bits // 8)]])


@dataclass(frozen=True, eq=False)
class Shape:
    """A support as runs [start, stop) of present grains, some of which may be empty.

    ``head`` is that of a section that lists present grains; ``rest`` elements follow the ``whole`` grains, of
    which ``count`` are present. ``grains`` are their numbers, where they are known without work.
    """

    head: Head
    starts: Array
    stops: Array
    whole: int
    rest: int
    count: int
    grains: Array | None = None

    @classmethod
    def of(cls, indices: Array, d: int, runs: int) -> Shape:
        """The shape of (r,) u32 ``indices`` below ``d`` that form so many ``runs``, 0 < r < d."""
        from wirecodec.kernels.cpu.index import structured

        starts, stops = np.empty(runs + 1, np.uint32), np.empty(runs + 1, np.uint32)
        structured.find_runs(indices, starts, stops)
        starts, stops = starts[:runs], stops[:runs]
        grain, phase = structured.granularity(starts, stops, d)
        whole, rest = divmod(d - phase, grain)
        head = Head(
            "gaps", False, grain, phase, bool(phase and starts[0] == 0), bool(rest and stops[-1] == d)
        )
        if grain == 1:
            return cls(head, starts, stops, whole, rest, indices.size, indices)
        starts, stops = _in_grains(starts, stops, grain, phase)
        count = (indices.size - head.first * phase - head.last * rest) // grain
        return cls(head, starts, stops, whole, rest, count)

    @property
    def mostly_present(self) -> bool:
        """Whether more grains are present than absent."""
        return 2 * self.count > self.whole

    def planned(self, form: str) -> Plan:
        """The section of the page's writer in one form."""
        if self.count in (0, self.whole):
            return Plan(self.head)
        if form == "runs":
            return self._as_runs()
        if form == "bitmap":
            return Plan(self.head._replace(form=form), bits=self.whole, bitmap=self._numbers())
        shape = self._opposite() if self.mostly_present else self
        numbers = shape._numbers()
        parameters, bits = _planned_stream(numbers)
        return Plan(shape.head, bits, ((numbers, parameters),))

    def _opposite(self) -> Shape:
        """The absent grains."""
        head = self.head
        first, last = head.phase > 0 and not head.first, self.rest > 0 and not head.last
        starts = np.concatenate([np.zeros(1, np.uint32), self.stops])
        stops = np.concatenate([self.starts, np.array([self.whole], np.uint32)])
        count = self.whole - self.count
        return Shape(
            head._replace(complement=True, first=first, last=last),
            starts,
            stops,
            self.whole,
            self.rest,
            count,
        )

    def _numbers(self) -> Array:
        """The grains."""
        from wirecodec.kernels.cpu.index import structured

        if self.grains is not None:
            return self.grains
        out = np.empty(self.count, np.uint32)
        structured.expand(self.starts, self.stops, out)
        return out

    def _as_runs(self) -> Plan:
        """Where runs begin and end: absent grains before each, present ones before its end."""
        from wirecodec.kernels.cpu.index import structured

        n = self.starts.size
        absent, present = np.empty(n, np.uint32), np.empty(n, np.uint32)
        structured.split(self.starts, self.stops, absent, present)
        width = (min(self.count, self.whole - self.count + 1) - 1).bit_length()
        sequences = (absent, present[:-1]) if n > 1 else (absent,)
        streams = [_planned_stream(numbers) for numbers in sequences]
        return Plan(
            self.head._replace(form="runs"),
            width + sum(bits for _, bits in streams),
            tuple((numbers, parameters) for numbers, (parameters, _) in zip(sequences, streams, strict=True)),
            (n - 1, width),
        )


def _in_grains(starts: Array, stops: Array, grain: int, phase: int) -> tuple[Array, Array]:
    """Runs of elements as runs of whole grains; those that hold none are left out."""
    g, p = np.uint32(grain), np.uint32(phase)
    starts = (np.maximum(starts, p) - p + (g - np.uint32(1))) // g
    stops = (np.maximum(stops, p) - p) // g
    some = starts < stops
    return starts[some], stops[some]


def _planned_stream(numbers: Array) -> tuple[Array, int]:
    """The parameters of a gap stream, and its bits."""
    from wirecodec.kernels.cpu.coding import gap_stream

    parameters = np.empty(-(-numbers.size // GAP_BLOCK), np.uint8)
    return parameters, int(gap_stream.plan(numbers, parameters))
