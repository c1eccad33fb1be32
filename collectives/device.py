"""Arrays on a GPU: where they are encoded, and whether MPI may receive device memory.

Tensors that are all on one GPU are encoded there (``wirecodec.gpu``), so only their container is copied.
Received containers are decoded, or added, on the same GPU. MPI receives the container in device memory if
every rank allows it, and otherwise a copy in pinned memory. Each rank decides once per Channel, in this
order:

    1. ``Channel(comm, device="mpi")`` or ``"staged"``; with ``"auto"``, MPI communicators continue
    2. MPIX_Query_cuda_support of the loaded MPI library
    3. the communicator's info key ``mpi_memory_alloc_kinds`` (MPI 4.1) contains "cuda"
    4. otherwise: staged, device ─► pinned host ─► MPI ─► host ─► device

The decision never sends a device pointer as a trial: an MPI without CUDA would crash. Each header has a flag
with its rank's decision: if one rank must stage, all ranks stage. Tensors on several devices are copied to
the host before they are encoded, and their results are copied back.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Literal, TypeAlias

import numpy as np

from wirecodec.interop import as_target, as_targets, copy_to_host, gpu_context, gpu_copy

Device: TypeAlias = Literal["auto", "mpi", "staged"]
DEVICES: tuple[Device, ...] = ("auto", "mpi", "staged")

_CUDA = "cuda"
_INFO_KEY = "mpi_memory_alloc_kinds"


@dataclass(frozen=True)
class GpuDevice:
    """GPU that holds all tensors of an exchange.

    Attributes:
        cupy: the module.
        number: CUDA's number of the device.
        of_torch: whether the tensors are torch's.
    """

    cupy: Any
    number: int
    of_torch: bool = False

    def current(self) -> Any:
        """Return a context in which this is CuPy's current device, on the tensors' stream."""
        return gpu_context(self.number, follows_torch=self.of_torch)

    def synchronize(self) -> None:
        """Wait for all work on the device: MPI knows no streams, and the caller's stream is unknown."""
        with self.current():
            self.cupy.cuda.runtime.deviceSynchronize()

    def wait_for_tensors(self) -> None:
        """Wait until the tensors are written, unless the kernels will run on their stream."""
        if not self.of_torch:
            self.synchronize()

    def allocate(self, size: int) -> Any:
        """Allocate a (size,) uint8 buffer that no stream still writes to."""
        with self.current():
            buffer = self.cupy.empty(size, np.uint8)
        self.synchronize()
        return buffer


def find_gpu(tensors: Any) -> GpuDevice | None:
    """Find the GPU that holds an array, or all arrays of {name: array}.

    Returns:
        The device, or None if the arrays are not all on one GPU. None also if they are torch tensors and
        CuPy is missing.

    Raises:
        ImportError: CuPy is missing and the arrays are not torch tensors. The message names the extra.
    """
    arrays = list(tensors.values()) if isinstance(tensors, Mapping) else [tensors]
    if not any_on_gpu(arrays) or not all(map(is_on_gpu, arrays)):
        return None
    try:
        cupy = _cupy()
    except ImportError:
        if all(map(_is_torch, arrays)):
            return None
        raise
    numbers = {_get_device_number(array, cupy) for array in arrays}
    return GpuDevice(cupy, numbers.pop(), all(map(_is_torch, arrays))) if len(numbers) == 1 else None


def _get_device_number(array: Any, cupy: Any) -> int:
    if _is_torch(array):
        return int(array.device.index)
    return int(cupy.asarray(array).device.id)


def is_on_gpu(array: Any) -> bool:
    """Return whether an array is on a GPU, without CuPy."""
    if type(array) is np.ndarray:
        return False
    if _is_torch(array):  # torch's __cuda_array_interface__ raises for types that it does not support
        return bool(array.is_cuda)
    return isinstance(getattr(array, "__cuda_array_interface__", None), Mapping)


def any_on_gpu(arrays: Collection[Any]) -> bool:
    """Return whether any of several arrays is on a GPU, without CuPy."""
    kinds, torch = set(map(type, arrays)), sys.modules.get("torch")
    if kinds <= {np.ndarray}:
        return False
    if torch is not None and all(issubclass(kind, torch.Tensor) for kind in kinds):
        return any(map(attrgetter("is_cuda"), arrays))
    return any(map(is_on_gpu, arrays))


def may_take_device(comm: Any, setting: Device = "auto") -> bool:
    """Return whether this rank's MPI takes device memory; other ranks may differ.

    Args:
        comm: an mpi4py communicator, or any other.
        setting: the caller's choice, which has priority unless it is "auto".
    """
    if setting != "auto":
        return setting == "mpi"
    supported = _query_cuda_support()
    if supported is not None:
        return supported
    return _CUDA in _get_memory_kinds(comm)


def stage_on_host(tensors: Any) -> Any:
    """Copy an array, or those of {name: array}, to the host if they are on a GPU; return others as they are.

    Raises:
        ImportError: CuPy is missing. The message names the extra.
    """
    if isinstance(tensors, Mapping):
        if not any_on_gpu(tensors.values()):
            return tensors
        return {name: stage_on_host(tensor) for name, tensor in tensors.items()}
    if not is_on_gpu(tensors):
        return tensors
    return tensors.detach().cpu() if _is_torch(tensors) else _copy_array_to_host(tensors)


