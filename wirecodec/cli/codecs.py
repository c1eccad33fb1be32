"""``wirecodec codecs``: list what a scheme can name, or describe one codec."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wirecodec.cli.codec_table import Description, describe_all
from wirecodec.cli.formatting import format_table
from wirecodec.cli.options import add_command
from wirecodec.cli.progress import show_progress
from wirecodec.container.inspect import inspect
from wirecodec.pipeline import decode, encode
from wirecodec.registry import suggestion
from wirecodec.settings.presets import PRESETS
from wirecodec.version import __version__

_ELEMENTS = 2**18
_MAX_PADDED = 60
"""Characters: a selector with more parameters does not move the descriptions of all others to the right."""
_TITLES = {
    "transform": "transforms",
    "selector": "selectors",
    "index codec": "index codecs",
    "value codec": "value codecs",
}


def add_to(commands: Any) -> None:
    """Add the subcommand."""
    command = add_command(
        commands,
        "codecs",
        _run,
        "List what a scheme can name, or describe one codec",
        "A scheme is [transform |] selector | index codec | value codec.",
    )
    command.add_argument("name", nargs="?", help="of a transform, selector or codec, to describe in full")
    command.add_argument(
        "--measure",
        action="store_true",
        help=f"encode {_ELEMENTS:,} synthetic elements (Laplace) with each example; compiles what it needs",
    )
    command.add_argument("--json", action="store_true", help="print JSON, with all descriptions in full")


def _run(options: argparse.Namespace) -> int:
    descriptions = describe_all()
    if options.name is not None:
        descriptions = _find(options.name, descriptions)
    measured: list[Measured | None] = [None] * len(descriptions)
    if options.measure:
        with show_progress("measuring") as progress:
            for number, description in enumerate(descriptions):
                progress(number / len(descriptions))
                measured[number] = measure(description)
    if options.json:
        pairs = zip(descriptions, measured, strict=True)
        print(json.dumps([_to_json(*pair) for pair in pairs], indent=2, ensure_ascii=False))
    elif options.name is None:
        print("\n".join(_format_list(descriptions, measured if options.measure else None)))
    else:
        pages = (_format_page(*pair) for pair in zip(descriptions, measured, strict=True))
        print("\n\n".join(pages))
    return 0


def _find(name: str, descriptions: Sequence[Description]) -> list[Description]:
    """Return the descriptions of a name; raise ValueError with the nearest one if there is none."""
    matches = [description for description in descriptions if description.name == name]
    if matches:
        return matches
    if name in PRESETS:
        raise ValueError(f"{name!r} is a preset: {PRESETS[name].scheme}; wirecodec presets has its source")
    known = {description.name for description in descriptions}
    raise ValueError(f"unknown codec {name!r}{suggestion(name, known)}")


@dataclass(frozen=True)
class Measured:
    """Measurement of an example on synthetic elements.

    Attributes:
        density: stored elements over all elements.
        index_bits: of the index section, per stored element.
        value_bits: of the value section and its map, per stored element.
        error: norm of the difference to the decoded elements, over the norm of the elements.
    """

    density: float
    index_bits: float
    value_bits: float
    error: float


def measure(description: Description) -> Measured | None:
    """Encode a Laplace vector with the example of a description; None if it has no example.

    Examples:
        >>> bitmap = next(one for one in describe_all() if one.name == "bitmap")
        >>> round(measure(bitmap).index_bits)  # one bit per element, and 1 % of the elements are stored
        100
    """
    if description.example is None:
        return None
    x = np.random.default_rng(0).laplace(size=_ELEMENTS).astype(np.float32)
    blob = encode(x, description.example)
    (entry,) = inspect(blob).entries
    lost = np.linalg.norm(decode(blob).to_dense() - x) / np.linalg.norm(x)
    return Measured(
        entry.nnz / x.size,
        8 * entry.index_bytes / entry.nnz,
        8 * (entry.value_bytes + entry.map_bytes) / entry.nnz,
        float(lost),
    )


def _to_json(description: Description, measured: Measured | None) -> dict[str, Any]:
    example = None if description.example is None else str(description.example)
    fields = {**dataclasses.asdict(dataclasses.replace(description, example=None)), "example": example}
    return fields | ({"measured": dataclasses.asdict(measured)} if measured else {})


def _format_list(
    descriptions: Sequence[Description], measured: Sequence[Measured | None] | None
) -> list[str]:
    """Format one table per stage."""
    lines = []
    for stage, title in _TITLES.items():
        rows = []
        for number, description in enumerate(descriptions):
            if description.stage == stage:
                figure = [] if measured is None else [_format_figure(stage, measured[number])]
                ids = ", ".join(map(str, description.wire_ids)) or "-"
                rows.append([description.call, ids, *figure, description.summary])
        head = [title, "id", *([] if measured is None else [_FIGURES[stage]]), "description"]
        lines += [*format_table(head, rows, {0, len(head) - 1}, _MAX_PADDED), ""]
    return [
        *lines,
        "A parameter without = has no default; None means that it is chosen or not used.",
        "wirecodec codecs NAME shows the ranges of parameters, an example, and the specification.",
    ]


_FIGURES = {
    "transform": "error",
    "selector": "density",
    "index codec": "bits per element stored",
    "value codec": "bits per element stored",
}


def _format_figure(stage: str, measured: Measured | None) -> str:
    """Format the number that a stage determines."""
    if measured is None:
        return "-"
    if stage == "selector":
        return f"{100 * measured.density:.3g} %"
    bits = {"index codec": measured.index_bits, "value codec": measured.value_bits}
    return f"{bits[stage]:.2f}" if stage in bits else f"{measured.error:.3f}"


def _format_page(description: Description, measured: Measured | None) -> str:
    """Format everything that is known of one codec."""
    lines = [f"{description.call}: {description.stage}", "", f"{description.summary}."]
    if description.details:
        lines += ["", description.details]
    if description.parameters:
        rows = [
            [f"  {p.name}", "required" if p.required else f"default {p.default}", p.meaning]
            for p in description.parameters
        ]
        lines += ["", *format_table(["parameters", "", ""], rows, {0, 1, 2})]
    lines += [""]
    if description.example is not None:
        lines += [f"example: {description.example}"]
    if measured is not None:
        lines += [
            f"measured with the example: {100 * measured.density:.3g} % of {_ELEMENTS:,} elements (Laplace) "
            f"stored, {measured.index_bits:.2f} bits of index and {measured.value_bits:.2f} bits of value "
            f"each, relative error {measured.error:.3f}"
        ]
    if description.wire_ids:
        lines += [f"wire id: {', '.join(map(str, description.wire_ids))}"]
    if description.page is not None:
        lines += [f"page: {description.page} (wirecodec {__version__})"]
    return "\n".join(lines)
