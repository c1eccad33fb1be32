"""``budget`` on the device: the elements stay there, and the candidates are copied to the host.

The sample, the segments, the largest elements and those from a threshold on are collected on the device. They
are the same as on the host, where the search encodes them. So the bytes are the same.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array, read_only
from wirecodec.cpu.costs import CodecCosts
from wirecodec.gpu.fallback import HostFallback
from wirecodec.gpu.select.common import select_all_finite, select_from, to_support
from wirecodec.gpu.select.warm_topk import LastTop
from wirecodec.gpu.support import DeviceSupport, support_to_host
from wirecodec.kernels.cuda import elements
from wirecodec.kernels.cuda.device import Device
from wirecodec.kernels.cuda.select import infinity_of
from wirecodec.select.budget.model import Histogram, sample_starts
from wirecodec.select.budget.selector import Budget
from wirecodec.select.budget.source import Candidates
from wirecodec.settings.scheme import Scheme
from wirecodec.support import Support
from wirecodec.tensors import DeviceFlat


def select_within(device: Device, flat: DeviceFlat, scheme: Scheme, header: int) -> Support:
    """Select elements within a budget; return them on the host, with the entries that the search has encoded.

    Raises HostFallback if an element is NaN or Inf.
    """
    selector = scheme.select
    assert isinstance(selector, Budget)
    size = flat.raw_bits.size
    costs = CodecCosts(scheme, size, header)
    source = _DeviceSource(device, flat)
    selection = selector.select_within(source, costs)
    if selection.indices is None:
        values = source.collect(size).values
        return Support(None, values, size, flat.shape, step=selection.step)
    assert selection.values is not None
    entries = costs.entries_of(selection.values, selection.step)
    return Support(
        selection.indices, selection.values, size, flat.shape, step=selection.step, entries=entries
    )


class _DeviceSource:
    """Elements of a tensor on a device, as ``select.budget.source.HostSource``."""

    def __init__(self, device: Device, flat: DeviceFlat) -> None:
        self.device, self.flat, self.size = device, flat, int(flat.raw_bits.size)

    def sample(self) -> Histogram:
        """Count elements from spread cache lines, or all if they are few."""
        starts, length = sample_starts(self.size)
        values = self.read_runs(starts, length)
        return Histogram.of_runs(values, np.zeros(1, np.int64), values.size, self.size)

    def read_runs(self, starts: Array, length: int) -> Array:
        """Return the elements of runs that begin at (m,) i64 ``starts``, end to end."""
        numbers = (starts[:, None] + np.arange(length)).reshape(-1).astype(np.uint32)
        raw = elements.gather(self.device, self.flat.raw_bits, self.device.put(numbers))
        return read_only(self.device.get(raw).view(self.flat.dtype))

    def collect(self, count: int) -> Candidates:
        """Collect the ``count`` largest elements. Raises HostFallback for NaN and Inf."""
        raw = self.flat.raw_bits
        if count >= self.size:
            return self._to_host(select_all_finite(self.device, self.flat))
        selected = LastTop().top(self.device, raw, infinity_of(self.flat.dtype), count)
        return self._to_host(to_support(self.device, self.flat, selected))

    def collect_from(self, least: int, expected: float) -> Candidates:
        """Collect all elements whose key is ``least`` or more. Raises HostFallback for NaN and Inf."""
        selected = select_from(self.device, self.flat.raw_bits, least, infinity_of(self.flat.dtype))
        return self._to_host(to_support(self.device, self.flat, selected))

    def _to_host(self, support: DeviceSupport) -> Candidates:
        """Copy collected elements to the host."""
        on_host = support_to_host(self.device, support)
        return Candidates(self.size, on_host.indices, on_host.values)

    def require_finite(self) -> None:
        """Leave the error message to the host."""
        raise HostFallback
