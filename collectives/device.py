"""Arrays on a GPU: whether MPI may be handed them as they are, and the way through the host where it may not.

What decides, in this order, and once for a Channel:

    1. ``Channel(comm, device="mpi")`` or ``"staged"``; ``"auto"`` asks further
    2. MPIX_Query_cuda_support, of the MPI library that is loaded
    3. the communicator's info key ``mpi_memory_alloc_kinds`` (MPI 4.1): "cuda"
    4. otherwise: staged, device ─► pinned host ─► MPI ─► host ─► device

No device pointer is ever sent to find out: an MPI without CUDA reads it and dies. Ranks agree
(``Channel.takes_device``): one that must stage makes all stage. Containers are encoded on the host today, so
what travels is there already, and tensors are staged around the encoding, whatever the verdict. It says what
blobs on a device may do.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import numpy as np

__all__ = ["DEVICES", "Device", "is_on_device", "like", "may_take_device", "staged"]

Device: TypeAlias = Literal["auto", "mpi", "staged"]
DEVICES: tuple[Device, ...] = ("auto", "mpi", "staged")

_CUDA = "cuda"
_INFO_KEY = "mpi_memory_alloc_kinds"


def is_on_device(array: Any) -> bool:
    """Whether an array lies on a GPU, by its own account: no CuPy is needed to know."""
    if _is_torch(array):  # whose interface raises for types that it does not know
        return bool(array.is_cuda)
    return isinstance(getattr(array, "__cuda_array_interface__", None), Mapping)


def may_take_device(comm: Any, setting: Device = "auto") -> bool:
    """Whether this rank's MPI may be handed device memory; the other ranks may differ.

    Args:
        comm: an mpi4py communicator, or any other.
        setting: the caller's word goes before everything.
    """
    if setting != "auto":
        return setting == "mpi"
    said = _query_cuda_support()
    if said is not None:
        return said
    return _CUDA in _alloc_kinds(comm)


def staged(tensors: Any) -> Any:
    """The same array, or {name: array}, with what lies on a device copied to the host, completely.

    Raises ImportError, naming the extra, where CuPy is missing.
    """
    if isinstance(tensors, Mapping):
        return {name: staged(each) for name, each in tensors.items()}
    if not is_on_device(tensors):
        return tensors
    return tensors.detach().cpu() if _is_torch(tensors) else _to_host(tensors)


def like(tensors: Any, results: Any) -> Any:
    """Results on the host, brought to where the tensors that they belong to lie.

    Args:
        tensors: an array, or {name: array}, as the caller gave them.
        results: an array, or {name: array} of the same names.
    """
    if isinstance(tensors, Mapping):
        return {name: like(tensors[name], each) for name, each in results.items()}
    if not is_on_device(tensors):
        return results
    if _is_torch(tensors):
        octets = sys.modules["torch"].from_numpy(results.reshape(-1).view(np.uint8))
        return octets.view(tensors.dtype).reshape(tensors.shape).to(tensors.device)
    return _cupy().asarray(results)


def _to_host(array: Any) -> Any:
    """Through pinned memory, which a device copies to without a second copy of its own."""
    cupy = _cupy()
    cupy.cuda.runtime.deviceSynchronize()  # whatever stream writes it: MPI and the host know of none
    there = cupy.ascontiguousarray(cupy.asarray(array))
    room = cupy.cuda.alloc_pinned_memory(there.nbytes)
    here = np.frombuffer(room, there.dtype, there.size).reshape(there.shape)
    there.get(out=here)
    cupy.cuda.get_current_stream().synchronize()
    return here


def _is_torch(array: Any) -> bool:
    return "torch" in sys.modules and isinstance(array, sys.modules["torch"].Tensor)


def _cupy() -> Any:
    try:
        import cupy
    except ImportError:
        raise ImportError(
            "an array on a GPU needs CuPy: pip install 'wirecodec[cuda12]' or 'wirecodec[cuda13]'"
        ) from None
    return cupy


def _query_cuda_support() -> bool | None:
    """What the MPI library says of itself; None where none is loaded, or it has no such function."""
    if "mpi4py.MPI" not in sys.modules:
        return None
    try:
        query = ctypes.CDLL(sys.modules["mpi4py.MPI"].__file__).MPIX_Query_cuda_support
    except (OSError, AttributeError):
        return None
    query.restype, query.argtypes = ctypes.c_int, []
    return bool(query() == 1)


def _alloc_kinds(comm: Any) -> set[str]:
    """The kinds of memory that the communicator promises to take, without their restrictors."""
    if not hasattr(comm, "Get_info"):
        return set()
    info = comm.Get_info()
    try:
        kinds = info.Get(_INFO_KEY) or ""
    finally:
        info.Free()
    return {kind.strip().partition(":")[0] for kind in kinds.split(",")}
