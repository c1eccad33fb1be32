"""``wirecodec compare``: published systems and schemes side by side on one gradient."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from wirecodec.cli.array_files import load_gradient
from wirecodec.cli.files import STANDARD, name_file, name_of
from wirecodec.cli.formatting import escape, format_table
from wirecodec.cli.options import add_command, add_file, add_picture
from wirecodec.cli.picture import new_figure, save_png
from wirecodec.cli.progress import show_progress
from wirecodec.cli.units import format_seconds
from wirecodec.comparison import Comparison, compare
from wirecodec.comparison.compare import find_scheme

HEADER = ["scheme", "tensors", "bits", "squared error", "encode", "decode"]
HIGHEST = 1.05
"""Squared error at the upper edge of a picture."""
WAYS = {False: "each alone", True: "as one"}


def add_to(commands: Any) -> None:
    """Add the subcommand."""
    command = add_command(
        commands,
        "compare",
        _run,
        "Compare published systems and schemes on a gradient",
        "Bits are per element, and the squared error is relative to the gradient's square. Tensors are"
        " encoded each alone, and as one vector, which the group scope of a Compressor selects from.",
    )
    add_file(command, ".npy, or .npz or .safetensors of named tensors")
    command.add_argument(
        "schemes", nargs="*", help="schemes, or presets with overrides; all presets and some schemes if none"
    )
    command.add_argument("--json", action="store_true", help="print JSON; times are in seconds")
    command.add_argument(
        "--seconds", type=float, default=0.1, help="for the times of each scheme (default: %(default)s)"
    )
    add_picture(command, "error over bits")


def _run(options: argparse.Namespace) -> int:
    if not 0 <= options.seconds < math.inf:
        raise ValueError(f"--seconds is {options.seconds:g}; it must be 0 or more")
    for text in options.schemes:
        find_scheme(text)  # an error of a scheme does not name the file
    tensors = load_gradient(options.file)
    with name_file(options.file), show_progress("comparing") as progress:
        rows = compare(tensors, options.schemes or None, seconds=options.seconds, progress=progress)
    rows = sorted(rows, key=lambda row: (bool(row.refusal), row.bits))
    elements = sum(x.size for x in tensors.values())
    title = f"{name_of(options.file)}: {elements:,} elements in {len(tensors)} tensors"
    if options.json:
        page = json.dumps({"file": name_of(options.file), "rows": [_to_json(row) for row in rows]}, indent=2)
    else:
        page = format_page(title, rows, is_one=len(tensors) == 1)
    if options.png is not None:
        draw(title, [row for row in rows if not row.refusal], options.png)
    print(page, file=sys.stderr if options.png == STANDARD else sys.stdout)
    return 0


def _to_json(row: Comparison) -> dict[str, Any]:
    return {key: None if _is_nan(value) else value for key, value in asdict(row).items()}


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def format_page(title: str, rows: Sequence[Comparison], *, is_one: bool) -> str:
    """Format a table, with the schemes that refuse the gradient after it."""
    lines = []
    for row in rows:
        if row.refusal:
            continue
        times = ["-" if math.isnan(x) else format_seconds(x) for x in (row.encode, row.decode)]
        way = "" if is_one else WAYS[row.together]
        lines.append([escape(row.name), way, f"{row.bits:.3g}", f"{row.error:.3g}", *times])
    if is_one:
        header, lines = [x for x in HEADER if x != "tensors"], [[x[0], *x[2:]] for x in lines]
    else:
        header = HEADER
    refused = {row.name: row.refusal for row in rows if row.refusal}
    notes = [f"{escape(name)}: not measured: {escape(text)}" for name, text in refused.items()]
    return "\n".join([escape(title), *format_table(header, lines), *notes])


def draw(title: str, rows: Sequence[Comparison], file: Any) -> None:
    """Draw the squared error over bits: a number per scheme, and a dot where its tensors are each alone.

    Errors above that of sending nothing are drawn at the upper edge, and written in the list of names.
    """
    figure = new_figure(10, 5.5)
    axes = figure.add_subplot()
    both = any(row.together for row in rows)
    for number, name in enumerate(dict.fromkeys(row.name for row in rows), 1):
        ways = {row.together: row for row in rows if row.name == name}
        if both not in ways:
            continue
        x, y = _place(ways[both])
        if both and False in ways:
            other = _place(ways[False])
            axes.plot(*zip(other, (x, y), strict=True), color="#999999", linewidth=0.8, zorder=1)
            axes.scatter(*other, s=14, color="#999999", zorder=1)
        axes.scatter(x, y, s=120, color="#0072B2", edgecolor="white", linewidth=0.5, zorder=2)
        axes.text(x, y, str(number), color="white", size=7, ha="center", va="center", zorder=3)
        axes.plot([], [], " ", label=f"{number}  {escape(name)}{_describe(ways[both].error)}")
    axes.set_xscale("log")
    axes.set_ylim(-0.03, HIGHEST + 0.03)
    axes.set_xlabel("bits per element")
    axes.set_ylabel("squared error, relative")
    note = "\nnumbers: all tensors as one vector; grey: each alone" if both else ""
    axes.set_title(escape(title) + note, loc="left", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=7, frameon=False, handlelength=0)
    save_png(figure, file)


def _place(row: Comparison) -> tuple[float, float]:
    return row.bits, min(row.error, HIGHEST)


def _describe(error: float) -> str:
    return f"  (error {error:.3g})" if error > HIGHEST else ""
