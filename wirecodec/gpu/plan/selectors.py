"""Selectors of a plan: a fixed sequence of launches, in memory that is allocated when the plan is made.

all  nonzero  threshold  topk  dgc  adacomp

The number of selected elements stays on the device. ``topk`` starts at the last call's threshold, and the
device verifies it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from wirecodec.gpu.plan.workspace import Kernels, Workspace
from wirecodec.gpu.select.adacomp import bin_parameters
from wirecodec.gpu.select.dgc import DGCSearch
from wirecodec.kernels.cuda import bits, container, elements
from wirecodec.kernels.cuda.adacomp import mark_bins
from wirecodec.kernels.cuda.select import Selected, Selector, infinity_of, magnitude_of, rule_of
from wirecodec.kernels.cuda.topk import Search
from wirecodec.select.adacomp import AdaComp
from wirecodec.select.all import All
from wirecodec.select.dgc import DGC
from wirecodec.select.nonzero import NonZero
from wirecodec.select.threshold import Threshold
from wirecodec.select.threshold_common import round_threshold
from wirecodec.select.topk import TopK, fraction_count

__all__ = ["SELECTORS", "PlanSelector", "make_selector"]


class PlanSelector(Protocol):
    """Selector of a plan, for tensors of one size and element type.

    Attributes:
        capacity: maximum number of elements whose indices and values it keeps; it may find more.
        rejects_nonfinite: whether it selects every element and NaN or Inf is an error.
    """

    capacity: int
    rejects_nonfinite: bool = False

    def select(self, raw: Any, outcome: Any) -> Selected | None:
        """Launch the selection from (size,) raw bits.

        ``outcome`` is that of the container, which must have begun. Returns None if all elements are
        selected. In the result, ``found[1]`` is 2^32 - 1 if there is no error.
        """
        ...

    def freeze(self) -> None:
        """End the first run, which has allocated the memory: allocate no more, and forget its thresholds."""
        return


def make_selector(
    device: Kernels, selector: Any, size: int, dtype: np.dtype[Any], capacity: int
) -> PlanSelector:
    """Return the plan's form of one of ``SELECTORS``.

    ``capacity`` is the number of elements for which there is memory, if the selector does not fix their
    number.
    """
    return _FACTORIES[type(selector)](device, selector, size, dtype, min(capacity, size))


def _raw_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the unsigned type of an element type's raw bits."""
    return np.dtype(f"u{dtype.itemsize}")


class _AllElements(PlanSelector):
    def __init__(self, size: int, *, rejects_nonfinite: bool) -> None:
        self.capacity, self.rejects_nonfinite = size, rejects_nonfinite

    def select(self, raw: Any, outcome: Any) -> None:
        return None


class _FixedRule(PlanSelector):
    """Selector of the elements that pass a rule known in advance."""

    def __init__(
        self,
        device: Kernels,
        size: int,
        dtype: np.dtype[Any],
        capacity: int,
        min_key: int,
        mask: int,
        infinity: int,
    ) -> None:
        self.capacity, self._mask, self._infinity = capacity, mask, infinity
        self._selector = Selector(device, size, _raw_type(dtype), capacity)
        self._rule = device.put(rule_of(min_key))

    def select(self, raw: Any, outcome: Any) -> Selected:
        return self._selector.select(raw, self._rule, mask=self._mask, infinity=self._infinity)


class _TopK(PlanSelector):
    def __init__(self, device: Kernels, size: int, dtype: np.dtype[Any], k: int) -> None:
        self.capacity, self._infinity = k, infinity_of(dtype)
        self.search = Search(device, size, _raw_type(dtype), k)

    def select(self, raw: Any, outcome: Any) -> Selected:
        return self.search.warm(raw, self._infinity)

    def freeze(self) -> None:
        self.search.forget()


class _DGC(PlanSelector):
    def __init__(self, device: Kernels, selector: DGC, size: int, dtype: np.dtype[Any], k: int) -> None:
        self.capacity, self._device, self._infinity = k, device, infinity_of(dtype)
        self._stream = device.empty(1, np.uint64)
        self.dgc = DGCSearch(device, size, _raw_type(dtype), selector)

    def select(self, raw: Any, outcome: Any) -> Selected:
        container.derive_selection_stream(self._device, outcome, self._stream)
        return self.dgc.select(raw, self._infinity, self._stream)


class _AdaComp(PlanSelector):
    """``gpu.select.adacomp`` with the scale on the device.

    If an element is not finite, neither is the scale.
    """

    def __init__(
        self, device: Kernels, selector: AdaComp, size: int, dtype: np.dtype[Any], capacity: int
    ) -> None:
        self.capacity, self._dtype, self._adacomp = capacity, dtype, selector
        self._memory = Workspace(device)
        self._marked = Selector(device, size, np.uint16, capacity)
        self._rule = device.put(rule_of(1))

    def select(self, raw: Any, outcome: Any) -> Selected:
        memory, dtype = self._memory, self._dtype
        memory.rewind()
        x = elements.widen(memory, raw, dtype)
        keys, mean, _ = mark_bins(memory, x, None, *bin_parameters(self._adacomp, x), x, summed=True)
        selected = self._marked.select(keys, self._rule, mask=magnitude_of(keys))
        scale = elements.round_scalar(memory, mean, dtype)
        memory.copy(bits.find_nonfinite(memory, scale, infinity_of(dtype)), selected.found[1:])
        values = elements.set_magnitude(memory, raw, scale, selected.indices, selected.found)
        return Selected(None, selected.indices, values, selected.found)

    def freeze(self) -> None:
        self._memory.close()


def _all(device: Kernels, selector: All, size: int, dtype: np.dtype[Any], capacity: int) -> PlanSelector:
    return _AllElements(size, rejects_nonfinite=False)


def _nonzero(
    device: Kernels, selector: NonZero, size: int, dtype: np.dtype[Any], capacity: int
) -> PlanSelector:
    all_bits = 2 ** (8 * dtype.itemsize) - 1
    return _FixedRule(device, size, dtype, capacity, 1, all_bits, 0)


def _threshold(
    device: Kernels, selector: Threshold, size: int, dtype: np.dtype[Any], capacity: int
) -> PlanSelector:
    min_key = int(round_threshold(selector.t, dtype))
    mask = 2 ** (8 * dtype.itemsize - 1) - 1
    return _FixedRule(device, size, dtype, capacity, min_key, mask, infinity_of(dtype))


def _topk(device: Kernels, selector: TopK, size: int, dtype: np.dtype[Any], capacity: int) -> PlanSelector:
    k = selector.count(size)
    return _AllElements(size, rejects_nonfinite=True) if k == size else _TopK(device, size, dtype, k)


def _dgc(device: Kernels, selector: DGC, size: int, dtype: np.dtype[Any], capacity: int) -> PlanSelector:
    k = fraction_count(selector.ratio, size)
    return _AllElements(size, rejects_nonfinite=True) if k == size else _DGC(device, selector, size, dtype, k)


_FACTORIES: dict[type, Callable[[Kernels, Any, int, np.dtype[Any], int], PlanSelector]] = {
    All: _all,
    NonZero: _nonzero,
    Threshold: _threshold,
    TopK: _topk,
    DGC: _dgc,
    AdaComp: _AdaComp,
}
SELECTORS: tuple[Any, ...] = tuple(_FACTORIES)
"""Selectors that a plan supports."""
