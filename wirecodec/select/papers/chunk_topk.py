"""``chunk-topk``: the top k of each chunk.

It needs no selection over the whole tensor, at the price of energy. A chunk without large elements sends its
share, too. The layers of raw gradients differ by orders of magnitude, so less of their norm is sent than with
``topk`` of the same ratio. ScaleCom compensates with error feedback.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from wirecodec.arrays import Array, bits_of, index_dtype
from wirecodec.errors import EncodeError
from wirecodec.select.base import Selection, Selector, require_finite
from wirecodec.select.threshold_common import select_all
from wirecodec.select.topk import fraction_count
from wirecodec.validation import as_integer, as_ratio, set_fields


@dataclass(frozen=True)
class ChunkTopK(Selector):
    """Selector of the largest elements of each chunk.

    Selects, from each chunk of c elements, the max(1, ⌊ratio · c⌋) of largest magnitude. The last chunk may
    be shorter. Ties go to the lower index. Zeros are selected only if nothing else is left. If ``chunk`` <
    1/``ratio``, one element per chunk is sent, which is more than ``ratio``.

    Cost: one read of the array; a chunk that fits the cache may be counted several times.

    By default, ``collectives.CLTk`` selects the exact top k, which takes about one read of the array, too.

    Source: Chen et al., ScaleCom, NeurIPS 2020, section 4 (chunk-wise sort).

    Args:
        ratio: selected elements per element of a chunk, above 0 and at most 1.
        chunk: elements per chunk, 1 or more.

    Raises:
        EncodeError: if ``ratio`` or ``chunk`` is out of range.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> wc.selectors.ChunkTopK(0.5, chunk=2).select(np.array([0.1, -3.0, 2.0, 0.5], np.float32)).indices
        array([1, 2], dtype=int32)
    """

    name: ClassVar[str] = "chunk-topk"
    ratio: float
    chunk: int

    def __post_init__(self) -> None:
        set_fields(
            self,
            ratio=as_ratio(self.ratio, "chunk-topk: ratio"),
            chunk=as_integer(self.chunk, "chunk-topk: chunk"),
        )
        if self.chunk < 1:
            raise EncodeError(f"chunk-topk: chunk is {self.chunk}; it must be 1 or more")

    def count_range(self, size: int) -> tuple[int, int]:
        """Return the fewest and the most of ``size`` elements that are selected."""
        full, rest = divmod(size, self.chunk)
        k = full * fraction_count(self.ratio, self.chunk) + fraction_count(self.ratio, rest)
        return k, k

    def select(
        self, x: Array, *, gradient: Array | None = None, state: Any = None, seed: int = 0
    ) -> Selection:
        """Select the largest elements of each chunk.

        Args:
            x: (n,) any element type.

        Returns a Selection.

        Raises EncodeError at the first NaN or Inf.
        """
        from wirecodec.kernels.cpu.select import chunk_topk

        chunk = min(self.chunk, max(x.size, 1))
        full, rest = divmod(x.size, chunk)
        per_chunk, last = fraction_count(self.ratio, chunk), fraction_count(self.ratio, rest)
        if full * per_chunk + last == x.size:
            return select_all(x, self.name)
        bits = bits_of(x)
        total = full * per_chunk + last
        indices = np.empty(total + chunk_topk.SLACK, index_dtype(x.size))
        infinity = int(bits_of(np.array([np.inf], x.dtype))[0])
        count, finite = chunk_topk.fill_chunks(bits, infinity, chunk, per_chunk, last, indices)
        if not finite:
            require_finite(x, self.name)
        if count != total:
            raise EncodeError("the tensor changed while it was read")
        return Selection(indices[:total])
