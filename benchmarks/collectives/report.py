"""Result page of collectives: targets, exchanges, whole calls, simulation."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby

from benchmarks.collectives.measurement import Measurement, check_targets, compute_regrets
from benchmarks.collectives.simulation import ALPHA, BETA, CASE, METHODS, Point
from benchmarks.common.results import format_markdown, pivot_rows
from benchmarks.common.targets import format_targets

__all__ = ["HOSTS", "SHOWN", "format_page"]

SHOWN = (
    "native dense",
    "dense",
    "native allgather, pairs",
    "allgather, pairs",
    "allgather",
    "native CLT-k, raw",
    "CLT-k, raw",
    "CLT-k",
    "split-pairs",
    "split-bitmap",
    "split-dense",
)
PICTURE = "![time relative to the byte limit](collectives.png)\n"
RANKS_PICTURE = "![bytes and times over the number of ranks](collectives_ranks.png)\n"
EXCHANGES = """Median ms of the slowest rank, in parentheses the ratio to the byte limit: the bytes that a
rank must send, divided by the TCP goodput of one link in the same run. An exchange moves prepared bytes.
"native" is MPI's own: Allreduce; Allgatherv of raw pairs (uint32, float32); Bcast of raw indices and
Allreduce of values. `pairs` and `raw`: the same bytes with this library's algorithms; the others are
encodings. All ranks share one machine: on fast links they compete for its cores.

[measurements.csv](collectives/measurements.csv) also has 2 and 8 hosts, links of 10 Gbit/s, 0.1 %, and the
megabytes that the busiest rank sent, by the counters of the links.
"""
WHOLE_CALLS = """A whole call selects by top-k, encodes (`rice | raw`), communicates, decodes and sums.
*regret*: the time of `auto` relative to the best algorithm. All ranks compute on the cores of one machine.
"""
HOSTS, TOO_FAST, LEAST_DENSITY = 4, "10 Gbit", 0.01
"""Number of hosts whose tables the page shows; links and densities that it leaves to the data file."""
SIMULATED = f"""Mean bytes that a rank sends, for {CASE.name}, counted by `collectives.simulate`, and the time
at {ALPHA * 1e6:g} µs per message and {8e-9 / BETA:g} Gbit/s, without computation. The picture also shows 2, 4
and 8 hosts; 8 share one machine's cores and take several times as long.
"""


def format_page(measurements: Sequence[Measurement], points: Sequence[Point], skipped: Sequence[str]) -> str:
    """Format the result page as Markdown.

    Args:
        measurements: between hosts.
        points: of the simulation.
        skipped: measurements that were skipped, with the reasons.
    """
    parts = []
    if measurements:
        ratios, case_name = compute_ratios(measurements)
        parts += [format_answer(ratios, case_name), PICTURE]
        parts += ["## Targets\n", format_targets(check_targets(measurements)), _format_regrets(measurements)]
    parts += [f"Skipped: {line}.\n" for line in skipped]
    if measurements:
        parts += ["## Exchanges\n", EXCHANGES]
        shown = [m for m in measurements if m.ranks == HOSTS and m.rate != TOO_FAST]
        shown = [m for m in shown if m.case.density >= LEAST_DENSITY]
        parts += _format_times([m for m in shown if m.kind == "exchange"])
        parts += ["## Whole calls\n", WHOLE_CALLS]
        parts += _format_times([m for m in shown if m.kind == "whole"])
    return "\n".join(
        [*parts, "## Scaling with the number of ranks\n", SIMULATED, RANKS_PICTURE, _format_points(points)]
    )


def compute_ratios(measurements: Sequence[Measurement]) -> tuple[dict[str, float], str]:
    """Return the ratio of each method at 1 Gbit/s on 4 ranks, for the case with the most bytes of CLT-k."""
    chosen = [m for m in measurements if m.kind == "exchange" and m.ranks == 4 and m.rate == "1 Gbit"]
    most = max((m for m in chosen if m.name == "CLT-k"), key=lambda m: m.nbytes, default=None)
    if most is None:
        return {}, "not measured"
    found = {m.name: m.ratio for m in chosen if m.key == most.key and m.nbytes}
    return {name: found[name] for name in SHOWN if name in found}, most.case_name


def format_answer(ratios: Mapping[str, float], case_name: str) -> str:
    """Answer the benchmark's question; nothing without ratios to the byte limit."""
    native = [ratio for name, ratio in ratios.items() if name.startswith("native")]
    ours = [ratio for name, ratio in ratios.items() if not name.startswith("native")]
    if not native or not ours:
        return ""
    return (
        f"In the largest case, {case_name}, this library's exchanges take {min(ours):.2f} to {max(ours):.2f} "
        f"times the byte limit of the link. MPI's own take {min(native):.2f} to {max(native):.2f} times "
        f"theirs.\n"
    )


def _format_regrets(measurements: Sequence[Measurement]) -> str:
    regrets = [regret for _, regret in compute_regrets(measurements)]
    if not regrets:
        return ""
    missed = sum(regret > 1.02 for regret in regrets)
    median = statistics.median(regrets)
    return f"Regret over {len(regrets)} workloads: median {median:.3f}; above 1.02 in {missed}.\n"


def _format_times(measurements: Sequence[Measurement]) -> list[str]:
    parts = []
    regrets = {m.key: regret for m, regret in compute_regrets(measurements)}
    for group in _group_by(measurements, lambda m: (m.mpi, m.rate, m.ranks)):
        first = group[0]
        goodput = statistics.median(m.goodput for m in group) * 8e-6
        parts.append(f"### {first.mpi}, {first.rate}, n = {first.ranks}; goodput {goodput:.0f} Mbit/s\n")
        columns = list(dict.fromkeys(m.case for m in group))
        rows = pivot_rows(((m.name, m.case, _format_time(m)) for m in group), columns)
        if first.kind == "whole":
            cells = [("*regret*", m.case, f"{regrets[m.key]:.2f}") for m in group if m.key in regrets]
            rows += pivot_rows(cells, columns) or [["*regret*", *("" for _ in columns)]]
        parts.append(format_markdown(["ms", *(case.name for case in columns)], rows))
    return parts


def _group_by(
    measurements: Sequence[Measurement], key: Callable[[Measurement], object]
) -> list[list[Measurement]]:
    """Group measurements by a key, in the order of their first members."""
    order = {value: i for i, value in enumerate(dict.fromkeys(map(key, measurements)))}
    ordered = sorted(measurements, key=lambda m: order[key(m)])
    return [list(group) for _, group in groupby(ordered, key=key)]


def _format_time(m: Measurement) -> str:
    milliseconds = m.seconds * 1e3
    text = f"{milliseconds:.0f}" if milliseconds >= 100 else f"{milliseconds:.3g}"
    if m.nbytes:
        return f"{text} ({m.ratio:.2f})"
    return f"{text}, {m.note}" if m.note else text


def _format_points(points: Sequence[Point]) -> str:
    by_key = {(p.method, p.ranks): p for p in points}
    ranks = sorted({p.ranks for p in points})
    rows = [[f"{m}, bytes", *(f"{by_key[m, n].nbytes:,.0f}" for n in ranks)] for m in METHODS]
    rows += [[f"{m}, ms", *(f"{by_key[m, n].seconds * 1e3:.2f}" for n in ranks)] for m in METHODS]
    return format_markdown(["ranks", *map(str, ranks)], rows)
