"""``sidco`` on the device: the sweeps over the elements run there, the fits and the search on the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import bits_of
from wirecodec.gpu.fallback import HostFallback
from wirecodec.gpu.select.common import Context, find_top, select_from
from wirecodec.gpu.support import DeviceSupport
from wirecodec.kernels.cuda import elements, moments
from wirecodec.kernels.cuda.device import Device
from wirecodec.kernels.cuda.select import Selected
from wirecodec.select.papers.sidco.selector import SIDCo
from wirecodec.select.papers.sidco.sweeps import MagnitudeSource, Sums
from wirecodec.tensors import DeviceFlat


def sidco(device: Device, flat: DeviceFlat, selector: SIDCo, context: Context) -> DeviceSupport:
    """Select the elements that reach the fitted threshold; raises HostFallback if one is not finite."""
    selection = selector.search_magnitudes(DeviceMagnitudes(device, flat), state=context.state).selection
    indices: Any = selection.indices
    if indices is None or indices.size == flat.raw_bits.size:
        return DeviceSupport(None, flat.raw_bits, flat, state=selection.state)
    raw = elements.gather(device, flat.raw_bits, indices)
    return DeviceSupport(indices, raw, flat, state=selection.state)


class DeviceMagnitudes(MagnitudeSource):
    """Magnitudes of a tensor on a device, without logarithms; 16-bit types are converted to float32."""

    def __init__(self, device: Device, flat: DeviceFlat) -> None:
        wide = elements.widen(device, flat.raw_bits, flat.dtype)
        self._device, self._kind = device, np.dtype(wide.dtype)
        self._words = wide.view(f"u{self._kind.itemsize}")
        self._numbers: Any = None
        super().__init__(flat.dtype)

    @property
    def size(self) -> int:
        """Number of elements that a sweep reads now."""
        return int(self._words.size)

    def narrow(self, threshold: float, *, expected: float, least: float = 0) -> int:
        """Count the elements that reach the threshold.

        If at least ``least`` do, later sweeps read only those.
        """
        selected, n = self._select(threshold)
        if n >= least:
            self._words, self._numbers = selected.values[:n], selected.indices[:n]
        return n

    def find_reaching(self, threshold: float, expected: int) -> Any:
        """Return the ascending indices, u32 on the device, of the elements that reach the threshold."""
        selected, n = self._select(threshold)
        return selected.indices[:n]

    def find_top(self, k: int) -> tuple[Any, float]:
        """Return the k largest elements left: ascending indices, u32 on the device, and the smallest."""
        k = min(k, self.size)
        selected, min_key = find_top(self._device, self._words, 0, k)
        self.elements_read += self.size
        indices = selected.indices
        if self._numbers is not None:
            indices = elements.gather(self._device, self._numbers, indices)
        return indices, self._number(self._to_element_key(min_key))

    def _select(self, threshold: float) -> tuple[Selected, int]:
        """Select the elements that reach the threshold; return them and their number."""
        key = self._to_wide_key(self._key(threshold))
        selected = select_from(self._device, self._words, key, 0, self._numbers)
        self.elements_read += self.size
        return selected, selected.count(self._device)[0]

    def _sums(self, low: int, high: int, origin: float, with_logs: bool) -> tuple[Sums, int]:
        if with_logs:
            raise ValueError("there is no kernel for logarithms")
        bounds = self._to_wide_key(low), self._to_wide_key(high)
        sums, largest = moments.sum_moments(self._device, self._words, *bounds, origin, self.scale)
        count, total, squares = self._device.get(sums).tolist()
        return (int(count), total, squares, 0.0), self._to_element_key(int(self._device.get(largest)[0]))

    def _raise_nonfinite(self) -> None:
        raise HostFallback

    def _to_wide_key(self, key: int) -> int:
        """Convert a key of the element type to the type in which sums are computed."""
        if self._dtype == self._kind:
            return key
        if key >= self._keys:
            return 1 << 31
        return int(bits_of(np.array([key], np.uint16).view(self._dtype).astype(self._kind))[0])

    def _to_element_key(self, key: int) -> int:
        """Convert a key back to the element type."""
        if self._dtype == self._kind:
            return key
        with np.errstate(invalid="ignore"):  # a signalling NaN
            return int(bits_of(np.array([key], np.uint32).view(self._kind).astype(self._dtype))[0])