def as_arrays(tensors: Any) -> Any:
    """View a dense torch tensor on the CPU, or those of {name: tensor}, as NumPy arrays of the same memory.

    Other objects are returned as they are. One conversion per tensor costs less than one per step of a call.
    """
    if isinstance(tensors, Mapping):
        return dict(zip(tensors, as_targets(tensors.values()), strict=True))
    return as_target(tensors)


def match_devices(tensors: Any, results: Any) -> Any:
    """Move results to the devices of the tensors that they belong to.

    Args:
        tensors: an array, or {name: array}, as the caller gave them.
        results: an array, or {name: array} with the same names. Those on a GPU are flat raw bits, as
            unsigned integers.

    Returns:
        Arrays with the type and the shape of the tensors, on their devices.
    """
    if isinstance(tensors, Mapping):
        return {name: match_devices(tensors[name], result) for name, result in results.items()}
    if not is_on_gpu(tensors):
        return results
    if is_on_gpu(results):
        return _view_bits(tensors, results)
    if _is_torch(tensors):
        raw = sys.modules["torch"].from_numpy(results.reshape(-1).view(np.uint8))
        return raw.view(tensors.dtype).reshape(tensors.shape).to(tensors.device)
    return _cupy().asarray(results)


def same_device(array: Any, tensor: Any) -> None:
    """Raise ValueError unless an array is contiguous and on the GPU of a tensor, of the same library."""
    if not (is_on_gpu(array) and is_on_gpu(tensor)):
        on_gpu, on_host = ("array", "tensor") if is_on_gpu(array) else ("tensor", "array")
        raise ValueError(
            f"the {on_gpu} is on a GPU and the {on_host} on the host; they must be on one device"
        )
    if _is_torch(array) != _is_torch(tensor):
        raise TypeError(f"{type(array).__name__} is not an array of the tensor's library")
    contiguous = array.is_contiguous() if _is_torch(array) else array.flags.c_contiguous
    if not contiguous:
        raise ValueError("the array is not C-contiguous")
    if _is_torch(array):
        devices = array.device, tensor.device
    else:
        cupy = _cupy()
        devices = _get_device_number(array, cupy), _get_device_number(tensor, cupy)
    if devices[0] != devices[1]:
        raise ValueError(f"the array is on device {devices[0]}, the tensor on {devices[1]}")


def copy_all_on_device(results: Mapping[str, Any], out: Mapping[str, Any]) -> None:
    """Copy flat raw bits to arrays of the same types and sizes on the current GPU, in one launch."""
    if results:
        gpu_copy(list(results.values()), [out[name] for name in results])
        if not all(map(_is_torch, out.values())):
            _cupy().cuda.runtime.deviceSynchronize()  # the stream that reads the array is unknown


def copy_on_device(result: Any, out: Any) -> None:
    """Copy a result to an array of the same type, shape and GPU; it is complete afterwards."""
    if _is_torch(out):
        out.detach().copy_(result)
        return
    cupy = _cupy()
    with cupy.cuda.Device(_get_device_number(out, cupy)):
        cupy.cuda.runtime.deviceSynchronize()  # the stream that computed the result is unknown
        out[...] = result
        cupy.cuda.runtime.deviceSynchronize()


def _view_bits(tensor: Any, bits: Any) -> Any:
    """View raw bits on a GPU as an array of a tensor's type and shape."""
    if not _is_torch(tensor):
        return bits.view(tensor.dtype).reshape(tensor.shape)
    integers = bits.view(f"i{bits.dtype.itemsize}")  # torch imports only signed integers from everyone
    return sys.modules["torch"].from_dlpack(integers).view(tensor.dtype).reshape(tensor.shape)


def _copy_array_to_host(array: Any) -> Any:
    """Copy through pinned memory, which the device writes without an intermediate copy."""
    _cupy().cuda.runtime.deviceSynchronize()  # the stream that writes the array is unknown
    return copy_to_host(array)


def _is_torch(array: Any) -> bool:
    return "torch" in sys.modules and isinstance(array, sys.modules["torch"].Tensor)


def _cupy() -> Any:
    try:
        import cupy
    except ImportError:
        raise ImportError(
            "arrays on a GPU need CuPy: pip install cupy-cuda12x, or cupy-cuda13x, to match your CUDA driver"
        ) from None
    return cupy


def _query_cuda_support() -> bool | None:
    """Ask the MPI library for CUDA support; return None if none is loaded or it has no such function."""
    if "mpi4py.MPI" not in sys.modules:
        return None
    try:
        query = ctypes.CDLL(sys.modules["mpi4py.MPI"].__file__).MPIX_Query_cuda_support
    except (OSError, AttributeError):
        return None
    query.restype, query.argtypes = ctypes.c_int, []
    return bool(query() == 1)


def _get_memory_kinds(comm: Any) -> set[str]:
    """Return the kinds of memory that the communicator supports, without their restrictors."""
    if not hasattr(comm, "Get_info"):
        return set()
    info = comm.Get_info()
    try:
        kinds = info.Get(_INFO_KEY) or ""
    finally:
        info.Free()
    return {kind.strip().partition(":")[0] for kind in kinds.split(",")}
