"""``rice`` on the device."""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Bytes
from wirecodec.gpu.index.base import ExactIndexCodec, rebase, unless_flagged
from wirecodec.index.rice import Rice
from wirecodec.kernels.cuda import rice
from wirecodec.kernels.cuda.device import Device


def _encode(device: Device, codec: Rice, indices: Any, base: int, d: int) -> Any:
    words, length = rice.encode(device, rebase(device, indices, base), d)
    return words[: int(device.get(length)[0])].view(np.uint8)


def _decode(device: Device, section: Bytes, d: int, r: int) -> Any:
    if section.size % 4:
        return None
    words = device.put(section).view(np.uint32)
    return unless_flagged(device, *rice.decode(device, words, d, r))


RICE = ExactIndexCodec(codec=Rice, encode=_encode, decode=_decode)
