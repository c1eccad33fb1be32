"""What the tables of vectors do not show: packing alone, and how good the curve fits are as fits."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from benchmarks.common.targets import Found, Verdict, at_most, decided
from benchmarks.common.timing import least_time, on_threads
from benchmarks.index.supports import CHUNK
from benchmarks.value.coders import Codec
from benchmarks.value.distributions import LAWS, Doubles, Floats
from benchmarks.value.peers import relative_error
from wirecodec.value.packed import packed_size

__all__ = ["dexp_converged", "measured", "recursive_chord"]

MILLION = 1_000_000
FITTED = 5_000
"""Values that the slow fits are given."""

PIECES = 16
DEGREE = 5


def measured(elements: int, step: Callable[[str], None], *, budget: float = 0.1) -> tuple[list[Verdict], str]:
    """Verdicts on the targets, and a section with all figures; on one thread.

    Args:
        elements: of the largest vector.
        step: called with the name of what is measured next.
        budget: seconds for each time, about.
    """
    parts = {"packing": _packing, "DExpFit": _dexpfit, "PolyFit": _polyfit}
    with on_threads(1):
        calls = {name: partial(part, elements, budget) for name, part in parts.items()}
        return decided("Packing, curve fits", calls, step)


def _packing(elements: int, budget: float) -> Found:
    """Codes of n bits and back, beside a copy of as many float32 values."""
    r = min(elements, CHUNK)
    values = LAWS["laplace"].top(r, r)
    measures: list[tuple[str, float]] = []
    for bits in (1, 2, 3, 4, 5, 6, 7, 8):
        codes = np.random.default_rng(bits).integers(0, 1 << bits, r).astype(np.uint8)
        pack, unpack = _packers(codes, bits)
        copy = least_time(partial(np.copyto, np.zeros_like(values), values), budget=budget)
        measures += [
            (f"pack, n = {bits}", least_time(pack, budget=budget) / copy),
            (f"unpack, n = {bits}", least_time(unpack, budget=budget) / copy),
        ]
    table = [[f"{where}, {r:,} codes", f"{time:.2f}× copy"] for where, time in measures]
    return [at_most("packing and unpacking n ≤ 8 bits ≤ 0.7× copy", 0.7, measures, "{:.2f}×")], table


def _packers(codes: Any, bits: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """The kernels into and out of memory that is there."""
    from wirecodec.kernels.cpu import packing

    words = np.empty(packed_size(codes.size, bits) // 4, np.uint32)
    back = np.empty_like(codes)
    return partial(packing.pack, codes, bits, words), partial(packing.unpack, words, bits, back)


def _dexpfit(elements: int, budget: float) -> Found:
    """Times on sorted values, since sorting is apart; errors beside a fit that stood still in the end."""
    name = "DExpFit ≤ 5 ms beside its sort, r ≤ 1,000,000"
    fits = "DExpFit's error ≤ 1.02 × that of a converged scipy fit"
    codec = Codec("dexpfit").codec
    times: list[tuple[str, float]] = []
    ratios: list[tuple[str, float]] = []
    table: list[list[str]] = []
    for law in LAWS.values():
        for r in (FITTED, min(elements, MILLION)):
            ordered = np.sort(law.top(100 * r, r))
            time = 1000 * least_time(partial(codec.encode, ordered, 0), budget=budget)
            where = f"{law.name}, top 1 %, r = {r:,}"
            times.append((where, time))
            table.append([f"DExpFit beside its sort, {where}", f"{time:.2f} ms"])
        ordered = np.sort(law.top(100 * FITTED, FITTED))
        coder = Codec("dexpfit")
        ours = relative_error(ordered, coder.decode(coder.encode(ordered, 0), FITTED))
        theirs = relative_error(ordered, dexp_converged(ordered))
        ratios.append((law.name, ours / theirs))
        table.append([f"DExpFit's error, {law.name}, top 1 %", f"{ours:.4f}; scipy {theirs:.4f}"])
    return [at_most(name, 5, times, "{:.2f} ms"), at_most(fits, 1.02, ratios)], table


def dexp_converged(ordered: Floats) -> Floats:
    """a·e^(b·x) + c·e^(d·x) of least squared error for either sign, from the greatest magnitude on."""
    out = np.zeros_like(ordered)
    for turned, sign in ((ordered, ordered < 0), (ordered[::-1], ordered[::-1] > 0)):
        chosen = np.flatnonzero(sign)
        if chosen.size > 4:
            view = out if turned is ordered else out[::-1]
            view[chosen] = _two_exponentials(turned[chosen].astype(np.float64))
    return out


def _two_exponentials(y: Doubles) -> Doubles:
    """a and c follow from b and d by linear least squares: scipy looks for two numbers, from many starts."""
    x = (np.arange(y.size) + 0.5) / y.size
    scale = np.abs(y).max()

    def curve(exponents: Doubles) -> Doubles:
        columns = np.exp(np.outer(x, exponents) - np.maximum(exponents, 0))
        linear = np.linalg.lstsq(columns, y / scale, rcond=None)[0]
        return np.asarray(columns @ linear)

    starts = [(-b, -d) for b in (0.3, 1, 3) for d in (10, 100, 1000)] + [(1.0, -3.0), (3.0, -30.0)]
    found = [
        least_squares(lambda e: curve(e) - y / scale, start, x_scale=np.abs(start), max_nfev=60)
        for start in starts
    ]
    return np.asarray(scale * curve(min(found, key=lambda one: one.cost).x))


def _polyfit(elements: int, budget: float) -> Found:
    """PolyFit with a number of pieces, and the paper's rule with as many."""
    name = f"PolyFit's error ≤ that of recursive chords, {PIECES} pieces, degree {DEGREE}"
    text = f"polyfit(degree={DEGREE}, pieces={PIECES})"
    measures: list[tuple[str, float]] = []
    table: list[list[str]] = []
    for law in LAWS.values():
        for density in (0.1, 0.01, 0.001):
            ordered = np.sort(law.top(int(FITTED / density), FITTED))
            coder = Codec(text)
            ours = relative_error(ordered, coder.decode(coder.encode(ordered, 0), FITTED))
            theirs = relative_error(ordered, recursive_chord(ordered, PIECES, DEGREE))
            where = f"{law.name}, top {100 * density:g} %"
            measures.append((where, ours / theirs))
            table.append([f"PolyFit, {PIECES} pieces, {where}", f"{ours:.5f}; recursive chords {theirs:.5f}"])
    return [at_most(name, 1.0, measures)], table


