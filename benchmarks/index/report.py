"""Result page of index codecs: targets, then sizes and speeds by group of supports."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from benchmarks.common.results import format_markdown, pivot_rows
from benchmarks.common.targets import TargetResult, format_targets
from benchmarks.index.measurement import Measurement

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
GRADIENT = "A real gradient; the bound is log2 C(d, r) / r. Codecs that use structure can be below it."


def format_page(
    results: Sequence[TargetResult],
    measurements: Sequence[Measurement],
    missing: Sequence[str],
    notes: str = "",
) -> str:
    """Format the result page as Markdown.

    Args:
        results: of the targets.
        measurements: in the order of their cases and coders.
        missing: packages of peers that are not installed.
        notes: sections between the targets and the tables.
    """
    parts = ["## Targets\n", format_targets(results), notes, "## How to read the tables\n", CAPTION]
    if missing:
        parts.append(f"Skipped because the package is not installed: {', '.join(missing)}.\n")
    for group in dict.fromkeys(m.case.group for m in measurements):
        parts += _format_group(group, [m for m in measurements if m.case.group == group])
    return "\n".join(part for part in parts if part)


def _format_group(group: str, measurements: Sequence[Measurement]) -> list[str]:
    bounds = {m.case.column: m.bound for m in measurements}
    copies = {
        column: statistics.median(m.copy_rate for m in measurements if m.case.column == column)
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
    columns = list(dict.fromkeys(m.case.column for m in measurements))
    cells = ((f"*{m.coder}*" if m.peer else f"`{m.coder}`", m.case.column, cell(m)) for m in measurements)
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
