"""The README's table of quality has the figures of the page of results."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TASKS = ("text-lstm", "text-transformer", "images", "recommendations")
"""Tasks of the page, in the order of the table's columns."""
SYSTEMS = {
    "dense": "dense",
    "`budget(0.25)`": "budget 0.25",
    "`budget(0.1)`": "budget 0.1",
    "top-k 1 % with `sign-scale`": "top-k 1 %, sign and scale",
    "top-k 1 % as published": "top-k 1 % as published",
    "DeepReduce (`deepreduce-both`)": "deepreduce-both",
    "PowerSGD, rank 4": "PowerSGD, rank 4",
}
NUMBER = re.compile(r"\d+\.\d+|\d+")


@dataclass(frozen=True)
class Figures:
    """Bits per parameter and step, test metric, and its deviation (NaN for one seed) of one system."""

    bits: float
    test: float
    deviation: float


def read_table(lines: Iterator[str]) -> Iterator[list[str]]:
    for line in lines:
        if line.startswith("| ") and not line.startswith("|---"):
            yield [cell.strip() for cell in line.strip("|").split(" | ")]


def read_page(task: str) -> dict[str, Figures]:
    """Read all systems of a task from the page, the systems with a complete grid only."""
    text = (ROOT / "benchmarks/results/training.md").read_text(encoding="utf-8")
    section = re.split(r"^## ", text, flags=re.MULTILINE)
    lines = next(part for part in section if part.startswith(f"{task}\n")).splitlines()
    found = {}
    for name, bits, test, _, deviation in read_table(iter(lines)):
        if name != "system" and "provisional" not in deviation:
            found[name] = Figures(float(bits), float(test), float(deviation.partition("(")[0] or math.nan))
    return found


def is_rounded(shown: str, figure: float) -> bool:
    """Return whether a number of the README is a figure of the page, rounded."""
    unit = 10.0 ** -len(shown.partition(".")[2])
    return abs(float(shown) - figure) <= 0.501 * unit


def check_cell(cell: str, figures: Figures) -> None:
    """Check the metric of a cell, and its deviation; a question mark says that there is one seed."""
    metric, *others = NUMBER.findall(cell)
    assert is_rounded(metric, figures.test), (cell, figures)
    assert cell.endswith("?") == math.isnan(figures.deviation), (cell, figures)
    if others:
        assert is_rounded(others[0], figures.deviation), (cell, figures)


@pytest.mark.parametrize("label", SYSTEMS)
def test_the_readme_has_the_figures_of_the_page(label: str) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    row = next(row for row in read_table(iter(readme.splitlines())) if row[0].startswith(f"{label}, "))
    found = [read_page(task).get(SYSTEMS[label]) for task in TASKS]
    for cell, figures in zip(row[1:], found, strict=True):
        if figures is None:
            assert cell == "-"
        else:
            check_cell(cell, figures)
    least, *most = NUMBER.findall(row[0].removeprefix(f"{label}, "))
    bits = [figures.bits for figures in found if figures is not None]
    assert is_rounded(least, min(bits)), (label, bits)
    assert is_rounded((most or [least])[-1], max(bits)), (label, bits)
