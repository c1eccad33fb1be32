"""Result page of index codecs: the answer, targets, and tables of sizes and speeds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence

from benchmarks.common.rest import Rest
from benchmarks.common.results import format_markdown, pivot_rows
from benchmarks.common.targets import format_targets
from benchmarks.index.measurement import Measurement
from benchmarks.index.targets import check_targets

__all__ = ["format_page"]

CAPTION = """Sizes are in bits per index. Speeds are encode / decode relative to `np.copyto` of the same
uint32 indices in the same run: 0.20 means that the copy takes a fifth of the time. Third-party software is in
italics. "unsupported": the codec cannot encode the support.

The bound is the entropy:

- `uniform`: all supports are equally probable, log2 C(d, r) / r.
- `rows`: rows of 64 of an embedding, the first more probable; the bound assumes equal probabilities.
- `runs`: runs of 8 on average from a Markov chain; the number of runs is known.
- `layered`: the largest of Laplace values in 160 layers of log-uniform sizes and log-normal scales; layers
  and their numbers of indices are known.
- others: real gradients, with the bound of `uniform`. Codecs that use structure can be below it.
"""
KINDS = ("uniform", "rows", "runs", "layered")
TIMED, UNSHOWN = ("uniform",), ("lstm_raw_slice", "resnet20_raw")
"""Kinds of the table of speeds, and gradients that only the data file has."""
PICTURE = "![bits above the bound over decoding speed](index.png)\n"
DATA = """The tables show the largest size of each support, at 1 %. [measurements.csv](index/measurements.csv)
also has 10 %, 0.1 % and all nonzero elements of a gradient, further gradients, smaller sizes, two threads,
and the other speeds.
"""
DENSITY = 0.01
"""Density of the supports that the answer and the tables have."""


def format_page(measurements: Sequence[Measurement], rest: Rest, *, every: bool = False) -> str:
    """Format the result page as Markdown.

    Args:
        measurements: in the order of their cases and coders.
        rest: packages that were missing.
        every: whether to show the tables of all supports instead of a selection.
    """
    targets = format_targets(check_targets(measurements))
    parts = [_format_answer(measurements), PICTURE, "## Targets\n", targets]
    parts += ["## How to read the tables\n", CAPTION, "" if every else DATA]
    if rest.missing:
        parts.append(f"Skipped because the package is not installed: {', '.join(rest.missing)}.\n")
    found = measurements if every else _select(measurements)
    parts += _format_sizes(found, every)
    parts += _format_times(found, every)
    return "\n".join(part for part in parts if part)


def _select(measurements: Sequence[Measurement]) -> list[Measurement]:
    """Select the largest size of each group, at the density of the answer."""
    largest: dict[str, int] = {}
    for m in measurements:
        largest[m.group] = max(m.d, largest.get(m.group, 0))
    shown = [m for m in measurements if m.group not in UNSHOWN]
    return [m for m in shown if m.d == largest[m.group] and m.density == DENSITY]


def _format_answer(measurements: Sequence[Measurement]) -> str:
    """Answer the benchmark's question with the largest uniform support; nothing without it."""
    largest = max((m.d for m in measurements if m.kind == "uniform"), default=0)
    found = {m.coder: m for m in measurements if (m.kind, m.d, m.density) == ("uniform", largest, DENSITY)}
    peers = [m for m in found.values() if m.peer and m.exact]
    rice = found.get("rice")
    if rice is None or not peers:
        return ""
    smallest = min(peers, key=lambda m: m.bits)
    auto = [m for m in measurements if m.coder == "auto-index" and m.kind in KINDS and m.density is not None]
    ratios = [m.ratio for m in auto if m.d == largest and m.density == DENSITY]
    return (
        f"For {100 * DENSITY:g} % of {largest:,} random elements, `rice` takes {rice.bits:.2f} bits per "
        f"index, {rice.ratio:.3f} times the entropy bound, and decodes at {rice.decode:.2f} times the speed "
        f"of a copy. The smallest third-party code, {smallest.coder}, takes {smallest.bits:.2f} bits and "
        f"decodes at {smallest.decode:.3f} times that speed. `auto-index` takes "
        f"{min(ratios, default=math.nan):.2f} to {max(ratios, default=math.nan):.2f} times the bounds of the "
        f"four kinds of supports.\n"
    )


def _format_sizes(measurements: Sequence[Measurement], every: bool) -> list[str]:
    """Format a table of sizes for each density, with a column per support."""
    parts = ["## Sizes\n"]
    for density in dict.fromkeys(m.density for m in measurements):
        found = [m for m in measurements if m.density == density]
        bounds = {m.case_name: _format_bits(m.bound) for m in found}
        share = "all nonzero elements" if density is None else f"{100 * density:g} %"
        title = f"bits per index, {share}"
        parts.append(_format_table(title, found, every, _format_size, ["bound", *bounds.values()]))
    return parts


def _format_times(measurements: Sequence[Measurement], every: bool) -> list[str]:
    """Format the speeds; with ``every``, also those of uniform supports on two threads."""
    chosen = [m for m in measurements if every or m.kind in TIMED]
    copies = {
        case: f"{statistics.median(m.copy_rate for m in chosen if m.case_name == case):.1f}"
        for case in dict.fromkeys(m.case_name for m in chosen)
    }
    title = "encode / decode, one thread" + ("" if every else f", {100 * DENSITY:g} %")
    first_row = ["copy, GB/s", *copies.values()]
    parts = ["## Speeds\n"]
    if chosen:
        parts.append(_format_table(title, chosen, every, lambda m: _format_speeds(m.speeds), first_row))
    cells = [
        (_name(m), f"{m.column}, two threads", _format_speeds(m.two_threads))
        for m in measurements
        if m.group == "uniform" and m.two_threads is not None
    ]
    if every and cells:
        columns = list(dict.fromkeys(column for _, column, _ in cells))
        parts.append(format_markdown(["encode / decode, uniform", *columns], pivot_rows(cells, columns, "–")))
    return parts


def _format_table(
    title: str,
    measurements: Sequence[Measurement],
    every: bool,
    cell: Callable[[Measurement], str],
    first_row: Sequence[str],
) -> str:
    columns = {m.case_name: m.case_name if every else m.group for m in measurements}
    cells = ((_name(m), m.case_name, cell(m)) for m in measurements)
    rows = pivot_rows(cells, list(columns), "unsupported")
    return format_markdown([title, *columns.values()], [first_row, *rows])


def _name(m: Measurement) -> str:
    return f"*{m.coder}*" if m.peer else f"`{m.coder}`"


def _format_bits(bits: float) -> str:
    return f"{bits:.3f}" if bits < 10 else f"{bits:.1f}" if bits < 100 else f"{bits:.0f}"


def _format_size(m: Measurement) -> str:
    text = _format_bits(m.bits)
    if m.exact:
        return text
    return f"{text}, decodes {m.decoded:.2f} r" if m.recall == 1 else f"{text}, recall {100 * m.recall:.2f} %"


def _format_speeds(speeds: tuple[float, float]) -> str:
    return " / ".join(f"{s:.2f}" if s >= 0.1 else f"{s:.3f}" if s >= 0.001 else "<.001" for s in speeds)
