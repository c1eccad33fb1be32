"""Containers of many tensors on a GPU, without error feedback."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from wirecodec.cpu import forms
from wirecodec.gpu.fast.batch import Arrays, Batch, has_batch, make_plan
from wirecodec.gpu.fast.container import assemble
from wirecodec.kernels.cuda.device import Device
from wirecodec.settings.scheme import Scheme
from wirecodec.tensors import DeviceFlat


def encode(
    device: Device,
    flats: Mapping[str, DeviceFlat],
    schemes: Mapping[str, Scheme],
    seed: int,
    write: Callable[[], bytes],
) -> Any:
    """Encode named tensors of one scheme, in the order of their keys, as one container on the device.

    ``write`` writes the extension block, after the selection, as on the host. Returns None if the plain way
    must encode them.
    """
    if not forms.is_on():
        return None
    listed, kinds = list(flats.values()), {(schemes[name], flat.dtype) for name, flat in flats.items()}
    if len(kinds) != 1 or not all(has_batch(schemes[name], flat) for name, flat in flats.items()):
        return None
    scheme, dtype = kinds.pop()
    plan = make_plan(device, [flat.raw_bits.size for flat in listed], dtype, scheme)
    arrays = Arrays.of(device, plan, feedback=False)
    batch = Batch(device, plan, listed, [None] * len(listed), arrays, np.arange(len(listed)), seed)
    if batch.encode(feedback=False) is None:
        return None
    return assemble(device, [batch], [], write(), feedback=False)[0]
