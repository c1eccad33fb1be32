"""``dgc`` on the device: a threshold from a sample, and the elements of the top k that reach it.

No count is copied to the host.
"""

from __future__ import annotations

from typing import Any

from wirecodec.kernels.cuda import moments
from wirecodec.kernels.cuda.device import Device
from wirecodec.kernels.cuda.select import Selected
from wirecodec.kernels.cuda.topk import Search
from wirecodec.select.dgc import DGC
from wirecodec.select.topk import fraction_count

__all__ = ["DGCSearch"]


class DGCSearch:
    """Reusable memory of a DGC selection from ``size`` elements.

    Args:
        device: where the elements are.
        size: number of elements.
        raw_type: unsigned type of the elements' raw bits.
        selector: one that selects fewer than all elements.
    """

    def __init__(self, device: Device, size: int, raw_type: Any, selector: DGC) -> None:
        self._device, self._sample_size = device, fraction_count(selector.sample, size)
        self._sample = device.empty(self._sample_size + 1, raw_type)  # a search needs k < n: one zero more
        device.clear(self._sample)
        k = fraction_count(selector.ratio, self._sample_size)
        self._threshold = Search(device, self._sample_size + 1, raw_type, k)
        self.search = Search(device, size, raw_type, fraction_count(selector.ratio, size))

    def select(self, raw: Any, infinity: int, stream: Any) -> Selected:
        """Select from (size,) raw bits; NaN and Inf reach every threshold and are reported.

        ``stream`` seeds the draws, a u64 or (1,) u64 on the device.
        """
        moments.sample(self._device, raw, stream, self._sample[: self._sample_size])
        self._threshold.cold(self._sample, 0)
        return self.search.reaching(raw, self._threshold.rule, infinity)
