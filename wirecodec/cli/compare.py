"""``wirecodec compare``: published systems and schemes side by side on one gradient."""

from __future__ import annotations

import argparse
import csv
import io
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from wirecodec.cli.array_files import load_gradient
from wirecodec.cli.files import STANDARD, name_file, name_of
from wirecodec.cli.formatting import escape, format_count
from wirecodec.cli.options import add_command, add_file, add_imports, add_picture
from wirecodec.cli.progress import show_progress
from wirecodec.comparison import Comparison, ComparisonTable, compare
from wirecodec.comparison.compare import find_schemes, list_schemes
from wirecodec.comparison.rates import Goal

NONE_MEASURED = 1
"""Exit code if no scheme could be measured."""


def add_to(commands: Any) -> None:
    """Add the subcommand."""
    command = add_command(
        commands,
        "compare",
        _run,
        "Compare published systems and schemes on a gradient",
        "Bits are per element. The error is the relative error: the norm of the part of the gradient that is "
        "lost, over the norm of the gradient. Tensors are encoded each alone, and as one vector, which the "
        "group scope of a Compressor selects from. A scheme that cannot take part is named below the table. "
        "The exit code is 1 if none can.",
    )
    add_file(command, ".npy, or .npz or .safetensors of named tensors")
    command.add_argument(
        "schemes", nargs="*", help="schemes, or presets with overrides; all presets and some schemes if none"
    )
    rates = command.add_mutually_exclusive_group()
    rates.add_argument(
        "--ratio", type=float, help="of all presets and schemes that have one, if no schemes are given"
    )
    rates.add_argument(
        "--bits",
        type=float,
        help="equal bits: replace the ratio or the budget of each scheme so that it takes this many bits per "
        "element of the whole, within 1 %%",
    )
    rates.add_argument(
        "--error", type=float, help="equal error: the same for a relative error, within 1 %% of it"
    )
    pages = command.add_mutually_exclusive_group()
    pages.add_argument("--csv", action="store_true", help="print CSV, with the fields of --json")
    pages.add_argument(
        "--json",
        action="store_true",
        help="print JSON; times are in seconds; relative_error is the error of the table, error its square",
    )
    command.add_argument(
        "--seconds", type=float, default=0.1, help="for the times of each scheme (default: %(default)s)"
    )
    add_picture(command, "error over bits")
    add_imports(command)


def _run(options: argparse.Namespace) -> int:
    if not 0 <= options.seconds < math.inf:
        raise ValueError(f"--seconds is {options.seconds:g}; it must be 0 or more")
    if options.ratio is not None and options.schemes:
        raise ValueError(
            '--ratio is for a comparison without schemes; write the ratio in each: "dgc(ratio=0.01)"'
        )
    goal = Goal.of(options.bits, options.error)
    schemes = options.schemes if options.ratio is None else list_schemes(options.ratio)
    find_schemes(schemes)  # an error of a scheme does not name the file
    tensors = load_gradient(options.file)
    with name_file(options.file), show_progress("comparing") as progress:
        found = compare(
            tensors,
            schemes or None,
            bits=options.bits,
            error=options.error,
            seconds=options.seconds,
            progress=progress,
        )
    rows = ComparisonTable(tuple(sorted(found, key=lambda row: _order(row, goal))), found.equal)
    elements = sum(x.size for x in tensors.values())
    title = (
        f"{escape(name_of(options.file))}: {elements:,} elements in "
        f"{format_count(len(tensors), 'tensor', 'tensors')}"
        f"{'' if goal is None else f', at {goal.format(goal.value)} each, within 1 %'}"
    )
    if options.json:
        page = json.dumps({"file": name_of(options.file), "rows": list(map(to_json, rows))}, indent=2)
    elif options.csv:
        page = format_csv(list(map(to_json, rows)))
    else:
        page = "\n".join([title, *map(escape, str(rows).splitlines())])
    if options.png is not None:
        from wirecodec.cli.compare_picture import draw

        draw(title, [row for row in rows if not row.refusal], options.png)
    print(page, file=sys.stderr if options.png == STANDARD else sys.stdout)
    return NONE_MEASURED if all(row.refusal for row in rows) else 0


def _order(row: Comparison, goal: Goal | None) -> tuple[bool, float]:
    """Return the place of a row: by bits, or by error if bits are equal."""
    by_error = goal is not None and not goal.is_error
    return bool(row.refusal), row.relative_error if by_error else row.bits


def to_json(row: Comparison) -> dict[str, Any]:
    """Return a row in types that JSON has."""
    fields = asdict(row) | {"error": row.error}
    return {key: None if _is_nan(value) else value for key, value in fields.items()}


def format_csv(rows: Sequence[dict[str, Any]]) -> str:
    """Format dictionaries of equal keys, at least one, as lines of CSV below a line of the keys."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().rstrip("\n")


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)
