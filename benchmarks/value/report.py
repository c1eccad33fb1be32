"""Result page of value codecs: targets, then sizes, errors and times by group of vectors."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence

from benchmarks.common.results import format_markdown, pivot_rows
from benchmarks.common.targets import TargetResult, format_targets
from benchmarks.value.cases import CLOCK
from benchmarks.value.measurement import SEEDS, Measurement
from benchmarks.value.rate_distortion import Curve

__all__ = ["format_page"]

CAPTION = f"""Sizes are in bits per value. They include everything that a receiver needs except the number of
values: parameters, scales, maps of sorted values. The number in parentheses is the ratio to the
rate-distortion bound at the actual error.

"Error" is ‖decoded - v‖ / ‖v‖, "max" is the largest single error, and "bias" is the mean of
sign(v)·(decoded - v). The last two are relative to the root mean square of v. A positive bias means that
magnitudes grow. For random codecs, marked ~, the bias is the mean over {SEEDS} seeds, or over the chunks of
one seed if there are several.

Times are minima over many calls on one thread, encode / decode. They are multiples of `np.copyto` of the same
float32 values in the same run: 2.0 means twice the time of the copy, whose nanoseconds per value are the
first row. All coders, peers included, decode to float32 values in their original order and in new memory. The
system needs time to provide such memory; the row "copy into new memory" shows it. `raw` copies nothing, so
its time is the cost of a call.

Third-party software is in italics, tuned to the error in its name. "unsupported" means that a codec cannot
encode the vector. All values are in the order of their indices.
"""
BOUND = """The bound is Shannon's rate-distortion bound for independent values of a known distribution at a
mean squared error. It is computed by the algorithm of Blahut and Arimoto, plus one bit for the sign. The
density is exact for the three distributions. For a gradient it is estimated from about √r quantiles of the
sample, so that a codec that follows the gradient's layers can be below the bound. There is no bound above an
error of 30 %, because there a sign is worth less than one bit.
"""
KINDS = {
    "laplace": "The largest values of a Laplace vector.",
    "student": "The largest values of a vector of Student's t with four degrees of freedom.",
    "pareto": "The largest values of a vector whose magnitudes are generalised Pareto of shape 1/3.",
    CLOCK: "All of a Laplace vector, in a cache and beyond all caches; the targets of times refer to these. "
    "Codecs above 10 ns per value, and third-party software, are measured on the smaller vector only.",
}
GRADIENT = "The largest values of a real gradient."
SHOWN_ERRORS = (0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 0.001)
"""Errors in the table of bounds."""


def format_page(
    results: Sequence[TargetResult],
    measurements: Sequence[Measurement],
    curves: dict[tuple[str, str], Curve],
    missing: Sequence[str],
    notes: Sequence[str] = (),
) -> str:
    """Format the result page as Markdown.

    Args:
        results: of the targets.
        measurements: in the order of their cases and coders.
        curves: the bound of each (group, column).
        missing: packages of peers that are not installed.
        notes: sections between the targets and the tables.
    """
    parts = ["## Targets\n", format_targets(results), *notes, "## How to read the tables\n", CAPTION]
    if missing:
        parts.append(f"Skipped because the package is not installed: {', '.join(missing)}.\n")
    parts += ["## Rate-distortion bound\n", BOUND, _format_bounds(curves)]
    for group in dict.fromkeys(m.case.group for m in measurements):
        parts += _format_group(group, [m for m in measurements if m.case.group == group])
    return "\n".join(part for part in parts if part)


def _format_bounds(curves: dict[tuple[str, str], Curve]) -> str:
    rows = [
        [", ".join(key), *(f"{curve.at(error):.2f}" for error in SHOWN_ERRORS)]
        for key, curve in curves.items()
    ]
    return format_markdown(["bits per value at an error of", *(f"{100 * e:g} %" for e in SHOWN_ERRORS)], rows)


def _format_group(group: str, measurements: Sequence[Measurement]) -> list[str]:
    counts = {m.case.column: m.r for m in measurements}
    headings = [f"{column}: {r:,}" if group != CLOCK else column for column, r in counts.items()]
    by_column = {column: [m for m in measurements if m.case.column == column] for column in counts}
    copies = [statistics.median(m.copy_ns for m in found) for found in by_column.values()]
    fresh = [statistics.median(m.fresh_copy_ns / m.copy_ns for m in found) for found in by_column.values()]

    def format_table(
        title: str, cell: Callable[[Measurement], str], first_rows: Sequence[Sequence[str]] = ()
    ) -> str:
        return format_markdown([title, *headings], [*first_rows, *_format_rows(measurements, counts, cell)])

    return [
        f"## {group}\n",
        KINDS.get(group, GRADIENT) + "\n",
        format_table("bits per value", lambda m: f"{_format_bits(m.bits)}{_format_ratio(m.ratio)}"),
        format_table(
            "error / max / bias, %",
            lambda m: " / ".join(map(_format_percent, (m.error, m.max_error, m.bias))),
        ),
        format_table(
            "encode / decode, copies",
            lambda m: " / ".join(map(_format_time, m.times)),
            [
                ["copy, ns per value", *(f"{time:.3f}" for time in copies)],
                ["copy into new memory", *(f"{time:.2f}" for time in fresh)],
            ],
        ),
    ]


def _format_rows(
    measurements: Sequence[Measurement], columns: dict[str, int], cell: Callable[[Measurement], str]
) -> list[list[str]]:
    random = {m.coder for m in measurements if m.random}
    cells = (
        (
            (f"*{m.coder}*" if m.peer else f"`{m.coder}`") + (" ~" if m.coder in random else ""),
            m.case.column,
            cell(m),
        )
        for m in measurements
    )
    missing = "not measured" if measurements[0].case.group == CLOCK else "unsupported"
    return pivot_rows(cells, list(columns), missing)


def _format_bits(bits: float) -> str:
    return f"{bits:.2f}" if bits < 100 else f"{bits:.0f}"


def _format_ratio(ratio: float) -> str:
    return "" if math.isnan(ratio) else f" ({ratio:.3f})"


def _format_percent(fraction: float) -> str:
    return f"{100 * fraction:.3g}" if fraction else "0"


def _format_time(time: float) -> str:
    return f"{time:.0f}" if time >= 100 else f"{time:.3g}" if time >= 0.01 else "<.01"
