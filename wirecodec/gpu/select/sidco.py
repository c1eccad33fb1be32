"""``sidco`` on the device: sweeps there, fits and the search on the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import DeviceFlat, bits_of
from wirecodec.gpu.support import Context, DeviceSupport, Refused, reaching, top
from wirecodec.kernels.cuda import elements, moments
from wirecodec.kernels.cuda.device import Device
from wirecodec.kernels.cuda.select import Selected
from wirecodec.select.sidco import SIDCo
from wirecodec.select.sidco_sweeps import MagnitudeSource, Sums

__all__ = ["DeviceMagnitudes", "sidco"]


def sidco(device: Device, flat: DeviceFlat, selector: SIDCo, context: Context) -> DeviceSupport:
    """The elements beyond the fitted threshold; Refused where one is not finite."""
    found = selector.search_magnitudes(DeviceMagnitudes(device, flat), state=context.state).selection
    indices: Any = found.indices
    if indices is None or indices.size == flat.words.size:
        return DeviceSupport(None, flat.words, flat, state=found.state)
    words = elements.gathered(device, flat.words, indices)
    return DeviceSupport(indices, words, flat, state=found.state)


class DeviceMagnitudes(MagnitudeSource):
    """The magnitudes of a tensor on a device, without logarithms; 16-bit types are looked at as float32."""

    def __init__(self, device: Device, flat: DeviceFlat) -> None:
        wide = elements.widened(device, flat.words, flat.dtype)
        self._device, self._kind = device, np.dtype(wide.dtype)
        self._words = wide.view(f"u{self._kind.itemsize}")
        self._numbers: Any = None
        super().__init__(flat.dtype)

    @property
    def size(self) -> int:
        """How many elements a sweep goes over now."""
        return int(self._words.size)

    def narrow(self, threshold: float, *, expected: float, least: float = 0) -> int:
        """How many elements reach the threshold; if ``least`` do, later sweeps go over those alone."""
        made, n = self._reached(threshold)
        if n >= least:
            self._words, self._numbers = made.values[:n], made.indices[:n]
        return n

    def find_reaching(self, threshold: float, expected: int) -> Any:
        """Ascending indices, u32 on the device, of the elements that reach the threshold."""
        made, n = self._reached(threshold)
        return made.indices[:n]

    def find_top(self, k: int) -> tuple[Any, float]:
        """Ascending indices, u32 on the device, of the k largest that are left, and the least one."""
        k = min(k, self.size)
        made, least = top(self._device, self._words, 0, k)
        self.elements_read += self.size
        indices = made.indices
        if self._numbers is not None:
            indices = elements.gathered(self._device, self._numbers, indices)
        return indices, self._number(self._of_wide(least))

    def _reached(self, threshold: float) -> tuple[Selected, int]:
        """What reaches the threshold, and how many that is."""
        key = self._wide(self._key(threshold))
        made = reaching(self._device, self._words, key, 0, self._numbers)
        self.elements_read += self.size
        return made, made.count(self._device)[0]

    def _sums(self, low: int, high: int, origin: float, with_logs: bool) -> tuple[Sums, int]:
        if with_logs:
            raise ValueError("there is no kernel for logarithms")
        bounds = self._wide(low), self._wide(high)
        sums, greatest = moments.sums(self._device, self._words, *bounds, origin, self.scale)
        count, total, squares = self._device.get(sums).tolist()
        return (int(count), total, squares, 0.0), self._of_wide(int(self._device.get(greatest)[0]))

    def _raise_nonfinite(self) -> None:
        raise Refused

    def _wide(self, key: int) -> int:
        """A key of the element type as that of the type which sums are taken in."""
        if self._dtype == self._kind:
            return key
        if key >= self._keys:
            return 1 << 31
        return int(bits_of(np.array([key], np.uint16).view(self._dtype).astype(self._kind))[0])

    def _of_wide(self, key: int) -> int:
        """Back again."""
        if self._dtype == self._kind:
            return key
        with np.errstate(invalid="ignore"):  # a NaN that signals
            return int(bits_of(np.array([key], np.uint32).view(self._kind).astype(self._dtype))[0])
