"""``rle``: the lengths of the bitmap's runs, absent and present alternating (formats/spec/index/rle.md).

After the bit-level run lengths of DeepReduce (Xu et al. 2021, section 2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.errors import Invalid, Malformed
from wirecodec.index.base import IndexCodec
from wirecodec.index.bounds import max_runs, max_varint_bytes
from wirecodec.index.short_sections import decode_short
from wirecodec.index.varint import STORE_MARGIN, survey_section
from wirecodec.limits import DecodeLimits


@dataclass(frozen=True)
class RLE(IndexCodec):
    """Run-length index codec: the lengths of absent and present runs, alternating, as LEB128 varints.

    It has no parameters. A run of present elements takes at least 16 bits: two numbers of one byte below 128,
    two below 16,384, three below 2^21, or four. Use it for supports of long runs.

    Source: formats/spec/index/rle.md; DeepReduce (Xu et al. 2021), section 2.

    Raises:
        Malformed: in decoding, the numbers are not pairs, or one is not in its shortest form.
        Invalid: in decoding, a run exceeds the chunk, or the runs do not hold r elements.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> wc.codecs.RLE().encode(np.arange(10, 50, dtype=np.uint32), 64, 0).tolist()
        [10, 39]
    """

    name: ClassVar[str] = "rle"
    wire_id: ClassVar[int] = 4

    def encode(self, indices: Array, d: int, stream: int) -> Bytes:
        """Encode indices as a section in two passes, measure and write; see ``IndexCodec.encode``."""
        from wirecodec.kernels.cpu.index import rle

        section = np.empty(measure_section(indices) + STORE_MARGIN, np.uint8)
        rle.write(indices, section)
        return section[:-STORE_MARGIN]

    def max_bytes(self, r: int, d: int) -> int:
        """Return the maximum number of bytes of a section of at most r indices below d."""
        runs = max_runs(r, d)
        return max_varint_bytes(runs, d) + max_varint_bytes(runs, r)

    @classmethod
    def decode(cls, section: Bytes, d: int, r: int, limits: DecodeLimits) -> Array:
        """Decode a copy of a section in two passes, survey and read; see ``IndexCodec.decode``."""
        from wirecodec.kernels.cpu.index import rle

        survey = survey_section(section)
        if not survey.complete or survey.n_numbers % 2:
            raise Malformed("rle-length", f"{survey.n_numbers} whole numbers end in {section.size} bytes")
        if survey.malformed:
            raise Malformed("rle-varint", "a number is over-long or takes more than 4 bytes")
        indices = np.empty(r, np.uint32)
        code = rle.read(survey.framed, section.size, d, indices)
        if code == rle.BAD_RANGE:
            raise Invalid("index-range", "a run exceeds the chunk")
        if code:
            raise Invalid("rle-count", f"the runs do not hold {r} elements")
        return indices

    @classmethod
    def decode_batch(
        cls, words: Array, starts: Array, lengths: Array, sizes: Array, cuts: Array
    ) -> Array | None:
        """Decode the sections of many tensors; see ``IndexCodec``."""
        from wirecodec.kernels.cpu.index import short_sections

        return decode_short(cls, short_sections.read_rle, words, starts, lengths, sizes, cuts)


def measure_section(indices: Array) -> int:
    """Return the length in bytes of the section of (r,) u32 ``indices``, r > 0, without writing it."""
    from wirecodec.kernels.cpu.index import rle

    return int(rle.measure(indices))
