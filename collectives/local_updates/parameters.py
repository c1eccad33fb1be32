"""Parameters that a program trains, as NumPy arrays: NumPy's own, and torch's on any device.

All results are arrays, also those of 0-d parameters: NumPy's arithmetic returns scalars for 0-d arrays.

The outer optimizer computes with arrays of float32 or float64 on the host, which have more digits than
parameters of bfloat16. Small steps of such parameters are thus not lost.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import ml_dtypes
import numpy as np

import wirecodec as wc
from collectives.local_updates.outer import Array
from collectives.torch.arguments import require_distinct
from wirecodec.interop import aligned_like, describe_overlap, dtype_named, local_shard


def name_arrays(named_parameters: Iterable[Any]) -> dict[str, Any]:
    """Return {name: parameter}, also of those of torch that need no gradient.

    Raises TypeError if an item is not a named torch tensor or plain writable array, ValueError if a name or a
    parameter occurs twice, or memory is shared.
    """
    pairs = named_parameters.items() if isinstance(named_parameters, Mapping) else named_parameters
    named: dict[str, Any] = {}
    for pair in pairs:
        if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str)):
            raise TypeError(
                f"named_parameters contains a {type(pair).__name__}, not a pair (name, parameter);"
                " pass model.named_parameters(), or {name: array}"
            )
        name, parameter = pair
        is_masked = isinstance(parameter, np.ma.MaskedArray)  # whose masked elements would be sent
        writable = isinstance(parameter, np.ndarray) and parameter.flags.writeable and not is_masked
        if not (writable or _is_torch(parameter)):
            raise TypeError(
                f"parameter {name!r} is a {type(parameter).__name__}; it must be a torch tensor or a writable"
                " NumPy array, which is changed in place"
            )
        if name in named:
            raise ValueError(f"two parameters have the name {name!r}; each needs a name of its own")
        named[name] = parameter
    require_distinct(named)
    shared = describe_overlap(named, lambda name: f"parameter {name!r}")
    if shared is not None:
        raise ValueError(
            f"{shared}: each movement would be sent and applied several times. Pass one of the names, or a"
            " parameter with memory of its own"
        )
    return named


def count_elements(parameter: Any) -> int:
    """Return the number of elements of an array or tensor."""
    return int(parameter.numel() if _is_torch(parameter) else parameter.size)


def find_trained(named: Mapping[str, Any], *, frozen: bool = False) -> dict[str, Any]:
    """Return what is exchanged: all but the Parameters of torch that need no gradient.

    Args:
        named: {name: parameter, buffer or array}.
        frozen: whether to return such Parameters of a float type, too.

    Raises EncodeError for another type than float, but not for one of a Parameter that needs no gradient; and
    for what is exchanged and has no dense elements, such as a tensor on "meta".
    """
    trained = {}
    for name, parameter in named.items():
        is_frozen = _is_frozen(parameter)
        if not is_frozen:
            try:
                dtype_named(parameter.dtype)
            except wc.EncodeError as error:
                advice = "pass parameters and buffers of these types only"
                raise wc.EncodeError(f"{error}: {advice}", tensor=name) from None
        if not is_frozen or (frozen and parameter.is_floating_point()):
            _require_dense(name, parameter)
            trained[name] = parameter
    return trained


def _require_dense(name: str, parameter: Any) -> None:
    """Raise EncodeError for a tensor without elements that can be read and written in place."""
    if not _is_torch(parameter):
        return
    if parameter.is_meta:
        raise wc.EncodeError("the parameter is on meta; create its elements first", tensor=name)
    if parameter.layout is not sys.modules["torch"].strided:
        text = f"the parameter has layout {parameter.layout}; pass a dense one, or leave it out"
        raise wc.EncodeError(text, tensor=name)
    try:
        shard = _shard_of(parameter)
        if 0 not in shard.shape:
            read(shard[(0,) * shard.dim()])
    except (TypeError, RuntimeError, ValueError) as error:  # of torch, for a kind without elements
        text = str(error).partition("\n")[0]
        raise wc.EncodeError(f"the parameter cannot be read: {text}", tensor=name) from None


def _shard_of(parameter: Any) -> Any:
    """Return this rank's part of a tensor; raise EncodeError if it has no memory: torch would crash."""
    shard = local_shard(parameter.detach())
    if shard.numel() and not shard.is_meta and not shard.data_ptr():
        raise wc.EncodeError("the storage of the parameter has been freed, as FSDP does out of use")
    return shard


def read(parameter: Any) -> Array:
    """Return a copy of a parameter on the host, as float32 or float64; of a DTensor, of this rank's shard."""
    if not _is_torch(parameter):
        return np.array(parameter, _wide(parameter), order="C")
    torch = sys.modules["torch"]
    wide = torch.float64 if parameter.dtype is torch.float64 else torch.float32
    shard = _shard_of(parameter)
    copied: Array = shard.to("cpu", wide, copy=True).contiguous().numpy()
    return copied


