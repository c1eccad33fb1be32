"""Arrays on a GPU: which stay there, and whether MPI may be handed them.

Tensors that all lie on one GPU are encoded there (``wirecodec.gpu``), and their blob alone leaves it; what
arrives is decoded, or added, there. The blob goes to MPI as it lies where ``Channel.takes_device`` says so,
and through pinned memory elsewhere. What decides, in this order, and once for a Channel:

    1. ``Channel(comm, device="mpi")`` or ``"staged"``; ``"auto"`` asks further, of MPI's communicators
    2. MPIX_Query_cuda_support, of the MPI library that is loaded
    3. the communicator's info key ``mpi_memory_alloc_kinds`` (MPI 4.1): "cuda"
    4. otherwise: staged, device ─► pinned host ─► MPI ─► host ─► device

No device pointer is ever sent to find out: an MPI without CUDA reads it and dies. Ranks agree
(``Channel.takes_device``): one that must stage makes all stage. Tensors of which some lie elsewhere are
copied to the host before they are encoded, and their results back.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

__all__ = ["DEVICES", "Device", "Place", "is_on_device", "like", "may_take_device", "place_of", "staged"]

Device: TypeAlias = Literal["auto", "mpi", "staged"]
DEVICES: tuple[Device, ...] = ("auto", "mpi", "staged")

_CUDA = "cuda"
_INFO_KEY = "mpi_memory_alloc_kinds"


@dataclass(frozen=True)
class Place:
    """A GPU on which all tensors of an exchange lie.

    Attributes:
        cupy: the module.
        number: the GPU's.
    """

    cupy: Any
    number: int

    def current(self) -> Any:
        """A context in which it is CuPy's current device."""
        return self.cupy.cuda.Device(self.number)

    def settle(self) -> None:
        """Wait for all that was begun there: MPI knows of no stream, nor this package of the caller's."""
        with self.current():
            self.cupy.cuda.runtime.deviceSynchronize()

    def octets(self, size: int) -> Any:
        """(size,) u8 there, not filled, that no stream is still writing to."""
        with self.current():
            room = self.cupy.empty(size, np.uint8)
        self.settle()
        return room


def place_of(tensors: Any) -> Place | None:
    """The GPU on which an array, or all of {name: array}, lie.

    None where they do not, or torch's do and CuPy is missing; ImportError, naming the extra, where others'
    do and it is.
    """
    arrays = list(tensors.values()) if isinstance(tensors, Mapping) else [tensors]
    if not arrays or not all(map(is_on_device, arrays)):
        return None
    try:
        cupy = _cupy()
    except ImportError:
        if all(map(_is_torch, arrays)):
            return None
        raise
    numbers = {_number_of(array, cupy) for array in arrays}
    return Place(cupy, numbers.pop()) if len(numbers) == 1 else None


def _number_of(array: Any, cupy: Any) -> int:
    if _is_torch(array):
        return int(array.device.index)
    return int(cupy.asarray(array).device.id)


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
    """Results, on the host or as CuPy's words, as the arrays that they belong to, and where those lie.

    Args:
        tensors: an array, or {name: array}, as the caller gave them.
        results: an array, or {name: array} of the same names. What lies on a GPU is unsigned words, flat.
    """
    if isinstance(tensors, Mapping):
        return {name: like(tensors[name], each) for name, each in results.items()}
    if not is_on_device(tensors):
        return results
    if is_on_device(results):
        return _of_words(tensors, results)
    if _is_torch(tensors):
        octets = sys.modules["torch"].from_numpy(results.reshape(-1).view(np.uint8))
        return octets.view(tensors.dtype).reshape(tensors.shape).to(tensors.device)
    return _cupy().asarray(results)


def _of_words(tensor: Any, words: Any) -> Any:
    """Words on a GPU as an array like another one there."""
    if not _is_torch(tensor):
        return words.view(tensor.dtype).reshape(tensor.shape)
    integers = words.view(f"i{words.dtype.itemsize}")  # torch takes these alone from everyone
    return sys.modules["torch"].from_dlpack(integers).view(tensor.dtype).reshape(tensor.shape)


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
