"""Tables of figures: the targets at the top, then sizes and speeds, one group of supports after the other."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence

from benchmarks.common.targets import Verdict, summary
from benchmarks.common.timing import markdown
from benchmarks.index.measurement import Figure

__all__ = ["document"]

CAPTION = """Sizes are bits an index and, in parentheses, their ratio to the bound of that kind of support.
Speeds are relative to `np.copyto` of the same u32 indices in the same run, encode / decode: 0.20 means that
the copy takes a fifth of the time. Decoding ends in u32 indices, for others as well. Above 2^24 elements
everybody codes chunks of 2^24. With few indices a speed says what a call costs, not what a codec does. What
is not of this library stands in italics; "refused" stands where a codec cannot carry a support.
"""
KINDS = {
    "uniform": "Every support equally likely; the bound is log2 C(d, r) / r.",
    "rows": "Rows of 64 of an embedding, the first ones likelier; the bound is that of rows drawn alike.",
    "runs": "Runs of 8 on average, as a Markov chain makes them; the bound knows the number of runs.",
    "layered": "The largest of Laplace values in 160 layers of log-uniform sizes and log-normal scales; "
    "the bound knows the layers and how many indices each has.",
}
GRADIENT = "A real gradient; the bound is log2 C(d, r) / r, below which structure can go."


def document(
    verdicts: Sequence[Verdict], figures: Sequence[Figure], missing: Sequence[str], notes: str = ""
) -> str:
    """All of it in Markdown.

    Args:
        verdicts: on the targets.
        figures: in the order of their cases and coders.
        missing: packages of peers that are not installed.
        notes: sections between the targets and the tables.
    """
    parts = ["## Targets\n", summary(verdicts), notes, "## How to read the tables\n", CAPTION]
    if missing:
        parts.append(f"Left out, because the package is not installed: {', '.join(missing)}.\n")
    for group in _unique(f.case.group for f in figures):
        parts += _section(group, [f for f in figures if f.case.group == group])
    return "\n".join(part for part in parts if part)


def _section(group: str, figures: Sequence[Figure]) -> list[str]:
    columns = _unique(f.case.column for f in figures)
    bounds = {f.case.column: f.bound for f in figures}
    bound = ["bound", *(_bits(bounds[column]) for column in columns)]
    parts = [f"## {group}\n", KINDS.get(group, GRADIENT) + "\n"]
    sizes = _rows(figures, columns, lambda f: f"{_bits(f.bits)} ({_ratio(f.ratio)}){_kept(f)}")
    parts.append(markdown(["bits an index", *columns], [bound, *sizes]))
    copies = {c: statistics.median(f.copied for f in figures if f.case.column == c) for c in columns}
    copy = ["copy, GB/s", *(f"{copies[column]:.1f}" for column in columns)]
    speeds = [copy, *_rows(figures, columns, lambda f: _pair(f.speeds))]
    parts.append(markdown(["encode / decode, one thread", *columns], speeds))
    two = [f for f in figures if f.two_threads is not None]
    if two:
        columns = _unique(f.case.column for f in two)
        speeds = _rows(two, columns, lambda f: _pair(f.two_threads or f.speeds))
        parts.append(markdown(["encode / decode, two threads", *columns], speeds))
    return parts


def _rows(
    figures: Sequence[Figure], columns: Sequence[str], cell: Callable[[Figure], str]
) -> list[list[str]]:
    rows: dict[str, dict[str, str]] = {}
    for f in figures:
        name = f"*{f.coder}*" if f.peer else f"`{f.coder}`"
        rows.setdefault(name, {})[f.case.column] = cell(f)
    return [[name, *(cells.get(column, "refused") for column in columns)] for name, cells in rows.items()]


def _unique(words: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(words))


def _bits(bits: float) -> str:
    return f"{bits:.3f}" if bits < 10 else f"{bits:.1f}" if bits < 100 else f"{bits:.0f}"


def _ratio(ratio: float) -> str:
    return f"{ratio:.3f}" if ratio < 10 else f"{ratio:.0f}"


def _kept(f: Figure) -> str:
    if f.exact:
        return ""
    return f", finds {f.found:.2f} r" if f.kept == 1 else f", keeps {100 * f.kept:.2f} %"


def _pair(speeds: tuple[float, float]) -> str:
    return " / ".join(f"{s:.2f}" if s >= 0.1 else f"{s:.3f}" if s >= 0.001 else "<.001" for s in speeds)
