"""Bandwidths and times as people write them: "10Gbit", "12.5GB/s", "50us"."""

from __future__ import annotations

import math
import re

__all__ = ["bandwidth_of", "bandwidth_text", "seconds_of", "seconds_text"]

_QUANTITY = re.compile(r"(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+)\s*(\D+)")
_PREFIXES = "kMGT"
_BITS = ("bit", "bits", "b", "bit/s", "b/s", "bps")
_BYTES = ("byte", "bytes", "B", "byte/s", "bytes/s", "B/s", "Bps")
_PREFIXED: dict[str, int] = {
    **{"": 1, "K": 1000},
    **{prefix: 1000**power for power, prefix in enumerate(_PREFIXES, start=1)},
    **{f"{prefix}i": 1024**power for power, prefix in enumerate("KMGT", start=1)},
}
_RATES: dict[str, float] = {
    prefix + unit: factor * size
    for prefix, factor in _PREFIXED.items()
    for units, size in ((_BITS, 1 / 8), (_BYTES, 1.0))
    for unit in units
} | {  # no one means millibits
    prefix.lower() + unit: 1000**power / 8
    for power, prefix in enumerate(_PREFIXES, start=1)
    for unit in ("bit", "bit/s")
}
_TIMES = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0}  # either sign of micro


def bandwidth_of(text: str) -> float:
    """Bytes a second.

    A bit is ``bit`` or ``b``, a byte ``byte`` or ``B``; ``/s`` may follow. k, M, G and T are powers of 1000,
    Ki to Ti of 1024. ValueError for anything else, and without a unit: bits and bytes are 8 apart.
    """
    match = _QUANTITY.fullmatch(text.strip())
    if match is None or match[2] not in _RATES:
        raise ValueError(
            f"cannot read bandwidth {text!r}; write 100Mbit, 10Gbit/s or 12.5GB/s (b is a bit, B a byte)"
        )
    found = float(match[1]) * _RATES[match[2]]
    if not 0 < found < math.inf:
        raise ValueError(f"bandwidth {text!r} must be above 0 and finite")
    return found


def seconds_of(text: str) -> float:
    """Seconds from "50us", "1.5ms", "2s", "800ns", or 0; ValueError for anything else."""
    match = _QUANTITY.fullmatch(text.strip())
    if text.strip() == "0":
        return 0.0
    if match is None or match[2] not in _TIMES:
        raise ValueError(f"cannot read time {text!r}; write 50us, 1.5ms or 2s")
    found = float(match[1]) * _TIMES[match[2]]
    if found == math.inf:
        raise ValueError(f"time {text!r} must be finite")
    return found


def bandwidth_text(bandwidth: float) -> str:
    """Bytes a second, in bits: "10 Gbit/s"."""
    bits = 8 * bandwidth
    power = min(max(int(math.log10(bits) // 3), 0), 4)
    if float(f"{bits / 1000**power:.3g}") >= 1000 and power < 4:
        power += 1
    return f"{_three(bits / 1000**power)} {('', *_PREFIXES)[power]}bit/s"


def seconds_text(seconds: float) -> str:
    """Three digits: "1.25 ms"."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if float(f"{seconds / scale:.3g}") >= 1:
            return f"{_three(seconds / scale)} {unit}"
    return f"{_three(seconds / 1e-6)} µs"


def _three(number: float) -> str:
    """Three significant digits, never in powers of ten."""
    rounded = float(f"{number:.3g}")
    return f"{rounded:,.0f}" if rounded >= 100 else f"{rounded:g}"
