"""The top k of a tensor from step to step: a search starts at the last step's threshold.

The result is the same as that of a search from the beginning. If the last threshold does not hold the top k,
the search starts over (``kernels.cuda.topk``). So this memory is a cache, not state, and is never saved.
"""

from __future__ import annotations

from typing import Any

from wirecodec.kernels.cuda.device import Device
from wirecodec.kernels.cuda.select import Selected
from wirecodec.kernels.cuda.topk import Search


class LastTop:
    """Cache of the last search for a tensor's top k. It holds about 0.7 bytes per element."""

    def __init__(self) -> None:
        self._search: Search | None = None
        self._key: tuple[Any, ...] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy as an empty cache."""
        return LastTop, ()

    def top(self, device: Device, raw: Any, infinity: int, k: int) -> Selected:
        """Select the top k of (n,) raw bits, 0 < k < n; NaN and Inf rank highest and are reported."""
        key = device, raw.size, raw.dtype, k
        if self._search is not None and self._key == key:
            return self._search.warm(raw, infinity)
        self._search, self._key = Search(device, raw.size, raw.dtype, k), key
        return self._search.cold(raw, infinity)

    def top_of_sum(
        self, device: Device, gradient: Any, residual: Any, infinity: int, k: int
    ) -> tuple[Selected, Any] | None:
        """Select the top k of gradient + residual; return it with the raw bits of the sum.

        Both are (n,) float32 or float64. Returns None if there was no search before. ``Search.warm_sum``
        defines the result of a sum beyond the type's range.
        """
        raw_type = gradient.view(f"u{gradient.dtype.itemsize}").dtype
        if self._search is None or self._key != (device, gradient.size, raw_type, k):
            return None
        total = device.empty(gradient.size, raw_type)
        return self._search.warm_sum(gradient, residual, total, infinity), total
