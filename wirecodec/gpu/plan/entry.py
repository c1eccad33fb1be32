"""Conversion of GPU arrays for ``wirecodec.gpu.Plan``, on CuPy's current device and stream."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from wirecodec.arrays import Bytes, DeviceFlat, as_device_flat, on_gpu
from wirecodec.errors import EncodeError
from wirecodec.gpu.plan.encoder import DevicePlan, check
from wirecodec.kernels.cuda.device import cupy_device
from wirecodec.settings.scheme import Scheme

__all__ = ["as_flat_in_place", "fetch", "make_plan", "reseed", "run"]


def make_plan(
    shape: tuple[int, ...], dtype: np.dtype[Any], scheme: Scheme, tag: bytes, capacity: int
) -> DevicePlan:
    """Make a plan on the current GPU; the arguments are those of ``wirecodec.gpu.Plan``."""
    check(math.prod(shape), scheme)
    return DevicePlan(cupy_device(), shape, dtype, scheme, tag, capacity)


def _device_of(array: Any) -> Any:
    """Return CuPy's device of an array, which a ``with`` statement makes the current one."""
    return cupy_device().cupy.cuda.Device(array.device.id)


def reseed(plan: DevicePlan, seed: int) -> None:
    """Set a plan's seed, in the order of the current stream."""
    with _device_of(plan.seed):
        plan.reseed(seed)


def run(plan: DevicePlan, raw: Any, seed: int | None) -> None:
    """Set the seed if one is given, then launch the plan.

    Raises EncodeError if the raw bits are on another GPU.
    """
    if raw.device.id != plan.seed.device.id:
        raise EncodeError("the tensor is on another GPU than the plan")
    with _device_of(raw):
        if seed is not None:
            plan.reseed(seed)
        plan.run(raw)


def fetch(plan: DevicePlan, raw: Any) -> Bytes:
    """Wait for the last run of the same raw bits and return its container."""
    with _device_of(raw):
        blob: Bytes = plan.container_of(raw)
        return blob


def as_flat_in_place(tensor: Any) -> DeviceFlat:
    """View a tensor as flat raw bits without a copy. Raises EncodeError if it is not contiguous on a GPU."""
    if not on_gpu(tensor):
        raise EncodeError(f"{type(tensor).__name__} is not on a GPU")
    cupy = cupy_device().cupy
    if "torch" in sys.modules and isinstance(tensor, sys.modules["torch"].Tensor):
        contiguous = tensor.is_contiguous()
    else:
        interface = hasattr(tensor, "__cuda_array_interface__")
        contiguous = (cupy.asarray(tensor) if interface else cupy.from_dlpack(tensor)).flags.c_contiguous
    if not contiguous:
        raise EncodeError("the tensor is not contiguous; a plan does not copy it")
    return as_device_flat(tensor, cupy)
