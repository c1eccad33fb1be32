"""What the index codecs should reach, held against what was measured: each target at its worst figure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.common.targets import Measures, Verdict, at_least, at_most
from benchmarks.index.cases import DENSITIES
from benchmarks.index.measurement import LARGE, Figure

__all__ = ["verdicts"]


def verdicts(figures: Sequence[Figure]) -> list[Verdict]:
    """On the targets that the tables' figures decide."""
    return [*_rice(figures), *_auto_index(figures), *_bloom(figures)]


def _rice(figures: Sequence[Figure]) -> list[Verdict]:
    rice = [f for f in figures if f.coder == "rice"]
    uniform = [f for f in rice if f.kind == "uniform"]
    large = [f for f in rice if f.r >= LARGE]
    found = [
        at_most(
            f"rice ≤ {limit:.3f} of the bound: uniform, {100 * density:g} %, r ≥ 2,600",
            limit,
            _at([f for f in uniform if f.case.density == density and f.r >= 2600], lambda f: f.ratio),
            "{:.4f}",
        )
        for density, limit in zip(DENSITIES, (1.025, 1.010, 1.015), strict=True)
    ]
    found.append(
        at_most(
            "rice ≤ 1.1 × bound + 16 bytes: uniform, r ≤ 500",
            16,
            _at([f for f in uniform if f.r <= 500], lambda f: (f.bits - 1.1 * f.bound) * f.r / 8),
            "1.1 × bound {:+.1f} bytes",
        )
    )
    for way, least, part in (("encode", 0.13, 0), ("decode", 0.20, 1)):
        one = [(_place(f), f.speeds[part]) for f in large]
        gain = [(_place(f), f.two_threads[part] / f.speeds[part]) for f in large if f.two_threads]
        found.append(at_least(f"rice: {way} ≥ {least:.2f}× copy, one thread, r ≥ {LARGE:,}", least, one))
        found.append(at_least(f"rice: {way} on two threads ≥ 1.8× one thread, r ≥ {LARGE:,}", 1.8, gain))
    return found


def _auto_index(figures: Sequence[Figure]) -> list[Verdict]:
    auto = [f for f in figures if f.coder == "auto-index"]
    found = [
        at_most("auto-index ≤ 1.01 × the least of rice, bitmap, rle", 1.01, _beside(figures, auto, SIMPLE))
    ]
    for density, limit in zip(DENSITIES, (0.10, 0.14, 0.19), strict=True):
        rows = [f for f in auto if f.kind == "rows" and f.case.density == density and f.r >= 25_000]
        found.append(
            at_most(
                f"auto-index ≤ {limit:.2f} bit an index: rows of 64, {100 * density:g} %, r ≥ 25,000",
                limit,
                _at(rows, lambda f: f.bits),
            )
        )
    for name in ("auto-index", SMALLEST):
        those = [f for f in figures if f.coder == name]
        target = f"{name} smaller than zstd-19 on gaps"
        found.append(at_most(target, 1, _beside(figures, those, {"zstd-19, gaps"})))
    return found


def _bloom(figures: Sequence[Figure]) -> list[Verdict]:
    """Where r is as small as ε·d, half of the positives are false: that is said apart."""
    p2 = [f for f in figures if f.coder.startswith("bloom") and "p2" in f.coder]
    found = []
    for where, dense in (("r ≥ d/101", True), ("fewer", False)):
        chosen = [f for f in p2 if (f.r * 101 >= f.d) == dense]
        target = f"bloom: p2 keeps ≥ 0.995 of the indices, ε = 0.001, {where}"
        found.append(at_least(target, 0.995, _at(chosen, lambda f: f.kept), "{:.4f}"))
    return found


SIMPLE = {"rice", "bitmap", "rle"}
SMALLEST = "auto-index(smallest=True)"


def _beside(figures: Sequence[Figure], auto: Sequence[Figure], others: set[str]) -> Measures:
    """Bits of ``auto`` relative to the least of ``others`` on the same support."""
    for one in auto:
        least = [f.bits for f in figures if f.case == one.case and f.coder in others]
        if least:
            yield _place(one), one.bits / min(least)


def _at(figures: Sequence[Figure], value: Callable[[Figure], float]) -> Measures:
    return [(_place(f), value(f)) for f in figures]


def _place(f: Figure) -> str:
    return f"{f.case.group}, {f.case.column}"
