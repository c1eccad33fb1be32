"""Conversion of array-like objects to flat arrays; the only module that knows frameworks and devices.

Inputs are NumPy arrays, torch tensors, and objects with DLPack, the array interface or the buffer protocol.
They may be non-contiguous, read-only, 0-d or empty. Outputs are flat, C-contiguous NumPy arrays in native
byte order. ``as_flat`` takes the floats that all codecs carry: float32, float16, bfloat16 (ml_dtypes) and
float64. ``as_elements`` also takes the types of lossless codecs: integers, bool, float8, complex. An array on
a GPU becomes the raw bits of a flat CuPy array (``as_device_flat``). Contiguous arrays are not copied.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Protocol, TypeAlias

import numpy as np

from wirecodec.arrays import UNSIGNED, Array, Bytes, read_only
from wirecodec.element_types import BEYOND_NUMPY, FLOATS, dtype_named, element_dtype_named
from wirecodec.errors import EncodeError, Malformed


class SupportsShape(Protocol):
    """Type of arrays and tensors, dense or sparse: NumPy, torch, CuPy, JAX, TensorFlow, scipy, wirecodec."""

    @property
    def shape(self) -> Any:
        """The dimensions."""
        ...

    @property
    def dtype(self) -> Any:
        """The element type."""
        ...


class SupportsDLPack(Protocol):
    """Type of objects with DLPack."""

    def __dlpack_device__(self) -> Any: ...


class SupportsBuffer(Protocol):
    """Type of objects with the buffer protocol."""

    def __buffer__(self, flags: int, /) -> memoryview: ...


TensorLike: TypeAlias = SupportsShape | SupportsDLPack | SupportsBuffer
"""What encoders take; the element type is checked when they run."""

_DLPACK_CPU, _DLPACK_CUDA = 1, 2


@dataclass(frozen=True, eq=False)
class Flat:
    """Tensor on the host: ``data`` (size,) in row-major order, and the tensor's ``shape``."""

    data: Array
    shape: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class DeviceFlat:
    """Tensor on a GPU.

    Attributes:
        raw_bits: (size,) bits of the elements in row-major order, a CuPy array of unsigned integers.
        dtype: the element type; CuPy may not have it.
        shape: the tensor's.
    """

    raw_bits: Any
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


def as_flat(tensor: Any) -> Flat:
    """Convert an array on the host to a flat NumPy array.

    Raises EncodeError for other element types, other devices, and objects that are not arrays.
    """
    x = tensor if type(tensor) is np.ndarray else _as_numpy(tensor)
    if x.dtype in FLOATS and x.flags.c_contiguous and x.flags.aligned:  # a model has thousands of these
        flat = x.reshape(-1)
        flat.flags.writeable = False
        return Flat(flat, x.shape)
    dtype = dtype_named(x.dtype)
    shape = tuple(int(n) for n in x.shape)
    return Flat(read_only(np.require(x, dtype, ["C", "A"]).reshape(-1)), shape)


def as_elements(tensor: Any) -> Flat:
    """Convert an array on the host of any element type to a flat NumPy array.

    Elements of type bool become the bytes 0 and 1. Raises EncodeError as ``as_flat``, but not for types of
    ``RECORD_DTYPES``.
    """
    x = tensor if type(tensor) is np.ndarray else _as_numpy(tensor)
    if x.dtype in FLOATS:
        return as_flat(x)
    dtype = element_dtype_named(x.dtype)
    flat = np.require(x, dtype, ["C", "A"]).reshape(-1)
    if dtype == np.bool_ and flat.size and flat.view(np.uint8).max() > 1:
        flat = flat.view(np.uint8) != 0
    return Flat(read_only(flat), tuple(int(n) for n in x.shape))


def as_target(x: Any) -> Any:
    """View a dense torch tensor on the CPU as an array that shares its memory; return others as they are."""
    return x if type(x) is np.ndarray else as_targets([x])[0]


