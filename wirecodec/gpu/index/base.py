"""Records of the index codecs that a GPU can run: one per codec."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from wirecodec.arrays import Bytes
from wirecodec.kernels.cuda import bits
from wirecodec.kernels.cuda.device import Device


@dataclass(frozen=True, eq=False)
class ApproximateIndices:
    """Index section of a lossy codec, and the indices that its readers find.

    Attributes:
        section: u8.
        indices: u32, ascending.
    """

    section: Any
    indices: Any


def _supports_all(codec: Any) -> bool:
    """Return True: the kernels support every parameter."""
    return True


def _count_no_work(section: Bytes, d: int, r: int) -> int:
    """Return 0: decoding takes no steps beyond the section's bytes and r."""
    return 0


@dataclass(frozen=True, kw_only=True)
class GpuIndexCodec:
    """Kernels of an index codec; either an ``ExactIndexCodec`` or a ``LossyIndexCodec``.

    Attributes:
        codec: class of the CPU's codec, which writes the same bytes.
        decode: (device, section, d, r) -> (r,) u32 on the device, or None if the host must decode the
            section, which raises the error; None if there is no decoder.
        supports: whether the kernels support a codec's parameters.
        count_work: (section, d, r) -> steps that count against ``DecodeLimits.max_work``.
    """

    codec: Any
    decode: Callable[[Device, Bytes, int, int], Any] | None
    supports: Callable[[Any], bool] = _supports_all
    count_work: Callable[[Bytes, int, int], int] = _count_no_work


@dataclass(frozen=True, kw_only=True)
class ExactIndexCodec(GpuIndexCodec):
    """Kernels of a lossless index codec.

    Attributes:
        encode: (device, codec, indices, base, d) -> section, u8 on the device. ``indices`` is (r,) u32,
            ascending, from ``base`` to below ``base`` + d, 0 < r < d.
    """

    encode: Callable[[Device, Any, Any, int, int], Any]


@dataclass(frozen=True, kw_only=True)
class LossyIndexCodec(GpuIndexCodec):
    """Kernels of an index codec whose readers find other indices than were encoded.

    Attributes:
        approximate: (device, codec, indices, d, stream) -> section and found indices, for (r,) u32
            ``indices`` below d, 0 < r < d. The u64 ``stream`` seeds the draws.
        is_complete: whether readers of a codec's sections find every encoded index.
    """

    approximate: Callable[[Device, Any, Any, int, int], ApproximateIndices]
    is_complete: Callable[[Any], bool]


def rebase(device: Device, indices: Any, base: int) -> Any:
    """Subtract a chunk's base from (r,) u32 indices; return them unchanged if it is 0."""
    return bits.subtract_base(device, indices, base, np.uint32) if base else indices


def unless_flagged(device: Device, result: Any, flag: Any) -> Any:
    """Return a result, or None if the (1,) u32 flag is set; waits for the device."""
    return None if device.get(flag)[0] else result
