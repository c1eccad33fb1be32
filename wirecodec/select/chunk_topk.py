"""``chunk-topk``: the top of each chunk (ScaleCom, section 4: a sort of each chunk apart, in parallel).

It costs no sort of the whole tensor, and pays for that in energy: a chunk without large elements sends its
share all the same, so on raw gradients, whose layers differ by orders of magnitude, far less of the norm goes
on the wire than with ``topk`` of the same ratio. ScaleCom makes up for it with error feedback.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from wirecodec.arrays import Array, bits_of
from wirecodec.errors import EncodeError
from wirecodec.select.base import Selection, finite_or_raise
from wirecodec.select.threshold_common import whole
from wirecodec.select.topk import share_of
from wirecodec.sparse import index_dtype
from wirecodec.validation import as_integer, as_ratio, settle

__all__ = ["ChunkTopK"]


@dataclass(frozen=True)
class ChunkTopK:
    """Of each chunk of ``chunk`` elements the share ``ratio``, by magnitude, and at least one.

    The last chunk may be shorter. Ties go to the lower index; zeros are taken where nothing else is left, as
    by ``topk``. Chunks shorter than 1/ratio send one of ``chunk``, more than the ratio says.
    """

    name: ClassVar[str] = "chunk-topk"
    ratio: float
    chunk: int

    def __post_init__(self) -> None:
        settle(
            self,
            ratio=as_ratio(self.ratio, "chunk-topk: ratio"),
            chunk=as_integer(self.chunk, "chunk-topk: chunk"),
        )
        if self.chunk < 1:
            raise EncodeError(f"chunk-topk: chunk is {self.chunk}; it must be 1 or more")

    def count_range(self, size: int) -> tuple[int, int]:
        """Return the fewest and the most of ``size`` elements that are selected."""
        full, rest = divmod(size, self.chunk)
        k = full * share_of(self.ratio, self.chunk) + share_of(self.ratio, rest)
        return k, k

    def select(
        self, x: Array, *, gradient: Array | None = None, state: Any = None, seed: int = 0
    ) -> Selection:
        """The top of each chunk; EncodeError names the first NaN or Inf."""
        from wirecodec.kernels.cpu.select import chunk_topk

        chunk = min(self.chunk, max(x.size, 1))
        full, rest = divmod(x.size, chunk)
        each, last = share_of(self.ratio, chunk), share_of(self.ratio, rest)
        if full * each + last == x.size:
            return whole(x, self.name)
        bits = bits_of(x)
        total = full * each + last
        found = np.empty(total + chunk_topk.SLACK, index_dtype(x.size))
        infinity = int(bits_of(np.array([np.inf], x.dtype))[0])
        count, finite = chunk_topk.fill_chunks(bits, infinity, chunk, each, last, found)
        if not finite:
            finite_or_raise(x, self.name)
        if count != total:
            raise EncodeError("the tensor changed while it was read")
        return Selection(found[:total])
