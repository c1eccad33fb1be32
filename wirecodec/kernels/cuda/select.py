"""Launch ``select.cu``: the elements that pass a rule, as bitmap, ascending indices and values.

A *rule* is (2,) u64 on the device. Keys above the first number pass, and as many keys equal to it as the
second number says. A key is an element's magnitude, that is its raw bits without the sign; or all its raw
bits, to test for +0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from wirecodec.kernels.cuda.device import Device, blocks_for

FLAG_TILE = DENSE_TILE = 8192
TILE = 32768
"""Elements per block of the kernel that marks elements, and of those that collect many or few of them."""
EVERY = 2**32 - 1
"""Number of ties that stands for all of them."""
_NO_POSITION = 0xFFFFFFFF
_INFINITY: dict[str, int] = {
    "float16": 0x7C00,
    "bfloat16": 0x7F80,
    "float32": 0x7F800000,
    "float64": 0x7FF << 52,
}


def magnitude_of(raw: Any) -> int:
    """Return the mask of a magnitude in unsigned ``raw`` bits: all bits but the sign."""
    return int(2 ** (8 * raw.dtype.itemsize - 1)) - 1


def infinity_of(dtype: Any) -> int:
    """Return the key of infinity of an element type."""
    return _INFINITY[np.dtype(dtype).name]


def rule_of(least: int, ties: int = EVERY) -> Any:
    """Return a rule, on the host."""
    return np.array([least, ties], np.uint64)


@dataclass(frozen=True, eq=False)
class Selected:
    """Elements that passed a rule, on the device.

    Attributes:
        bitmap: (⌈size/32⌉,) u32, or None if it was not requested.
        indices: (capacity,) u32, ascending; only the first ``found[0]`` are defined.
        values: (capacity,) raw bits at the indices.
        found: (2,) u32: how many passed, and the first of them that is not finite, or 2^32 - 1.
    """

    bitmap: Any
    indices: Any
    values: Any
    found: Any

    def count(self, device: Device) -> tuple[int, int | None]:
        """Return how many passed, and the first that is not finite or None; waits for the device."""
        n, at = device.get(self.found).tolist()
        return int(n), None if at == _NO_POSITION else int(at)


class Selector:
    """Reusable memory of a selection from arrays of up to ``size`` elements.

    Args:
        device: where the elements are.
        size: maximum number of elements, below 2^31.
        raw_type: unsigned type of their raw bits.
        capacity: maximum number of selected elements to keep.
        bitmap: whether to write a bitmap.
        dense: whether most elements pass; it only determines the speed.
    """

    def __init__(
        self,
        device: Device,
        size: int,
        raw_type: Any,
        capacity: int,
        *,
        bitmap: bool = False,
        dense: bool = False,
    ) -> None:
        if size >= 2**31:
            raise ValueError(f"size is {size}; it must be below 2^31")
        self._device = device
        self._tile, self._name = (DENSE_TILE, "compact_dense") if dense else (TILE, "compact")
        self._reach = device.empty(-(-size // 32), np.uint32)
        self._states = device.empty(max(blocks_for(size, FLAG_TILE), 1), np.uint64)
        self._tickets = device.empty(1, np.uint32)
        self.result = Selected(
            self._reach if bitmap else None,
            device.empty(capacity, np.uint32),
            device.empty(capacity, raw_type),
            device.put(np.array([0, _NO_POSITION], np.uint32)),
        )

    def select(
        self,
        raw: Any,
        rule: Any,
        *,
        mask: int,
        infinity: int = 0,
        count: Any = None,
        numbers: Any = None,
        enabled: Any = None,
    ) -> Selected:
        """Launch a selection; return ``result``, which it fills.

        Args:
            raw: (n,) u16, u32 or u64 raw bits.
            rule: (2,) u64.
            mask: of a key.
            infinity: its key, to report the first element that is not finite; 0 for no report.
            count: (1,) u32, how many of ``raw`` there are; None for all.
            numbers: (n,) u32, the elements' indices; None for 0 to n - 1.
            enabled: (1,) u64; if it is 0, the kernels do nothing.
        """
        given = enabled, raw, np.uint32(raw.size), count
        self._launch(f"flag_u{8 * raw.dtype.itemsize}", raw.size, *given, np.uint64(mask), rule)
        return self._compact(given, rule, mask, infinity, numbers)

    def select_sum(
        self, gradient: Any, residual: Any, total: Any, rule: Any, *, infinity: int = 0, clear: bool = False
    ) -> Selected:
        """Select from gradient + residual (float32 or float64), and write the sums.

        Args:
            gradient: (n,).
            residual: (n,).
            total: (n,) raw bits of the sums; it may share its memory with ``residual``.
            rule: (2,) u64.
            infinity: as for ``select``.
            clear: whether selected elements are 0 in ``total``.
        """
        size, mask = np.uint32(gradient.size), magnitude_of(total)
        name = f"flag_sum_f{8 * gradient.dtype.itemsize}"
        self._launch(name, gradient.size, gradient, residual, total, size, rule)
        return self._compact((None, total, size, None), rule, mask, infinity, None, total if clear else None)

    def _launch(self, kernel: str, size: int, *given: Any) -> None:
        """Mark the elements that reach the rule."""
        written = self._reach, self._states, self._tickets, self.result.found
        self._device.launch("select", kernel, max(blocks_for(size, FLAG_TILE), 1), *given, *written)

    def _compact(
        self,
        given: tuple[Any, ...],
        rule: Any,
        mask: int,
        infinity: int,
        numbers: Any,
        cleared: Any = None,
    ) -> Selected:
        """Collect the marked elements that pass. ``given``: gate, raw bits, their number here and there."""
        raw, result = given[1], self.result
        written = result.indices, result.values, np.uint32(result.indices.size)
        state = self._states, self._tickets, result.found
        self._device.launch(
            "select",
            f"{self._name}_u{8 * raw.dtype.itemsize}",
            max(blocks_for(raw.size, self._tile), 1),
            *given,
            numbers,
            np.uint64(mask),
            np.uint64(infinity),
            rule,
            self._reach,
            *written,
            *state,
            cleared,
        )
        return result
