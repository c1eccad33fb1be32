"""Memory of the caller for the results of a call: ``out=``.

The arrays are checked before the ranks agree, so a rank with an invalid one is reported to all ranks. Results
are written after all containers have been checked. An array may be the gradient itself, or share memory with
it: a gradient is not read again once the ranks have agreed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import is_
from typing import Any

import numpy as np

from collectives.agreement.nonfinite import make_nan
from collectives.device import (
    any_on_gpu,
    as_arrays,
    copy_all_on_device,
    copy_on_device,
    is_on_gpu,
    match_devices,
    same_device,
)
from collectives.exchange.specs import ONLY, TensorSpec, get_spec
from collectives.transport.reduce import Dense
from wirecodec.interop import DTYPES, as_targets, as_writable, describe_arrays, describe_overlap, dtype_named


@dataclass(frozen=True)
class Targets:
    """Arrays of the caller that receive the results.

    Attributes:
        given: {name: array} as the caller passed them; empty if the results are new arrays.
        flat: {name: (size,)} views of those on the host.
    """

    given: Mapping[str, Any] = field(default_factory=dict)
    flat: Mapping[str, Dense] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        out: Any,
        tensors: Mapping[str, Any],
        specs: Mapping[str, TensorSpec],
        arrays: Mapping[str, Any],
        *,
        bare: bool,
    ) -> Targets:
        """Check the caller's arrays.

        Args:
            out: an array for a tensor without a name, {name: array} for named ones, or None.
            tensors: the gradients by name; they determine the devices.
            specs: {name: (shape, dtype)} of the results.
            arrays: the gradients as arrays of the same memory, as far as they are on the host.
            bare: whether the caller passed one tensor without a name.

        Raises:
            TypeError: ``out`` is not an array, or of another element type.
            ValueError: an array has another shape or device, is read-only or not contiguous, shares memory
                with another one of them, or the names differ.
        """
        if out is None:
            return cls()
        given = {ONLY: out} if bare else _match_names(out, specs)
        flat = _view_arrays(given, tensors, specs, arrays)
        if flat is not None:
            return cls(given, flat)
        flat = {}
        for name, array in given.items():
            what = "out" if bare else f"out[{name!r}]"
            try:
                view = _check_array(array, tensors[name], *specs[name])
            except (TypeError, ValueError) as error:
                raise type(error)(f"{what}: {error}") from None
            if view is not None:
                flat[name] = view
        shared = describe_overlap({**given, **flat}, lambda name: "out" if bare else f"out[{name!r}]")
        if shared is not None:
            raise ValueError(shared)
        return cls(given, flat)

    def allocate(self, name: str, size: int, dtype: np.dtype[Any]) -> Dense:
        """Return the caller's memory for a result on the host, or a new array without it."""
        memory = self.flat.get(name)
        return np.empty(size, dtype) if memory is None else memory

    def deliver(self, tensors: Mapping[str, Any], results: Mapping[str, Any]) -> dict[str, Any]:
        """Return the results in the caller's memory, or as arrays on the devices of the tensors.

        Args:
            tensors: the gradients by name.
            results: {name: array} of the results' shapes, or flat; on the host, or flat raw bits on a GPU.
                Those that are in the caller's memory already are not copied.
        """
        if not self.given and not any_on_gpu(tensors.values()):
            return dict(results)
        delivered: dict[str, Any] = {}
        raw: dict[str, Any] = {}
        for name, result in results.items():
            if name in self.flat:
                view = self.flat[name]
                if result is not view and not np.may_share_memory(view, result):
                    view[:] = result.reshape(-1)
                delivered[name] = self.given[name]
                continue
            if self.given and is_on_gpu(result):
                raw[name], delivered[name] = result.reshape(-1), self.given[name]
                continue
            delivered[name] = match_devices(tensors[name], result)
            if self.given:
                copy_on_device(delivered[name], self.given[name])
                delivered[name] = self.given[name]
        copy_all_on_device(raw, self.given)
        return delivered


def fill_with_nan(tensor: Any, out: Any) -> Any:
    """Return results of NaN with the tensors' types, shapes and devices.

    Args:
        tensor: an array, or {name: array}.
        out: memory of the caller that was checked for these tensors, or None.
    """
    nan = make_nan(tensor)
    if out is None:
        return nan
    bare = not isinstance(tensor, Mapping)
    tensors, results = ({ONLY: tensor}, {ONLY: nan}) if bare else (tensor, nan)
    specs = {name: get_spec(array) for name, array in tensors.items()}
    delivered = Targets.of(out, tensors, specs, as_arrays(tensors), bare=bare).deliver(tensors, results)
    return delivered[ONLY] if bare else delivered


def _view_arrays(
    given: Mapping[str, Any],
    tensors: Mapping[str, Any],
    specs: Mapping[str, TensorSpec],
    known: Mapping[str, Any],
) -> dict[str, Dense] | None:
    """Return flat views of arrays on the host; None if one of them needs the checks of ``_check_array``."""
    if any_on_gpu(tensors.values()):
        return None
    if all(map(is_, given.values(), map(tensors.get, given))):
        arrays = [known[name] for name in given]
    else:
        arrays = as_targets(given.values())
    if set(map(type, arrays)) - {np.ndarray}:
        return None
    if [array.shape for array in arrays] != [specs[name][0] for name in given]:
        return None
    columns = describe_arrays(arrays)
    kinds = np.array([DTYPES.index(specs[name][1]) for name in given], np.intp)
    order = np.argsort(columns.addresses, kind="stable")
    starts, nbytes = columns.addresses[order], (columns.sizes * _ITEM_SIZES[kinds])[order]
    separate = (starts[:-1] + nbytes[:-1] <= starts[1:]).all()
    if not (separate and columns.writeable.all() and (columns.kinds == kinds).all()):
        return None
    return {name: array.reshape(-1) for name, array in zip(given, arrays, strict=True)}


_ITEM_SIZES = np.array([dtype.itemsize for dtype in DTYPES])


def _match_names(out: Any, specs: Mapping[str, TensorSpec]) -> dict[str, Any]:
    """Return the arrays in the order of the tensors; raise TypeError or ValueError if the names differ."""
    if not isinstance(out, Mapping):
        raise TypeError(f"out is {type(out).__name__}; named tensors need a mapping {{name: array}}")
    missing, unknown = specs.keys() - out.keys(), out.keys() - specs.keys()
    if missing or unknown:
        problem = f"no array for {min(missing)!r}" if missing else f"no tensor is called {min(unknown)!r}"
        raise ValueError(f"out has other names than the tensors: {problem}")
    return {name: out[name] for name in specs}


def _check_array(array: Any, tensor: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Dense | None:
    """Check one array; return its flat view if it is on the host.

    Args:
        array: of the caller.
        tensor: the gradient, on the device of the result.
        shape, dtype: of the result.
    """
    if not hasattr(array, "shape") or not hasattr(array, "dtype"):
        raise TypeError(f"{type(array).__name__} is not an array")
    if tuple(array.shape) != shape:
        raise ValueError(f"the shape is {tuple(array.shape)}; the tensor has {shape}")
    if dtype_named(array.dtype) != dtype:
        raise TypeError(f"the dtype is {array.dtype}; the tensor has {dtype}")
    if is_on_gpu(tensor) or is_on_gpu(array):
        same_device(array, tensor)
        return None
    return as_writable(array)
