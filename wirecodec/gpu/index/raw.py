"""``raw-index`` on the device, encoder only; the host decodes these sections."""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.gpu.index.base import ExactIndexCodec
from wirecodec.index.raw import RawIndex
from wirecodec.kernels.cuda import bits
from wirecodec.kernels.cuda.device import Device


def _encode(device: Device, codec: RawIndex, indices: Any, base: int, d: int) -> Any:
    stored = np.uint16 if d <= 2**16 else np.uint32
    return bits.subtract_base(device, indices, base, stored).view(np.uint8)


RAW_INDEX = ExactIndexCodec(codec=RawIndex, encode=_encode, decode=None)
