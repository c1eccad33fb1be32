"""``structured``: gap streams of a support whose structure is removed (formats/spec/index/structured.md).

Three kinds of structure are removed. If more is present than absent, the absent elements are listed. If runs
begin and end at multiples of a grain, grains are listed. If runs are long, their boundaries are listed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.errors import EncodeError, Invalid, Malformed
from wirecodec.index.base import IndexCodec
from wirecodec.index.bounds import max_gap_bits, max_runs
from wirecodec.index.short_sections import decode_short
from wirecodec.index.structured_plan import FORMS, Header, Shape, count_runs
from wirecodec.kernels.layout import GAP_BLOCK, GAP_PARAMETER_BITS
from wirecodec.limits import DecodeLimits


@dataclass(frozen=True)
class Structured(IndexCodec):
    """Structured index codec: for whole rows, long runs and nearly full supports.

    The header takes 1 to 7 bytes. Listing n of N grains as ``"gaps"`` takes about 2 + log2(N/n) bits per
    grain, as rice does; listing N - n absent ones takes the same per absent grain. ``"runs"`` lists two
    numbers per run, ``"bitmap"`` one bit per grain. Rows of 64 at 10 % density take 0.1 bits per index.

    Source: formats/spec/index/structured.md.

    Args:
        form: how grains are listed: ``"gaps"``, ``"runs"``, ``"bitmap"``, or ``"smallest"`` of these.

    Raises:
        EncodeError: ``form`` is none of these.
        Malformed: in decoding, the header or the streams are not in the form that a writer produces.
        Invalid: in decoding, the grains do not hold r elements, or a gap exceeds the chunk.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> rows = 64 * np.arange(0, 1000, 10, dtype=np.uint32)[:, None] + np.arange(64, dtype=np.uint32)
        >>> wc.codecs.Structured().encode(rows.ravel(), 64_000, 0).size
        65
    """

    name: ClassVar[str] = "structured"
    wire_id: ClassVar[int] = 10
    form: str = "smallest"

    def __post_init__(self) -> None:
        if self.form not in ("smallest", *FORMS):
            raise EncodeError(f"structured: form is {self.form!r}; it must be smallest, {', '.join(FORMS)}")

    def encode(self, indices: Array, d: int, stream: int) -> Bytes:
        """Encode indices as a section, in the smallest form by default; see ``IndexCodec.encode``."""
        shape = Shape.of(indices, d, count_runs(indices))
        forms = FORMS if self.form == "smallest" else (self.form,)
        return min((shape.plan(form) for form in forms), key=lambda plan: plan.bytes).encode()

    def max_bytes(self, r: int, d: int) -> int:
        """Return the maximum number of bytes of a section of at most r indices below d."""
        grain_bytes = -(-d.bit_length() // 8)
        header_bytes = 1 + 2 * grain_bytes
        listed = max_runs(r, d) + 1  # the absent grains are listed if fewer
        gaps = header_bytes + -(-_stream_bits(listed, d) // 8)
        runs = max_runs(r, d)
        edges = header_bytes + -(-(24 + _stream_bits(runs, d) + _stream_bits(runs, max(r, runs))) // 8)
        bitmap = max(
            1 + -(-d // 8), header_bytes + -(-(d // 2) // 8)
        )  # a grain above 1 halves the bitmap at least
        sizes = {"gaps": gaps, "runs": edges, "bitmap": bitmap}
        return min(sizes.values()) if self.form == "smallest" else sizes[self.form]

    @classmethod
    def decode(cls, section: Bytes, d: int, r: int, limits: DecodeLimits) -> Array:
        """Decode a section run by run; see ``IndexCodec.decode``."""
        header = Header.of(section, d)
        count = header.count_listed(r, d)
        body = section[header.size :]
        out = np.empty(r, np.uint32)
        if count in (0, header.count_grains(d)):
            return _read_empty(header, body, d, count, out)
        return _BODY_READERS[header.form](header, body, d, count, out)

    @classmethod
    def decode_batch(
        cls, words: Array, starts: Array, lengths: Array, sizes: Array, cuts: Array
    ) -> Array | None:
        """Decode the sections of many tensors; see ``IndexCodec``."""
        from wirecodec.kernels.cpu.index import short_sections

        return decode_short(cls, short_sections.read_gaps, words, starts, lengths, sizes, cuts)


def _stream_bits(count: int, total: int) -> int:
    """Return the maximum number of bits of a gap stream of ``count`` numbers below ``total``."""
    return GAP_PARAMETER_BITS * -(-count // GAP_BLOCK) + max_gap_bits(count, total)


def _read_empty(header: Header, body: Bytes, d: int, count: int, out: Array) -> Array:
    """Fill a support whose grains are all listed or all not listed, so that its body is empty."""
    from wirecodec.kernels.cpu.index import structured_read

    if body.size:
        raise Malformed("structured-length", f"{body.size} bytes after the header; there must be none")
    whole = header.count_grains(d)
    absent = np.zeros(min(count, 1), np.uint32)
    structured_read.read_runs(
        np.zeros(16, np.uint8), 0, 0, absent, count, whole, header.grain, header.phase, d, header.flags, out
    )
    return out


def _read_bitmap(header: Header, body: Bytes, d: int, count: int, out: Array) -> Array:
    from wirecodec.kernels.cpu.index import bitmap, structured_read

    whole = header.count_grains(d)
    if body.size != -(-whole // 8):
        raise Malformed("structured-length", f"the bitmap takes {body.size} bytes for {whole} grains")
    words, ends = bitmap.copy_bitmap(body)
    if whole % 64 and int(words[-1]) >> (whole % 64):
        raise Malformed("structured-padding", f"a bit beyond grain {whole - 1} is set")
    if (grains := int(ends[-1]) if whole else 0) != count:
        raise Invalid("structured-count", f"{grains} grains are set; the table has {count}")
    structured_read.read_bitmap(words, whole, header.grain, header.phase, d, header.flags, out)
    return out


def _read_gaps(header: Header, body: Bytes, d: int, count: int, out: Array) -> Array:
    from wirecodec.kernels.cpu.index import structured_read

    data, whole = _copy_padded(body), header.count_grains(d)
    code, at = structured_read.read_gaps(
        data, 8 * body.size, 0, count, whole, header.grain, header.phase, d, header.flags, out
    )
    _raise_if_bad(code)
    _check_end(body, at)
    return out


def _read_runs(header: Header, body: Bytes, d: int, count: int, out: Array) -> Array:
    from wirecodec.kernels.cpu.coding import gap_stream
    from wirecodec.kernels.cpu.index import structured_read

    whole, stop = header.count_grains(d), 8 * body.size
    max_runs = min(count, whole - count + 1)
    width = (max_runs - 1).bit_length()
    if stop < width:
        raise Malformed("structured-length", "the section ends in the number of runs")
    runs = 1 + (int.from_bytes(body[:4].tobytes(), "little") & ((1 << width) - 1))
    if runs > max_runs:
        raise Malformed("structured-runs", f"{runs} runs; {count} of {whole} grains make at most {max_runs}")
    data = _copy_padded(body)
    absent = np.empty(runs, np.uint32)
    _raise_if_bad(at := gap_stream.read(data, width, stop, whole - count + 1, absent))
    code, at = structured_read.read_runs(
        data, stop, at, absent, count, whole, header.grain, header.phase, d, header.flags, out
    )
    _raise_if_bad(code)
    _check_end(body, at)
    return out


_BODY_READERS = {"gaps": _read_gaps, "runs": _read_runs, "bitmap": _read_bitmap}


def _copy_padded(body: Bytes) -> Bytes:
    """Copy a body, which another thread may change, and append the zero bytes that kernels load."""
    data = np.zeros(body.size + 16, np.uint8)
    data[: body.size] = body
    return data


def _raise_if_bad(code: int) -> None:
    """Raise the WireError of a kernel's error code, if it is negative."""
    from wirecodec.kernels.cpu.coding import gap_stream

    if code >= 0:
        return
    if code == gap_stream.BAD_PARAMETER:
        raise Malformed("structured-parameter", "a parameter is above 24")
    if code == gap_stream.BAD_RANGE:
        raise Invalid("index-range", "a gap exceeds the chunk")
    raise Malformed("structured-length", "the stream ends in a code")


def _check_end(body: Bytes, at: int) -> None:
    """Check that ``at`` is in the last byte, and that only zero bits follow it."""
    if body.size != -(-at // 8):
        raise Malformed("structured-length", f"{body.size} bytes; the stream takes {-(-at // 8)}")
    if at % 8 and body[-1] >> (at % 8):
        raise Malformed("structured-padding", "a bit after the stream is set")
