"""Figures beside the pictures: those of the page or of its data files, and enough to draw it again."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("matplotlib", reason="benchmarks need the extra [bench]")

from benchmarks.collectives import kept
from benchmarks.collectives.simulation import Point
from benchmarks.common.results import RESULTS
from benchmarks.common.tables import read_rows, write_rows
from benchmarks.model.report import StageRow
from benchmarks.select.report import SHOWN_DENSITY, Gain
from benchmarks.step.kept import Step

PICTURES = {
    "step": ["step.png"],
    "model": ["model.png"],
    "select": ["select.png"],
    "collectives": ["collectives.png", "collectives_ranks.png"],
}


def search_row(page: str, heading: str, name: str) -> list[str] | None:
    """Return the cells of a table's row, after the first one, or None; the heading comes before the table."""
    text = (RESULTS / f"{page}.md").read_text(encoding="utf-8")
    body = text[text.index(heading) :].partition("\n\n| ")
    table = (body[0] if heading.startswith("|") else body[2]).partition("\n\n")[0]
    found = re.search(rf"^(?:\| )?{re.escape(name)} \| (.*) \|$", table, re.MULTILINE)
    return found[1].split(" | ") if found else None


def find_row(page: str, heading: str, name: str) -> list[str]:
    """Return the cells of a row that the page must have."""
    found = search_row(page, heading, name)
    assert found, (heading, name)
    return found


def number(cell: str) -> float:
    return float(re.split(r"[ ×]", cell.replace(",", ""))[0])


def list_step() -> Iterator[tuple[str, float]]:
    for one in read_rows(RESULTS / "step/steps.csv", Step):
        heading = f"### {one.model}, {one.ranks} ranks"
        if one.ranks == 2:
            place = find_row("step", heading, "system").index(one.link)
            yield find_row("step", heading, one.system)[place], one.milliseconds


def list_model() -> Iterator[tuple[str, float]]:
    for row in read_rows(RESULTS / "model/stages.csv", StageRow):
        if row.threads == 1 and row.ratio:
            place = find_row("model", "one thread\n", "model, scheme").index(row.stage)
            scheme = f"`{row.scheme}`".replace("|", "·")
            if cells := search_row("model", "one thread\n", f"{row.model}, {scheme}"):
                yield cells[place].rpartition("; ")[2], row.ratio


def list_select() -> Iterator[tuple[str, float]]:
    arrays = ["260,000", "2,600,000", "26,000,000"]
    for gain in read_rows(RESULTS / "select/speeds.csv", Gain):
        if gain.density != SHOWN_DENSITY:
            continue
        cells = search_row("select", f"| δ = {gain.density:g} |", f"`{gain.selector}`")
        if cells and gain.array in arrays:
            yield cells[arrays.index(gain.array)], gain.over_baseline


def list_collectives() -> Iterator[tuple[str, float]]:
    for row in kept.load():
        place = (row.mpi, row.rate, row.ranks, row.kind)
        if place == ("Open MPI", "1 Gbit", 4, "exchange") and row.ratio:
            section = "### Open MPI, 1 Gbit, n = 4"
            columns, cells = (
                find_row("collectives", section, "ms"),
                search_row("collectives", section, row.name),
            )
            if cells and row.case in columns:
                yield cells[columns.index(row.case)].partition("(")[2].rstrip(")"), row.ratio
    ranks = [2, 4, 8, 16, 32, 64, 128]
    for point in read_rows(RESULTS / "collectives/points.csv", Point):
        index = ranks.index(point.ranks)
        yield find_row("collectives", "| ranks |", f"{point.method}, bytes")[index], point.nbytes
        yield find_row("collectives", "| ranks |", f"{point.method}, ms")[index], 1e3 * point.seconds


@pytest.mark.parametrize("figures", [list_step, list_model, list_select, list_collectives], ids=[*PICTURES])
def test_figures_are_those_of_the_page(figures: Any) -> None:
    found = list(figures())
    assert len(found) > 10
    for cell, value in found:
        assert number(cell) == pytest.approx(value, rel=0.006), cell


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_are_drawn_without_a_measurement(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    benchmark = importlib.import_module(f"benchmarks.{name}.__main__")
    if hasattr(benchmark, "PICTURE"):
        monkeypatch.setattr(benchmark, "PICTURE", tmp_path / f"{name}.png")
    else:
        monkeypatch.setattr(benchmark, "RESULTS", tmp_path)
    benchmark.main(["--redraw"])
    assert sorted(path.name for path in tmp_path.iterdir()) == PICTURES[name]


def test_a_table_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "x.csv"
    for ratio in (1.0, 2.0):
        write_rows(path, [Gain("array", 0.1, "name", ratio, 1.0)])
    assert read_rows(path, Gain) == [Gain("array", 0.1, "name", 2.0, 1.0)]
