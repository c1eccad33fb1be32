"""Writes: what a patch changes in one tensor, ready to be made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wirecodec.arrays import Array
from wirecodec.patch.states import Bits, read_bits


@dataclass(frozen=True, eq=False)
class Write:
    """New bits of a tensor: at (r,) u32 positions, or all of them if these are None.

    If ``bits`` has a value, the tensor is replaced by a new one of this type and shape. ``memory`` are the
    bits of a contiguous tensor on the host.
    """

    name: str
    indices: Array | None
    values: Array
    bits: Bits | None = None
    memory: Array | None = None

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
            return self.bits.bits.view(self.bits.dtype).reshape(self.bits.shape)
        old = read_bits(self.name, state[self.name])
        bits = self.values
        if self.indices is not None:
            bits = old.bits.copy()
            bits[self.indices] = self.values
        return bits.view(old.dtype).reshape(old.shape)
