"""Bytes of a selection, measured by encoding it with the scheme's codecs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from wirecodec.arrays import Array, read_only
from wirecodec.container import extension_writer as ext
from wirecodec.container.writer import CHUNK, PREFIX_BYTES, TABLE, Entry, padded
from wirecodec.cpu.chunk import encode_chunks
from wirecodec.element_types import dtype_named
from wirecodec.errors import EncodeError
from wirecodec.select.budget.notice import warn_of_small
from wirecodec.select.budget.selector import SMALL_BYTES, Budget, HardBudget
from wirecodec.settings.scheme import Scheme, call_string
from wirecodec.support import Support
from wirecodec.value.sort_permutation import map_bytes

_MOST_MEASURED = 2**16
"""Elements of the largest tensor with which the bytes of a position are measured."""


class CodecCosts:
    """Bytes that a scheme's codecs take for a selection.

    Args:
        scheme: its codecs are used; the index codec must be exact.
        size: elements of the tensor, or coefficients of its transform.
        header: bytes of prefix and extension block that count for the tensor.
    """

    def __init__(self, scheme: Scheme, size: int, header: int) -> None:
        if scheme.index.lossy:
            raise EncodeError(f"{scheme.select.name} needs an exact index codec, not {scheme.index.name}")
        self.scheme = scheme
        self.overhead = header + row_bytes(size)
        self.takes_step = scheme.value.takes_step
        self._measured: list[tuple[Array, float | None, Sequence[Entry]]] = []  # the last two

    def measure(self, indices: Array | None, values: Array, size: int, step: float | None) -> int:
        """Return the bytes of the sections of ``values`` at ``indices`` of ``size`` elements."""
        support = Support(indices, values, size, (size,), step=step)
        entries = encode_chunks(0, support, self.scheme, 0)
        self._measured = [*self._measured[-1:], (values, step, entries)]
        lengths = [part.size for entry in entries for part in entry.parts]
        return sum([n + 7 & -8 for n in lengths])

    def entries_of(self, values: Array | None, step: float | None) -> Sequence[Entry] | None:
        """Return the entries of one of the last two selections, if no seed changes their bytes; else None."""
        for x, width, entries in self._measured if self.takes_step else ():
            if x is values and width == step:
                return entries
        return None


def share_header(
    tensors: Mapping[str, Any], schemes: Mapping[str, Scheme], tag: bytes, *, names: bool, warns: bool = True
) -> int:
    """Return the bytes of prefix and extension block that count for each of several tensors.

    The result is 0 if no selector asks for it. Fused entries are not considered. Small tensors are warned of,
    unless ``warns`` is False.
    """
    distinct = dict(zip(map(id, schemes.values()), schemes.values(), strict=True)).values()
    if not any(one.select.needs_costs for one in distinct):
        return 0
    shapes = tuple([tuple(getattr(tensor, "shape", ())) for tensor in tensors.values()])
    transformed: list[int] = []
    if any(one.transform is not None for one in distinct):
        transformed = [key for key, name in enumerate(tensors) if schemes[name].transform is not None]
    header = _share_header(tuple(tensors) if names else None, shapes, tuple(transformed), len(tag))
    if warns:
        warn_of_small_budgets(tensors, schemes, header)
    return header


@lru_cache(maxsize=64)
def _share_header(
    names: tuple[str, ...] | None, shapes: tuple[tuple[int, ...], ...], transformed: tuple[int, ...], tag: int
) -> int:
    """Return the bytes of the header for each tensor, which are the same in every step of a training."""
    extension = ext.Extension(
        names=names,
        shapes={key: shape for key, shape in enumerate(shapes) if len(shape) != 1},
        lengths=dict.fromkeys(transformed, 0),
        tag=bytes(tag),
    )
    return -(-(PREFIX_BYTES + len(ext.write(extension))) // len(shapes))


@lru_cache(maxsize=256)
def group_bytes(members: int) -> int:
    """Return the bytes of the extension block that list the tensors of a shared entry."""
    group = np.zeros((members, 2), np.int64)
    return len(ext.write(ext.Extension(groups=(group,)))) if members > 1 else 0


def row_bytes(size: int) -> int:
    """Return the bytes of the rows of a tensor of ``size`` elements."""
    return TABLE.itemsize * max(1, -(-size // CHUNK))


def one_element_bytes(scheme: Scheme, size: int, dtype: np.dtype[Any]) -> int:
    """Return the bytes of the sections of one of ``size`` elements; codecs' bounds can be far above them."""
    index: Any = scheme.index
    value: Any = scheme.value
    some = size > 1 and not index.lossy  # a budget refuses a lossy codec later
    places = _measure_index(index, min(size, _MOST_MEASURED)) if some else 0
    return places + _measure_value(value, dtype)


