"""Selection on the host: [transform] -> select -> gather, which give the ``Support`` to encode.

    tensor -> flat array [-> coefficients] -> indices -> values at these

A selector gets real numbers: the elements, real coefficients, or the magnitudes of complex ones.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from wirecodec.arrays import UNSIGNED, Array, bits_of, index_dtype, nothing, read_only
from wirecodec.cpu.costs import CodecCosts, share_header
from wirecodec.cpu.forms import describe
from wirecodec.element_types import DTYPES
from wirecodec.errors import EncodeError, LimitExceeded
from wirecodec.frameworks import as_sparse
from wirecodec.select.all import All
from wirecodec.select.base import Selection, Selector, require_finite
from wirecodec.select.nonzero import NonZero
from wirecodec.settings.scheme import Scheme
from wirecodec.sparse import ZERO, SparseTensor, ascending_indices, nonzero
from wirecodec.support import Support
from wirecodec.tensors import Flat, as_elements, as_flat


def select(tensor: Any, scheme: Scheme, *, seed: int = 0, header: int = 0, tag: bytes = b"") -> Support:
    """Select elements of a tensor, or coefficients of its transform, with their values.

    Args:
        tensor: an array, a SparseTensor that is no patch, or a sparse tensor of a framework.
        scheme: its transform and selector are applied.
        seed: seed of the selection.
        header: bytes of the container's header that count for this tensor; 0 if it is alone in it.
        tag: the container's, if the tensor is alone.
    """
    if type(tensor) is np.ndarray:
        flat = as_elements(tensor)
    else:
        tensor = as_sparse(tensor)
        _refuse_patch(tensor)
        keeps_zeros = not isinstance(scheme.select, All | NonZero) or scheme.transform
        if isinstance(tensor, SparseTensor) and not keeps_zeros:
            scheme.require_dtype(tensor.dtype)
            return _select_stored(tensor, scheme.select)
        flat = dense(tensor, scheme, as_elements)
    scheme.require_dtype(flat.data.dtype)
    if scheme.select.needs_costs and not header:
        header = share_header({"": flat}, {"": scheme}, tag, names=False)
    return choose(flat, scheme, seed=seed, header=header)[0]


def dense(tensor: Any, scheme: Scheme | None = None, convert: Callable[[Any], Flat] = as_flat) -> Flat:
    """Convert an array, or a sparse tensor with its zeros, to a flat array.

    Args:
        tensor: the array or sparse tensor.
        scheme: if it has a transform, a sparse tensor is refused.
        convert: ``as_flat`` for floats, ``as_elements`` for any element type.

    Raises EncodeError, also for a sparse tensor if the scheme has a transform.
    """
    tensor = as_sparse(tensor)
    if not isinstance(tensor, SparseTensor):
        return convert(tensor)
    _refuse_patch(tensor)
    if scheme is not None and scheme.transform is not None and not tensor.is_full:
        raise EncodeError(
            f"the tensor is sparse, and {scheme.transform.name} spreads its elements over all coefficients;"
            " use a scheme without a transform, or pass tensor.to_dense()"
        )
    try:
        return convert(tensor.to_dense())
    except LimitExceeded as error:
        raise EncodeError(f"this scheme needs the dense tensor: {error.message}") from None


def find_array(arrays: Sequence[Any], masks: Mapping[np.dtype[Any], Any]) -> int:
    """Return the number of the first array with an element that has all bits of its type's mask, or -1."""
    from wirecodec.kernels.cpu import support

    columns, found = describe(arrays), len(arrays)
    for number in np.flatnonzero(columns.kinds < 0).tolist():  # tensors of torch, and arrays with gaps
        x = dense(arrays[number]).data
        bits, mask = bits_of(x), masks[x.dtype]
        if ((bits & mask) == mask).any():
            found = number
            break
    for kind in set(columns.kinds.tolist()) - {-1}:
        numbers = np.flatnonzero(columns.kinds == kind)
        places, sizes = read_only(columns.addresses[numbers]), read_only(columns.sizes[numbers])
        dtype = DTYPES[kind]
        at = int(support.find_array(places, sizes, nothing(UNSIGNED[dtype.itemsize]), masks[dtype]))
        found = found if at < 0 else min(found, int(numbers[at]))
    return found if found < len(arrays) else -1


def _refuse_patch(tensor: Any) -> None:
    """Raise EncodeError if a tensor is a patch, which only ``encode`` and ``encode_many`` can store."""
    if isinstance(tensor, SparseTensor) and tensor.absent != ZERO:
        raise EncodeError("the tensor is a patch, whose absent elements are unchanged; only encode stores it")


def choose(
    flat: Flat,
    scheme: Scheme,
    *,
    gradient: Array | None = None,
    state: Any = None,
    seed: int = 0,
    header: int = 0,
    source: Any = None,
) -> tuple[Support, Any]:
    """Apply a scheme's transform and selector to a dense tensor.

    Args:
        flat: the tensor; gradient + residual if feedback is on.
        scheme: its transform and selector are applied.
        gradient: (size,) of this step, if it is not ``flat`` itself.
        state: the state that the last selection returned.
        seed: seed of the selection.
        header: bytes of the container's header that count for this tensor.
        source: the tensor as a ``Source`` of a budget's search; by default, the search reads the array.

    Returns:
        The selected elements, and the selector's state for the next step.
    """
    if scheme.transform is not None:
        return _select_coefficients(flat, scheme, state, seed, header)
    if scheme.select.needs_costs:
        costs = CodecCosts(scheme, flat.data.size, header)
        return _keep_entries(flat, scheme.select.select_within(source or flat.data, costs), costs), None
    selection = scheme.select.select(flat.data, gradient=gradient, state=state, seed=seed)
    if is_own(scheme.select):
        return gather(flat, selection, trusted=True), selection.state
    return gather(flat, _copy_selection(scheme, selection)), selection.state


