"""``dgc`` on the device: a sample's threshold, and what of the top k reaches it.

No count comes to the host.
"""

from __future__ import annotations

from typing import Any

from wirecodec.kernels.cuda import moments
from wirecodec.kernels.cuda.device import Device
from wirecodec.kernels.cuda.select import Selected
from wirecodec.kernels.cuda.topk import Search
from wirecodec.select.dgc import DGC
from wirecodec.select.topk import fraction_count

__all__ = ["Sampled"]


class Sampled:
    """The memory that it takes for ``size`` words; it may be used again and again.

    Args:
        device: where.
        size: elements.
        words: the unsigned type of their width.
        selector: one that takes fewer than all.
    """

    def __init__(self, device: Device, size: int, words: Any, selector: DGC) -> None:
        self._device, self._drawn = device, fraction_count(selector.sample, size)
        self._sample = device.empty(self._drawn + 1, words)  # a zero behind: a search leaves one out
        device.clear(self._sample)
        self._threshold = Search(device, self._drawn + 1, words, fraction_count(selector.ratio, self._drawn))
        self.search = Search(device, size, words, fraction_count(selector.ratio, size))

    def select(self, words: Any, infinity: int, stream: Any) -> Selected:
        """Of (size,) ``words``; what is not finite reaches any threshold, and is looked for.

        ``stream`` seeds the draws, a u64 or (1,) u64 on the device.
        """
        moments.sample(self._device, words, stream, self._sample[: self._drawn])
        self._threshold.cold(self._sample, 0)
        return self.search.reaching(words, self._threshold.rule, infinity)
