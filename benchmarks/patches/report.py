"""Result page of patches: targets, bits per changed element, ratios, speeds, sources."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from benchmarks.common.results import format_markdown
from benchmarks.common.targets import TargetResult, format_targets
from benchmarks.patches.measurement import Cell, Pair, TensorSize
from benchmarks.patches.peers import FORMATS
from benchmarks.patches.targets import READ, SMALLEST, UNREAD, is_steps

__all__ = ["format_page"]

PICTURE = "![bits per changed element](patches.png)\n"
DATA = """A byte transformer of {elements:,} weights is pretrained for 400 steps, then trained by GRPO with a
toy reward: float32 masters, AdamW, a cast to bfloat16 after each step. Steps are counted from step 30, when
the moments have settled. Learning rates are 1e-6 and 3e-6. The model is small and the training short; PULSE
(arXiv 2602.03839) reports about 1 % per step for models of up to 7 billion weights.

The fp8 codes are e4m3 of the same matrices in blocks of 128 × 128 with float32 scales. Norms, embeddings and
the head are left out. The fine-tune is on the same text with upper and lower case swapped. The table of
embeddings is simulated: its rows are drawn by Zipf's law, and their elements move by up to 1e-3. Every patch
was applied, and every bit of the result compared. All sizes and speeds are of one run.

The bound is the entropy of positions and differences, given the exponents of the old weights and the tensor,
with elements independent of each other. In the table of embeddings whole rows change, so a format may need
less.
"""
SPEEDS = """GB of the state's bytes per second. Each tensor is repeated, so that a state has at least 64 MB.
The formats take turns for five rounds, and the best of each counts. `apply` of this library includes all
checks: digests of the old and the new tensors. The other formats are applied
without any check. They are written in NumPy and Zstandard, so the projects themselves may be faster.
[cells.csv](patches/cells.csv) has the bytes and speeds of all formats in all cases.
"""
TENSOR = """Bits per changed element of one tensor, `{tensor}`, in one step at 1e-6. Third-party software is
in italics.
"""


def format_page(
    results: Sequence[TargetResult],
    pairs: Sequence[Pair],
    cells: Sequence[Cell],
    tensor: tuple[str, Sequence[TensorSize]],
    missing: Sequence[str],
    threads: int,
) -> str:
    """Format the result page as Markdown.

    Args:
        results: of the targets.
        pairs: properties of the cases.
        cells: all measurements.
        tensor: name of one tensor, and bits per changed element of it by format.
        missing: packages of peers that were not installed.
        threads: all that were used.
    """
    groups = [[p for p in pairs if is_steps(p.case)], [p for p in pairs if not is_steps(p.case)]]
    parts = [_format_answer(pairs, cells), PICTURE, "## Targets\n", format_targets(results)]
    parts += ["## Data\n", DATA.format(elements=pairs[0].elements), _format_pairs(pairs)]
    parts.append("## Bits per changed element\n")
    for group in filter(None, groups):
        bound = ["bound, given the exponent", *(_number(pair.bound) for pair in group)]
        rows = _pivot(group, cells, lambda pair, cell: _number(8 * cell.patch / pair.changed))
        parts.append(_table("", group, [*rows, bound]))
    parts += ["## Speed\n", SPEEDS.format(threads=threads)]
    timed = [cell for cell in cells if not math.isnan(cell.encode)]
    header = ["GB/s", "diff", "apply", f"diff, {threads} threads", f"apply, {threads} threads"]
    if timed:
        first = [cell for cell in timed if cell.case == pairs[0].case]
        parts += [f"{pairs[0].case}:\n", format_markdown(header, [_speeds(c.format, c) for c in first])]
    name, sizes = tensor
    if sizes:
        rows = [[s.format if "wirecodec" in s.format else f"*{s.format}*", _number(s.bits)] for s in sizes]
        parts += ["## One tensor\n", TENSOR.format(tensor=name), format_markdown(["format", "bits"], rows)]
    if missing:
        parts.append(f"Not installed, so left out: {', '.join(missing)}.\n")
    parts += ["## Sources\n", "Each format was rewritten after these sources.\n"]
    parts.append(format_markdown(["format", "written after"], [[f.name, f.source] for f in FORMATS]))
    return "\n".join(parts)


def _format_answer(pairs: Sequence[Pair], cells: Sequence[Cell]) -> str:
    """Answer the benchmark's question by the first case."""
    pair = pairs[0]
    found = {cell.format: cell for cell in cells if cell.case == pair.case}
    ours, other = found[READ], found[SMALLEST]
    bits = 8 * ours.patch / pair.changed
    text = (
        f"After {pair.case}, {100 * pair.changed / pair.elements:.1f} % of the elements differ. "
        f"`wc.diff` takes {bits:.1f} bits for each of them, {bits / pair.bound:.2f} of the bound given the "
        f"old exponents. This is {pair.bytes / ours.patch:.0f} times less than the whole model, and "
        f"{ours.patch / other.patch:.2f} of the smallest other format, {SMALLEST}. "
    )
    if not math.isnan(ours.encode):
        unread = found[UNREAD]
        text += (
            f"On one thread, `diff` runs at {ours.encode:.1f} GB/s of weights, `apply` with all checks at "
            f"{ours.apply:.1f} GB/s, and at {unread.apply:.1f} GB/s if the base is unread. The other format "
            f"checks nothing, and runs at {other.encode:.1f} and {other.apply:.1f} GB/s."
        )
    return text.rstrip() + "\n"


def _format_pairs(pairs: Sequence[Pair]) -> str:
    rows = [
        [p.case, f"{p.elements:,}", f"{p.bytes:,}", f"{100 * p.changed / p.elements:.2f} %"] for p in pairs
    ]
    return format_markdown(["case", "elements", "bytes", "changed"], rows)


def _pivot(
    pairs: Sequence[Pair], cells: Sequence[Cell], text: Callable[[Pair, Cell], str]
) -> list[list[str]]:
    """Return a row per format with a text per case."""
    found = {(cell.case, cell.format): cell for cell in cells}
    formats = dict.fromkeys(cell.format for cell in cells)
    return [[form, *(text(pair, found[pair.case, form]) for pair in pairs)] for form in formats]


def _table(title: str, pairs: Sequence[Pair], rows: Sequence[Sequence[str]]) -> str:
    return format_markdown([title or "format", *(pair.case for pair in pairs)], rows)


def _speeds(name: str, cell: Cell) -> list[str]:
    return [name, *(f"{x:.2f}" for x in (cell.encode, cell.apply, cell.encode_all, cell.apply_all))]


def _number(x: float) -> str:
    return "–" if math.isnan(x) else f"{x:.2f}"
