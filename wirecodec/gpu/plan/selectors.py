"""Selecting for a plan: always the same launches, in memory that was allocated when the plan was made.

all  nonzero  threshold  topk  dgc  adacomp

How many elements were selected stands on the device. ``topk`` begins where the last call's threshold was, and
finds out on the device whether that served.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from wirecodec.gpu.plan.workspace import Kernels, Workspace
from wirecodec.gpu.select.adacomp import asked
from wirecodec.gpu.select.dgc import Sampled
from wirecodec.kernels.cuda import bits, elements, moments
from wirecodec.kernels.cuda import container as making
from wirecodec.kernels.cuda.select import Selected, Selector, infinity_of, magnitude_of, rule_of
from wirecodec.kernels.cuda.topk import Search
from wirecodec.select.adacomp import AdaComp
from wirecodec.select.all import All
from wirecodec.select.dgc import DGC
from wirecodec.select.nonzero import NonZero
from wirecodec.select.threshold import Threshold
from wirecodec.select.threshold_common import round_threshold
from wirecodec.select.topk import TopK, fraction_count

__all__ = ["SELECTORS", "Planned", "planned"]


class Planned(Protocol):
    """A selector for tensors of one size and type.

    Attributes:
        room: elements of which it has the indices and values at most; it may find more.
        ordered: whether it takes every element, and none may be NaN or infinite.
    """

    room: int
    ordered: bool = False

    def select(self, words: Any, outcome: Any) -> Selected | None:
        """Launch everything for (size,) ``words``; None where all are taken.

        ``outcome`` is that of the container, which has begun. ``found[1]`` of the answer is 2^32 - 1 where
        nothing is wrong.
        """
        ...

    def settle(self) -> None:
        """What was selected until now was for its memory: no more is allocated, and nothing remembered."""
        return


def planned(device: Kernels, selector: Any, size: int, dtype: np.dtype[Any], most: int) -> Planned:
    """What one of ``SELECTORS`` does; with memory for ``most`` elements where it fixes no number."""
    return _PLANNED[type(selector)](device, selector, size, dtype, min(most, size))


def _words(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(f"u{dtype.itemsize}")


class _Every(Planned):
    def __init__(self, size: int, *, ordered: bool) -> None:
        self.room, self.ordered = size, ordered

    def select(self, words: Any, outcome: Any) -> None:
        return None


class _Passing(Planned):
    """What passes a rule that is known beforehand."""

    def __init__(
        self,
        device: Kernels,
        size: int,
        dtype: np.dtype[Any],
        room: int,
        least: int,
        mask: int,
        infinity: int,
    ) -> None:
        self.room, self._mask, self._infinity = room, mask, infinity
        self._selector = Selector(device, size, _words(dtype), room)
        self._rule = device.put(rule_of(least))

    def select(self, words: Any, outcome: Any) -> Selected:
        return self._selector.select(words, self._rule, mask=self._mask, infinity=self._infinity)


class _Top(Planned):
    def __init__(self, device: Kernels, size: int, dtype: np.dtype[Any], k: int) -> None:
        self.room, self._infinity = k, infinity_of(dtype)
        self.search = Search(device, size, _words(dtype), k)

    def select(self, words: Any, outcome: Any) -> Selected:
        return self.search.warm(words, self._infinity)

    def settle(self) -> None:
        self.search.forget()


class _Sampled(Planned):
    def __init__(self, device: Kernels, selector: DGC, size: int, dtype: np.dtype[Any], k: int) -> None:
        self.room, self._device, self._infinity = k, device, infinity_of(dtype)
        self._stream = device.empty(1, np.uint64)
        self.sampled = Sampled(device, size, _words(dtype), selector)

    def select(self, words: Any, outcome: Any) -> Selected:
        making.selection_stream(self._device, outcome, self._stream)
        return self.sampled.select(words, self._infinity, self._stream)


class _Binned(Planned):
    """As ``gpu.adacomp``, with the scale on the device; where an element is not finite the scale is not."""

    def __init__(
        self, device: Kernels, selector: AdaComp, size: int, dtype: np.dtype[Any], room: int
    ) -> None:
        self.room, self._dtype, self._asked = room, dtype, selector
        self._memory = Workspace(device)
        self._reaching = Selector(device, size, np.uint16, room)
        self._rule = device.put(rule_of(1))

    def select(self, words: Any, outcome: Any) -> Selected:
        memory, dtype = self._memory, self._dtype
        memory.rewind()
        x = elements.widened(memory, words, dtype)
        keys, mean, _ = moments.bins(memory, x, None, *asked(self._asked, x), x, summed=True)
        made = self._reaching.select(keys, self._rule, mask=magnitude_of(keys))
        scale = elements.rounded(memory, mean, dtype)
        memory.copy(bits.nonfinite(memory, scale, infinity_of(dtype)), made.found[1:])
        values = elements.with_magnitude(memory, words, scale, made.indices, made.found)
        return Selected(None, made.indices, values, made.found)

    def settle(self) -> None:
        self._memory.close()


def _all(device: Kernels, selector: All, size: int, dtype: np.dtype[Any], most: int) -> Planned:
    return _Every(size, ordered=False)


def _nonzero(device: Kernels, selector: NonZero, size: int, dtype: np.dtype[Any], most: int) -> Planned:
    every = 2 ** (8 * dtype.itemsize) - 1
    return _Passing(device, size, dtype, most, 1, every, 0)


def _threshold(device: Kernels, selector: Threshold, size: int, dtype: np.dtype[Any], most: int) -> Planned:
    least = int(round_threshold(selector.t, dtype))
    mask = 2 ** (8 * dtype.itemsize - 1) - 1
    return _Passing(device, size, dtype, most, least, mask, infinity_of(dtype))


def _topk(device: Kernels, selector: TopK, size: int, dtype: np.dtype[Any], most: int) -> Planned:
    k = selector.count(size)
    return _Every(size, ordered=True) if k == size else _Top(device, size, dtype, k)


def _dgc(device: Kernels, selector: DGC, size: int, dtype: np.dtype[Any], most: int) -> Planned:
    k = fraction_count(selector.ratio, size)
    return _Every(size, ordered=True) if k == size else _Sampled(device, selector, size, dtype, k)


_PLANNED: dict[type, Callable[[Kernels, Any, int, np.dtype[Any], int], Planned]] = {
    All: _all,
    NonZero: _nonzero,
    Threshold: _threshold,
    TopK: _topk,
    DGC: _dgc,
    AdaComp: _Binned,
}
SELECTORS: tuple[Any, ...] = tuple(_PLANNED)
"""Those that a plan can have."""