def _most_element_bytes(scheme: Scheme, dtype: Any) -> float:
    """Return a bound of ``one_element_bytes`` for any size, from the codecs' own; infinity without one.

    The codecs are asked once per scheme and element type.
    """
    known = scheme.element_bounds
    if dtype not in known:
        known[dtype] = _bound_element(scheme, _carried_type(dtype))
    return known[dtype]


def _bound_element(scheme: Scheme, dtype: np.dtype[Any] | None) -> float:
    """Ask the codecs for the bound; it is 0 for an element type that is not carried."""
    index: Any = scheme.index
    value: Any = scheme.value
    if dtype is None:
        return 0.0
    try:
        parts = index.max_bytes(1, _MOST_MEASURED), value.max_bytes(1, dtype), map_bytes(1)
    except EncodeError:
        return math.inf
    return float(sum(map(padded, parts)))


def _carried_type(dtype: Any) -> np.dtype[Any] | None:
    """Return the element type of an array; None if it is not carried, which is raised with a name later."""
    try:
        return dtype_named(dtype)
    except EncodeError:
        return None


@lru_cache(maxsize=4096)
def _measure_index(index: Any, d: int) -> int:
    """Return the bytes of the position of one of d elements."""
    last = read_only(np.array([d - 1], np.uint32))
    return padded(len(index.choose(last, d, 0)[1]))


@lru_cache(maxsize=256)
def _measure_value(value: Any, dtype: np.dtype[Any]) -> int:
    """Return the bytes of one value."""
    one = read_only(np.ones(1, dtype))
    nbytes = padded(len(value.choose(one, 0)[1]))
    return nbytes + (padded(map_bytes(1)) if value.ordered else 0)


def warn_of_small_budgets(
    tensors: Mapping[str, Any],
    schemes: Mapping[str, Scheme],
    header: int,
    groups: Mapping[str, Any] | None = None,
) -> None:
    """Warn of tensors and groups whose budgets do not hold their header and one element.

    Args:
        tensors, schemes: by name.
        header: from ``share_header``.
        groups: {name: number of its group}, for tensors that are selected together.
    """
    parts: dict[Any, _Part] = {}
    known: dict[int, bool] = {}  # whether a scheme has a budget that is not hard
    for name, tensor in tensors.items():
        scheme, shape = schemes[name], getattr(tensor, "shape", None)
        if id(scheme) not in known:
            known[id(scheme)] = isinstance(scheme.select, Budget) and not isinstance(
                scheme.select, HardBudget
            )
        if shape is None or not known[id(scheme)]:
            continue
        size = math.prod(shape)
        if scheme.transform is not None:
            size = scheme.transform.count(size)
        if size:
            place = (groups[name], tensor.dtype) if groups and name in groups else name
            if place not in parts:
                parts[place] = _Part(name, scheme, tensor)
            part = parts[place]
            part.count += 1
            part.size += size
    sizes: dict[Any, bool] = {}  # whether parts of equal sizes are small
    small = []
    for part in parts.values():
        alike = id(part.scheme), part.size, part.count, getattr(part.tensor, "dtype", part.name)
        if alike not in sizes:
            sizes[alike] = part.is_small(header)
        if sizes[alike]:
            small.append(part)
    if small:
        can_join = len(tensors) > 1 and not groups
        warn_of_small([part.name for part in small], small[0].describe(), can_join=can_join)


@dataclass
class _Part:
    """Tensors that are selected as one: the first, the number of them and of their elements."""

    name: str
    scheme: Scheme
    tensor: Any
    count: int = 0
    size: int = 0

    @property
    def nbytes(self) -> float:
        """Bytes of the budget."""
        budget: Any = self.scheme.select
        return float(budget.bits * self.size / 8)

    def is_small(self, header: int) -> bool:
        """Tell whether the budget does not hold header and one element."""
        left = self.nbytes - header * self.count - group_bytes(self.count) - row_bytes(self.size)
        array = self.tensor if hasattr(self.tensor, "dtype") else self.tensor.data
        # To measure an element compiles the kernels of short sections, which a large tensor does not need.
        return left < _most_element_bytes(self.scheme, array.dtype) and left < self._element_bytes()

    def _element_bytes(self) -> int:
        array = self.tensor if hasattr(self.tensor, "dtype") else self.tensor.data
        dtype = _carried_type(array.dtype)
        return 0 if dtype is None else one_element_bytes(self.scheme, self.size, dtype)

    def describe(self) -> str:
        """Describe the budget, and what is sent instead."""
        more = max(SMALL_BYTES, int(self.nbytes))
        sent = f"which take up to {more} bytes beside the header"
        if self._element_bytes() > more:
            sent = f"so nothing is sent: {self.scheme.index.name} takes too many bytes"
        what = f"{self.size} elements"
        if self.count > 1:
            what = f"{what} of {self.count} tensors together"
        return f"{call_string(self.scheme.select)} does not hold the header and one element of {what}, {sent}"
