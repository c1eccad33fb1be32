"""Tables: the targets at the top, then communication alone, whole calls, and what was simulated."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from benchmarks.collectives.hosts import RATES
from benchmarks.collectives.measurement import Figure, by, regrets, verdicts
from benchmarks.collectives.simulation import ALPHA, BETA, CASE, METHODS, Point
from benchmarks.common.targets import summary
from benchmarks.common.timing import markdown

__all__ = ["document"]

ALONE = """Communication alone, of bytes prepared before. Each cell: milliseconds of the slowest rank,
median, and in parentheses the ratio to the byte limit, which is what a rank must send over the TCP goodput
of one link, measured in the same run. "native" is MPI's own: Allreduce; Allgatherv of raw pairs (u32,
float32); Bcast of raw indices and Allreduce of values. `pairs` and `raw` are the same bytes on this
library's paths, the others are encodings. Dense vectors are measured once for each size. All ranks share
one machine: where links are fast, they compete for its cores and not for the network. A rank keeps the memory
that it frees: the system has no part in these times that it takes to find some.
"""
LINKS = """What the links' own counters say of the same exchanges, headers of Ethernet, IP and TCP included:
megabytes that the busiest rank put on its link, and in parentheses their ratio to what it must send; after
the slash, the mean of all ranks.
"""
WHOLE = """Whole calls: choose by top-k, encode (`rice | raw`), communicate, decode, sum. Milliseconds;
*regret* is the time of `auto` over that of the best algorithm. All ranks choose, encode and sum on one
machine's cores.
"""
SIMULATED = f"""Bytes that a rank sends, of {CASE.words}; from `collectives.simulate`,
which counts them, and the time at {ALPHA * 1e6:g} µs a message and {8e-9 / BETA:g} Gbit/s, computing
nothing. The picture shows, besides, what was measured on 2, 4 and 8 hosts. ScaleCom's figures 1(b) and
6(b) show the same: what is gathered grows with the ranks, CLT-k does not.
"""


def document(figures: Sequence[Figure], points: Sequence[Point], skipped: Sequence[str]) -> str:
    """All of it in Markdown.

    Args:
        figures: measured.
        points: simulated.
        skipped: what was not measured, and why.
    """
    parts = []
    if figures:
        parts += ["## Targets\n", summary(verdicts(figures)), _regret(figures)]
    parts += [f"Skipped: {line}.\n" for line in skipped]
    if figures:
        parts += ["## Communication alone\n", ALONE]
        parts += _tables([f for f in figures if f.kind == "exchange"])
        parts += ["## Bytes on the links\n", LINKS, *_links(figures)]
        parts += ["## Whole calls\n", WHOLE, *_tables([f for f in figures if f.kind == "whole"])]
    return "\n".join([*parts, "## Against the number of ranks\n", SIMULATED, _simulated(points)])


def _regret(figures: Sequence[Figure]) -> str:
    found = regrets(figures)
    if not found:
        return ""
    missed = sum(regret > 1.02 for _, regret in found)
    median = statistics.median(regret for _, regret in found)
    return f"Regret over {len(found)} workloads: median {median:.3f}; above 1.02 in {missed}.\n"


def _tables(figures: Sequence[Figure]) -> list[str]:
    parts = []
    costs = {f.key: regret for f, regret in regrets(figures)}
    for group in by(figures, lambda f: (f.mpi, f.rate, f.ranks)).values():
        one = group[0]
        goodput = statistics.median(f.goodput for f in group) * 8e-6
        parts.append(f"### {one.mpi}, {one.rate}, n = {one.ranks}; goodput {goodput:.0f} Mbit/s\n")
        columns = list(dict.fromkeys(f.case for f in group))
        rows: dict[str, dict[object, str]] = {}
        for f in group:
            rows.setdefault(f.name, {})[f.case] = _cell(f)
        table = [[name, *(cells.get(c, "") for c in columns)] for name, cells in rows.items()]
        if one.kind == "whole":
            found = {f.case: f"{costs[f.key]:.2f}" for f in group if f.key in costs}
            table.append(["*regret*", *(found.get(c, "") for c in columns)])
        parts.append(markdown(["ms", *(c.words for c in columns)], table))
    return parts


def _links(figures: Sequence[Figure]) -> list[str]:
    """A table for each number of ranks; rates make no difference to bytes, so the fastest network speaks."""
    parts = []
    counted = [f for f in figures if f.kind == "exchange" and f.nbytes]
    for group in by(counted, lambda f: (f.mpi, f.ranks)).values():
        rate = max({f.rate for f in group}, key=lambda rate: RATES[rate].bits)
        those = [f for f in group if f.rate == rate]
        parts.append(f"### {those[0].mpi}, n = {those[0].ranks}; at {rate}\n")
        columns = list(dict.fromkeys(f.case for f in those))
        rows: dict[str, dict[object, str]] = {}
        for f in those:
            cell = f"{f.link / 1e6:.3g} ({f.link / f.nbytes:.3f}) / {f.links / 1e6:.3g}"
            rows.setdefault(f.name, {})[f.case] = cell
        table = [[name, *(cells.get(c, "") for c in columns)] for name, cells in rows.items()]
        parts.append(markdown(["MB", *(c.words for c in columns)], table))
    return parts


def _cell(f: Figure) -> str:
    milliseconds = f.seconds * 1e3
    text = f"{milliseconds:.0f}" if milliseconds >= 100 else f"{milliseconds:.3g}"
    if f.nbytes:
        return f"{text} ({f.ratio:.2f})"
    return f"{text}, {f.note}" if f.note else text


def _simulated(points: Sequence[Point]) -> str:
    found = {(p.method, p.ranks): p for p in points}
    ranks = sorted({p.ranks for p in points})
    rows = [[f"{m}, bytes", *(f"{found[m, n].nbytes:,.0f}" for n in ranks)] for m in METHODS]
    rows += [[f"{m}, ms", *(f"{found[m, n].seconds * 1e3:.2f}" for n in ranks)] for m in METHODS]
    return markdown(["n", *map(str, ranks)], rows)
