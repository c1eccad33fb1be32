"""Launching ``topk.cu`` and ``select.cu``: the exact top k by magnitude, ties to the lower index.

    cold   count the keys' first digits: one read. Take what is at least the k-th one's digit, so far as it
           fits a buffer (else count another digit): a second read. Find the k-th among so few, and keep
           the k
    warm   take what is a little below the last step's threshold, in one read; where that holds the top k
           and fits, go on as above. Else all of cold follows; its kernels find out by themselves
    reaching   the same from a threshold that another search has found, of a sample perhaps; what reaches it
           may be fewer than k, and then that is all
    of a sum   warm, while gradient and residual are added and their sum is written

The host launches the same sequence whatever the data, and waits for nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.kernels.cuda import feedback
from wirecodec.kernels.cuda.device import Device, blocks_for
from wirecodec.kernels.cuda.select import Selected, Selector, magnitude_of

__all__ = ["Search"]

_DIGIT, _DIGITS = 11, 2048
_FIELDS = 10
_SWEEP, _TAKEN = 8, 9
"""Fields of the search, as the kernels know them."""
_EACH, _MOST = 4096, 2048
"""Keys that a block counts, and blocks from where on it counts more."""
_FRACTION = {16: 3, 32: 19, 64: 48}
"""By width, the bit of a key that is a 16th of an octave (of float16, an eighth)."""


class Search:
    """The memory that a top k of ``size`` words takes; it may be used again and again.

    Args:
        device: where.
        size: elements.
        words: the unsigned type of their width.
        k: how many are taken, fewer than ``size``.
    """

    def __init__(self, device: Device, size: int, words: Any, k: int) -> None:
        if not 0 < k < size:
            raise ValueError(f"the top {k} of {size} needs no search")
        self._device, self._size, self._k = device, size, k
        self._width = 8 * np.dtype(words).itemsize - 1
        self._room = min(size, 2 * k + size // 16 + 4096)
        self._never = device.put(np.full(_FIELDS, 2**64 - 1, np.uint64))
        self._search = device.empty(_FIELDS, np.uint64)
        self.forget()
        self._counts = device.empty(_DIGITS, np.uint32)
        device.clear(self._counts)
        self._sweep = Selector(device, size, words, self._room)
        self._keep = Selector(device, self._room, words, k)

    @property
    def rule(self) -> Any:
        """(2,) u64, the k-th key and how many equal to it are kept, once a search was made."""
        return self._search[:2]

    @property
    def result(self) -> Selected:
        """What ``cold`` and ``warm`` fill."""
        return self._keep.result

    def forget(self) -> None:
        """As if there had been no call: nothing reaches the last threshold, so ``warm`` goes the cold way."""
        self._device.copy(self._never, self._search)

    def cold(self, words: Any, infinity: int) -> Selected:
        """The top k of (size,) ``words``; what is not finite is above all else, and is looked for."""
        one = np.uint64(self._k), np.uint64(self._size), np.uint32(self._width)
        self._device.launch("topk", "begin_search", 1, self._search, *one)
        self._count_all(words)
        self._sweep.select(words, self._search[:2], mask=magnitude_of(words))
        return self._settle(words, infinity)

    def warm(self, words: Any, infinity: int) -> Selected:
        """The same; faster where the k-th key is not far from that of the last call, which there has been."""
        self._begin_warm()
        taken = self._sweep.select(words, self._search[:2], mask=magnitude_of(words))
        self._judge(taken)
        return self._or_cold(words, infinity)

    def warm_sum(self, gradient: Any, residual: Any, total: Any, infinity: int) -> Selected:
        """The same of gradient + residual, (size,) float32 or float64.

        ``total``, as many words, gets their sums; those beyond the type's range are infinite, or held at its
        end, and then of the top k, or as large as any other.
        """
        self._begin_warm()
        taken = self._sweep.select_sum(gradient, residual, total, self._search[:2])
        feedback.put_back(self._device, taken, total)
        self._judge(taken)
        feedback.add(self._device, gradient, residual, total.view(gradient.dtype), gate=self._search[_SWEEP:])
        return self._or_cold(total, infinity)

    def reaching(self, words: Any, rule: Any, infinity: int) -> Selected:
        """Those of the top k of (size,) ``words`` whose key is at least ``rule[0]``, and not 0.

        ``rule``: (2,) u64, that of another search.
        """
        self._device.launch("topk", "begin_at", 1, self._search, rule)
        taken = self._sweep.select(words, self._search[:2], mask=magnitude_of(words))
        self._judge(taken, fewer=True)
        return self._or_cold(words, infinity)

    def _begin_warm(self) -> None:
        """A rule that takes what is at least a little below the last threshold."""
        margin = np.uint64(1 << _FRACTION[self._width + 1])
        self._device.launch("topk", "begin_warm", 1, self._search, margin)

    def _judge(self, taken: Selected, *, fewer: bool = False) -> None:
        """Whether that holds the top k, or what will do if that is ``fewer``."""
        one = np.uint64(self._k), np.uint64(self._size), np.uint32(self._width), np.uint32(self._room)
        self._device.launch("topk", "judge_warm", 1, self._search, taken.found, *one, np.uint32(fewer))

    def _or_cold(self, words: Any, infinity: int) -> Selected:
        """The top k of what was taken; or, where that does not hold it, of all words."""
        self._count_all(words)
        search = self._search
        self._sweep.select(words, search[:2], mask=magnitude_of(words), gate=search[_SWEEP:])
        return self._settle(words, infinity)

    def _count_all(self, words: Any) -> None:
        """Digits of all words, until the rest of the search fits the room."""
        self._count(words, None, self._room)

    def _settle(self, words: Any, infinity: int) -> Selected:
        """The k-th among what was taken, and the top k of it."""
        device, search, taken = self._device, self._search, self._sweep.result
        device.launch("topk", "search_taken", 1, search)
        count = search[_TAKEN:].view(np.uint32)
        self._count(taken.values, count, 0)
        return self._keep.select(
            taken.values,
            search[:2],
            mask=magnitude_of(words),
            infinity=infinity,
            count=count,
            numbers=taken.indices,
        )

    def _count(self, words: Any, count: Any, room: int) -> None:
        blocks = blocks_for(words.size, _EACH, _MOST)
        for _ in range(blocks_for(self._width, _DIGIT)):
            self._device.launch(
                "topk",
                f"count_digits_u{8 * words.dtype.itemsize}",
                blocks,
                self._search,
                words,
                np.uint32(words.size),
                count,
                self._counts,
            )
            self._device.launch("topk", "pick_digit", 1, self._search, self._counts, np.uint32(room))
