"""Bandwidths, times and counts as text: "10Gbit", "12.5GB/s", "50us", "25M"."""

from __future__ import annotations

import math
import re

_QUANTITY = re.compile(r"(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+)\s*(\D+)")
_PREFIXES = "kMGT"
_BITS = ("bit", "bits", "b", "bit/s", "b/s", "bps")
_BYTES = ("byte", "bytes", "B", "byte/s", "bytes/s", "B/s", "Bps")
_FACTORS: dict[str, int] = {
    **{"": 1, "K": 1000},
    **{prefix: 1000**power for power, prefix in enumerate(_PREFIXES, start=1)},
    **{f"{prefix}i": 1024**power for power, prefix in enumerate("KMGT", start=1)},
}
_BANDWIDTHS: dict[str, float] = {
    prefix + unit: factor * size
    for prefix, factor in _FACTORS.items()
    for units, size in ((_BITS, 1 / 8), (_BYTES, 1.0))
    for unit in units
} | {  # "mbit" is a megabit: millibits are not in use
    prefix.lower() + unit: 1000**power / 8
    for power, prefix in enumerate(_PREFIXES, start=1)
    for unit in ("bit", "bit/s")
}
_COUNTS = {"k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9}
_TIMES = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0}  # both Unicode micro signs


def parse_bandwidth(text: str) -> float:
    """Parse a bandwidth.

    Args:
        text: a number and a unit: ``bit`` or ``b`` for bits, ``byte`` or ``B`` for bytes, with or without
            ``/s``. The prefixes k, M, G and T are powers of 1000, and Ki, Mi, Gi and Ti of 1024.

    Returns:
        Bytes per second.

    Raises:
        ValueError: the text is not a bandwidth above 0, or has no unit: bits and bytes differ by 8.

    Examples:
        >>> parse_bandwidth("10Gbit/s")
        1250000000.0
    """
    match = _QUANTITY.fullmatch(text.strip())
    if match is None or match[2] not in _BANDWIDTHS:
        raise ValueError(
            f"cannot read bandwidth {text!r}; write 100Mbit, 10Gbit/s or 12.5GB/s (b is a bit, B a byte)"
        )
    bandwidth = float(match[1]) * _BANDWIDTHS[match[2]]
    if not 0 < bandwidth < math.inf:
        raise ValueError(f"bandwidth {text!r} must be above 0 and finite")
    return bandwidth


def parse_bytes(text: str) -> int:
    """Parse a number of bytes.

    Args:
        text: a number, with or without the unit B; the prefixes k, M and G are powers of 1000, and Ki, Mi and
            Gi of 1024: "400kB", "1.5MiB", "4096".

    Raises:
        ValueError: the text is not a number of bytes from 1 to 2^40.

    Examples:
        >>> parse_bytes("400kB"), parse_bytes("4Ki")
        (400000, 4096)
    """
    plain = text.strip().removesuffix("B")
    match = _QUANTITY.fullmatch(plain)
    number, prefix = (match[1], match[2].strip()) if match else (plain, "")
    try:
        count = float(number) * _FACTORS[prefix]
    except (ValueError, KeyError):
        count = math.nan
    if not 1 <= count <= 2**40:
        raise ValueError(f"cannot read bytes {text!r}; write 400kB, 1.5MB or 4096, from 1 to 2^40")
    return int(count)


def parse_seconds(text: str) -> float:
    """Parse a time.

    Args:
        text: a number and one of the units ns, us, ms and s; or 0.

    Returns:
        Seconds.

    Raises:
        ValueError: the text is not a finite time.

    Examples:
        >>> parse_seconds("1.5ms")
        0.0015
    """
    match = _QUANTITY.fullmatch(text.strip())
    if text.strip() == "0":
        return 0.0
    if match is None or match[2] not in _TIMES:
        raise ValueError(f"cannot read time {text!r}; write 50us, 1.5ms or 2s")
    seconds = float(match[1]) * _TIMES[match[2]]
    if seconds == math.inf:
        raise ValueError(f"time {text!r} must be finite")
    return seconds


def parse_count(text: str) -> int:
    """Parse a number of elements.

    Args:
        text: a number, with or without one of the suffixes k, M and G, which are powers of 1000: "25M",
            "1e6", "400,000".

    Raises:
        ValueError: the text is not a whole number of 1 or more, and at most 2^40.

    Examples:
        >>> parse_count("25M"), parse_count("1.5k")
        (25000000, 1500)
    """
    plain = text.strip().replace(",", "").replace("_", "")
    factor = _COUNTS.get(plain[-1:], 1)
    try:
        count = float(plain[:-1] if factor > 1 else plain) * factor
    except ValueError:
        count = math.nan
    if not (1 <= count <= 2**40 and count == int(count)):
        raise ValueError(f"cannot read number {text!r}; write 25M, 1e6 or 400000, from 1 to 2^40")
    return int(count)


def format_bandwidth(bandwidth: float) -> str:
    """Format bytes per second as bits per second: "10 Gbit/s"."""
    bits = 8 * bandwidth
    power = min(max(int(math.log10(bits) // 3), 0), 4)
    if float(f"{bits / 1000**power:.3g}") >= 1000 and power < 4:
        power += 1
    return f"{_format_three_digits(bits / 1000**power)} {('', *_PREFIXES)[power]}bit/s"


def format_seconds(seconds: float) -> str:
    """Format a time with three significant digits: "1.25 ms"."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if float(f"{seconds / scale:.3g}") >= 1:
            return f"{_format_three_digits(seconds / scale)} {unit}"
    return f"{_format_three_digits(seconds / 1e-6)} µs"


def _format_three_digits(number: float) -> str:
    """Format a number with three significant digits and without an exponent."""
    rounded = float(f"{number:.3g}")
    return f"{rounded:,.0f}" if rounded >= 100 else f"{rounded:g}"
