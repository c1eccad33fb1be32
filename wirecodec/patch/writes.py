"""Writes: what a patch changes in one tensor, ready to be made."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from wirecodec.arrays import UNSIGNED, Array, index_dtype
from wirecodec.patch.bits import Bits
from wirecodec.patch.host import HOST
from wirecodec.patch.states import copy_tensor, make_tensor, read_bits, view_memory, write_elements

MANY = 0.2
"""Share of changed elements from which a tensor may be written with all of its elements."""


@dataclass(frozen=True, eq=False)
class Write:
    """New bits of a tensor: at (r,) u32 positions, or all of them if these are None.

    If ``bits`` has a value, the tensor is replaced by a new one of this type and shape. ``memory`` are the
    bits of a contiguous tensor on the host or on a GPU, of which elements are written.
    """

    name: str
    indices: Array | None
    values: Array
    bits: Bits | None = None
    memory: Bits | None = None

    def replaces(self, state: Mapping[str, Any]) -> bool:
        """Return whether a state has no tensor of this name, type and shape."""
        if self.bits is None:
            return False
        if self.name not in state:
            return True
        present = read_bits(self.name, state[self.name])
        return (present.dtype, present.shape) != (self.bits.dtype, self.bits.shape)

    def make(self, state: Mapping[str, Any]) -> Array:
        """Make the tensor that a commit leaves, as an array of its own; the state does not change."""
        if self.bits is not None:
            return self.bits.copy_to_host().view(self.bits.dtype).reshape(self.bits.shape)
        old = read_bits(self.name, state[self.name])
        bits = self.values
        if self.indices is not None:
            bits = old.copy_to_host().copy()
            bits[self.indices] = self.values
        return bits.view(old.dtype).reshape(old.shape)

    def make_like(self, state: Mapping[str, Any]) -> Any:
        """Make the tensor that a commit leaves, with memory of its own, as the state's tensors are.

        The state does not change. It may be that of before the commit, or that of after.
        """
        if self.bits is not None and self.replaces(state):
            return make_tensor(state, self.bits.bits.copy(), self.bits.dtype, self.bits.shape)
        made = {self.name: copy_tensor(state[self.name])}
        write_elements(made, self.name, self.indices, self.values)
        return made[self.name]

    def find_elements(self, state: Mapping[str, Any]) -> tuple[Any, Any]:
        """Return the positions and the new values (r,) of the elements that a commit writes.

        They are torch tensors where the state's is, if it is one, and arrays otherwise.
        """
        old = read_bits(self.name, state[self.name])
        size = math.prod(old.shape)
        dtype = index_dtype(size)
        indices = (
            np.arange(size, dtype=dtype) if self.indices is None else self.indices.astype(dtype, copy=False)
        )
        own = {self.name: state[self.name]}
        return (
            make_tensor(own, indices.view(UNSIGNED[indices.itemsize]), indices.dtype, indices.shape),
            make_tensor(own, self.values.copy(), old.dtype, (indices.size,)),
        )


def write_in_place(name: str, tensor: Any, given: Bits, indices: Array | None, values: Array) -> Write:
    """Return the write of elements of a tensor.

    Args:
        name: of the tensor.
        tensor: of the state.
        given: its bits.
        indices: (r,) u32; None for all elements.
        values: (r,) unsigned, the new elements there.
    """
    if indices is not None and indices.size == given.bits.size and given.forms is HOST:
        indices = None  # positions are larger than elements
    is_copied = indices is None and given.forms is not HOST
    return Write(name, indices, values, None, None if is_copied else view_memory(tensor, given))


def drop_equal(indices: Array | None, values: Array, given: Bits) -> tuple[Any, Array]:
    """Leave out elements that keep their bits, if less than a fifth of a tensor changes.

    So a write has the elements that change alone, also if the patch has the others, too, to be smaller.

    Args:
        indices: (r,) u32; None for all elements.
        values: (r,) unsigned, the new elements there.
        given: the old tensor.
    """
    if given.dtype.kind == "c":  # it has no positions of elements
        return indices, values
    some = None if indices is None or indices.size == given.bits.size else indices
    differs = values != (given.copy_to_host() if some is None else given.take(some))
    if np.count_nonzero(differs) >= MANY * given.bits.size:
        return indices, values
    at = np.flatnonzero(differs).astype(np.uint32)
    return at if some is None else some[at], values[at]