def _keep_entries(flat: Flat, selection: Selection, costs: CodecCosts) -> Support:
    """Gather the selected elements, with the entries that a search has encoded."""
    values = flat.data if selection.indices is None else selection.values
    support = gather(flat, selection, trusted=is_own(costs.scheme.select))
    return dataclasses.replace(support, entries=costs.entries_of(values, selection.step))


def _copy_selection(scheme: Scheme, selection: Any) -> Selection:
    """Copy what a user-defined selector has returned; raise EncodeError if that is no Selection."""
    if not isinstance(selection, Selection):
        raise EncodeError(f"{scheme.select.name} gave {type(selection).__name__}, not a Selection")
    # A user's arrays may be used again, or views of x, which changes.
    copies = {
        name: array.copy()
        for name in ("indices", "values")
        if isinstance(array := getattr(selection, name), np.ndarray)
    }
    return dataclasses.replace(selection, **copies)


def _select_coefficients(
    flat: Flat, scheme: Scheme, state: Any, seed: int, header: int
) -> tuple[Support, Any]:
    """Select coefficients. The selector gets no gradient, because that would have to be transformed, too."""
    transform = scheme.transform
    assert transform is not None
    require_finite(flat.data, transform.name)
    coefficients = read_only(transform.forward(flat.data))
    if scheme.select.needs_costs:
        if transform.width > 1:
            raise EncodeError(f"{scheme.select.name} cannot follow {transform.name}; use dct")
        costs = CodecCosts(scheme, coefficients.size, header)
        selection = scheme.select.select_within(coefficients, costs)
        support = gather(Flat(coefficients, flat.shape), selection)
        return dataclasses.replace(
            support, entries=None, domain=transform.domain, coefficients_of=flat.data.dtype
        ), None
    seen = coefficients if transform.width == 1 else _magnitudes(coefficients)
    try:
        selection = scheme.select.select(seen, state=state, seed=seed)
        if not is_own(scheme.select):
            selection = _copy_selection(scheme, selection)
    except EncodeError as error:
        raise EncodeError(error.reason) from None  # without its position, which is a coefficient's
    if selection.scale is not None:
        raise EncodeError(
            f"{scheme.select.name} sends one magnitude for all elements; it cannot follow a transform"
        )
    if seen is not coefficients:
        selection = dataclasses.replace(selection, values=None)  # they are magnitudes
    support = gather(Flat(coefficients, flat.shape), selection)
    domain, dtype = transform.domain, flat.data.dtype
    return dataclasses.replace(support, domain=domain, coefficients_of=dtype), selection.state


def _magnitudes(coefficients: Array) -> Array:
    """Compute the magnitudes of complex numbers, clamped to finite numbers."""
    with np.errstate(over="ignore", under="ignore"):
        magnitudes: Array = np.abs(coefficients)
    return read_only(np.minimum(magnitudes, np.finfo(magnitudes.dtype).max, out=magnitudes))


def is_own(part: Any) -> bool:
    """Tell whether a part of a scheme is the library's, not user-defined."""
    return type(part).__module__.startswith("wirecodec.")


def gather(flat: Flat, selection: Selection, *, trusted: bool = False) -> Support:
    """Gather the values of the selected elements, or their signs times the selection's scale.

    Args:
        flat: the tensor.
        selection: its selected elements.
        trusted: True if the indices are known to ascend within the tensor.

    Raises EncodeError if a user-defined selector returned indices that do not ascend within the tensor, which
    kernels rely on, or a scale that the tensor's dtype cannot hold.
    """
    indices, size = selection.indices, flat.data.size
    if indices is not None and not (trusted and indices.dtype == index_dtype(size)):
        indices = ascending_indices(indices, size)
    if indices is None or indices.size == size:
        return Support(None, scaled(flat.data, selection.scale), size, flat.shape, step=selection.step)

    def values_at(where: Array) -> Array:
        return scaled(flat.data[where], selection.scale)

    values = selection.values
    if values is None:
        return Support(indices, values_at(indices), size, flat.shape, values_at, step=selection.step)
    if values.shape != indices.shape or values.dtype != flat.data.dtype:
        raise EncodeError(f"a selector gave {values.size} {values.dtype} values at {indices.size} indices")
    scaled_values = scaled(values, selection.scale)
    finite = selection.finite and selection.scale is None
    return Support(indices, scaled_values, size, flat.shape, values_at, finite=finite, step=selection.step)


def scaled(values: Array, scale: float | None) -> Array:
    """Multiply the signs of values by a selection's scale; return the values if it has none."""
    if scale is None:
        return values
    signed: Array = np.copysign(magnitude_in(values.dtype, scale), values)
    return signed


def magnitude_in(dtype: np.dtype[Any], scale: float) -> Array:
    """Convert a selection's scale to the tensor's dtype, 0-d. Raises EncodeError if it is out of range."""
    with np.errstate(over="ignore"):
        magnitude = np.array(scale).astype(dtype)
    if not (scale >= 0 and np.isfinite(magnitude)):
        raise EncodeError(f"the selection's scale is {scale!r}; it must be a finite magnitude of {dtype}")
    return magnitude


def _select_stored(tensor: SparseTensor, selector: Selector) -> Support:
    """Select from the stored elements of a SparseTensor, without a dense copy."""
    values = as_elements(tensor.values).data
    keep = nonzero(values) if isinstance(selector, NonZero) else None
    if keep is None:
        return Support(None if tensor.is_full else tensor.indices, values, tensor.size, tensor.shape)
    return Support(tensor.indices[keep], values[keep], tensor.size, tensor.shape)
