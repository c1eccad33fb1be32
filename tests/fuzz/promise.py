"""The promise of time in SECURITY.md as a formula, for the fuzzer and for the tests."""

from __future__ import annotations

import struct
import time

import wirecodec as wc
from formats.reference.table import ENTRY_BYTES
from tests.fuzz.anatomy import PREFIX, declared

CALL = 0.05
"""Seconds for any container."""
PER_ENTRY = 50e-6
"""Seconds per entry of the table."""
PER_BYTE = 5e-9
"""Seconds per byte of the container and per stored byte."""
PER_STEP = 20e-9
"""Seconds per step of ``DecodeLimits.max_work``."""
NOISE = 3
"""Factor that is allowed where other processes share the machine."""


def promised(data: bytes, limits: wc.DecodeLimits) -> float:
    """Return the CPU seconds within which a container is refused, kernels compiled."""
    entries = struct.unpack_from("<I", data, 8)[0] if len(data) >= PREFIX else 0
    entries = min(entries, len(data) // ENTRY_BYTES)
    bytes_ = len(data) + declared(data)[1]
    return CALL + PER_ENTRY * entries + PER_BYTE * bytes_ + PER_STEP * limits.max_work


def refusal_seconds(data: bytes, limits: wc.DecodeLimits) -> tuple[float, str]:
    """Return the CPU seconds of one ``decode_many``, and the code of its refusal or "ok"."""
    start = time.process_time()
    try:
        wc.decode_many(data, limits=limits)
        code = "ok"
    except wc.WireError as error:
        code = error.code
    return time.process_time() - start, code
