"""Targets of the value codecs, checked against the measurements."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import log2

from benchmarks.common.targets import LabelledValues, TargetResult, check_at_most
from benchmarks.value.cases import CACHE, CLOCK
from benchmarks.value.measurement import Measurement

__all__ = ["check_targets", "compare_with_peers"]

_ERROR = re.compile(r"error=([\d.e-]+)")
ERROR_TOLERANCE = 1e-6
"""Relative tolerance of an error that is compared with its limit: the precision of float32 sums."""


def check_targets(measurements: Sequence[Measurement]) -> list[TargetResult]:
    """Check the targets that depend on the main tables only."""
    return [
        *_check_times(measurements),
        *_check_error_bounded(measurements),
        *_check_auto_value(measurements),
    ]


def _check_times(measurements: Sequence[Measurement]) -> list[TargetResult]:
    timed = [m for m in measurements if m.group == CLOCK]
    memory = [m for m in timed if m.r > CACHE]
    cache = [m for m in timed if m.r <= CACHE]
    results = []
    for family, operation, limit, condition, chosen in (
        ("qsgd", "encode", 1.5, ", from memory", memory),
        ("qsgd", "encode", 2.5, ", in cache", cache),
        ("qsgd", "decode", 1.5, "", timed),
        ("raw(bfloat16)", "encode", 1.0, "", timed),
        ("raw(bfloat16)", "decode", 1.0, "", timed),
        ("raw(float16)", "encode", 2.0, "", timed),
        ("raw(float16)", "decode", 2.0, "", timed),
        ("offset-float", "encode", 2.0, "", timed),
        ("offset-float", "decode", 1.0, "", timed),
    ):
        i = ("encode", "decode").index(operation)
        values = [(_format_case(m), m.times[i]) for m in chosen if family in (m.family, m.coder)]
        target = f"{family}: {operation} ≤ {limit:g}× copy{condition}"
        results.append(check_at_most(target, limit, values, "{:.2f}×"))
    large = [m for m in measurements if m.family == "error-bounded" and m.r >= CACHE]
    for operation, limit, times in (
        ("encode", 5.0, [(_format_case(m), m.encode_ns) for m in large]),
        ("decode", 3.0, [(_format_case(m), m.decode_ns) for m in large]),
    ):
        target = f"error-bounded: {operation} ≤ {limit:g} ns per value, r ≥ {CACHE:,}"
        results.append(check_at_most(target, limit, times, "{:.2f} ns"))
    return results


def _check_error_bounded(measurements: Sequence[Measurement]) -> list[TargetResult]:
    """Compare ``error-bounded`` with the bound at its actual error, and with peers at equal errors."""
    coders = ("error-bounded(error=0.05)", "error-bounded(error=0.01)")
    ours = [m for m in measurements if m.coder in coders]
    laplace = [m for m in ours if m.group == "laplace" and _parse_error_limit(m) == 0.01]
    bounded = [m for m in measurements if m.family == "error-bounded"]
    results = [
        check_at_most(
            "error-bounded ≤ 1.06 × the bound at 1 %: laplace, top 1 %",
            1.06,
            [(m.case_name, m.ratio) for m in laplace if m.column == "top 1 %"],
        ),
        check_at_most(
            "error-bounded ≤ its error limit", 1 + ERROR_TOLERANCE, _compute_relative_errors(bounded)
        ),
    ]
    for family in ("SZ3", "pcodec, integers"):
        peers = [m for m in measurements if m.family == family]
        target = f"error-bounded ≤ {family} at equal error, every gradient"
        results.append(check_at_most(target, 1, _compare_at_equal_error(ours, peers)))
    return results


def _compare_at_equal_error(ours: Sequence[Measurement], peers: Sequence[Measurement]) -> LabelledValues:
    for m in ours:
        for peer in peers:
            limit = f"{100 * (_parse_error_limit(m) or 0):g} %"
            if m.case_name == peer.case_name and peer.coder.endswith(f", {limit}") and not m.synthetic:
                yield f"{m.case_name}, {limit}", m.bits / _extrapolate_bits(peer, m.error)


def compare_with_peers(measurements: Sequence[Measurement], coder: str) -> LabelledValues:
    """Yield the bits of a codec on each gradient, relative to the smallest peer's at equal error."""
    for m in measurements:
        if m.coder == coder and not m.synthetic:
            limit = f", {100 * (_parse_error_limit(m) or 0):g} %"
            peers = [
                _extrapolate_bits(other, m.error)
                for other in measurements
                if other.case_name == m.case_name and other.peer and other.coder.endswith(limit)
            ]
            if peers:
                yield m.case_name, m.bits / min(peers)


def _extrapolate_bits(m: Measurement, error: float) -> float:
    """Extrapolate the bits of a coder to a similar error: halving the error costs one bit."""
    return m.bits + log2(m.error / error) if error and m.error else m.bits


def _check_auto_value(measurements: Sequence[Measurement]) -> list[TargetResult]:
    auto = [m for m in measurements if m.family == "auto-value"]
    target = "auto-value ≤ 1.02 × the smallest eligible codec"
    return [
        check_at_most("auto-value ≤ its error limit", 1 + ERROR_TOLERANCE, _compute_relative_errors(auto)),
        check_at_most(target, 1.02, _compare_with_eligible(measurements, auto)),
    ]


def _compare_with_eligible(
    measurements: Sequence[Measurement], auto: Sequence[Measurement]
) -> LabelledValues:
    """Yield the bits of ``auto-value`` relative to the smallest codec within its error."""
    for m in auto:
        limit = (_parse_error_limit(m) or 0) * (1 + ERROR_TOLERANCE)
        bits = [
            other.bits
            for other in measurements
            if other.case_name == m.case_name
            and not other.peer
            and other.family != "auto-value"
            and other.error <= limit
        ]
        if bits:
            yield _format_case(m), m.bits / min(bits)


def _compute_relative_errors(measurements: Sequence[Measurement]) -> LabelledValues:
    return [(_format_case(m), m.error / (_parse_error_limit(m) or 1)) for m in measurements]


def _parse_error_limit(m: Measurement) -> float | None:
    match = _ERROR.search(m.coder)
    return float(match[1]) if match else None


def _format_case(m: Measurement) -> str:
    return f"`{m.coder}`, {m.case_name}"
