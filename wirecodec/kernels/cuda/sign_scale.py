"""Launch ``sign_scale.cu``: values to a section, and back (formats/spec/value/sign-scale.md).

A section is u8 on the device; its length is that of the page. No launch waits for the host.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.kernels.cuda.device import THREADS, Device, blocks_for


def encode(device: Device, values: Any) -> Any:
    """Encode (r,) finite float32 or float64 ``values`` as a section."""
    width = values.dtype.itemsize
    r = np.uint32(values.size)
    section = device.empty(width // 4 + blocks_for(values.size, 32), np.uint32)
    alike = device.put(np.ones(1, np.uint32))
    bits = values.view(f"u{width}")
    blocks = blocks_for(values.size, THREADS)
    device.launch("sign_scale", f"signs_u{8 * width}", blocks, bits, r, section[width // 4 :], alike)
    scale = section[: width // 4].view(f"u{width}")
    device.launch("sign_scale", f"mean_f{8 * width}", 1, values, r, alike, scale)
    return section.view(np.uint8)[: width + -(-values.size // 8)]


def expand(device: Device, signs: Any, r: int, zero: Any, one: Any) -> Any:
    """Return (r,) raw bits: ``one`` for each bit that is set in u8 ``signs``, else ``zero``.

    Both u16, u32 or u64.
    """
    out = device.empty(r, zero.dtype)
    name = f"expand_u{8 * zero.dtype.itemsize}"
    device.launch("sign_scale", name, blocks_for(r, THREADS), signs, np.uint32(r), zero, one, out)
    return out
