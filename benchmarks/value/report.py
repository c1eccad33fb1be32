"""Result page of value codecs: the answer, targets, and tables of sizes, errors and times."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence

from benchmarks.common.rest import Rest
from benchmarks.common.results import format_markdown, pivot_rows
from benchmarks.common.targets import format_targets
from benchmarks.value.cases import CACHE, CLOCK
from benchmarks.value.kept import Curves
from benchmarks.value.measurement import SEEDS, Measurement
from benchmarks.value.targets import check_targets, compare_with_peers

__all__ = ["format_page"]

PICTURE = "![bits per value above the bound](value.png)\n"
CAPTION = """Sizes are in bits per value, with all that a receiver needs except the number of values:
parameters, scales, maps of sorted values. In parentheses: the ratio to the rate-distortion bound at the
actual error. An error is ‖decoded - v‖ / ‖v‖. All values are in the order of their indices.

Times are minima over many calls on one thread, encode / decode, in multiples of `np.copyto` of the same
float32 values in the same run. All coders decode into new memory. `raw` copies nothing. Third-party software
is in italics, tuned to the error in its name. ~: random codec.
"""
DATA = f"""[measurements.csv](value/measurements.csv) has all settings on all vectors, also their largest 10 %
and 0.1 %, with sizes, errors and times. It has the largest single error (max_error) and the mean of
sign(v)·(decoded - v) (bias, positive if magnitudes grow), both relative to the root mean square of v. Figures
of random codecs are means over {SEEDS} seeds, or over the chunks of one seed.
[bounds.csv](value/bounds.csv) has all bounds.
"""
BOUND = """Shannon's rate-distortion bound for independent values of a known distribution at a mean squared
error, by the algorithm of Blahut and Arimoto, plus one bit for the sign. For a gradient, the density is
estimated from about √r quantiles, so a codec that follows the gradient's layers can be below the bound.
"""
KINDS = {
    "laplace": "The largest values of a Laplace vector.",
    "student": "The largest values of a vector of Student's t with four degrees of freedom.",
    "pareto": "The largest values of a vector whose magnitudes are generalised Pareto of shape 1/3.",
    CLOCK: "All of a Laplace vector, in a cache and beyond all caches. Codecs above 10 ns per value, and "
    "third-party software, are measured on the smaller vector only.",
}
GRADIENT = "The largest values of a real gradient."
CODEC, TOP = "error-bounded(error=0.01)", "top 1 %"
"""Codec of the answer, and the vectors that the page shows."""
VECTORS = """The bits, their ratio to the bound, and the error. `laplace` is a distribution; the others are
gradients of [tests/data](../../tests/data/README.md).
"""
SHOWN = ("laplace", "lstm_raw_slice", "resnet20_residual")
"""Vectors that the page shows."""
LEFT_OUT = frozenset(
    {
        *(f"qsgd(bits={bits})" for bits in (3, 5, 6, 7)),
        *(f"offset-float(bits={bits})" for bits in (5, 7, 9, 10)),
        *("qsgd(bits=7, norm=l2)", "polyfit(degree=1)", "polyfit(degree=5, error=0.001)"),
        *("3lc(sparsity=1.75)", "sketchml(buckets=16)"),
        *(f"error-bounded(error={error})" for error in (0.2, 0.02)),
        *(f"auto-value(error={error})" for error in (0.1, 0.05, 0.001)),
        *("offset-float(bits=6)", "offset-float(bits=8, rounding=stochastic)"),
        *("mean", "qsgd(norm=l2)", "sketchml(buckets=256)", "terngrad(clip=2.5)", "deflate"),
        *("pcodec", "fp8 e5m2", "zstd-3", "error-bounded(error=0.05)", "auto-value(error=0.01)"),
        *(f"{name}, 5 %" for name in ("pcodec, integers", "SZ3", "zfp", "blosc2, rounded")),
    }
)
"""Settings whose figures only the data file has."""
SHOWN_ERRORS = (0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 0.001)
"""Errors in the table of bounds."""


def format_page(
    measurements: Sequence[Measurement], curves: Curves, rest: Rest, *, every: bool = False
) -> str:
    """Format the result page as Markdown.

    Args:
        measurements: in the order of their cases and coders.
        curves: the bound of each (group, column).
        rest: packages that were missing.
        every: whether to show the tables of all vectors instead of a selection.
    """
    parts = [
        _format_answer(measurements),
        PICTURE,
        "## Targets\n",
        format_targets(check_targets(measurements)),
        "## How to read the tables\n",
        CAPTION,
        DATA,
    ]
    if rest.missing:
        parts.append(f"Skipped because the package is not installed: {', '.join(rest.missing)}.\n")
    groups = dict.fromkeys(m.group for m in measurements)
    if every:
        for group in groups:
            parts += _format_group(group, [m for m in measurements if m.group == group])
    else:
        parts += _format_selection([m for m in measurements if m.coder not in LEFT_OUT])
    shown = (
        curves if every else {(group, TOP): curves[group, TOP] for group in SHOWN if (group, TOP) in curves}
    )
    parts += ["## Rate-distortion bound\n", BOUND, _format_bounds(shown)]
    return "\n".join(part for part in parts if part)


def _format_answer(measurements: Sequence[Measurement]) -> str:
    """Answer the benchmark's question in a few sentences; nothing without their measurements."""
    ours = [m for m in measurements if m.coder == CODEC]
    first = next((m for m in ours if (m.group, m.column) == ("laplace", TOP)), None)
    ratios = [ratio for _, ratio in compare_with_peers(measurements, CODEC)]
    clock = [m for m in measurements if (m.group, m.coder) == (CLOCK, CODEC) and m.r > CACHE]
    if first is None or not ratios or not clock:
        return ""
    large = clock[0]
    return (
        f"At an error of {100 * first.error:.1f} %, `{first.family}` takes {first.bits:.2f} bits per value "
        f"of the largest 1 % of Laplace values, {first.ratio:.2f} times the rate-distortion bound. On "
        f"gradients, it takes {min(ratios):.2f} to {max(ratios):.2f} times the bits of the best third-party "
        f"compressor at equal error. One thread encodes {large.r:,} values at {large.encode_ns:.1f} ns per "
        f"value, and decodes them at {large.decode_ns:.1f}.\n"
    )