def recursive_chord(ordered: Floats, pieces: int, degree: int) -> Floats:
    """Least squares on the pieces that DeepReduce's rule makes (section 5), half of them for either sign.

    Every segment of a level is cut where it is furthest from its chord, level by level, until there are
    enough; a segment too short for two fits is left.

    Args:
        ordered: ascending values.
        pieces: of all.
        degree: of the polynomials.
    """
    y = ordered.astype(np.float64)
    zero = int(np.searchsorted(y, 0))
    cuts = [0, zero, y.size] if 0 < zero < y.size else [0, y.size]
    while len(cuts) - 1 < pieces:
        new: list[int] = []
        for start, stop in pairwise(cuts):
            if stop - start >= 2 * (degree + 1) and len(cuts) - 1 + len(new) < pieces:
                new.append(_furthest(y, start, stop, degree))
        if not new:
            break
        cuts = sorted({*cuts, *new})
    out = np.empty_like(y)
    for start, stop in pairwise(cuts):
        x = np.linspace(-1, 1, stop - start)
        few = min(degree, stop - start - 1)
        out[start:stop] = np.polynomial.Chebyshev.fit(x, y[start:stop], few)(x)
    return out.astype(np.float32)


def _furthest(y: Doubles, start: int, stop: int, degree: int) -> int:
    chord = np.linspace(y[start], y[stop - 1], stop - start)
    at = start + int(np.argmax(np.abs(chord - y[start:stop])))
    return min(max(at, start + degree + 1), stop - degree - 1)
