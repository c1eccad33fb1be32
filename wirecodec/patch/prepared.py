"""Patches that were checked against a state, and that can be written into it.

A commit writes elements alone. After an exception, it restores those that it has written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, TypeAlias

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

_Elements: TypeAlias = tuple[Bits, Array, Array]
"""Memory of a tensor, and positions and new bits of elements."""
_AT_ONCE = 2**20
"""Changes that are copied, so that one call of a kernel makes those of many tensors."""


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

        No signal handler interrupts it. After an exception, the state is as it was. One that is raised in
        the thread from outside, in the middle of the last writes, leaves a half-written state.

        Raises:
            ValueError: a tensor cannot be written, or two share memory, and the patch makes different ones of
                them. Nothing has changed.
        """
        in_place = [write for write in self.writes if not write.replaces(state)]
        for write in in_place:
            check_writable(write.name, state[write.name])
        kept = {*self.complete, *self.unchanged}
        known = kept.union(self.removed, (write.name for write in self.writes))
        check_shared(state, in_place, kept, state.keys() - known)
        run_uninterrupted(partial(self._commit, state))

    def _commit(self, state: MutableMapping[str, Any]) -> None:
        undone: list[Callable[[], object]] = []
        replaced: dict[str, Any] = {}
        added: list[str] = []
        overwrites = [partial(HOST.overwrite, *each) for each in self._find_overwritten()]
        try:
            self._exchange(undone)
            for write in self.writes:
                if write.memory is not None:
                    continue
                if not write.replaces(state):
                    before = read_bits(write.name, state[write.name])
                    at = write.indices
                    old = before.copy_to_host().copy() if at is None else before.take(at)
                    undone.append(partial(write_elements, state, write.name, at, old))
                    write_elements(state, write.name, at, write.values)
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
            undone += [partial(state.pop, name, None) for name in added]
            undone += [partial(state.__setitem__, *each) for each in replaced.items()]
            for undo in reversed(undone):
                with suppress(Exception):  # a mapping that refuses a name has not changed there
                    undo()
            raise
        for overwrite in overwrites:  # nothing fails there, so that no old elements are kept
            overwrite()

    def _find_overwritten(self) -> list[tuple[Bits, Array]]:
        """Return the memory of tensors of which all elements are written, and these."""
        return [
            (write.memory, np.ascontiguousarray(write.values))
            for write in self.writes
            if write.memory is not None and write.indices is None
        ]

    def _exchange(self, undone: list[Callable[[], object]]) -> None:
        """Write the elements of tensors whose memory is known, those of one memory and type together."""
        groups: dict[Any, list[list[_Elements]]] = {}
        filled: dict[Any, int] = {}
        for write in self.writes:
            if write.memory is None or write.indices is None:
                continue
            kind, r = (write.memory.forms, write.values.dtype), write.indices.size
            if kind not in filled or filled[kind] + r > _AT_ONCE:
                groups.setdefault(kind, []).append([])
                filled[kind] = 0
            groups[kind][-1].append((write.memory, write.indices, write.values))
            filled[kind] += r
        for (forms, dtype), parts in groups.items():
            for part in parts:
                memories, indices, values = zip(*part, strict=True)
                ends = [0, *accumulate(x.size for x in indices)]
                olds = np.empty(ends[-1], dtype)
                before = [olds[a:b] for a, b in pairwise(ends)]
                undo = partial(forms.exchange, memories, indices, before, np.empty_like(olds))
                forms.exchange(memories, indices, values, olds)  # if that fails, nothing of it has changed
                undone.append(undo)


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
