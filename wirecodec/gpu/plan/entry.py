"""Where a ``wirecodec.Plan`` comes in: CuPy's current device and streams, and tensors as they lie."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from wirecodec.arrays import Bytes, DeviceFlat, as_device_flat, on_gpu
from wirecodec.errors import EncodeError
from wirecodec.gpu.plan.encoder import DevicePlan, check
from wirecodec.kernels.cuda.device import cupy_device
from wirecodec.scheme import Scheme

__all__ = ["in_place", "planned", "reseed", "run", "written"]


def planned(
    shape: tuple[int, ...], dtype: np.dtype[Any], scheme: Scheme, tag: bytes, most: int
) -> DevicePlan:
    """A plan on the current GPU; see ``wirecodec.Plan``."""
    check(math.prod(shape), scheme)
    return DevicePlan(cupy_device(), shape, dtype, scheme, tag, most)


def _where(array: Any) -> Any:
    """The device that a CuPy array lies on, to be made the current one."""
    return cupy_device().cupy.cuda.Device(array.device.id)


def reseed(plan: DevicePlan, seed: int) -> None:
    """A plan's seed, set in the order of the current stream."""
    with _where(plan.seed):
        plan.reseed(seed)


def run(plan: DevicePlan, words: Any, seed: int | None) -> None:
    """Everything launched, the seed first where given; EncodeError where the words lie on another GPU."""
    if words.device.id != plan.seed.device.id:
        raise EncodeError("the plan lies on another GPU than the tensor")
    with _where(words):
        if seed is not None:
            plan.reseed(seed)
        plan.run(words)


def written(plan: DevicePlan, words: Any) -> Bytes:
    """The container of the last run, of the same words."""
    with _where(words):
        blob: Bytes = plan.container_of(words)
        return blob


def in_place(tensor: Any) -> DeviceFlat:
    """A tensor that lies on a GPU, as it lies there; EncodeError where it does not, or is not contiguous."""
    if not on_gpu(tensor):
        raise EncodeError(f"{type(tensor).__name__} does not lie on a GPU")
    cupy = cupy_device().cupy
    if "torch" in sys.modules and isinstance(tensor, sys.modules["torch"].Tensor):
        contiguous = tensor.is_contiguous()
    else:
        interface = hasattr(tensor, "__cuda_array_interface__")
        contiguous = (cupy.asarray(tensor) if interface else cupy.from_dlpack(tensor)).flags.c_contiguous
    if not contiguous:
        raise EncodeError("the tensor is not contiguous; a plan takes it as it lies")
    return as_device_flat(tensor, cupy)