def as_targets(objects: Collection[Any]) -> list[Any]:
    """View dense torch tensors on the CPU as arrays that share their memory; return others as they are."""
    targets = list(objects)
    torch = sys.modules.get("torch")
    if torch is None or set(map(type, targets)) == {np.ndarray}:
        return targets
    for place, x in enumerate(targets):
        shares = isinstance(x, torch.Tensor) and x.device.type == "cpu" and x.layout is torch.strided
        if not shares or hasattr(x, "to_local") or x.is_neg() or x.is_conj():
            continue
        with suppress(TypeError, RuntimeError, ValueError):  # NumPy lacks the type, or there is no memory
            targets[place] = _share_memory(x)
    return targets


def as_writable(x: Any) -> Array:
    """View an array on the host, into which results are written, as a flat NumPy array of the same memory.

    Raises TypeError for an object that is not an array on the host, or of an element type that is not
    carried. Raises ValueError if the array is read-only or not C-contiguous.
    """
    if not isinstance(x, np.ndarray) and not _is_torch_strided(x) and not hasattr(x, "__dlpack__"):
        raise TypeError(f"{type(x).__name__} is not an array; pass a NumPy array or a torch tensor")
    if isinstance(x, np.ndarray) and type(x) not in (np.ndarray, np.memmap):
        raise TypeError(f"{type(x).__name__} is a subclass of ndarray; pass a plain NumPy array")
    if _is_torch_strided(x) and (x.is_neg() or x.is_conj()):
        raise TypeError("the torch tensor is a lazy negative or conjugate; pass a tensor that has memory")
    try:
        array = x if isinstance(x, np.ndarray) else _as_numpy(x)
        native = dtype_named(array.dtype) == array.dtype
    except EncodeError as error:
        raise TypeError(str(error)) from None
    if not native or not array.flags.aligned:
        raise TypeError(f"dtype {array.dtype} has another byte order, or its memory is not aligned")
    if not array.flags.writeable:
        raise ValueError("the array is read-only")
    if not array.flags.c_contiguous:
        raise ValueError(f"the array is not C-contiguous: shape {array.shape}, strides {array.strides}")
    return np.asarray(array).reshape(-1)


def _is_torch_strided(x: Any) -> bool:
    """Return whether an object is a dense torch tensor."""
    if "torch" not in sys.modules:
        return False
    torch = sys.modules["torch"]
    return isinstance(x, torch.Tensor) and x.layout is torch.strided


def on_gpu(tensor: Any) -> bool:
    """Tell whether an array is on an NVIDIA GPU, from its own attributes; CuPy is not imported."""
    if type(tensor) is np.ndarray:
        return False
    if is_torch(tensor):
        return bool(tensor.is_cuda)
    return hasattr(tensor, "__cuda_array_interface__") or _dlpack_device(tensor) == _DLPACK_CUDA


def any_on_gpu(tensors: Collection[Any]) -> bool:
    """Tell whether any of several arrays is on a GPU."""
    return set(map(type, tensors)) != {np.ndarray} and any(map(on_gpu, tensors))


def as_device_flat(
    tensor: Any,
    cupy: Any,
    ordered: dict[int, bool] | None = None,
    named: Callable[[Any], np.dtype[Any]] = dtype_named,
) -> DeviceFlat:
    """Convert an array on a GPU to flat raw bits, without a copy if it is contiguous.

    Torch tensors pass as integers, because CuPy has no bfloat16. Raises EncodeError for other element types.

    Args:
        tensor: the array.
        cupy: the module.
        ordered: memory for calls of one step, empty at first: by device, whether torch's stream is CuPy's.
        named: returns the element type of a dtype; by default, that of all codecs alone.
    """
    if is_torch(tensor):
        torch = sys.modules["torch"]
        if tensor.layout is not torch.strided:
            raise EncodeError(f"torch tensor has layout {tensor.layout}; it must be strided (dense)")
        dtype, shape, plain = named(tensor.dtype), tuple(tensor.shape), tensor
        if tensor.is_neg() or not tensor.is_contiguous():
            plain = tensor.detach().resolve_neg().contiguous()
        words = _import_torch(plain, cupy, dtype.itemsize, {} if ordered is None else ordered)
        return DeviceFlat(words, dtype, shape)
    interface = hasattr(tensor, "__cuda_array_interface__")
    x = cupy.ascontiguousarray(cupy.asarray(tensor) if interface else cupy.from_dlpack(tensor))
    dtype, words = named(x.dtype), x.reshape(-1)
    return DeviceFlat(words.view(f"u{dtype.itemsize}"), dtype, tuple(int(n) for n in tensor.shape))


