"""Tables of figures: the targets, then sizes, errors and times, one group of vectors after the other."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence

from benchmarks.common.targets import Verdict, summary
from benchmarks.common.timing import markdown
from benchmarks.value.cases import CLOCK
from benchmarks.value.measurement import SEEDS, Figure
from benchmarks.value.rate_distortion import Curve

__all__ = ["document"]

CAPTION = f"""Sizes are bits a value, with everything that a reader needs beside the number of values
(parameters, scales, maps of sorted values), and, in parentheses, their ratio to the rate-distortion bound
at the error that was met. "Error" is ‖decoded - v‖ / ‖v‖; "worst" the largest single error, and "bias" the
mean of sign(v)·(decoded - v), both relative to the root mean square of v: a bias above 0 says that
magnitudes grow. Of codecs that draw at random, marked ~, the bias is a mean over {SEEDS} seeds, or over the
many chunks of one. Times are the least of many calls, as multiples of `np.copyto` of the same float32 values
in the same run, encode / decode, on one thread: 2.0 means twice the time of the copy; beneath, in nanoseconds
a value. Decoding ends in float32 values in their order, for others as well, in memory that is new, for which
the system takes its time where it is much: a copy into such memory stands above. `raw` copies nothing: it
shows what a call costs.
What is not of this library stands in italics, tuned to the error that stands with its name; "refused"
stands where a codec cannot carry a vector. All values are in the order of their indices.
"""
BOUND = """The bound is that of Shannon's rate-distortion theory for independent values, mean squared error
and a known law, computed by the algorithm of Blahut and Arimoto, with a bit for the sign. For the three
laws the density is exact; of a gradient it is that of the sample's quantiles, about √r of them, so a codec
that follows a gradient's layers may pass it. Above an error of 30 %, where a sign is not worth a bit, none
is given.
"""
KINDS = {
    "laplace": "The largest of a Laplace vector.",
    "student": "The largest of a vector of Student's t with four degrees of freedom.",
    "pareto": "The largest of a vector whose magnitudes are generalised Pareto of shape 1/3.",
    CLOCK: "All of a Laplace vector, in a cache and beyond all caches: the targets of times are held against "
    "them. Codecs of more than 10 ns a value, and what is not of this library, are measured on the smaller.",
}
GRADIENT = "The largest of a real gradient."
SHOWN = (0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 0.001)
"""Errors of which the bound is printed."""


def document(
    verdicts: Sequence[Verdict],
    figures: Sequence[Figure],
    curves: dict[tuple[str, str], Curve],
    missing: Sequence[str],
    notes: Sequence[str] = (),
) -> str:
    """All of it in Markdown.

    Args:
        verdicts: on the targets.
        figures: in the order of their cases and coders.
        curves: the bound of each (group, column).
        missing: packages of peers that are not installed.
        notes: sections between the targets and the tables.
    """
    parts = ["## Targets\n", summary(verdicts), *notes, "## How to read the tables\n", CAPTION]
    if missing:
        parts.append(f"Left out, because the package is not installed: {', '.join(missing)}.\n")
    parts += ["## The bound\n", BOUND, _bounds(curves)]
    for group in _unique(f.case.group for f in figures):
        parts += _section(group, [f for f in figures if f.case.group == group])
    return "\n".join(part for part in parts if part)


def _bounds(curves: dict[tuple[str, str], Curve]) -> str:
    rows = [[", ".join(place), *(f"{curve.at(e):.2f}" for e in SHOWN)] for place, curve in curves.items()]
    return markdown(["bits a value at an error of", *(f"{100 * e:g} %" for e in SHOWN)], rows)


def _section(group: str, figures: Sequence[Figure]) -> list[str]:
    columns = _unique(f.case.column for f in figures)
    counts = {f.case.column: f.r for f in figures}
    heads = [f"{column}: {counts[column]:,}" if group != CLOCK else column for column in columns]
    parts = [f"## {group}\n", KINDS.get(group, GRADIENT) + "\n"]

    def table(title: str, cell: Callable[[Figure], str], first: Sequence[Sequence[str]] = ()) -> str:
        return markdown([title, *heads], [*first, *_rows(figures, columns, cell)])

    parts.append(table("bits a value", lambda f: f"{_bits(f.bits)}{_ratio(f.ratio)}"))
    parts.append(
        table("error / worst / bias, %", lambda f: " / ".join(map(_percent, (f.error, f.worst, f.bias))))
    )
    here = {c: [f for f in figures if f.case.column == c] for c in columns}
    copies = {c: statistics.median(f.copied for f in some) for c, some in here.items()}
    fresh = {c: statistics.median(f.fresh / f.copied for f in some) for c, some in here.items()}
    parts.append(
        table(
            "encode / decode, copies",
            lambda f: " / ".join(map(_time, f.times)),
            [
                ["copy, ns a value", *(f"{copies[column]:.3f}" for column in columns)],
                ["copy into fresh memory", *(f"{fresh[column]:.2f}" for column in columns)],
            ],
        )
    )
    parts.append(table("encode / decode, ns a value", lambda f: f"{_time(f.encode)} / {_time(f.decode)}"))
    return parts


def _rows(
    figures: Sequence[Figure], columns: Sequence[str], cell: Callable[[Figure], str]
) -> list[list[str]]:
    rows: dict[str, dict[str, str]] = {}
    draws = {f.coder for f in figures if f.draws}
    for f in figures:
        name = (f"*{f.coder}*" if f.peer else f"`{f.coder}`") + (" ~" if f.coder in draws else "")
        rows.setdefault(name, {})[f.case.column] = cell(f)
    without = "not measured" if figures[0].case.group == CLOCK else "refused"
    return [[name, *(cells.get(column, without) for column in columns)] for name, cells in rows.items()]


def _unique(words: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(words))


def _bits(bits: float) -> str:
    return f"{bits:.2f}" if bits < 100 else f"{bits:.0f}"


def _ratio(ratio: float) -> str:
    return "" if math.isnan(ratio) else f" ({ratio:.3f})"


def _percent(share: float) -> str:
    return f"{100 * share:.3g}" if share else "0"


def _time(time: float) -> str:
    return f"{time:.0f}" if time >= 100 else f"{time:.3g}" if time >= 0.01 else "<.01"
