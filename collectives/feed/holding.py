"""Tensors that a reader holds, and which of them a version has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wirecodec.interop import Layout, PreparedPatch, read_tensors


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
        first.setdefault(_place_of(tensor) or name, name)
    return {name: tensors[name] for name in first.values()} if len(first) == number else tensors


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
    """Return the layout, type and shape of a tensor; None if it has no memory that is known."""
    layout = Layout.of(tensor)
    return None if layout is None else (layout, str(tensor.dtype), tuple(tensor.shape))
