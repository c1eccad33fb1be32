"""``delta``: gaps between indices as LEB128 varints (formats/spec/index/delta.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.errors import Invalid, Malformed
from wirecodec.index.base import IndexCodec
from wirecodec.index.bounds import max_varint_bytes
from wirecodec.index.varint import STORE_MARGIN, survey_section
from wirecodec.limits import DecodeLimits


@dataclass(frozen=True)
class Delta(IndexCodec):
    """Delta index codec: gaps between indices as LEB128 varints.

    It has no parameters. A gap takes 8 bits if it is below 128, 16 below 16,384, 24 below 2^21, otherwise 32.
    Use it for simple readers, or for sections that a general compressor packs afterwards.

    Source: formats/spec/index/delta.md.

    Raises:
        Malformed: in decoding, there are not r numbers, or one is not in its shortest form.
        Invalid: in decoding, an index is not below d.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> wc.codecs.Delta().encode(np.array([3, 7, 20], np.uint32), 64, 0).tolist()
        [3, 3, 12]
    """

    name: ClassVar[str] = "delta"
    wire_id: ClassVar[int] = 5

    def encode(self, indices: Array, d: int, stream: int) -> Bytes:
        """Encode indices as a section in two passes, measure and write; see ``IndexCodec.encode``."""
        from wirecodec.kernels.cpu.index import delta

        section = np.empty(measure_section(indices) + STORE_MARGIN, np.uint8)
        delta.write(indices, section)
        return section[:-STORE_MARGIN]

    def max_bytes(self, r: int, d: int) -> int:
        """Return the maximum number of bytes of a section of at most r indices below d."""
        return max_varint_bytes(r, d)

    @classmethod
    def decode(cls, section: Bytes, d: int, r: int, limits: DecodeLimits) -> Array:
        """Decode a copy of a section in two passes, survey and read; see ``IndexCodec.decode``."""
        from wirecodec.kernels.cpu.index import delta

        survey = survey_section(section)
        if survey.n_numbers != r or not survey.complete:
            raise Malformed(
                "delta-length", f"{survey.n_numbers} numbers end in {section.size} bytes; the table has {r}"
            )
        if survey.malformed:
            raise Malformed("delta-varint", "a number is over-long or takes more than 4 bytes")
        indices = np.empty(r, np.uint32)
        if (end := delta.read(survey.framed, section.size, indices)) > d:
            raise Invalid("index-range", f"index {end - 1} in a chunk of {d} elements")
        return indices


def measure_section(indices: Array) -> int:
    """Return the length in bytes of the section of (r,) u32 ``indices``, r > 0, without writing it."""
    from wirecodec.kernels.cpu.index import delta

    return int(delta.measure(indices))
