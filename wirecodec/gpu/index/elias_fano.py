"""``elias-fano`` on the device."""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Bytes
from wirecodec.gpu.index.base import ExactIndexCodec, rebase, unless_flagged
from wirecodec.index.elias_fano import EliasFano
from wirecodec.kernels.cuda import elias_fano
from wirecodec.kernels.cuda.device import Device


def _encode(device: Device, codec: EliasFano, indices: Any, base: int, d: int) -> Any:
    words, length = elias_fano.encode(device, rebase(device, indices, base), d)
    return words[: int(device.get(length)[0])].view(np.uint8)


def _decode(device: Device, section: Bytes, d: int, r: int) -> Any:
    if section.size % 4:
        return None
    words = device.put(section).view(np.uint32)
    return unless_flagged(device, *elias_fano.decode(device, words, d, r))


ELIAS_FANO = ExactIndexCodec(codec=EliasFano, encode=_encode, decode=_decode)
