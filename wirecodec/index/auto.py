"""``auto-index``: for each chunk the smallest of rice, bitmap, rle, structured and huffman; of context, too,
where size is worth more than time.

It has no id of its own: the chosen codec stands on the wire.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.index.base import IndexCodec
from wirecodec.index.bitmap import Bitmap, bitmap_bytes
from wirecodec.index.context import ContextIndex
from wirecodec.index.huffman import Huffman
from wirecodec.index.rice import Rice, planned_bytes
from wirecodec.index.rle import RLE
from wirecodec.index.rle import planned_bytes as rle_bytes
from wirecodec.index.structured import Structured
from wirecodec.index.structured_plan import FORMS, Plan, Shape, count_runs
from wirecodec.validation import as_flag

__all__ = ["AutoIndex"]

_FEW = 1024
"""Up to so many indices, those that fill up rice's words weigh: gap streams are looked at, too."""
_GLANCE = 16
_EVERY = 64
"""Of the blocks of gaps, the classes of every 64th are counted, but of 16 at least."""


@dataclass(frozen=True)
class AutoIndex:
    """The smallest exact form of a support, by exact sizes, so that the choice is the same everywhere.

    Counting the runs, one pass, and the classes of some gaps tell which forms can be the smallest; a support
    without structure costs little more than rice alone.

    Args:
        smallest: whether ``context``, which is far slower and mostly the smallest, is tried as well.
    """

    name: ClassVar[str] = "auto-index"
    smallest: bool = False

    def __post_init__(self) -> None:
        as_flag(self.smallest, "auto-index: smallest")

    def choose(self, indices: Array | None, d: int, stream: int) -> tuple[IndexCodec, Bytes]:
        """The codec and its section: never larger than the smallest of rice, bitmap and rle."""
        if indices is None:
            return Bitmap(), np.empty(0, np.uint8)
        codec, section = self._fast(indices, d, stream)
        if self.smallest:
            learned = ContextIndex().encode(indices, d, stream)
            if learned.size < section.size:
                return ContextIndex(), learned
        return codec, section

    def max_bytes(self, r: int, d: int) -> int:
        """Return the most bytes of a section of at most r indices below d."""
        return min(codec.max_bytes(r, d) for codec in (Rice(), Bitmap(), RLE()))

    @staticmethod
    def _fast(indices: Array, d: int, stream: int) -> tuple[IndexCodec, Bytes]:
        r, runs = indices.size, count_runs(indices)
        plan = _structured(indices, d, runs)
        least = min(bitmap_bytes(d), plan.bytes if plan else d)
        # Rice and huffman take a bit an index or more, rle two bytes a run: mostly that excludes them.
        huffman = None
        if r < 8 * least and _uneven(indices):
            huffman = Huffman().encode(indices, d, stream)
            least = min(least, huffman.size)
        by_rle = rle_bytes(indices) if 2 * runs < least else d
        least = min(least, by_rle)
        # Rice is planned only where it may well lose.
        alone = plan is None and huffman is None and 3 * r <= d
        if r < 8 * least and (alone or planned_bytes(indices) <= least):
            rice = Rice().encode(indices, d, stream)
            if rice.size <= least:
                return Rice(), rice
        if least == bitmap_bytes(d):
            return Bitmap(), Bitmap().encode(indices, d, stream)
        if plan and least == plan.bytes:
            return Structured(), plan.section()
        if huffman is not None and least == huffman.size:
            return Huffman(), huffman
        return RLE(), RLE().encode(indices, d, stream)


def _uneven(indices: Array) -> bool:
    """Whether gaps of a few blocks promise that huffman saves 0.7 % of what rice takes."""
    from wirecodec.kernels.cpu.index import gap_probe

    blocks = indices.size // gap_probe.BLOCK
    if blocks == 0:
        return True
    blocks = min(blocks, max(_GLANCE, blocks // _EVERY))
    classes, rice = gap_probe.classes_and_rice(indices, blocks)
    return 1000 * classes < 993 * rice


def _structured(indices: Array, d: int, runs: int) -> Plan | None:
    """The smallest plan of the structured forms that may be smaller than rice and bitmap, if any is."""
    r = indices.size
    few = r <= _FEW
    # A uniform support has r(d - r)/d runs.
    long_runs = 100 * runs * d <= 80 * r * (d - r)
    if not (long_runs or few or 2 * r > d):
        return None
    shape = Shape.of(indices, d, runs)
    coarse = shape.head.grain > 1
    wanted = {"gaps": coarse or few or shape.mostly_present, "runs": long_runs or few, "bitmap": coarse}
    plans = [shape.planned(form) for form in FORMS if wanted[form]]
    return min(plans, key=lambda plan: plan.bytes, default=None)
