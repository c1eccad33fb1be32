"""The guide to other methods has the figures of the results."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("rich", reason="benchmarks need the extra [bench]")

from benchmarks.common.tables import read_rows
from benchmarks.training.report import DETAILS, Details

ROOT = Path(__file__).parents[3]
TASKS = ("text-lstm", "text-transformer", "images", "recommendations")
"""Tasks of the page, in the order of the table's columns."""
SYSTEMS: dict[str, str | tuple[str, ...]] = {
    "dense": "dense",
    "`budget(0.25)`": "budget 0.25",
    "`budget(0.1)`": "budget 0.1",
    "top-k 1 % with `sign-scale`": "top-k 1 %, sign and scale",
    "top-k 1 % as published": "top-k 1 % as published",
    "DeepReduce (`bf-p0`, `qsgd-bf-p0`)": ("deepreduce-bf-p0", "deepreduce-qsgd-bf-p0"),
    "PowerSGD, rank 4": "PowerSGD, rank 4",
}
VARIANTS = {
    "DeepReduce (`bf-p0`, `qsgd-bf-p0`)": r"deepreduce-[a-z\d-]+",
    "PowerSGD, rank 4": r"PowerSGD, rank \d+",
    "top-k 1 % as published": r"top-k [\d.]+ % as published",
}
"""Variants of the page of which the table has the best on test, per task."""
NUMBER = re.compile(r"\d+\.\d+|\d+")


@dataclass(frozen=True)
class Figures:
    """Bits per parameter and step, test metric, its deviation (NaN for one seed), whether at an edge."""

    bits: float
    test: float
    deviation: float
    at_edge: bool


def read_table(lines: Iterator[str]) -> Iterator[list[str]]:
    for line in lines:
        if line.startswith("| ") and not line.startswith("|---"):
            yield [cell.strip() for cell in line.strip("|").split(" | ")]


def read_figures(task: str) -> dict[str, Figures]:
    """Read all systems of a task with a complete grid from the data file, rounded as on the page."""
    rows = read_rows(ROOT / "benchmarks/results/training" / DETAILS, Details)
    return {
        row.system: Figures(
            float(f"{row.bits:.3g}"), float(f"{row.test:.4g}"), round(row.deviation, 3), row.at_edge
        )
        for row in rows
        if row.task == task and row.tries == row.grid
    }


def is_rounded(shown: str, figure: float) -> bool:
    """Return whether a number of the guide is a figure of the page, rounded."""
    unit = 10.0 ** -len(shown.partition(".")[2])
    return abs(float(shown) - figure) <= 0.501 * unit


def check_cell(cell: str, figures: Figures) -> None:
    """Check a cell's metric, its deviation, and its marks of one seed (?) and of the grid's edge (*)."""
    metric, *others = NUMBER.findall(cell)
    assert is_rounded(metric, figures.test), (cell, figures)
    assert cell.endswith("*") == figures.at_edge, (cell, figures)
    assert ("?" in cell) == math.isnan(figures.deviation), (cell, figures)
    if others:
        assert is_rounded(others[0], figures.deviation), (cell, figures)


def find_figures(label: str, task: str) -> Figures | None:
    """Return the figures of a label's system; among variants, those of the best, which the label names."""
    page, names = read_figures(task), SYSTEMS[label]
    if label not in VARIANTS:
        return page.get(str(names))
    sign = 1 if task in ("images", "recommendations") else -1
    found = {name: one for name, one in page.items() if re.fullmatch(VARIANTS[label], name)}
    if not found:
        return None
    best = max(found, key=lambda name: sign * found[name].test)
    assert best in (names if isinstance(names, tuple) else (names,))
    return found[best]


@pytest.mark.parametrize("label", SYSTEMS)
def test_the_guide_has_the_figures_of_the_page(label: str) -> None:
    guide = (ROOT / "docs/guides/comparison.md").read_text(encoding="utf-8")
    lines = guide.partition("\n## After training\n")[2].splitlines()
    row = next(row for row in read_table(iter(lines)) if row[0].startswith(f"{label}, "))
    found = [find_figures(label, task) for task in TASKS]
    for cell, figures in zip(row[1:], found, strict=True):
        if figures is None:
            assert cell == "-"
        else:
            check_cell(cell, figures)
    least, *most = NUMBER.findall(row[0].removeprefix(f"{label}, "))
    bits = [figures.bits for figures in found if figures is not None]
    assert is_rounded(least, min(bits)), (label, bits)
    assert is_rounded((most or [least])[-1], max(bits)), (label, bits)


def test_sentences_about_the_long_task_have_its_losses() -> None:
    """Two guides quote bits per step and percent worse than dense; the page has both in one row."""
    text = (ROOT / "benchmarks/results/training.md").read_text(encoding="utf-8")
    section = text.partition("\n## text-long\n")[2].partition("\n## ")[0]
    rows = {
        name: (float(bits), worse.strip("+%"))
        for name, bits, _, worse, _ in read_table(iter(section.partition("\n### further")[0].splitlines()))
        if name not in ("system", "dense") and not name.startswith("*")
    }
    ours = [rows[name] for name in rows if name.startswith("local updates every ")]
    sparseloco, diloco = rows["SparseLoCo, 14 bits per element"], rows["DiLoCo, every 30"]

    def find(path: str, pattern: str) -> list[str]:
        found = re.search(pattern, " ".join((ROOT / path).read_text(encoding="utf-8").split()))
        assert found, (path, pattern)
        return [*found.groups()]

    number = r"([\d.]+)"
    readme = (
        rf"thousandths-of-a-bit\), {number} bits per step ended {number} % worse .*?"
        rf" DiLoCo with {number} bits {number} %, SparseLoCo with {number} bits {number} %"
    )
    quoted = find("docs/guides/comparison.md", readme)
    for bits, worse, row in zip(quoted[::2], quoted[1::2], (ours[0], diloco, sparseloco), strict=True):
        assert worse == row[1]
        assert float(bits) == pytest.approx(row[0], rel=0.02)
    guide = (ROOT / "docs/guides/local-updates.md").read_text(encoding="utf-8")
    alone = rows["one worker alone"]
    table = guide.partition("\n## Thousandths of a bit\n")[2].partition("\n## ")[0].splitlines()
    shown = [row[2:] for row in read_table(iter(table)) if row[0] != "system"]
    for (bits, worse), row in zip(shown, (*ours, diloco, sparseloco, alone), strict=True):
        assert worse == f"{row[1]} %"
        assert is_rounded(bits, row[0])


def test_sentences_about_a_delay_have_its_losses() -> None:
    page = (ROOT / "benchmarks/results/training.md").read_text(encoding="utf-8")
    pages = [ROOT / f"docs/guides/local-updates{name}.md" for name in ("", "-overlap")]
    guide = " ".join(word for path in pages for word in path.read_text(encoding="utf-8").split())
    for question, sentence in (
        ("a delay of 5 steps?", "{} % worse with 0"),
        ("a delay of 5 steps, and alpha 0.5?", "no difference ({} %) with 0.5"),
    ):
        row = next(row for row in read_table(iter(page.splitlines())) if row[0] == question)
        assert sentence.format(row[4].replace("%", "").lstrip("+")) in guide
        assert row[5] == ("worse" if "worse" in sentence else "no difference")
    rows = read_rows(ROOT / "benchmarks/results/training" / DETAILS, Details)
    lstm = next(row.worse for row in rows if (row.task, row.system) == ("text-lstm", "one worker alone"))
    assert f"One worker alone ended {100 * lstm:.1f} % above" in guide
