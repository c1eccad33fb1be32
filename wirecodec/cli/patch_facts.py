"""Facts of patches of weights, which ``wirecodec diff`` and ``apply`` print as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.cli.inspect import find_states
from wirecodec.container.inspect import inspect


@dataclass(frozen=True)
class PatchFacts:
    """Facts about what patches in sequence make of a state.

    Attributes:
        changed, new, removed: numbers of tensors.
        elements: number of elements that change.
    """

    changed: int
    new: int
    removed: int
    elements: int

    def to_json(self, patches: Sequence[Bytes]) -> dict[str, Any]:
        """Return the facts, with size and digests of the patches, in types that JSON has."""
        nbytes = sum(patch.nbytes for patch in patches)
        first, last = (inspect(patch).patch for patch in (patches[0], patches[-1]))
        assert first is not None
        assert last is not None
        return {
            "bytes": nbytes,
            "changed_tensors": self.changed,
            "new_tensors": self.new,
            "removed_tensors": self.removed,
            "changed_elements": self.elements,
            "bits_per_changed_element": 8 * nbytes / self.elements if self.elements else None,
            "base_digest": find_states(first)[0],
            "target_digest": find_states(last)[1],
        }


def count_changed(old: Array | None, new: Array) -> int:
    """Count the elements whose bits differ.

    Args:
        old: the tensor before; None if it is new.
        new: the tensor after. If its type or its shape is another one, all of its elements count.
    """
    from wirecodec.patch.states import read_bits  # it imports kernels

    if old is None or (old.dtype.newbyteorder("="), old.shape) != (new.dtype.newbyteorder("="), new.shape):
        return new.size
    differs = read_bits("", old).bits != read_bits("", new).bits
    return int(np.count_nonzero(differs.reshape(-1, 2).any(axis=1) if new.dtype.kind == "c" else differs))
