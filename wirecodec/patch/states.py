"""States: mappings of names to tensors, read as bits, and written in place.

A tensor is a NumPy array, a torch tensor on any device, a CuPy or a JAX array. JAX arrays cannot change, so
an entry of the mapping is replaced.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from wirecodec.arrays import Array, overlaps_itself
from wirecodec.element_types import name_of
from wirecodec.errors import EncodeError
from wirecodec.patch.bits import Bits, Forms
from wirecodec.patch.host import HOST
from wirecodec.tensors import any_on_gpu, is_torch, on_gpu

BATCH = 2**22
"""Bytes of tensors that a thread reads together."""


@dataclass(frozen=True)
class Kind:
    """Properties of an element type in which changes are coded.

    Attributes:
        signed: whether the highest bit is a sign beside a magnitude, as in floats.
        shifts: candidates of the number of low bits of a magnitude that do not count for its class.
    """

    signed: bool
    shifts: tuple[int, ...] = ()


_FRACTIONS = {
    "float16": 10,
    "bfloat16": 7,
    "float32": 23,
    "float64": 52,
    "float8_e4m3fn": 3,
    "float8_e5m2": 2,
}
_LIKE_FLOATS = {"int16": (7, 10), "uint16": (7, 10), "int32": (23,), "uint32": (23,)}


def kind_of(dtype: np.dtype[Any]) -> Kind:
    """Return the properties of an element type; integers of 16 and 32 bits may be the bits of floats."""
    if dtype.name in _FRACTIONS:
        return Kind(signed=True, shifts=(_FRACTIONS[dtype.name],))
    return Kind(signed=False, shifts=_LIKE_FLOATS.get(dtype.name, ()))


def find_forms(tensor: Any) -> Forms:
    """Return the operations of the memory where a tensor is; those of the host if no others take it."""
    if not on_gpu(tensor):
        return HOST
    from wirecodec.patch import gpu  # it imports the kernels of a GPU

    return gpu.find_forms(tensor) or HOST


def read_bits(name: str, tensor: Any) -> Bits:
    """Read a tensor's bits; they share its memory if it is contiguous, and the host or a GPU has it.

    Raises EncodeError, which names the tensor.
    """
    try:
        return find_forms(tensor).read(tensor)
    except EncodeError as error:
        raise error.of(name) from None


def view_memory(tensor: Any, bits: Bits) -> Bits | None:
    """View a contiguous tensor, which has these bits, as bits that can be written; None for others."""
    return bits.forms.view(tensor, bits)


def bring_together(parts: Sequence[Bits]) -> list[Bits]:
    """Return bits that are all in one memory as they are, and copies on the host of any others."""
    first = parts[0].forms
    if all(part.forms is first or part.forms == first for part in parts):
        return list(parts)
    return [Bits(part.copy_to_host(), part.dtype, part.shape, HOST) for part in parts]


@contextmanager
def join(parts: Sequence[Bits]) -> Iterator[Bits]:
    """Lend the elements of some tensors of one type as those of one, which nobody may keep."""
    together = bring_together(parts)
    first = together[0]
    with first.forms.join([part.bits for part in together]) as bits:
        yield Bits(bits, first.dtype, (int(bits.size),), first.forms)


def read_state(state: Any) -> dict[str, Any]:
    """Return the tensors of a mapping or of a torch module by name."""
    if isinstance(state, Mapping):
        tensors = dict(state)
    elif hasattr(state, "state_dict") and hasattr(state, "named_parameters"):
        tensors = dict(state.state_dict(keep_vars=False))
    else:
        raise TypeError(f"state is {type(state).__name__}; it must be a mapping of names to tensors")
    if any_on_gpu(tensors.values()):
        for forms in {find_forms(tensor) for tensor in tensors.values()}:
            forms.settle()
    return tensors


def divide(names: Sequence[str], tensors: Mapping[str, Any]) -> list[list[str]]:
    """Divide names into batches, of tensors of up to ``BATCH`` bytes or of one."""
    batches, filled = list[list[str]](), 0
    for name in names:
        size = getattr(tensors[name], "nbytes", BATCH)
        if not batches or filled + size > BATCH:
            batches.append([])
            filled = 0
        batches[-1].append(name)
        filled += size
    return batches


def count_state(tensors: Mapping[str, Any]) -> tuple[int, int]:
    """Return the numbers of elements and of bytes of all tensors."""
    elements = nbytes = 0
    for name, tensor in tensors.items():
        if hasattr(tensor, "nbytes") and hasattr(tensor, "shape"):  # no copy from a device is needed
            shape, size = tensor.shape, int(tensor.nbytes)
        else:
            bits = read_bits(name, tensor)
            shape, size = bits.shape, bits.bits.nbytes
        elements += math.prod(shape)
        nbytes += size
    return elements, nbytes


def check_writable(name: str, tensor: Any) -> None:
    """Raise ValueError if a tensor cannot be written in place, nor replaced as JAX arrays are."""
    if type(tensor) in (np.ndarray, np.memmap):
        if not tensor.flags.writeable:
            raise ValueError(f"tensor {name!r} is read-only")
        if not tensor.flags.c_contiguous and overlaps_itself(tensor):
            raise ValueError(f"elements of tensor {name!r} share memory")
    elif is_torch(tensor):
        if _overlaps(tensor):
            raise ValueError(f"elements of tensor {name!r} share memory")
        if tensor.is_conj() or tensor.is_neg():
            raise ValueError(f"tensor {name!r} is a lazy conjugate or negative; pass one that has memory")
    elif not (_is_jax(tensor) or hasattr(tensor, "__cuda_array_interface__")):
        raise ValueError(
            f"tensor {name!r} is of type {type(tensor).__name__}, which cannot be written in place; pass an"
            " array of NumPy, CuPy or JAX, or a torch tensor"
        )


def _is_jax(tensor: Any) -> bool:
    """Return whether an object is an array of JAX."""
    return type(tensor).__module__.partition(".")[0] in ("jax", "jaxlib")


def _overlaps(tensor: Any) -> bool:
    """Return whether elements of a torch tensor may share memory."""
    span = 1
    for stride, n in sorted((s, n) for s, n in zip(tensor.stride(), tensor.shape, strict=True) if n > 1):
        if stride < span:
            return bool(tensor.numel() > 0)
        span += stride * (n - 1)
    return False


def write_elements(state: MutableMapping[str, Any], name: str, indices: Array | None, values: Array) -> None:
    """Replace elements of a tensor in place; a JAX array is replaced in the mapping.

    Args:
        state: the mapping.
        name: of the tensor.
        indices: (r,) u32 in row-major order; None for all elements.
        values: (r,) unsigned, bits.
    """
    tensor = state[name]
    if isinstance(tensor, np.ndarray):
        _write_array(tensor, indices, values)
    elif is_torch(tensor):
        _write_torch(tensor, indices, values)
    elif hasattr(tensor, "__cuda_array_interface__"):
        _write_array(tensor, indices, values)
    else:
        copy = np.array(tensor)
        _write_array(copy, indices, values)
        state[name] = _like(tensor, copy)


def _write_array(array: Any, indices: Array | None, values: Array) -> None:
    """Write bits into a NumPy or CuPy array of any strides and byte order."""
    if indices is None and array.dtype.kind == "c":
        array[...] = values.view(array.dtype.newbyteorder("=")).reshape(array.shape)
        return
    unsigned = values.dtype.newbyteorder(array.dtype.byteorder)  # values are in the machine's order
    words = array.reshape(1).view(unsigned).reshape(()) if array.ndim == 0 else array.view(unsigned)
    if indices is None:
        words[...] = _same_kind(words, values.reshape(words.shape))
    elif words.flags.c_contiguous:
        words.reshape(-1)[_same_kind(words, indices.astype(np.int64))] = _same_kind(words, values)
    else:
        places = np.unravel_index(indices.astype(np.int64), array.shape)
        words[tuple(_same_kind(words, x) for x in places)] = _same_kind(words, values)


def _same_kind(words: Any, x: Array) -> Any:
    """Move an array to the device of another one."""
    if isinstance(words, np.ndarray):
        return x
    import cupy

    return cupy.asarray(x)


def _write_torch(tensor: Any, indices: Array | None, values: Array) -> None:
    """Write bits into a torch tensor of any device and strides."""
    import torch

    given = tensor.detach()
    kind = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[values.dtype.itemsize]
    signed = values if values.dtype.itemsize == 1 else values.view(f"i{values.dtype.itemsize}")
    source = torch.from_numpy(np.ascontiguousarray(signed)).to(given.device)
    with torch.no_grad():
        if given.is_complex():
            given.copy_(source.view(given.dtype).reshape(given.shape))
            return
        words = given.view(kind) if given.dim() else given.reshape(1).view(kind)
        if indices is None:
            words.copy_(source.reshape(words.shape))
        elif words.is_contiguous():
            words.view(-1)[torch.from_numpy(indices.astype(np.int64)).to(given.device)] = source
        else:
            places = np.unravel_index(indices.astype(np.int64), tuple(words.shape))
            words[tuple(torch.from_numpy(x).to(given.device) for x in places)] = source


def _like(tensor: Any, array: Array) -> Any:
    """Make an array of the framework of another one, on its devices."""
    if _is_jax(tensor):
        return sys.modules["jax"].device_put(array, tensor.sharding)
    raise TypeError(f"{type(tensor).__name__} cannot be written in place")


def copy_tensor(tensor: Any) -> Any:
    """Copy a tensor where it is; a JAX array, which cannot change, is returned."""
    if is_torch(tensor):
        import torch

        return torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device).copy_(tensor.detach())
    writable = isinstance(tensor, np.ndarray) or hasattr(tensor, "__cuda_array_interface__")
    return tensor.copy() if writable else tensor


def make_tensor(state: Mapping[str, Any], bits: Array, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
    """Make a new tensor for a state: a torch tensor if the state has some, else an array."""
    array = bits.view(dtype).reshape(shape)
    example = next(iter(state.values()), None)
    if example is not None and is_torch(example):
        import torch

        out = torch.empty(shape, dtype=getattr(torch, name_of(dtype)), device=example.device)
        _write_torch(out, None, bits)
        return out
    return array
