"""Bytes per step of a whole model: all budgets are scaled by one factor to spend them.

A *part* is a tensor with a budget, or a group's tensors of one element type. Its header and its sections get
factor · bits · elements / 8 bytes, and at least those of one element. The factor spends what is left by empty
tensors and by tensors without a budget.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from wirecodec.arrays import Array, add_in_order
from wirecodec.container.size_bound import max_encoded_bytes
from wirecodec.container.writer import CHUNK, PREFIX_BYTES
from wirecodec.cpu.costs import group_bytes, one_element_bytes, row_bytes
from wirecodec.cpu.forms import describe
from wirecodec.cpu.fuse import plan_runs
from wirecodec.element_types import DTYPES, dtype_named
from wirecodec.errors import EncodeError
from wirecodec.select.budget.notice import warn_of_small
from wirecodec.select.budget.selector import HELD_BYTES, SMALL_BYTES, Budget, HardBudget
from wirecodec.settings.scheme import Scheme

_RECORD_BYTES = 24
"""Bytes of an extension block with a record of fused tensors, without the tensors."""
_ENTRY_BYTES = 64
"""Bytes of the sections of a further entry of a group, which the search has not measured."""


@dataclasses.dataclass(frozen=True)
class Limit:
    """Limit of the container of a step.

    Attributes:
        nbytes: its largest size; infinite if all tensors are sent whole.
        holds: whether tensors may be held.
        excess: bytes that budgets leave unspent.
    """

    nbytes: float
    holds: bool
    excess: int = 0

    def lower(self, schemes: Mapping[str, Scheme], nbytes: int) -> Limit:
        """Return the limit for another attempt, because a container was too large.

        That happens if entries are divided otherwise than the search has measured them, or if the length of a
        codec's sections depends on the seed.

        Args:
            schemes: from ``fit_budgets``.
            nbytes: size of the container.

        Raises:
            EncodeError: no element of a tensor with a budget was sent.
        """
        shrinks = any(isinstance(one.select, HardBudget) for one in schemes.values())
        if not shrinks or self.excess >= self.nbytes:
            raise EncodeError(
                f"bytes_per_step is {self.nbytes}; the container takes {nbytes} bytes with nothing of tensors"
                f" with a budget: it must be at least {nbytes}"
            )
        excess = min(2 * self.excess + nbytes - self.nbytes, self.nbytes)
        return dataclasses.replace(self, excess=int(excess))


def fit_budgets(
    schemes: Mapping[str, Scheme],
    tensors: Mapping[str, Any],
    limit: Limit,
    header: int,
    groups: Mapping[str, Any],
    weights: Mapping[str, float],
    fuse: int,
) -> dict[str, Scheme]:
    """Scale the bits of all budgets by one factor, so that the container takes a number of bytes.

    Args:
        schemes: {name: scheme}; one without ``budget`` counts as the most bytes that it can take.
        tensors: {name: tensor}.
        limit: of the container.
        header: bytes of its header that count for each tensor.
        groups: {name: number of its group}, for tensors that are selected together.
        weights: {name: factor of the squared error}.
        fuse: elements up to which tensors share entries.

    Returns:
        {name: scheme}. Tensors of a part have one object, as have tensors whose scheme is scaled alike.

    Raises:
        EncodeError: the bytes do not suffice for the headers and the tensors without a budget.
    """
    if limit.nbytes == math.inf:
        return dict(schemes)
    parts, wanted, fixed, others = _collect_parts(schemes, tensors, header, groups, weights)
    if not parts:
        return dict(schemes)
    spare = HELD_BYTES * sum(part.in_group for part in parts) if limit.holds else 0
    if (fuse or groups) and not any(len(part.names) > 1 for part in parts):
        if others > 1:
            fixed += _RECORD_BYTES
        elif others + sum(not part.scheme.value.takes_step for part in parts) > 1:
            spare += _RECORD_BYTES
    overheads = [part.overhead(header) for part in parts]
    least = fixed + sum(overheads) + spare
    if limit.nbytes < least:
        raise EncodeError(
            f"bytes_per_step is {limit.nbytes}; the headers and the tensors without a budget may take {least}"
            f" bytes of it: it must be at least {least}"
        )
    left = limit.nbytes - fixed
    if limit.excess:
        left = max(left - limit.excess, sum(overheads))
    factor, nbytes, least_each = _share(parts, overheads, wanted, left)
    if not limit.excess and (nbytes <= least_each).any():
        _warn(parts, nbytes, least_each, limit.nbytes)
    return _scale_all(schemes, parts, overheads, factor, nbytes, fuse)


@dataclasses.dataclass
class _Part:
    """Tensors with a budget that are selected as one.

    Attributes:
        scheme: with the budget that is scaled.
        dtype: of the elements.
        in_group: whether they are selected as a group, of which some may be held.
        names: of the tensors with elements.
        sizes: {factor of the squared errors: elements or coefficients of each tensor}.
        size: their sum.
        empty: names of tensors of the group without elements; they have the scheme, and no bytes of the part.
    """

    scheme: Scheme
    dtype: np.dtype[Any]
    in_group: bool
    names: list[str] = dataclasses.field(default_factory=list)
    sizes: dict[float, list[int]] = dataclasses.field(default_factory=dict)
    size: int = 0
    empty: list[str] = dataclasses.field(default_factory=list)

    def add(self, name: str, size: int, weight: float) -> None:
        """Add a tensor."""
        if size:
            self.names.append(name)
            self.sizes.setdefault(weight, []).append(size)
            self.size += size
        else:
            self.empty.append(name)

    def overhead(self, header: int) -> int:
        """Return the bytes of the headers; tensors of different weights share no entry."""
        return sum(_overhead(sizes, header) for sizes in self.sizes.values())

    @property
    def bits(self) -> float:
        """Bits per element before scaling."""
        selector: Any = self.scheme.select
        return float(selector.bits)


def _overhead(sizes: Sequence[int], header: int) -> int:
    """Return the bytes of the headers of tensors that share entries."""
    n, total = len(sizes), sum(sizes)
    if n == 1:
        return header + row_bytes(total)
    nbytes = header * n + group_bytes(n) + row_bytes(total)
    if total > CHUNK:  # entries begin with a tensor, and the search has counted full ones
        entries = (sum(sizes[key] for key in run) for run in plan_runs(tuple(sizes), (0,) * n, CHUNK))
        more = sum(map(row_bytes, entries)) - row_bytes(total)
        nbytes += more + more // row_bytes(1) * _ENTRY_BYTES
    return nbytes


def _collect_parts(
    schemes: Mapping[str, Scheme],
    tensors: Mapping[str, Any],
    header: int,
    groups: Mapping[str, Any],
    weights: Mapping[str, float],
) -> tuple[list[_Part], float, int, int]:
    """Collect the parts of a step; arguments as for ``fit_budgets``.

    Returns the parts with elements; their bytes before scaling, added in the order of the tensors; the most
    bytes of all tensors that are in no part, headers included; and how many of those have elements.
    """
    parts: dict[Any, _Part] = {}
    bounds: dict[Any, int] = {}
    wanted, fixed, others = 0.0, 0, 0
    for name, (size, dtype) in zip(tensors, _describe(tensors), strict=True):
        scheme = schemes[name]
        selector = scheme.select
        if not isinstance(selector, Budget):
            key = id(scheme), size, dtype
            if key not in bounds:
                bounds[key] = max_encoded_bytes(size, dtype, scheme) - PREFIX_BYTES
            fixed += bounds[key] + header
            others += size > 0
            continue
        count = size if scheme.transform is None else scheme.transform.count(size)
        in_group = name in groups
        place = (groups[name], dtype) if in_group else name
        if place not in parts:
            parts[place] = _Part(scheme, dtype, in_group)
        parts[place].add(name, count, weights.get(name, 1.0))
        wanted += selector.bits * count / 8
        fixed += 0 if count else header + row_bytes(0)
    return [part for part in parts.values() if part.names], wanted, fixed, others


def _describe(tensors: Mapping[str, Any]) -> Iterator[tuple[int, Any]]:
    """Yield the number of elements and the element type of each tensor. EncodeError names the tensor."""
    columns = describe([*tensors.values()])
    rows = zip(tensors.items(), columns.sizes.tolist(), columns.kinds.tolist(), strict=True)
    for (name, tensor), size, kind in rows:
        if kind >= 0:
            yield size, DTYPES[kind]
            continue
        try:
            yield math.prod(tensor.shape), dtype_named(tensor.dtype)
        except EncodeError as error:
            raise error.of(name) from None


def _share(
    parts: Sequence[_Part], overheads: Sequence[int], total: float, left: float
) -> tuple[float, Array, Array]:
    """Divide bytes among parts in proportion to bits · elements.

    Returns the factor of all bits; the bytes of each part; and the bytes of its header and one element. The
    last two are (n,) i64. A part gets less if the bytes do not suffice for all, and if nothing of it is sent.
    """
    n = len(parts)
    sizes = np.fromiter((part.size for part in parts), np.int64, n)
    bits = np.fromiter((part.bits for part in parts), np.float64, n)
    known: dict[Any, int] = {}  # bytes of one element
    keys = [(id(part.scheme), part.size, part.dtype) for part in parts]
    for key, part in zip(keys, parts, strict=True):
        if key not in known:
            known[key] = one_element_bytes(part.scheme, part.size, part.dtype)
    fixed = np.array(overheads, np.int64)
    elements = np.array([known[key] for key in keys], np.int64)
    needed, wanted = fixed + elements, bits * sizes / 8
    most = Budget.MAX_BITS * sizes // 8
    most = np.where(most < needed + SMALL_BYTES, needed + most, most)  # few elements, beside a header
    small = np.zeros(n, np.bool_)
    rest = left
    while True:
        factor = rest / total
        shares = np.minimum(bits * factor * sizes / 8, most).astype(np.int64)
        lacking = small | (shares < needed)
        rest = left - int(needed[lacking].sum())
        if rest < 0:
            return factor, _share_among_large(fixed, elements, wanted, left), needed
        if (lacking == small).all() or lacking.all():
            return factor, np.where(lacking, needed, shares), needed
        small, total = lacking, add_in_order(wanted[~lacking].tolist())


def _share_among_large(fixed: Array, elements: Array, wanted: Array, left: float) -> Array:
    """Divide bytes that do not suffice for one element of each part: nothing is sent of the smallest parts.

    Args:
        fixed: (n,) i64, bytes of the parts' headers.
        elements: (n,) i64, bytes of one element of each.
        wanted: (n,) f64, bytes to which the others are proportional.
        left: bytes to divide.

    Returns the bytes of each part.
    """
    room = int(left) - int(fixed.sum())
    order = np.argsort(-wanted, kind="stable")
    sums = np.cumsum(wanted[order])
    suffices = room * wanted[order] >= elements[order] * sums
    served = max(int(np.argmin(np.append(suffices, False))), 1)
    largest = order[:served]
    nbytes: Array = fixed.copy()
    nbytes[largest] += (room * (wanted[largest] / sums[served - 1])).astype(np.int64)
    return nbytes


def _warn(parts: Sequence[_Part], nbytes: Array, needed: Array, bytes_per_step: float) -> None:
    """Warn of the parts of which one element or nothing is sent."""
    nothing = nbytes < needed
    few = nothing if nothing.any() else nbytes == needed
    sent = "nothing is sent" if nothing.any() else "one element is sent per step"
    warn_of_small(
        [parts[place].names[0] for place in np.flatnonzero(few).tolist()],
        f"the share of bytes_per_step={bytes_per_step} is less than the header and one element, so {sent}",
    )


def _scale_all(
    schemes: Mapping[str, Scheme],
    parts: Sequence[_Part],
    overheads: Sequence[int],
    factor: float,
    nbytes: Array,
    fuse: int,
) -> dict[str, Scheme]:
    """Return {name: scheme} with the parts' bytes."""
    scaled = dict(schemes)
    made: dict[Any, Scheme] = {}
    for part, given, overhead in zip(parts, nbytes.tolist(), overheads, strict=True):
        size, bits = part.size, min(part.bits * factor, float(Budget.MAX_BITS)) or part.bits
        owner = part.names[0] if (fuse or part.in_group) and part.scheme.value.takes_step else ""
        by_bits = not part.in_group and given == int(bits * size / 8)
        key = (id(part.scheme), owner, *(() if by_bits else (given, size, overhead)))
        if key not in made:
            budget = HardBudget(bits, owner=owner)
            if not by_bits:
                budget = HardBudget(bits, given, size, overhead, owner)
            made[key] = dataclasses.replace(part.scheme, select=budget)
        scaled |= dict.fromkeys(part.names + part.empty, made[key])
    return scaled
