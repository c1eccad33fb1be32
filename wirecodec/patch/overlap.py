"""Memory that a call writes: whether two arrays, or two elements of one, have bytes in common.

The bytes are compared, not the storages: parts of one flat vector, and every second element of it, are
separate. NumPy decides about strided arrays exactly, by their addresses; nothing is read, so they may be on
a GPU.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import prod
from typing import Any, NamedTuple

import numpy as np

from wirecodec.frameworks import local_shard

MAX_WORK = 100_000  # candidates that NumPy tries for two strided arrays: milliseconds
MAX_LISTED = 1 << 20  # elements whose addresses are compared


class Layout(NamedTuple):
    """Place of an array's elements in memory.

    Attributes:
        start, stop: addresses of the first byte and behind the last one.
        address: of the first element.
        shape, strides: those of more than one element; strides in bytes.
        itemsize: bytes of an element.
    """

    start: int
    stop: int
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int

    @classmethod
    def of(cls, array: Any) -> Layout | None:
        """Return the layout of an array or a tensor; None if it has no memory of its own that is known."""
        found = _read_torch(array) if _is_torch(array) else _read_array(array)
        if found is None:
            return None
        address, shape, strides, itemsize = found
        if not address or 0 in shape:
            return None
        if strides is None:
            size = prod(shape)
            return cls(address, address + size * itemsize, address, (size,), (itemsize,), itemsize)
        steps = [(n, stride) for n, stride in zip(shape, strides, strict=True) if n > 1]
        reaches = [(n - 1) * stride for n, stride in steps]
        start = address + sum(reach for reach in reaches if reach < 0)
        stop = address + sum(reach for reach in reaches if reach > 0) + itemsize
        return cls(start, stop, address, tuple(n for n, _ in steps), tuple(s for _, s in steps), itemsize)

    def repeats(self) -> bool:
        """Return whether two elements have a byte in common, or so many would have to be compared."""
        if self.strides == (self.itemsize,):
            return False
        reach = self.itemsize
        for stride, n in sorted(zip(map(abs, self.strides), self.shape, strict=True)):
            if stride < reach:
                break
            reach += stride * (n - 1)
        else:
            return False
        if 0 in self.strides or prod(self.shape) > MAX_LISTED:
            return True
        offsets = np.zeros(1, np.int64)
        for stride, n in zip(self.strides, self.shape, strict=True):
            offsets = (offsets[:, None] + stride * np.arange(n)).reshape(-1)
        return bool((np.diff(np.sort(offsets)) < self.itemsize).any())

    def overlaps(self, other: Layout) -> bool:
        """Return whether two arrays have a byte in common, or NumPy cannot decide."""
        try:
            return np.shares_memory(self._as_bytes(), other._as_bytes(), max_work=MAX_WORK)  # type: ignore[arg-type]
        except RuntimeError:  # too much work
            return True

    def _as_bytes(self) -> np.ndarray[Any, Any]:
        """Return an array of the same bytes, which may not be readable here."""
        return np.asarray(_Memory(self))


class _Memory:
    """Bytes at an address, for NumPy."""

    def __init__(self, layout: Layout) -> None:
        self.__array_interface__ = {
            "data": (layout.address, True),
            "shape": (*layout.shape, layout.itemsize),
            "strides": (*layout.strides, 1),
            "typestr": "|u1",
            "version": 3,
        }


def describe_overlap(named: Mapping[str, Any], label: Callable[[str], str] = repr) -> str | None:
    """Return a sentence about arrays that cannot be written one after another, or None.

    Args:
        named: {name: array or tensor}, of a DTensor this rank's shard.
        label: returns what a name is called in the sentence.
    """
    layouts = [(layout, name) for name, array in named.items() if (layout := Layout.of(array)) is not None]
    for layout, name in sorted(layouts):
        if layout.repeats():
            return f"{label(name)} has several elements in one place of memory, as an expanded tensor has"
    for (_, earlier), (_, later) in find_overlaps(layouts):
        return f"{label(earlier)} and {label(later)} share memory"
    return None


def find_overlaps(
    layouts: Iterable[tuple[Layout, str]],
) -> Iterator[tuple[tuple[Layout, str], tuple[Layout, str]]]:
    """Yield the pairs of named layouts that have a byte in common, in the order of their addresses."""
    reaching: list[tuple[Layout, str]] = []  # beyond the start of the next one
    for layout, name in sorted(layouts):
        reaching = [one for one in reaching if one[0].stop > layout.start]
        for other, earlier in reaching:
            if other.overlaps(layout):
                yield (other, earlier), (layout, name)
        reaching.append((layout, name))


_Found = tuple[int, tuple[int, ...], tuple[int, ...] | None, int]
"""Address, shape, strides in bytes (None if the array is contiguous), and bytes of an element."""


def _read_torch(tensor: Any) -> _Found | None:
    torch = sys.modules["torch"]
    tensor = local_shard(tensor)
    if tensor.layout is not torch.strided or tensor.is_meta:
        return None
    try:
        address, width = tensor.data_ptr(), tensor.element_size()
        if tensor.is_contiguous():
            return address, (tensor.numel(),), None, width
        return address, tuple(tensor.shape), tuple(width * stride for stride in tensor.stride()), width
    except (RuntimeError, ValueError):  # a subclass without memory, or without a shape
        return None


def _read_array(array: Any) -> _Found | None:
    if isinstance(array, np.ndarray):
        strides = None if array.flags.c_contiguous else array.strides
        return array.__array_interface__["data"][0], array.shape, strides, array.itemsize
    interface = getattr(array, "__cuda_array_interface__", None)
    if not isinstance(interface, Mapping):
        return None
    width = np.dtype(interface["typestr"]).itemsize
    return interface["data"][0], tuple(interface["shape"]), interface.get("strides"), width


def _is_torch(array: Any) -> bool:
    return "torch" in sys.modules and isinstance(array, sys.modules["torch"].Tensor)
