"""Launch ``topk.cu`` and ``select.cu``: the exact top k by magnitude, ties to the lower index.

- ``cold`` guesses a threshold from a sample, and selects the elements that reach it, in one read. If they
  hold the top k and fit the buffer, it finds the k-th key among these few, and keeps the top k. If not, it
  counts the digits of all keys until the remaining elements fit, and selects again. The kernels decide this
  themselves.
- ``warm`` does the same from a threshold a little below the last step's.
- ``reaching`` does so from the threshold of another search, such as a sample's. If fewer than k elements
  reach it, these are the result.
- ``warm_sum`` does the same as ``warm`` in the pass that adds gradient and residual, and writes their sum.

The host launches the same sequence for all data, and never waits.
"""

from __future__ import annotations

from math import isqrt
from typing import Any

import numpy as np

from wirecodec.kernels.cuda.device import Device, blocks_for
from wirecodec.kernels.cuda.select import Selected, Selector, magnitude_of

DIGIT_BITS = 11
COUNTS = 2049
"""Words that count the digits of a search."""
FIELDS = 10
SAMPLES = 8192
"""Elements from which a threshold is guessed."""
_NEEDS_SELECT, _SELECTED = 8, 9
"""Fields of the kernels' ``struct Search``."""
_KEYS_PER_BLOCK, _MAX_BLOCKS = 4096, 2048
"""Keys that a block counts, and the number of blocks above which each counts more."""
MARGIN_BIT = {16: 3, 32: 19, 64: 48}
"""By width, the bit of a key that is worth 1/16 of an octave; for float16, 1/8."""


def guessed_rank(k: int, size: int) -> int:
    """Return the rank of a sample's key that k of ``size`` elements reach, but for a chance of some 1e-5."""
    if size <= SAMPLES:
        return k
    expected = -(-k * SAMPLES // size)
    return min(expected + 4 * isqrt(expected) + 4, SAMPLES)


class Search:
    """Reusable memory of a search for the top k of ``size`` elements.

    Args:
        device: where the elements are.
        size: number of elements.
        raw_type: unsigned type of their raw bits.
        k: number of elements to select, 0 < k < size.
    """

    def __init__(self, device: Device, size: int, raw_type: Any, k: int) -> None:
        if not 0 < k < size:
            raise ValueError(f"k is {k}; it must be 1 to {size - 1}")
        self._device, self._size, self._k = device, size, k
        self._width = 8 * np.dtype(raw_type).itemsize - 1
        self._capacity = min(size, 2 * k + size // 16 + 4096)
        self._search = device.empty(FIELDS, np.uint64)
        self._counts = device.empty(COUNTS, np.uint32)
        device.clear(self._counts)
        self._selector = Selector(device, size, raw_type, self._capacity)
        self._keep = Selector(device, self._capacity, raw_type, k, dense=True)

    @property
    def rule(self) -> Any:
        """Rule of the last search, (2,) u64: the k-th key, and how many keys equal to it are selected."""
        return self._search[:2]

    def cold(self, raw: Any, infinity: int) -> Selected:
        """Select the top k of (size,) raw bits; NaN and Inf rank highest and are reported."""
        name, size = f"begin_guess_u{self._width + 1}", np.uint32(self._size)
        rank = np.uint32(guessed_rank(self._k, self._size))
        given = self._search, raw, size, rank, np.uint32(self._width), self._counts
        self._device.launch("topk", name, 1, *given)
        return self._select_near(raw, infinity)

    def warm(self, raw: Any, infinity: int) -> Selected:
        """Select the same after a first search; faster if the k-th key is close to the last one."""
        self._begin_warm()
        return self._select_near(raw, infinity)

    def warm_sum(self, gradient: Any, residual: Any, total: Any, infinity: int) -> Selected:
        """Select the top k of gradient + residual, (size,) float32 or float64.

        ``total`` receives the raw bits of the sums. A sum beyond the type's range is infinite.
        """
        self._begin_warm()
        self._check(self._selector.select_sum(gradient, residual, total, self._search[:2]))
        return self._continue(total, infinity)

    def reaching(self, raw: Any, rule: Any, infinity: int) -> Selected:
        """Select the elements of the top k of (size,) raw bits whose key is at least ``rule[0]``, and not 0.

        ``rule``, (2,) u64, is that of another search.
        """
        self._device.launch("topk", "begin_at", 1, self._search, rule)
        return self._select_near(raw, infinity, fewer=True)

    def _begin_warm(self) -> None:
        """Set a rule a little below the last threshold."""
        margin = np.uint64(1 << MARGIN_BIT[self._width + 1])
        self._device.launch("topk", "begin_warm", 1, self._search, margin)

    def _select_near(self, raw: Any, infinity: int, *, fewer: bool = False) -> Selected:
        """Select by a guessed rule; ``fewer`` as for ``_check``."""
        self._check(self._selector.select(raw, self._search[:2], mask=magnitude_of(raw)), fewer=fewer)
        return self._continue(raw, infinity)

    def _check(self, selected: Selected, *, fewer: bool = False) -> None:
        """Test whether the selected elements hold the top k; if ``fewer``, fewer than k are enough."""
        one = np.uint64(self._k), np.uint64(self._size), np.uint32(self._width), np.uint32(self._capacity)
        self._device.launch("topk", "check_guess", 1, self._search, selected.found, *one, np.uint32(fewer))

    def _continue(self, raw: Any, infinity: int) -> Selected:
        """Select the top k of the selected elements, or of all elements if those do not hold it."""
        self._count_all(raw)
        search = self._search
        self._selector.select(raw, search[:2], mask=magnitude_of(raw), enabled=search[_NEEDS_SELECT:])
        return self._select_kth(raw, infinity)

    def _count_all(self, raw: Any) -> None:
        """Count digits of all keys until the remaining elements fit the buffer."""
        self._count(raw, None, self._capacity)

    def _select_kth(self, raw: Any, infinity: int) -> Selected:
        """Find the k-th key among the selected elements, and keep their top k."""
        device, search, selected = self._device, self._search, self._selector.result
        device.launch("topk", "search_selected", 1, search)
        count = search[_SELECTED:].view(np.uint32)
        self._count(selected.values, count, 0)
        return self._keep.select(
            selected.values,
            search[:2],
            mask=magnitude_of(raw),
            infinity=infinity,
            count=count,
            numbers=selected.indices,
        )

    def _count(self, raw: Any, count: Any, capacity: int) -> None:
        blocks = blocks_for(raw.size, _KEYS_PER_BLOCK, _MAX_BLOCKS)
        for _ in range(blocks_for(self._width, DIGIT_BITS)):
            self._device.launch(
                "topk",
                f"count_digits_u{8 * raw.dtype.itemsize}",
                blocks,
                self._search,
                raw,
                np.uint32(raw.size),
                count,
                self._counts,
                np.uint32(capacity),
            )
