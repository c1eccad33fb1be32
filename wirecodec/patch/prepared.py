"""Patches that were checked against a state, and that can be written into it.

A commit writes elements alone. After an exception, it restores those that it has written.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.uninterrupted import run_uninterrupted
from wirecodec.patch.bits import Bits
from wirecodec.patch.host import HOST
from wirecodec.patch.shared import check_shared
from wirecodec.patch.states import (
    check_writable,
    make_tensor,
    read_bits,
    write_elements,
)
from wirecodec.patch.writes import Write


@dataclass(eq=False)
class PreparedPatch:
    """Patch that was checked against a state.

    Attributes:
        writes: what a commit writes.
        removed: names that a commit removes.
        complete: names of tensors that had the patch's bits already.
        unchanged: names of tensors that the patch says to leave as they are.
    """

    writes: list[Write] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    complete: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)

    def commit(self, state: MutableMapping[str, Any]) -> None:
        """Write into the state that the patch was checked against.

        No signal handler interrupts it. After an exception, the state is as it was.
        """
        in_place = [write for write in self.writes if not write.replaces(state)]
        for write in in_place:
            check_writable(write.name, state[write.name])
        check_shared(state, in_place, [*self.complete, *self.unchanged])
        run_uninterrupted(partial(self._commit, state))

    def _commit(self, state: MutableMapping[str, Any]) -> None:
        undone: list[Write] = []
        replaced: dict[str, Any] = {}
        added: list[str] = []
        try:
            self._exchange(undone)
            for write in self.writes:
                if write.memory is not None:
                    continue
                if not write.replaces(state):
                    before = read_bits(write.name, state[write.name])
                    at = write.indices
                    old = before.copy_to_host().copy() if at is None else before.take(at)
                    undone.append(Write(write.name, write.indices, old))
                    write_elements(state, write.name, write.indices, write.values)
                    continue
                assert write.bits is not None
                made = make_tensor(state, write.bits.bits, write.bits.dtype, write.bits.shape)
                if write.name in state:
                    replaced[write.name] = state[write.name]
                else:
                    added.append(write.name)
                state[write.name] = made
            for name in self.removed:
                replaced[name] = state[name]
                del state[name]
        except BaseException:
            for name in added:
                state.pop(name, None)
            for name, tensor in replaced.items():
                state[name] = tensor
            for write in reversed(undone):
                if write.memory is not None and write.indices is not None:
                    write.memory.scatter(write.indices, write.values)
                else:
                    write_elements(state, write.name, write.indices, write.values)
            raise

    def _exchange(self, undone: list[Write]) -> None:
        """Write the elements of tensors whose memory is known, those of one memory and type together."""
        groups: dict[Any, list[tuple[Bits, Array, Array]]] = {}
        for write in self.writes:
            if write.memory is not None and write.indices is not None:
                group = groups.setdefault((write.memory.forms, write.values.dtype), [])
                group.append((write.memory, write.indices, write.values))
        for (forms, _), group in groups.items():
            memories, indices, values = zip(*group, strict=True)
            ends = np.cumsum([0, *(x.size for x in indices)]).tolist()
            olds = np.empty(ends[-1], values[0].dtype)
            before = len(undone)
            for (memory, places, _), (a, b) in zip(group, pairwise(ends), strict=True):
                undone.append(Write("", places, olds[a:b], None, memory))
            try:
                forms.exchange([memory.bits for memory in memories], indices, values, olds)
            except BaseException:  # nothing of the group has changed
                del undone[before:]
                raise


def prepare_replacement(state: Mapping[str, Any], target: Mapping[str, Any]) -> PreparedPatch:
    """Compare a state with another one: a commit gives it the names and bits of that.

    Tensors of both are the same objects, or those of the target become its own; arrays are contiguous.
    """
    found = PreparedPatch(removed=[name for name in state if name not in target])
    for name, array in target.items():
        if array is state.get(name):
            found.unchanged.append(name)
            continue
        new = read_bits(name, array)
        old = read_bits(name, state[name]) if name in state else None
        is_array = isinstance(array, np.ndarray)  # whose memory can be written
        bits = array.reshape(-1).view(new.bits.dtype) if is_array else new.copy_to_host().copy()
        own = replace(new, bits=bits, forms=HOST)
        if old is None or (old.dtype, old.shape) != (new.dtype, new.shape):
            found.writes.append(Write(name, None, own.bits, own))
        elif not np.array_equal(old.copy_to_host(), bits):
            found.writes.append(Write(name, None, own.bits))
        else:
            found.unchanged.append(name)
    return found
