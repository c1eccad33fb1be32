"""Containers of many tensors on a GPU, without error feedback."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wirecodec.arrays import DeviceFlat
from wirecodec.cpu import fast
from wirecodec.gpu.fast.batch import Arrays, Batch, find_dtype, find_scheme, make_plan
from wirecodec.kernels.cuda.device import Device
from wirecodec.settings.scheme import Scheme


def encode(
    device: Device, flats: Mapping[str, DeviceFlat], schemes: Mapping[str, Scheme], seed: int, block: bytes
) -> Any:
    """Encode named tensors, in the order of their keys, as one container on the device.

    ``block`` is the extension block. Returns None if the plain way must encode them.
    """
    scheme = find_scheme(schemes.values()) if fast.is_on() else None
    dtype = None if scheme is None else find_dtype(flats.values())
    if scheme is None or dtype is None:
        return None
    plan = make_plan(device, [flat.raw_bits.size for flat in flats.values()], dtype, scheme)
    if plan is None:
        return None
    arrays = Arrays.of(device, plan, feedback=False)
    batch = Batch(device, plan, flats, [None] * len(flats), arrays, seed)
    if batch.encode(feedback=False) is None:
        return None
    return batch.write(block, feedback=False)[0]
