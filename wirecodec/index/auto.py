"""``auto-index``: for each chunk the smallest of rice, bitmap, rle, structured and huffman, optionally of
context too.

It has no wire id: the container has the id of the codec that was chosen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.index import rice, rle
from wirecodec.index.base import IndexChoice, IndexCodec
from wirecodec.index.bitmap import Bitmap, bitmap_bytes
from wirecodec.index.context import ContextIndex
from wirecodec.index.huffman import Huffman
from wirecodec.index.rice import Rice
from wirecodec.index.rle import RLE
from wirecodec.index.structured import Structured
from wirecodec.index.structured_plan import FORMS, Plan, Shape, count_runs
from wirecodec.support import SectionBatch
from wirecodec.validation import as_flag

_MAX_SMALL_SUPPORT = 1024
"""Up to this number of indices, the padding of rice's words matters, so that gap streams are planned too."""

_WIRE_IDS = np.array([Rice.wire_id, Bitmap.wire_id, Structured.wire_id, RLE.wire_id, 0], np.uint8)
"""By the kinds of ``auto_batch``."""


@dataclass(frozen=True)
class AutoIndex(IndexChoice):
    """Automatic index codec: the smallest exact codec for each chunk.

    Sizes are computed exactly and in integers, so that every machine makes the same choice. The number of
    runs and a sample of gap classes exclude codecs that cannot be the smallest. A support without structure
    therefore costs little more time than rice. A section is never larger than that of rice, bitmap or rle:
    about 8.2 bits per index at 1 % density on a uniform support, ⌈d/8⌉ bytes at most.

    Source: docs/guides/codec.md; each chosen codec has a page in formats/spec/index/.

    Args:
        smallest: whether to try ``context`` as well, which is usually the smallest and much slower.

    Raises:
        EncodeError: ``smallest`` is not a bool.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> codec, section = wc.codecs.AutoIndex().choose(np.arange(10, 50_000, dtype=np.uint32), 100_000, 0)
        >>> codec.name, section.size
        ('rle', 4)
    """

    name: ClassVar[str] = "auto-index"
    smallest: bool = False

    def __post_init__(self) -> None:
        as_flag(self.smallest, "auto-index: smallest")

    def choose(self, indices: Array | None, d: int, stream: int) -> tuple[IndexCodec, Bytes]:
        """Choose a codec, and encode the indices with it; see ``IndexChoice.choose``."""
        if indices is None:
            return Bitmap(), np.empty(0, np.uint8)
        codec, section = self._choose_fast(indices, d, stream)
        if self.smallest:
            modelled = ContextIndex().encode(indices, d, stream)
            if modelled.size < section.size:
                return ContextIndex(), modelled
        return codec, section

    def encode_batch(self, indices: Array, cuts: Array, sizes: Array, streams: Array) -> SectionBatch | None:
        """Choose a codec for each of many tensors, and encode the indices; see ``IndexChoice``.

        One call plans the sections of most tensors. ``choose`` makes those that may have structure, and
        huffman is encoded where it may be the smallest.
        """
        if self.smallest:
            return super().encode_batch(indices, cuts, sizes, streams)
        from wirecodec.kernels.cpu.index import auto_batch
        from wirecodec.kernels.cpu.threads import least_units, run_parallel

        n = cuts.size - 1
        units = least_units(rice.MIN_BATCH_INDICES, n, indices.size)
        kinds, suits = np.empty(n, np.uint8), np.empty(n, np.bool_)
        planned = Rice().encode_batch(indices, cuts, sizes, streams)
        lengths = planned.lengths.copy()
        run_parallel(
            lambda turns: auto_batch.plan(
                indices, cuts, sizes, _MAX_SMALL_SUPPORT, kinds, lengths, suits, turns
            ),
            n,
            units,
        )
        made = {}
        for i in np.flatnonzero(suits | (kinds == auto_batch.OTHER)).tolist():
            here, d, stream = indices[cuts[i] : cuts[i + 1]], int(sizes[i]), int(streams[i])
            if kinds[i] == auto_batch.OTHER:
                made[i] = self.choose(here, d, stream)
                continue
            huffman = Huffman().encode(here, d, stream)
            precedes = kinds[i] == auto_batch.RLE  # in the order of ``choose``, if both are the smallest
            if huffman.size < lengths[i] + precedes:
                made[i] = Huffman(), huffman
        others, rest = np.array(list(made), np.int64), None
        wire_ids, kinds[others] = _WIRE_IDS[kinds], auto_batch.OTHER
        if made:
            rest = SectionBatch.join(list(made.values()))
            wire_ids[others], lengths[others] = rest.wire_id, rest.lengths

        def write(words: Array, starts: Array) -> None:
            planned.write(words, np.where(kinds == auto_batch.RICE, starts, -1))
            run_parallel(
                lambda turns: auto_batch.write(indices, cuts, kinds, lengths, words, starts, turns), n, units
            )
            if rest is not None:
                rest.write(words, starts[others])

        return SectionBatch(wire_ids, lengths, write)

    def candidates(self) -> tuple[IndexCodec, ...]:
        """Return the codecs among which ``choose`` chooses."""
        fast = (Rice(), Bitmap(), RLE(), Structured(), Huffman())
        return (*fast, ContextIndex()) if self.smallest else fast

    def max_bytes(self, r: int, d: int) -> int:
        """Return the maximum number of bytes of a section of at most r indices below d."""
        return min(codec.max_bytes(r, d) for codec in (Rice(), Bitmap(), RLE()))

    @staticmethod
    def _choose_fast(indices: Array, d: int, stream: int) -> tuple[IndexCodec, Bytes]:
        """Choose without ``context``."""
        from wirecodec.kernels.cpu.index import gap_probe

        r, runs = indices.size, count_runs(indices)
        plan = _plan_structured(indices, d, runs)
        best_bytes = min(bitmap_bytes(d), plan.bytes if plan else d)
        # Rice and huffman take at least 1 bit per index, rle 2 bytes per run, which usually excludes them.
        huffman = None
        if r < 8 * best_bytes and gap_probe.may_suit_huffman(indices, best_bytes):
            huffman = Huffman().encode(indices, d, stream)
            best_bytes = min(best_bytes, huffman.size)
        rle_bytes = d
        if 2 * runs < min(best_bytes, Rice().max_bytes(r, d)):
            rle_bytes = rle.measure_section(indices)
        best_bytes = min(best_bytes, rle_bytes)
        # Without a rival, rice is written without measuring it first.
        unrivalled = plan is None and huffman is None and 3 * r <= d
        if r < 8 * best_bytes and (unrivalled or rice.measure_section(indices) <= best_bytes):
            section = Rice().encode(indices, d, stream)
            if section.size <= best_bytes:
                return Rice(), section
        if best_bytes == bitmap_bytes(d):
            return Bitmap(), Bitmap().encode(indices, d, stream)
        if plan and best_bytes == plan.bytes:
            return Structured(), plan.encode()
        if huffman is not None and best_bytes == huffman.size:
            return Huffman(), huffman
        return RLE(), RLE().encode(indices, d, stream)


def _plan_structured(indices: Array, d: int, runs: int) -> Plan | None:
    """Return the smallest plan of the structured forms that may be smaller than rice and bitmap, or None."""
    from wirecodec.kernels.cpu.index.structured import LONG_RUNS_PERCENT

    r = indices.size
    small = r <= _MAX_SMALL_SUPPORT
    # A uniform support has r(d - r)/d runs.
    long_runs = 100 * runs * d <= LONG_RUNS_PERCENT * r * (d - r)
    if not (long_runs or small or 2 * r > d):
        return None
    shape = Shape.of(indices, d, runs)
    coarse = shape.header.grain > 1
    may_win = {"gaps": coarse or small or shape.mostly_present, "runs": long_runs or small, "bitmap": coarse}
    plans = [shape.plan(form) for form in FORMS if may_win[form]]
    return min(plans, key=lambda plan: plan.bytes, default=None)
