"""Tensors that a reader holds: which of them a version has, and whether anything has changed them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from wirecodec.interop import Layout, PreparedPatch, read_tensors

Memory = tuple[tuple[Any, ...], ...]
"""Places of the tensors of a state, with torch's counts of the operations that have written into them."""


def read_held(state: Any, number: int) -> dict[str, Any]:
    """Return the tensors of a state by name, without tied ones if a version has as many tensors then.

    Tied tensors have the same memory, type and shape under several names. Checkpoints have the first name.

    Args:
        state: {name: tensor}, or a torch module.
        number: of tensors in the version.
    """
    tensors = read_tensors(state)
    if len(tensors) <= number:
        return tensors
    first: dict[Any, str] = {}
    for name, tensor in tensors.items():
        place = _place_of(tensor)
        first.setdefault(place if place is not None and place[0] is not None else name, name)
    return {name: tensors[name] for name in first.values()} if len(first) == number else tensors


def find_memory(tensors: Mapping[str, Any]) -> Memory | None:
    """Return the places of all tensors; None if a tensor has no memory that is known.

    A change through torch makes the result another one. A change of the bytes by others does not.
    """
    places = [(name, _place_of(tensor), _count_writes(tensor)) for name, tensor in tensors.items()]
    return tuple(places) if all(place is not None for _, place, _ in places) else None


def check_shapes(prepared: PreparedPatch, tensors: Mapping[str, Any], version: int) -> None:
    """Raise ValueError if a version would replace a tensor by one of another shape or type.

    The memory of the old one would keep its bits, and may be that of a model.
    """
    for write in prepared.writes:
        if write.bits is not None and write.name in tensors and write.replaces(tensors):
            held = tensors[write.name]
            raise ValueError(
                f"tensor {write.name!r} has shape {tuple(held.shape)} and type {held.dtype}, and version"
                f" {version} has shape {write.bits.shape} and type {write.bits.dtype}; pass tensors like"
                " those of the publisher, or leave the name out of the mapping, for a new tensor"
            )


def _place_of(tensor: Any) -> tuple[Any, ...] | None:
    """Return the layout, type and shape of a tensor; None if its memory is not known."""
    layout = Layout.of(tensor)
    if layout is None and not (hasattr(tensor, "shape") and math.prod(tensor.shape) == 0):
        return None
    return layout, str(tensor.dtype), tuple(tensor.shape)


def _count_writes(tensor: Any) -> int:
    """Return torch's count of the operations that have written into a tensor; 0 if there is none."""
    try:
        return int(getattr(tensor, "_version", 0))
    except RuntimeError:  # a tensor of inference mode
        return 0
