"""The top k of a tensor from step to step: a search begins where the last one ended.

What it finds is the same as without: where the last threshold no longer serves, the search is made from the
beginning (``kernels.cuda.topk``). So this is memory and no state, and nobody saves it.
"""

from __future__ import annotations

from typing import Any

from wirecodec.kernels.cuda.device import Device
from wirecodec.kernels.cuda.select import Selected
from wirecodec.kernels.cuda.topk import Search

__all__ = ["LastTop"]


class LastTop:
    """The last search for a tensor's top k, its memory included: about half a byte an element."""

    def __init__(self) -> None:
        self._search: Search | None = None
        self._of: tuple[Any, ...] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy begins anew."""
        return LastTop, ()

    def top(self, device: Device, words: Any, infinity: int, k: int) -> Selected:
        """The top k of (n,) words, 0 < k < n; what is not finite is above all else, and is looked for."""
        one = device, words.size, words.dtype, k
        if self._search is not None and self._of == one:
            return self._search.warm(words, infinity)
        self._search, self._of = Search(device, words.size, words.dtype, k), one
        return self._search.cold(words, infinity)

    def top_of_sum(
        self, device: Device, gradient: Any, residual: Any, infinity: int, k: int
    ) -> tuple[Selected, Any] | None:
        """The same of gradient + residual, and the words of their sum; None where no search was made before.

        Both are (n,) float32 or float64. Of a sum that is beyond the type's range see ``Search.warm_sum``.
        """
        words = gradient.view(f"u{gradient.dtype.itemsize}").dtype
        if self._search is None or self._of != (device, gradient.size, words, k):
            return None
        total = device.empty(gradient.size, words)
        return self._search.warm_sum(gradient, residual, total, infinity), total