def write(parameter: Any, value: Array) -> bool:
    """Set a parameter in place, rounded to its type.

    Finite elements that are too large for the type get its largest value. Returns whether there are any.
    """
    fitting = _fit(parameter, value)
    if not _is_torch(parameter):
        parameter[...] = fitting
    else:
        _shard_of(parameter).copy_(sys.modules["torch"].from_numpy(fitting))
    return fitting is not value


def write_all(parameters: Mapping[str, Any], values: Iterable[tuple[str, Array]]) -> str:
    """Set parameters in place by name, as ``write``.

    Returns the name of one that got the largest value of its type in place of a larger one, or "".
    """
    too_large = ""
    for name, value in values:
        parameter = parameters[name]
        if type(parameter) is np.ndarray and parameter.dtype == value.dtype:
            parameter[...] = value
        elif write(parameter, value):
            too_large = name
    return too_large


def digest(parameter: Any) -> int:
    """Return the CRC-32 of a parameter as float32 or float64."""
    return zlib.crc32(np.ascontiguousarray(_view(parameter)).reshape(-1).view(np.uint8).data)


def measure_movements(parameters: Mapping[str, Any], starts: Mapping[str, Array]) -> dict[str, Array]:
    """Return {name: start - parameter}, with each start as its parameter holds it after ``write``.

    Args:
        parameters: of this worker.
        starts: {name: array}, as from ``read``.

    Raises EncodeError if a parameter has got another shape.
    """
    movements = dict(zip(parameters, aligned_like([starts[name] for name in parameters]), strict=True))
    for name, parameter in parameters.items():
        start = starts[name]
        is_same = type(parameter) is np.ndarray and parameter.dtype == start.dtype
        present = parameter if is_same else _view(parameter)
        if present.shape != start.shape:  # NumPy would repeat the elements of some shapes
            raise wc.EncodeError(
                f"the shape is {present.shape}, and was {start.shape}; make a new LocalUpdates after a"
                " parameter has got another shape",
                tensor=name,
            )
        np.subtract(start if is_same else round_to(parameter, start), present, out=movements[name])
    return movements


def round_to(parameter: Any, value: Array) -> Array:
    """Return a value as the parameter holds it after ``write``, as float32 or float64."""
    value = _fit(parameter, value)
    if not _is_torch(parameter):
        return np.asarray(value).astype(parameter.dtype, copy=False).astype(value.dtype, copy=False)
    torch = sys.modules["torch"]
    rounded: Array = torch.from_numpy(value).to(parameter.dtype).to(torch.from_numpy(value).dtype).numpy()
    return rounded


def _fit(parameter: Any, value: Array) -> Array:
    """Return a value whose finite elements are in the range of a parameter's type; the same array if so."""
    dtype = dtype_named(parameter.dtype)
    if dtype.itemsize >= value.itemsize or not value.size:
        return value
    limit = value.dtype.type(ml_dtypes.finfo(dtype).max)
    if -limit <= value.min() and value.max() <= limit:
        return value
    is_large = np.isfinite(value) & (np.abs(value) > limit)
    return np.asarray(np.where(is_large, np.copysign(limit, value), value)) if is_large.any() else value


def _view(parameter: Any) -> Array:
    """Return a parameter on the host, as float32 or float64; its own memory if it has such a type."""
    if not _is_torch(parameter):
        return np.asarray(parameter) if parameter.dtype == _wide(parameter) else read(parameter)
    torch = sys.modules["torch"]
    is_wide = parameter.dtype in (torch.float32, torch.float64)
    is_plain = type(parameter) in (torch.Tensor, torch.nn.Parameter) and parameter.layout is torch.strided
    if not (is_wide and is_plain and parameter.device.type == "cpu") or parameter.is_neg():
        return read(parameter)
    memory: Array = parameter.detach().numpy()
    return memory if parameter.data_ptr() or not memory.size else read(parameter)  # which raises the error


def _wide(parameter: Any) -> np.dtype[Any]:
    return np.dtype(np.float64 if dtype_named(parameter.dtype) == np.float64 else np.float32)


def _is_frozen(parameter: Any) -> bool:
    """Return whether this is a Parameter of torch that needs no gradient; a buffer is none."""
    if not _is_torch(parameter) or parameter.requires_grad:
        return False
    return isinstance(parameter, sys.modules["torch"].nn.Parameter)


def _is_torch(parameter: Any) -> bool:
    return "torch" in sys.modules and isinstance(parameter, sys.modules["torch"].Tensor)
