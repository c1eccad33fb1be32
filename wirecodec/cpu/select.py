"""A tensor's first steps: [transform] -> select -> gather, which give the ``Support`` that is to be coded.

    tensor -> flat array [-> coefficients] -> indices -> values at these

A selector sees real numbers: the elements, or real coefficients, or the magnitudes of complex ones.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from wirecodec.arrays import Array, Flat, as_flat, read_only
from wirecodec.errors import EncodeError, LimitExceeded
from wirecodec.scheme import Scheme
from wirecodec.select.all import All
from wirecodec.select.base import Selection, Selector, finite_or_raise
from wirecodec.select.nonzero import NonZero
from wirecodec.sparse import SparseTensor, ascending_indices, nonzero
from wirecodec.support import Support

__all__ = ["choose", "dense", "gather", "magnitude_in", "scaled", "select"]


def select(tensor: Any, scheme: Scheme, *, seed: int = 0) -> Support:
    """Which elements of a tensor go on the wire, or which of its coefficients, and their values."""
    if isinstance(tensor, SparseTensor) and isinstance(scheme.select, All | NonZero) and not scheme.transform:
        return _select_stored(tensor, scheme.select)
    return choose(dense(tensor), scheme, seed=seed)[0]


def dense(tensor: Any) -> Flat:
    """Any array, or a SparseTensor with its zeros, as a flat array; EncodeError where it is neither."""
    if not isinstance(tensor, SparseTensor):
        return as_flat(tensor)
    try:
        return as_flat(tensor.to_dense())
    except LimitExceeded as error:
        raise EncodeError(f"this scheme needs the dense tensor: {error.message}") from None


def choose(
    flat: Flat, scheme: Scheme, *, gradient: Array | None = None, state: Any = None, seed: int = 0
) -> tuple[Support, Any]:
    """What a scheme takes of a dense tensor, and its selector's state for the next step.

    Args:
        flat: gradient + residual where feedback is on.
        scheme: of which transform and selector are applied.
        gradient: this step's, flat, where it is not ``flat`` itself.
        state: what the last selection returned.
        seed: of the selection.
    """
    if scheme.transform is not None:
        return _choose_coefficients(flat, scheme, state, seed)
    selection = _selected(scheme, flat.data, gradient=gradient, state=state, seed=seed)
    return gather(flat, selection), selection.state


def _selected(scheme: Scheme, x: Array, **options: Any) -> Selection:
    """What the selector says; EncodeError where a user-defined one gives something else than a Selection."""
    found: Any = scheme.select.select(x, **options)
    if not isinstance(found, Selection):
        raise EncodeError(f"{scheme.select.name} gave {type(found).__name__}, not a Selection")
    return found


def _choose_coefficients(flat: Flat, scheme: Scheme, state: Any, seed: int) -> tuple[Support, Any]:
    """The same among coefficients. No gradient is shown to the selector; it would have to be transformed."""
    transform = scheme.transform
    assert transform is not None
    finite_or_raise(flat.data, transform.name)
    coefficients = read_only(transform.forward(flat.data))
    seen = coefficients if transform.width == 1 else _magnitudes(coefficients)
    try:
        selection = _selected(scheme, seen, state=state, seed=seed)
    except EncodeError as error:
        raise EncodeError(error.reason) from None  # its position is that of a coefficient
    if selection.scale is not None:
        raise EncodeError(
            f"{scheme.select.name} sends one magnitude for elements; it cannot be after a transform"
        )
    if seen is not coefficients:
        selection = dataclasses.replace(selection, values=None)  # they are magnitudes
    support = gather(Flat(coefficients, flat.shape), selection)
    domain, dtype = transform.domain, flat.data.dtype
    return dataclasses.replace(support, domain=domain, coefficients_of=dtype), selection.state


def _magnitudes(coefficients: Array) -> Array:
    """Of complex numbers, finite."""
    with np.errstate(over="ignore", under="ignore"):
        found: Array = np.abs(coefficients)
    return read_only(np.minimum(found, np.finfo(found.dtype).max, out=found))


def gather(flat: Flat, selection: Selection) -> Support:
    """The values at the selected elements, or their signs times the selection's scale where it has one.

    EncodeError where a user-defined selector gave indices that do not ascend within the tensor: kernels trust
    them; or a scale that the tensor's type does not hold.
    """
    indices, size = selection.indices, flat.data.size
    if indices is not None:
        indices = ascending_indices(indices, size)
    if indices is None or indices.size == size:
        return Support(None, scaled(flat.data, selection.scale), size, flat.shape)

    def values_at(where: Array) -> Array:
        return scaled(flat.data[where], selection.scale)

    values = selection.values
    if values is None:
        return Support(indices, values_at(indices), size, flat.shape, values_at)
    if values.shape != indices.shape or values.dtype != flat.data.dtype:
        raise EncodeError(f"a selector gave {values.size} {values.dtype} values at {indices.size} indices")
    return Support(indices, scaled(values, selection.scale), size, flat.shape, values_at)


def scaled(values: Array, scale: float | None) -> Array:
    """The signs of values times a selection's scale; the values where it has none."""
    if scale is None:
        return values
    signed: Array = np.copysign(magnitude_in(values.dtype, scale), values)
    return signed


def magnitude_in(dtype: np.dtype[Any], scale: float) -> Array:
    """A selection's scale in the tensor's type, 0-d; EncodeError where that does not hold it."""
    with np.errstate(over="ignore"):
        magnitude = np.array(scale).astype(dtype)
    if not (scale >= 0 and np.isfinite(magnitude)):
        raise EncodeError(f"the selection's scale is {scale!r}, no magnitude of a {dtype}")
    return magnitude


def _select_stored(tensor: SparseTensor, selector: Selector) -> Support:
    """The same for selectors that need to look at stored elements only: no dense copy is made."""
    values = as_flat(tensor.values).data
    keep = nonzero(values) if isinstance(selector, NonZero) else None
    if keep is None or keep.size == values.size:
        return Support(None if tensor.is_full else tensor.indices, values, tensor.size, tensor.shape)
    return Support(tensor.indices[keep], values[keep], tensor.size, tensor.shape)