def _import_torch(tensor: Any, cupy: Any, width: int, ordered: dict[int, bool]) -> Any:
    """View a contiguous torch tensor on a GPU as (size,) CuPy integers of its element's width."""
    size, number = tensor.numel(), tensor.device.index
    if number not in ordered:
        own = cupy.cuda.get_current_stream().ptr
        # Kernels run on torch's stream, unless the program has set one in CuPy (``kernels.cuda.streams``).
        ordered[number] = not own or own == sys.modules["torch"].cuda.current_stream(number).cuda_stream
    if not ordered[number]:
        words = tensor.detach().reshape(-1).view(getattr(sys.modules["torch"], f"int{8 * width}"))
        # The program's own stream waits for torch's.
        return cupy.from_dlpack(words).view(UNSIGNED[width])
    memory = cupy.cuda.UnownedMemory(tensor.data_ptr(), width * size, tensor, number)
    return cupy.ndarray((size,), UNSIGNED[width], cupy.cuda.MemoryPointer(memory, 0))


def is_torch(tensor: Any) -> bool:
    """Return whether an object is a torch tensor."""
    return "torch" in sys.modules and isinstance(tensor, sys.modules["torch"].Tensor)


def _as_numpy(tensor: Any) -> Array:
    if isinstance(tensor, np.ma.MaskedArray):
        raise EncodeError("the tensor is a masked array; fill its masked elements first")
    if isinstance(tensor, np.ndarray):
        return np.asarray(tensor)  # subclasses have reshape rules of their own
    if is_torch(tensor):
        return _from_torch(tensor)
    if hasattr(tensor, "__cuda_array_interface__") or _dlpack_device(tensor) not in (None, _DLPACK_CPU):
        raise EncodeError(
            f"{type(tensor).__name__} is on another device than the CPU; copy it to the host first"
        )
    reason = "it offers neither DLPack nor the buffer protocol"
    if hasattr(tensor, "__dlpack__"):
        try:
            return np.from_dlpack(tensor)
        except Exception as error:  # the method is another framework's; its other protocols may work
            reason = f"its DLPack raises {_first_line(error)}"
    if isinstance(tensor, Mapping):
        raise EncodeError(
            f"{type(tensor).__name__} is nested where one tensor must be; encode_many takes one flat mapping,"
            " such as {'dense/w': array}"
        )
    if hasattr(tensor, "__array_interface__") or hasattr(tensor, "__array__"):
        return read_array(tensor)
    try:
        return np.asarray(memoryview(tensor))
    except (TypeError, ValueError, BufferError, NotImplementedError):
        raise EncodeError(f"{type(tensor).__name__} is not an array: {reason}") from None


def read_array(tensor: Any) -> Array:
    """Convert an object with the array interface, which may be on several devices.

    Raises EncodeError with the reason of the object's framework if it cannot be read.
    """
    try:
        return np.asarray(tensor)
    except Exception as error:  # of another framework, which may raise any
        raise EncodeError(
            f"{type(tensor).__name__} cannot be read on the host ({_first_line(error)}); pass a NumPy array,"
            " such as that of this process's part"
        ) from None


def _first_line(error: Exception) -> str:
    """Return an error's type and the first line of its text."""
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"


