"""``structured``: what a support has of structure taken off, the rest as a gap stream
(formats/spec/index/structured.md).

Three things are taken off: that more is present than absent (the absent ones are listed), that runs begin and
end at multiples of a grain (grains are listed), that runs are long (where they begin and end is listed).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.errors import EncodeError, Invalid, Malformed
from wirecodec.index.bounds import max_gap_bits, max_runs
from wirecodec.index.structured_plan import FORMS, Head, Shape, count_runs
from wirecodec.kernels.layout import GAP_BLOCK, GAP_PARAMETER_BITS
from wirecodec.limits import DecodeLimits

__all__ = ["Structured"]


@dataclass(frozen=True)
class Structured:
    """Embedding rows in less than a tenth of a bit an index; runs, and what is nearly full.

    Args:
        form: how grains are listed; the smallest form by default.
    """

    name: ClassVar[str] = "structured"
    wire_id: ClassVar[int] = 10
    form: str = "smallest"

    def __post_init__(self) -> None:
        if self.form not in ("smallest", *FORMS):
            raise EncodeError(f"structured: form is {self.form!r}; one of smallest, {', '.join(FORMS)}")

    def encode(self, indices: Array, d: int, stream: int) -> Bytes:
        """Plan every form, write the smallest."""
        shape = Shape.of(indices, d, count_runs(indices))
        forms = FORMS if self.form == "smallest" else (self.form,)
        return min((shape.planned(form) for form in forms), key=lambda plan: plan.bytes).section()

    def max_bytes(self, r: int, d: int) -> int:
        """Return the most bytes of a section of at most r indices below d."""
        grain_bytes = -(-d.bit_length() // 8)
        head = 1 + 2 * grain_bytes
        listed = max_runs(r, d) + 1  # the absent grains are listed if fewer
        gaps = head + -(-_stream_bits(listed, d) // 8)
        runs = max_runs(r, d)
        edges = head + -(-(24 + _stream_bits(runs, d) + _stream_bits(runs, max(r, runs))) // 8)
        bitmap = max(1 + -(-d // 8), head + -(-(d // 2) // 8))  # a grain above 1 halves the bitmap at least
        sizes = {"gaps": gaps, "runs": edges, "bitmap": bitmap}
        return min(sizes.values()) if self.form == "smallest" else sizes[self.form]

    @classmethod
    def decode(cls, section: Bytes, d: int, r: int, limits: DecodeLimits) -> Array:
        """One pass over the section, which fills the indices run by run."""
        head = Head.of(section, d)
        count = head.listed(r, d)
        whole = head.whole(d)
        body = section[head.size :]
        out = np.empty(r, np.uint32)
        if count in (0, whole):
            return _trivial(head, body, d, count, out)
        return _BODIES[head.form](head, body, d, count, out)


def _stream_bits(count: int, total: int) -> int:
    """Return the most bits of a gap stream of ``count`` numbers below ``total``."""
    return GAP_PARAMETER_BITS * -(-count // GAP_BLOCK) + max_gap_bits(count, total)


def _trivial(head: Head, body: Bytes, d: int, count: int, out: Array) -> Array:
    """A support whose grains are all listed, or none: nothing follows the head."""
    from wirecodec.kernels.cpu.index import structured

    if body.size:
        raise Malformed("structured-length", f"{body.size} bytes that list nothing")
    whole = head.whole(d)
    absent = np.zeros(min(count, 1), np.uint32)
    structured.read_runs(
        np.zeros(16, np.uint8), 0, 0, absent, count, whole, head.grain, head.phase, d, head.flags, out
    )
    return out


def _bitmap(head: Head, body: Bytes, d: int, count: int, out: Array) -> Array:
    from wirecodec.kernels.cpu.index import bitmap, structured

    whole = head.whole(d)
    if body.size != -(-whole // 8):
        raise Malformed("structured-length", f"a bitmap of {body.size} bytes for {whole} grains")
    words, ends = bitmap.copied_bits(body)
    if whole % 64 and int(words[-1]) >> (whole % 64):
        raise Malformed("structured-padding", f"a bit beyond grain {whole - 1} is set")
    if (found := int(ends[-1]) if whole else 0) != count:
        raise Invalid("structured-count", f"{found} grains are set; the table says {count}")
    structured.read_bitmap(words, whole, head.grain, head.phase, d, head.flags, out)
    return out


def _gaps(head: Head, body: Bytes, d: int, count: int, out: Array) -> Array:
    from wirecodec.kernels.cpu.index import structured

    data = _padded(body)
    code, at = structured.read_gaps(
        data, 8 * body.size, 0, count, head.whole(d), head.grain, head.phase, d, head.flags, out
    )
    _raise_of(code)
    _finished(body, at)
    return out


def _runs(head: Head, body: Bytes, d: int, count: int, out: Array) -> Array:
    from wirecodec.kernels.cpu.coding import gap_stream
    from wirecodec.kernels.cpu.index import structured

    whole, stop = head.whole(d), 8 * body.size
    most = min(count, whole - count + 1)
    width = (most - 1).bit_length()
    if stop < width:
        raise Malformed("structured-length", "the number of runs is cut")
    runs = 1 + (int.from_bytes(body[:4].tobytes(), "little") & ((1 << width) - 1))
    if runs > most:
        raise Malformed("structured-runs", f"{runs} runs of {count} in {whole} grains")
    data = _padded(body)
    absent = np.empty(runs, np.uint32)
    _raise_of(at := gap_stream.read(data, width, stop, whole - count + 1, absent))
    code, at = structured.read_runs(
        data, stop, at, absent, count, whole, head.grain, head.phase, d, head.flags, out
    )
    _raise_of(code)
    _finished(body, at)
    return out


_BODIES = {"gaps": _gaps, "runs": _runs, "bitmap": _bitmap}


def _padded(body: Bytes) -> Bytes:
    """A copy that kernels can read words of, whatever becomes of the caller's bytes."""
    data = np.zeros(body.size + 16, np.uint8)
    data[: body.size] = body
    return data


def _raise_of(code: int) -> None:
    """The WireError of a kernel's negative answer."""
    from wirecodec.kernels.cpu.coding import gap_stream

    if code >= 0:
        return
    if code == gap_stream.BAD_PARAMETER:
        raise Malformed("structured-parameter", "a block's parameter is above 24")
    if code == gap_stream.BAD_RANGE:
        raise Invalid("index-range", "a gap runs past the chunk")
    raise Malformed("structured-length", "the stream ends within a code")


def _finished(body: Bytes, at: int) -> None:
    """Nothing but zero bits of the last byte may follow bit ``at``."""
    if body.size != -(-at // 8):
        raise Malformed("structured-length", f"{body.size} bytes; the stream takes {-(-at // 8)}")
    if at % 8 and body[-1] >> (at % 8):
        raise Malformed("structured-padding", "a bit after the stream is set")
