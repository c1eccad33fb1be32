"""Budgets of parts of a group whose errors have weights.

The sum of weight · error is least if a further byte lowers it by the same amount in every part. A model gives
bytes and error of each part at some thresholds, after one measurement of each part has calibrated its bytes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from wirecodec.arrays import Array, add_in_order
from wirecodec.cpu.costs import CodecCosts, one_element_bytes
from wirecodec.select.budget.model import Histogram
from wirecodec.select.budget.selector import SMALL_BYTES, Budget, HardBudget
from wirecodec.select.budget.source import HostSource
from wirecodec.settings.scheme import Scheme

_THRESHOLDS = 2.0 ** -(np.arange(-16, 40 * 16) / 16)
"""Thresholds of the model: 40 octaves below the largest magnitude of the group."""
_STEPS = 60
"""Bisections of the error that a byte is worth."""


class Part(Protocol):
    """Part of a group: its sums ``x``, the bytes of its header, and its tensors."""

    @property
    def x(self) -> Array: ...  # noqa: D102
    @property
    def header(self) -> int: ...  # noqa: D102
    @property
    def members(self) -> Sequence[Any]: ...  # noqa: D102


def split_budget(groups: Sequence[Part], weights: Sequence[float], scheme: Scheme) -> list[Scheme]:
    """Divide the bytes of a budget so that the weighted squared error is small.

    Args:
        groups: the parts, of one element type.
        weights: factor of the squared error in each part, above 0.
        scheme: of the whole group, with a budget.

    Returns:
        The scheme of each part: the same with other bits, which together take as many bytes.

    Raises:
        EncodeError: an element is NaN or Inf.
    """
    pairs = [(group, weight) for group, weight in zip(groups, weights, strict=True) if group.x.size]
    schemes = iter(_split([group for group, _ in pairs], [weight for _, weight in pairs], scheme))
    return [next(schemes) if group.x.size else scheme for group in groups]


def _split(groups: Sequence[Part], weights: Sequence[float], scheme: Scheme) -> list[Scheme]:
    """Return the schemes of parts that have elements."""
    if len(groups) < 2:
        return [scheme] * len(groups)
    selector = scheme.select
    assert isinstance(selector, Budget)
    costs = [CodecCosts(scheme, group.x.size, group.header) for group in groups]
    overhead = sum(one.overhead for one in costs)
    least = min(one_element_bytes(scheme, group.x.size, group.x.dtype) for group in groups)
    left = max(selector.allow(sum(group.x.size for group in groups), overhead, least) - overhead, 0)
    models = [HostSource(group.x, selector.name).sample() for group in groups]
    unit = max(model.top for model in models)
    curves = [
        _Curve(*model.predict_curve(_THRESHOLDS, unit), weight)
        for model, weight in zip(models, weights, strict=True)
    ]
    curves = [
        curve.scale_bytes(_measure(group, cost, model, np.interp(nbytes, curve.nbytes, curve.counts)))
        for curve, group, cost, model, nbytes in zip(
            curves, groups, costs, models, _divide(curves, left), strict=True
        )
    ]
    parts = _divide(curves, left)
    total = add_in_order(parts)
    schemes = []
    for group, cost, nbytes in zip(groups, costs, parts, strict=True):
        size, share = group.x.size, int(left * nbytes / total) if left else 0
        most = selector.MAX_BITS * size // 8
        if most < cost.overhead + least + SMALL_BYTES:  # few elements, beside a header
            most += cost.overhead + least
        allowed = min(cost.overhead + share, most)
        budget = HardBudget(selector.bits, allowed, size, cost.overhead, group.members[0].name)
        schemes.append(dataclasses.replace(scheme, select=budget))
    return schemes


@dataclasses.dataclass(frozen=True, eq=False)
class _Curve:
    """Predictions for one part, each (m,), for falling thresholds.

    Attributes:
        nbytes: of the sections.
        counts: number of elements.
        gains: by how much they lower the squared error.
        weight: factor of the squared error.
    """

    nbytes: Array
    counts: Array
    gains: Array
    weight: float

    def scale_bytes(self, ratio: float) -> _Curve:
        """Multiply the bytes by a ratio."""
        return dataclasses.replace(self, nbytes=ratio * self.nbytes)

    def find_best(self, price: float) -> int:
        """Return the number of the threshold with the least weighted error + price · bytes."""
        return int(np.argmax(self.weight * self.gains - price * self.nbytes))


def _divide(curves: Sequence[_Curve], left: float) -> list[float]:
    """Return the bytes of each part, together ``left`` or less, for one price of a byte.

    If they jump at that price, they are interpolated.
    """
    low, high = -1000.0, 1000.0  # log2 of a price that is too low, and of one that keeps the budget
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if _sum_bytes(curves, middle)[1] <= left:
            high = middle
        else:
            low = middle
    (most, sum_most), (fits, sum_fits) = _sum_bytes(curves, low), _sum_bytes(curves, high)
    part = 0.0 if sum_most <= sum_fits else min((left - sum_fits) / (sum_most - sum_fits), 1.0)
    return [b + part * (a - b) for a, b in zip(most, fits, strict=True)]


def _sum_bytes(curves: Sequence[_Curve], price: float) -> tuple[list[float], float]:
    """Return the bytes of each part at log2 of a price, and their sum."""
    parts = [float(curve.nbytes[curve.find_best(2.0**price)]) for curve in curves]
    return parts, add_in_order(parts)


def _measure(group: Part, costs: CodecCosts, model: Histogram, count: float) -> float:
    """Measure the bytes of a part's largest elements, in predicted bytes."""
    wanted = min(round(count), group.x.size)
    if wanted < 1:
        return 1.0
    candidates = HostSource(group.x, costs.scheme.select.name).collect(wanted)
    if not candidates.nonzero:
        return 1.0
    chosen = candidates.top(candidates.nonzero, costs.takes_step)
    spent = costs.measure(chosen.indices, chosen.values, chosen.size, chosen.step)
    return max(spent, 1) / model.predict_bytes(chosen.values.size)
