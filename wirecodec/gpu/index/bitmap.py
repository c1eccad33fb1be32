"""``bitmap`` on the device."""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Bytes
from wirecodec.gpu.index.base import ExactIndexCodec, rebase
from wirecodec.index.bitmap import Bitmap, bitmap_bytes
from wirecodec.kernels.cuda import bits
from wirecodec.kernels.cuda.device import Device


def _encode(device: Device, codec: Bitmap, indices: Any, base: int, d: int) -> Any:
    return bits.set_bits(device, rebase(device, indices, base), d).view(np.uint8)[: bitmap_bytes(d)]


def _decode(device: Device, section: Bytes, d: int, r: int) -> Any:
    if section.size != bitmap_bytes(d):
        return None
    words = np.zeros(-(-d // 32), np.uint32)
    words.view(np.uint8)[: section.size] = section
    indices, counts = bits.find_set_bits(device, device.put(words), d, r)
    return indices if device.get(counts).tolist() == [r, 0] else None


BITMAP = ExactIndexCodec(codec=Bitmap, encode=_encode, decode=_decode)
