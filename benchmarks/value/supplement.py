"""Measurements outside the main tables: bit packing alone, and the accuracy of the curve fits."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from benchmarks.common.inputs import CHUNK
from benchmarks.common.targets import SectionResult, TargetResult, check_at_most, measure_sections
from benchmarks.common.timing import measure_minimum_time, numba_threads
from benchmarks.value.coders import Codec
from benchmarks.value.distributions import DISTRIBUTIONS, Doubles, Floats
from benchmarks.value.peers import compute_relative_error
from wirecodec.value.bit_packing import packed_size

__all__ = ["fit_recursive_chords", "fit_two_exponentials", "measure"]

MILLION = 1_000_000
FITTED = 5_000
"""Number of values for the slow reference fits."""

PIECES = 16
DEGREE = 5


def measure(
    elements: int, step: Callable[[str], None], *, budget: float = 0.1
) -> tuple[list[TargetResult], str]:
    """Run the supplementary measurements on one thread.

    Args:
        elements: size of the largest vector.
        step: called with the name of each measurement before it starts.
        budget: approximate seconds per time.

    Returns:
        The results of their targets, and a Markdown section with all measurements.
    """
    parts = {"packing": _measure_packing, "DExpFit": _measure_dexpfit, "PolyFit": _measure_polyfit}
    with numba_threads(1):
        calls = {name: partial(part, elements, budget) for name, part in parts.items()}
        return measure_sections("Packing, curve fits", calls, step)


def _measure_packing(elements: int, budget: float) -> SectionResult:
    """Measure packing and unpacking of n-bit codes, relative to a copy of as many float32 values."""
    r = min(elements, CHUNK)
    values = DISTRIBUTIONS["laplace"].draw_top(r, r)
    measures: list[tuple[str, float]] = []
    for bits in (1, 2, 3, 4, 5, 6, 7, 8):
        codes = np.random.default_rng(bits).integers(0, 1 << bits, r).astype(np.uint8)
        pack, unpack = _build_packers(codes, bits)
        copy = measure_minimum_time(partial(np.copyto, np.zeros_like(values), values), budget=budget)
        measures += [
            (f"pack, n = {bits}", measure_minimum_time(pack, budget=budget) / copy),
            (f"unpack, n = {bits}", measure_minimum_time(unpack, budget=budget) / copy),
        ]
    table = [
        [f"{pack}, unpack, {r:,} codes", f"{packing:.2f}, {unpacking:.2f}× copy"]
        for (pack, packing), (_, unpacking) in zip(measures[::2], measures[1::2], strict=True)
    ]
    return [check_at_most("packing and unpacking n ≤ 8 bits ≤ 0.7× copy", 0.7, measures, "{:.2f}×")], table


def _build_packers(codes: Any, bits: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Return the packing and unpacking kernels with preallocated outputs."""
    from wirecodec.kernels.cpu.coding import packing

    words = np.empty(packed_size(codes.size, bits) // 4, np.uint32)
    back = np.empty_like(codes)
    return partial(packing.pack, codes, bits, words), partial(packing.unpack, words, bits, back)


def _measure_dexpfit(elements: int, budget: float) -> SectionResult:
    """Measure DExpFit on sorted values, without the sort; compare its error with a converged fit."""
    name = "DExpFit ≤ 5 ms without its sort, r ≤ 1,000,000"
    fits = "DExpFit's error ≤ 1.02 × that of a converged scipy fit"
    codec = Codec("dexpfit").codec
    times: list[tuple[str, float]] = []
    ratios: list[tuple[str, float]] = []
    table: list[list[str]] = []
    for distribution in DISTRIBUTIONS.values():
        sizes = (FITTED, min(elements, MILLION))
        for r in sizes:
            ordered = np.sort(distribution.draw_top(100 * r, r))
            time = 1000 * measure_minimum_time(partial(codec.encode, ordered, 0), budget=budget)
            case = f"{distribution.name}, top 1 %, r = {r:,}"
            times.append((case, time))
        case = f"{distribution.name}, top 1 %, r = {', '.join(f'{r:,}' for r in sizes)}"
        table.append(
            [f"DExpFit without its sort, {case}", ", ".join(f"{time:.2f}" for _, time in times[-2:]) + " ms"]
        )
        ordered = np.sort(distribution.draw_top(100 * FITTED, FITTED))
        coder = Codec("dexpfit")
        ours = compute_relative_error(ordered, coder.decode(coder.encode(ordered, 0), FITTED))
        theirs = compute_relative_error(ordered, fit_two_exponentials(ordered))
        ratios.append((distribution.name, ours / theirs))
        table.append([f"DExpFit's error, {distribution.name}, top 1 %", f"{ours:.4f}; scipy {theirs:.4f}"])
    return [check_at_most(name, 5, times, "{:.2f} ms"), check_at_most(fits, 1.02, ratios)], table


def fit_two_exponentials(ordered: Floats) -> Floats:
    """Fit a·e^(b·x) + c·e^(d·x) by least squares to each sign, from the largest magnitude on."""
    out = np.zeros_like(ordered)
    for turned, sign in ((ordered, ordered < 0), (ordered[::-1], ordered[::-1] > 0)):
        chosen = np.flatnonzero(sign)
        if chosen.size > 4:
            view = out if turned is ordered else out[::-1]
            view[chosen] = _fit_one_sign(turned[chosen].astype(np.float64))
    return out


def _fit_one_sign(y: Doubles) -> Doubles:
    """Fit two exponentials with scipy.

    a and c follow from b and d by linear least squares, so scipy searches two numbers, from many starts.
    """
    x = (np.arange(y.size) + 0.5) / y.size
    scale = np.abs(y).max()

    def curve(exponents: Doubles) -> Doubles:
        columns = np.exp(np.outer(x, exponents) - np.maximum(exponents, 0))
        linear = np.linalg.lstsq(columns, y / scale, rcond=None)[0]
        return np.asarray(columns @ linear)

    starts = [(-b, -d) for b in (0.3, 1, 3) for d in (10, 100, 1000)] + [(1.0, -3.0), (3.0, -30.0)]
    fits = [
        least_squares(lambda e: curve(e) - y / scale, start, x_scale=np.abs(start), max_nfev=60)
        for start in starts
    ]
    return np.asarray(scale * curve(min(fits, key=lambda fit: fit.cost).x))


def _measure_polyfit(elements: int, budget: float) -> SectionResult:
    """Compare PolyFit at a fixed number of pieces with the paper's rule at the same number."""
    name = f"PolyFit's error ≤ that of recursive chords, {PIECES} pieces, degree {DEGREE}"
    text = f"polyfit(degree={DEGREE}, pieces={PIECES})"
    measures: list[tuple[str, float]] = []
    table: list[list[str]] = []
    for distribution in DISTRIBUTIONS.values():
        for density in (0.1, 0.01, 0.001):
            ordered = np.sort(distribution.draw_top(int(FITTED / density), FITTED))
            coder = Codec(text)
            ours = compute_relative_error(ordered, coder.decode(coder.encode(ordered, 0), FITTED))
            theirs = compute_relative_error(ordered, fit_recursive_chords(ordered, PIECES, DEGREE))
            case = f"{distribution.name}, top {100 * density:g} %"
            measures.append((case, ours / theirs))
            table.append([f"PolyFit, {PIECES} pieces, {case}", f"{ours:.5f}; recursive chords {theirs:.5f}"])
    return [check_at_most(name, 1.0, measures)], table


def fit_recursive_chords(ordered: Floats, pieces: int, degree: int) -> Floats:
    """Fit polynomials to the pieces of DeepReduce's rule (section 5), half of them for each sign.

    Each segment of a level is cut at its largest distance from its chord, level by level, until there are
    enough pieces. A segment too short for two fits is not cut.

    Args:
        ordered: ascending values.
        pieces: number of pieces.
        degree: degree of the polynomials.
    """
    y = ordered.astype(np.float64)
    zero = int(np.searchsorted(y, 0))
    cuts = [0, zero, y.size] if 0 < zero < y.size else [0, y.size]
    while len(cuts) - 1 < pieces:
        new: list[int] = []
        for start, stop in pairwise(cuts):
            if stop - start >= 2 * (degree + 1) and len(cuts) - 1 + len(new) < pieces:
                new.append(_find_furthest_from_chord(y, start, stop, degree))
        if not new:
            break
        cuts = sorted({*cuts, *new})
    out = np.empty_like(y)
    for start, stop in pairwise(cuts):
        x = np.linspace(-1, 1, stop - start)
        few = min(degree, stop - start - 1)
        out[start:stop] = np.polynomial.Chebyshev.fit(x, y[start:stop], few)(x)
    return out.astype(np.float32)


def _find_furthest_from_chord(y: Doubles, start: int, stop: int, degree: int) -> int:
    """Return the position of the largest distance from the chord, with room for a fit on either side."""
    chord = np.linspace(y[start], y[stop - 1], stop - start)
    at = start + int(np.argmax(np.abs(chord - y[start:stop])))
    return min(max(at, start + degree + 1), stop - degree - 1)
