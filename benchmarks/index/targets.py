"""Targets of the index codecs, checked against the measurements."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.common.inputs import DENSITIES
from benchmarks.common.targets import LabelledValues, TargetResult, check_at_least, check_at_most
from benchmarks.index.measurement import LARGE, Measurement

__all__ = ["check_targets"]

SIMPLE = {"rice", "bitmap", "rle"}
SMALLEST = "auto-index(smallest=True)"


def check_targets(measurements: Sequence[Measurement]) -> list[TargetResult]:
    """Check the targets that depend on the main tables only."""
    return [*_check_rice(measurements), *_check_auto_index(measurements), *_check_bloom(measurements)]


def _check_rice(measurements: Sequence[Measurement]) -> list[TargetResult]:
    rice = [m for m in measurements if m.coder == "rice"]
    uniform = [m for m in rice if m.kind == "uniform"]
    large = [m for m in rice if m.r >= LARGE]
    results = [
        check_at_most(
            f"rice ≤ {limit:.3f} × the bound: uniform, {100 * density:g} %, r ≥ 2,600",
            limit,
            _label_values([m for m in uniform if m.density == density and m.r >= 2600], lambda m: m.ratio),
            "{:.4f}",
        )
        for density, limit in zip(DENSITIES, (1.025, 1.010, 1.015), strict=True)
    ]
    results.append(
        check_at_most(
            "rice ≤ 1.1 × bound + 16 bytes: uniform, r ≤ 500",
            16,
            _label_values([m for m in uniform if m.r <= 500], lambda m: (m.bits - 1.1 * m.bound) * m.r / 8),
            "1.1 × bound {:+.1f} bytes",
        )
    )
    for operation, limit, i in (("encode", 0.13, 0), ("decode", 0.20, 1)):
        one = [(_format_case(m), m.speeds[i]) for m in large]
        gain = [(_format_case(m), m.two_threads[i] / m.speeds[i]) for m in large if m.two_threads]
        target = f"rice: {operation} ≥ {limit:.2f}× copy, one thread, r ≥ {LARGE:,}"
        results.append(check_at_least(target, limit, one))
        target = f"rice: {operation} on two threads ≥ 1.8× one thread, r ≥ {LARGE:,}"
        results.append(check_at_least(target, 1.8, gain))
    return results


def _check_auto_index(measurements: Sequence[Measurement]) -> list[TargetResult]:
    auto = [m for m in measurements if m.coder == "auto-index"]
    target = "auto-index ≤ 1.01 × the smallest of rice, bitmap, rle"
    results = [check_at_most(target, 1.01, _compute_relative_bits(measurements, auto, SIMPLE))]
    for density, limit in zip(DENSITIES, (0.10, 0.14, 0.19), strict=True):
        rows = [m for m in auto if m.kind == "rows" and m.density == density and m.r >= 25_000]
        target = f"auto-index ≤ {limit:.2f} bits per index: rows of 64, {100 * density:g} %, r ≥ 25,000"
        results.append(check_at_most(target, limit, _label_values(rows, lambda m: m.bits)))
    for name in ("auto-index", SMALLEST):
        chosen = [m for m in measurements if m.coder == name]
        values = _compute_relative_bits(measurements, chosen, {"zstd-19, gaps"})
        results.append(check_at_most(f"{name} ≤ zstd-19 on gaps", 1, values))
    return results


def _check_bloom(measurements: Sequence[Measurement]) -> list[TargetResult]:
    """Check the recall of policy p2, with a separate target for small r: half of its positives are false."""
    p2 = [m for m in measurements if m.coder.startswith("bloom") and "p2" in m.coder]
    results = []
    for condition, dense in (("r ≥ d/101", True), ("r < d/101", False)):
        chosen = [m for m in p2 if (m.r * 101 >= m.d) == dense]
        target = f"bloom: recall of p2 ≥ 0.995, ε = 0.001, {condition}"
        results.append(check_at_least(target, 0.995, _label_values(chosen, lambda m: m.recall), "{:.4f}"))
    return results


def _compute_relative_bits(
    measurements: Sequence[Measurement], chosen: Sequence[Measurement], others: set[str]
) -> LabelledValues:
    """Yield the bits of ``chosen`` relative to the smallest of ``others`` on the same support."""
    for m in chosen:
        bits = [
            other.bits for other in measurements if other.case_name == m.case_name and other.coder in others
        ]
        if bits:
            yield _format_case(m), m.bits / min(bits)


def _label_values(
    measurements: Sequence[Measurement], value: Callable[[Measurement], float]
) -> LabelledValues:
    return [(_format_case(m), value(m)) for m in measurements]


def _format_case(m: Measurement) -> str:
    return m.case_name
