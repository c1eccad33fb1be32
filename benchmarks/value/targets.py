"""What the value codecs should reach, held against what was measured: each target at its worst figure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import log2

from benchmarks.common.targets import Measures, Verdict, at_most
from benchmarks.value.cases import CACHE, CLOCK
from benchmarks.value.measurement import Figure

__all__ = ["verdicts"]

_ERROR = re.compile(r"error=([\d.e-]+)")
SLACK = 1e-6
"""Of an error that is held against a limit: float32 sums are that sharp."""


def verdicts(figures: Sequence[Figure]) -> list[Verdict]:
    """On the targets that the tables' figures decide."""
    return [*_times(figures), *_error_bounded(figures), *_auto_value(figures)]


def _times(figures: Sequence[Figure]) -> list[Verdict]:
    clock = [f for f in figures if f.case.group == CLOCK]
    memory, cache = ([f for f in clock if (f.r > CACHE) == large] for large in (True, False))
    found = []
    for family, part, way, most, where, chosen in (
        ("qsgd", 0, "encode", 1.5, "from memory", memory),
        ("qsgd", 0, "encode", 2.5, "in cache", cache),
        ("qsgd", 1, "decode", 1.5, "", clock),
        ("raw(bfloat16)", 0, "encode", 1.0, "", clock),
        ("raw(bfloat16)", 1, "decode", 1.0, "", clock),
        ("raw(float16)", 0, "encode", 2.0, "", clock),
        ("raw(float16)", 1, "decode", 2.0, "", clock),
        ("offset-float", 0, "encode", 2.0, "", clock),
        ("offset-float", 1, "decode", 1.0, "", clock),
    ):
        those = [f for f in chosen if family in (f.family, f.coder)]
        target = f"{family}: {way} ≤ {most:g}× copy{', ' if where else ''}{where}"
        found.append(at_most(target, most, [(_name(f), f.times[part]) for f in those], "{:.2f}×"))
    for way, most, value in (("encode", 5.0, "encode"), ("decode", 3.0, "decode")):
        those = [f for f in figures if f.family == "error-bounded" and f.r >= CACHE]
        target = f"error-bounded: {way} ≤ {most:g} ns a value, r ≥ {CACHE:,}"
        found.append(at_most(target, most, [(_name(f), getattr(f, value)) for f in those], "{:.2f} ns"))
    return found


def _error_bounded(figures: Sequence[Figure]) -> list[Verdict]:
    """Above the bound at the error that was met; at equal errors, where a halved error counts as a bit."""
    ours = [f for f in figures if f.coder in ("error-bounded(error=0.05)", "error-bounded(error=0.01)")]
    laplace = [f for f in ours if f.case.group == "laplace" and _asked(f) == 0.01]
    found = [
        at_most(
            "error-bounded ≤ 1.06 × the bound at 1 %: laplace, top 1 %",
            1.06,
            [(f.place, f.ratio) for f in laplace if f.case.column == "top 1 %"],
        ),
        at_most(
            "error-bounded ≤ its error", 1 + SLACK, _over([f for f in figures if f.family == "error-bounded"])
        ),
    ]
    for family in ("SZ3", "pcodec, integers"):
        peers = [f for f in figures if f.family == family]
        target = f"error-bounded ≤ {family} at equal error, every gradient"
        found.append(at_most(target, 1, _beside(ours, peers)))
    return found


def _beside(ours: Sequence[Figure], peers: Sequence[Figure]) -> Iterator[tuple[str, float]]:
    for one in ours:
        for other in peers:
            asked = f"{100 * (_asked(one) or 0):g} %"
            if one.case == other.case and other.coder.endswith(f", {asked}") and not one.case.synthetic:
                yield f"{one.place}, {asked}", one.bits / at_error(other, one.error)


def at_error(figure: Figure, error: float) -> float:
    """Bits that a coder would take at an error close to its own: a halved error is a bit."""
    return figure.bits + log2(figure.error / error) if error and figure.error else figure.bits


def _auto_value(figures: Sequence[Figure]) -> list[Verdict]:
    auto = [f for f in figures if f.family == "auto-value"]
    return [
        at_most("auto-value ≤ its error", 1 + SLACK, _over(auto)),
        at_most("auto-value ≤ 1.02 × the smallest that is eligible", 1.02, _eligible(figures, auto)),
    ]


def _eligible(figures: Sequence[Figure], auto: Sequence[Figure]) -> Measures:
    """Beside all other configurations that were measured on the same values and keep within the error."""
    for one in auto:
        limit = (_asked(one) or 0) * (1 + SLACK)
        least = [
            f.bits
            for f in figures
            if f.case == one.case and not f.peer and f.family != "auto-value" and f.error <= limit
        ]
        if least:
            yield _name(one), one.bits / min(least)


def _over(figures: Sequence[Figure]) -> Measures:
    return [(_name(f), f.error / (_asked(f) or 1)) for f in figures]


def _asked(figure: Figure) -> float | None:
    found = _ERROR.search(figure.coder)
    return float(found[1]) if found else None


def _name(figure: Figure) -> str:
    return f"`{figure.coder}`, {figure.place}"