def _format_selection(measurements: Sequence[Measurement]) -> list[str]:
    """Format sizes and errors of the largest 1 % of some vectors, and times of all values."""
    chosen = [m for m in measurements if m.column == TOP and m.group in SHOWN]
    groups = {m.group: m.r for m in chosen}
    headings = [f"{group}: {r:,}" for group, r in groups.items()]
    parts = []
    if chosen:
        rows = _format_rows(chosen, list(groups), _format_size, lambda m: m.group)
        parts = [
            f"## The largest 1 %\n\n{VECTORS}",
            format_markdown(["bits per value, error", *headings], rows),
        ]
    return [*parts, *_format_times([m for m in measurements if m.group == CLOCK])]


def _format_size(m: Measurement) -> str:
    return f"{_format_bits(m.bits)}{_format_ratio(m.ratio)}, {_format_percent(m.error)} %"


def _format_times(measurements: Sequence[Measurement]) -> list[str]:
    if not measurements:
        return []
    columns = list(dict.fromkeys(m.column for m in measurements))
    by_column = [[m for m in measurements if m.column == column] for column in columns]
    first = [
        [
            "copy, ns per value",
            *(f"{statistics.median(m.copy_ns for m in found):.3f}" for found in by_column),
        ],
        [
            "copy into new memory",
            *(f"{statistics.median(m.fresh_copy_ns / m.copy_ns for m in found):.2f}" for found in by_column),
        ],
    ]
    rows = _format_rows(measurements, columns, lambda m: " / ".join(map(_format_time, m.times)), _column)
    header = ["encode / decode, copies", *columns]
    return [f"## Times\n\n{KINDS[CLOCK]}\n", format_markdown(header, [*first, *rows])]


def _column(m: Measurement) -> str:
    return m.column


def _format_bounds(curves: Curves) -> str:
    rows = [
        [", ".join(key), *(f"{curve.at(error):.2f}" for error in SHOWN_ERRORS)]
        for key, curve in curves.items()
    ]
    return format_markdown(["bits per value at an error of", *(f"{100 * e:g} %" for e in SHOWN_ERRORS)], rows)


def _format_group(group: str, measurements: Sequence[Measurement]) -> list[str]:
    """Format all tables of a group of vectors."""
    counts = {m.column: m.r for m in measurements}
    headings = [f"{column}: {r:,}" if group != CLOCK else column for column, r in counts.items()]

    def table(title: str, cell: Callable[[Measurement], str]) -> str:
        return format_markdown([title, *headings], _format_rows(measurements, list(counts), cell, _column))

    return [
        f"## {group}\n",
        KINDS.get(group, GRADIENT) + "\n",
        table("bits per value", lambda m: f"{_format_bits(m.bits)}{_format_ratio(m.ratio)}"),
        table(
            "error / max / bias, %",
            lambda m: " / ".join(map(_format_percent, (m.error, m.max_error, m.bias))),
        ),
        table("encode / decode, copies", lambda m: " / ".join(map(_format_time, m.times))),
    ]


def _format_rows(
    measurements: Sequence[Measurement],
    columns: Sequence[str],
    cell: Callable[[Measurement], str],
    column_of: Callable[[Measurement], str],
) -> list[list[str]]:
    random = {m.coder for m in measurements if m.random}
    cells = (
        (
            (f"*{m.coder}*" if m.peer else f"`{m.coder}`") + (" ~" if m.coder in random else ""),
            column_of(m),
            cell(m),
        )
        for m in measurements
    )
    missing = "–" if measurements[0].group == CLOCK else "unsupported"
    return pivot_rows(cells, columns, missing)


def _format_bits(bits: float) -> str:
    return f"{bits:.2f}" if bits < 100 else f"{bits:.0f}"


def _format_ratio(ratio: float) -> str:
    return "" if math.isnan(ratio) else f" ({ratio:.3f})"


def _format_percent(fraction: float) -> str:
    return f"{100 * fraction:.3g}" if fraction else "0"


def _format_time(time: float) -> str:
    return f"{time:.0f}" if time >= 100 else f"{time:.3g}" if time >= 0.01 else "<.01"
