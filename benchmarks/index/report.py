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

CAPTION = """Sizes are in bits per index. The number in parentheses is the ratio to the entropy bound of that
kind of support. Speeds are relative to `np.copyto` of the same uint32 indices in the same run, encode /
decode: 0.20 means that the copy takes a fifth of the time. All coders, peers included, decode to uint32
indices. Above 2^24 elements every coder works on chunks of 2^24. For few indices the speed is dominated by
the cost of a call. Third-party software is in italics. "unsupported" means that a codec cannot encode the
support.
"""
KINDS = {
    "uniform": "Every support is equally probable; the bound is log2 C(d, r) / r.",
    "rows": "Rows of 64 of an embedding, the first more probable; the bound assumes equal probabilities.",
    "runs": "Runs of 8 on average from a Markov chain; the bound is for a known number of runs.",
    "layered": "The largest of Laplace values in 160 layers of log-uniform sizes and log-normal scales; "
    "the bound is for known layers and a known number of indices in each.",
}
PICTURE = "![bits above the bound over decoding speed](index.png)\n"
DATA = """The tables show the largest size of each kind of support. [measurements.csv](index/measurements.csv)
has all of them.
"""
DENSITY = 0.01
"""Density of the answer's supports."""
GRADIENT = "A real gradient; the bound is log2 C(d, r) / r. Codecs that use structure can be below it."


def format_page(measurements: Sequence[Measurement], rest: Rest, *, every: bool = False) -> str:
    """Format the result page as Markdown.

    Args:
        measurements: in the order of their cases and coders.
        rest: results and sections of the other measurements.
        every: whether to show the tables of all supports instead of a selection.
    """
    targets = [*check_targets(measurements), *rest.results]
    parts = [_format_answer(measurements), PICTURE, "## Targets\n", format_targets(targets)]
    parts += ["## How to read the tables\n", CAPTION, "" if every else DATA]
    if rest.missing:
        parts.append(f"Skipped because the package is not installed: {', '.join(rest.missing)}.\n")
    for group in dict.fromkeys(m.group for m in measurements):
        found = [m for m in measurements if m.group == group]
        parts += _format_group(group, found if every else _select(found))
    return "\n".join(part for part in [*parts, *rest.sections] if part)


def _select(measurements: Sequence[Measurement]) -> list[Measurement]:
    """Select the largest size of each density."""
    largest = max(m.d for m in measurements)
    return [m for m in measurements if m.d == largest]


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


def _format_group(group: str, measurements: Sequence[Measurement]) -> list[str]:
    bounds = {m.column: m.bound for m in measurements}
    copies = {
        column: statistics.median(m.copy_rate for m in measurements if m.column == column)
        for column in bounds
    }
    bound_row = ["bound", *(_format_bits(bound) for bound in bounds.values())]
    copy_row = ["copy, GB/s", *(f"{rate:.1f}" for rate in copies.values())]
    parts = [
        f"## {group}\n",
        KINDS.get(group, GRADIENT) + "\n",
        _format_table("bits per index", measurements, _format_size, bound_row),
        _format_table(
            "encode / decode, one thread", measurements, lambda m: _format_speeds(m.speeds), copy_row
        ),
    ]
    two = [m for m in measurements if m.two_threads is not None]
    if two:
        title = "encode / decode, two threads"
        parts.append(_format_table(title, two, lambda m: _format_speeds(m.two_threads or m.speeds)))
    return parts


def _format_table(
    title: str,
    measurements: Sequence[Measurement],
    cell: Callable[[Measurement], str],
    first_row: Sequence[str] = (),
) -> str:
    columns = list(dict.fromkeys(m.column for m in measurements))
    cells = ((f"*{m.coder}*" if m.peer else f"`{m.coder}`", m.column, cell(m)) for m in measurements)
    rows = pivot_rows(cells, columns, "unsupported")
    return format_markdown([title, *columns], [first_row, *rows] if first_row else rows)


def _format_bits(bits: float) -> str:
    return f"{bits:.3f}" if bits < 10 else f"{bits:.1f}" if bits < 100 else f"{bits:.0f}"


def _format_size(m: Measurement) -> str:
    ratio = f"{m.ratio:.3f}" if m.ratio < 10 else f"{m.ratio:.0f}"
    text = f"{_format_bits(m.bits)} ({ratio})"
    if m.exact:
        return text
    return f"{text}, decodes {m.decoded:.2f} r" if m.recall == 1 else f"{text}, recall {100 * m.recall:.2f} %"


def _format_speeds(speeds: tuple[float, float]) -> str:
    return " / ".join(f"{s:.2f}" if s >= 0.1 else f"{s:.3f}" if s >= 0.001 else "<.001" for s in speeds)
