"""Bounds of SECURITY.md as formulas, for the fuzzer and the tests."""

from __future__ import annotations

import struct
import time

import wirecodec as wc
from formats.reference.table import ENTRY_BYTES
from tests.fuzz.anatomy import PREFIX, count_declared

CALL = 0.05
"""Seconds for any container."""
PER_ENTRY = 50e-6
"""Seconds per entry of the table."""
PER_BYTE = 5e-9
"""Seconds per byte of the container and per stored byte."""
PER_STEP = 20e-9
"""Seconds per step of ``DecodeLimits.max_work``."""
PER_TENSOR = 250e-6
"""Seconds per tensor of a patch of weights or of a state."""
PER_BYTE_OF_STATE = 20e-9
"""Seconds per byte of a patch of weights, of a state, and of the elements of a patch."""
NOISE = 3
"""Allowed factor, because other processes share the machine."""


def allowed_seconds(data: bytes, limits: wc.DecodeLimits) -> float:
    """Return the maximum CPU seconds for a container, with compiled kernels."""
    entries = struct.unpack_from("<I", data, 8)[0] if len(data) >= PREFIX else 0
    entries = min(entries, len(data) // ENTRY_BYTES)
    bytes_ = len(data) + count_declared(data)[1]
    return CALL + PER_ENTRY * entries + PER_BYTE * bytes_ + PER_STEP * limits.max_work


def measure_decoding(data: bytes, limits: wc.DecodeLimits) -> tuple[float, str]:
    """Measure one ``decode_many``; return its CPU seconds, and the error's code or "ok"."""
    start = time.process_time()
    try:
        wc.decode_many(data, limits=limits)
        code = "ok"
    except wc.WireError as error:
        code = error.code
    return time.process_time() - start, code


def allowed_seconds_of_patch(data: bytes, size: int, tensors: int) -> float:
    """Return the maximum CPU seconds of an application, with compiled kernels.

    Args:
        data: the patch.
        size: bytes of the state, and of the elements that the patch declares.
        tensors: number of tensors of the state.
    """
    return CALL + PER_TENSOR * (tensors + len(data) // ENTRY_BYTES) + PER_BYTE_OF_STATE * (len(data) + size)


def allowed_bytes_of_patch(data: bytes, size: int, tensors: int) -> int:
    """Return the maximum bytes of memory of an application; arguments as of the seconds."""
    return 2**18 + 2**11 * (tensors + len(data) // ENTRY_BYTES) + 24 * (len(data) + size)