def _dlpack_device(tensor: Any) -> int | None:
    """Return the kind of an object's device; None if it has none, or is on several devices or deleted."""
    try:
        return int(tensor.__dlpack_device__()[0])
    except Exception:  # the method is another framework's
        return None


def _from_torch(tensor: Any) -> Array:
    if tensor.device.type != "cpu":
        remedy = "create its elements" if tensor.is_meta else "copy it to the host"
        raise EncodeError(f"torch tensor is on {tensor.device}; {remedy} first")
    if tensor.layout is not sys.modules["torch"].strided:
        raise EncodeError(
            f"torch tensor has layout {tensor.layout}; pass tensor.to_dense()."
            " For a gradient of nn.Embedding, create it with sparse=False"
        )
    if hasattr(tensor, "to_local"):
        raise EncodeError("torch tensor is a DTensor; pass this rank's shard of it, tensor.to_local()")
    try:
        return _share_memory(tensor.detach().resolve_conj().resolve_neg())
    except (TypeError, RuntimeError, ValueError) as error:
        raise EncodeError(
            f"torch tensor cannot be read as a NumPy array ({_first_line(error)}); pass a dense tensor of a"
            " type that is carried, with elements"
        ) from None


def _share_memory(tensor: Any) -> Array:
    """View a dense torch tensor on the CPU as an array of the same memory.

    Raises TypeError, RuntimeError or ValueError, as torch does, if that is impossible.
    """
    torch, own = sys.modules["torch"], BEYOND_NUMPY.get(str(tensor.dtype).removeprefix("torch."))
    plain = tensor.detach()
    if own is None:
        array: Array = plain.numpy()
    else:  # NumPy has no such type of its own to receive it
        array = plain.view(torch.int16 if own.itemsize == 2 else torch.uint8).numpy().view(own)
    if array.size and not plain.data_ptr():  # NumPy then allocates memory of its own
        raise RuntimeError("its storage has been freed, as FSDP does with parameters out of use")
    return array


def as_bytes(buffer: Any) -> Bytes:
    """View any C-contiguous buffer as a flat, read-only uint8 array.

    The buffer is copied only if its address is not a multiple of 8, so that all sections of a container are
    aligned. Raises Malformed "buffer" for any other object.
    """
    data = _as_uint8(buffer)
    words = data[: data.size & -8].view(UNSIGNED[8])  # the alignment flag is cheaper to read than the address
    return read_only(data if words.flags.aligned or not words.size else data.copy())


def _as_uint8(buffer: Any) -> Bytes:
    if isinstance(buffer, np.ndarray):
        x = np.asarray(buffer)
        if not x.flags.c_contiguous or x.dtype.hasobject or x.dtype.itemsize != 1:
            raise Malformed("buffer", f"a {x.dtype} array of strides {x.strides}, not contiguous bytes")
        return x.reshape(-1).view(np.uint8)
    try:
        view = memoryview(buffer)
    except (TypeError, ValueError, BufferError):
        return _as_uint8(_from_dlpack(buffer))
    if not view.c_contiguous or view.itemsize != 1 or view.format.lstrip("<>=@!") not in ("B", "b", "c"):
        raise Malformed(
            "buffer", f"a memoryview of format {view.format!r}, strides {view.strides}, not contiguous bytes"
        )
    if view.nbytes == 0:
        return np.empty(0, np.uint8)  # NumPy cannot cast some empty views
    return np.frombuffer(view, np.uint8)


def _from_dlpack(buffer: Any) -> Array:
    """Return an array of another framework on the CPU; raise Malformed for any other object."""
    try:
        if hasattr(buffer, "__dlpack__") and _dlpack_device(buffer) == _DLPACK_CPU:
            return np.from_dlpack(buffer)
    except (BufferError, RuntimeError, TypeError, ValueError):
        pass
    remedy = "; pass Path(…).read_bytes() of a file" if isinstance(buffer, str | PurePath) else ""
    raise Malformed("buffer", f"{type(buffer).__name__} is not a buffer of bytes{remedy}")
