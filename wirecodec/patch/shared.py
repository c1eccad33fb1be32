"""Tensors of a state that share memory, such as tied weights: a patch must make the same of both.

A patch with other targets for them has no right result: the last write would win.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from wirecodec.arrays import bits_of
from wirecodec.patch.overlap import Layout, find_overlaps
from wirecodec.patch.writes import Write


def check_shared(
    state: Mapping[str, Any], writes: Iterable[Write], kept: Iterable[str], others: Collection[str] = ()
) -> None:
    """Check that tensors that share memory are to have the same bits.

    Args:
        state: {name: tensor}, which ``writes`` were checked against.
        writes: those that are made in place.
        kept: names of tensors that the patch leaves as they are.
        others: names of which it says nothing. They may be second names of the tensors that it writes, since
            checkpoints lack those of tied weights.

    Raises:
        ValueError: two tensors share memory, and the patch makes different ones of them; or one is a part or
            another order of the other one.
    """
    by_name = {write.name: write for write in writes}
    if not by_name:
        return
    names = [*by_name, *(name for name in kept if name in state), *others]
    if _are_apart(by_name, [name for name in names if name not in by_name], state):
        return
    for (one, a), (other, b) in find_overlaps(layouts_of(state, names)):
        if a not in by_name and b not in by_name:
            continue
        if one == other and (a in others or b in others):
            continue
        is_same = a in by_name and b in by_name and one == other
        if not is_same or not _make_same(by_name[a], by_name[b], state):
            raise ValueError(
                f"tensors {a!r} and {b!r} share memory, and the patch makes different ones of them; pass a"
                " state in which one of them is a copy"
            )


def _are_apart(writes: Mapping[str, Write], kept: Iterable[str], state: Mapping[str, Any]) -> bool:
    """Return whether no tensor's span of memory meets another one; False if more must be compared to know."""
    spans, others = list[tuple[int, int]](), list(kept)
    for name, write in writes.items():
        memory = write.memory
        if memory is None or memory.address is None:
            others.append(name)
        else:
            spans.append((memory.address, memory.address + memory.bits.nbytes))
    spans += [(layout.start, layout.stop) for layout, _ in layouts_of(state, others)]
    spans.sort()
    return all(one[1] <= other[0] for one, other in pairwise(spans))


def explain_shared(state: Mapping[str, Any]) -> str:
    """Return the reason why a state may have more names than a checkpoint, as the end of a message, or ""."""
    for (_, a), (_, b) in find_overlaps(layouts_of(state, state)):
        return (
            f"; {a!r} and {b!r} share memory: leave out the name that the checkpoint lacks, as"
            " dict(module.named_parameters()) does"
        )
    return ""


def layouts_of(state: Mapping[str, Any], names: Iterable[str]) -> list[tuple[Layout, str]]:
    """Return the places of tensors in memory; those without any that is known are left out."""
    return [(layout, name) for name in names if (layout := Layout.of(state[name])) is not None]


def _make_same(a: Write, b: Write, state: Mapping[str, Any]) -> bool:
    """Return whether two writes into the same memory leave the same bits."""
    if a.indices is not None and b.indices is not None:
        return np.array_equal(a.indices, b.indices) and np.array_equal(a.values, b.values)
    one, other = (bits_of(write.make(state).reshape(-1)) for write in (a, b))
    return np.array_equal(one, other)
