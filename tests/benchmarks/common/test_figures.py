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
from benchmarks.collectives import plot as collectives
from benchmarks.collectives.simulation import CASE, Point
from benchmarks.common.results import RESULTS
from benchmarks.common.tables import read_rows, write_rows
from benchmarks.model import plot as model
from benchmarks.model.report import StageRow
from benchmarks.select import plot as select
from benchmarks.select.report import Gain
from benchmarks.step import plot as step

PICTURES = {
    "step": ["step.png"],
    "model": ["model.png"],
    "select": ["select.png", "select_counts.png"],
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
    for bar in read_rows(RESULTS / "step/bars.csv", step.Bar):
        heading = f"### {bar.model}, 2 ranks"
        place = find_row("step", heading, "system").index(bar.link)
        yield find_row("step", heading, bar.system)[place], 1e3 * bar.seconds


def list_model() -> Iterator[tuple[str, float]]:
    listed = {
        (row.model, row.scheme, row.stage): row.ratio
        for row in read_rows(RESULTS / "model/stages.csv", StageRow)
        if row.threads == 1
    }
    for bar in read_rows(RESULTS / "model/bars.csv", model.Bar):
        scheme = f"`topk({bar.rate:g}) · rice · {bar.values}`"
        yield str(listed[bar.model, scheme.strip("`").replace("·", "|"), bar.stage]), bar.ratio
        place = find_row("model", "one thread\n", "model, scheme").index(bar.stage)
        if cells := search_row("model", "one thread\n", f"{bar.model}, {scheme}"):
            yield cells[place].rpartition("; ")[2], bar.ratio


def list_select() -> Iterator[tuple[str, float]]:
    columns = [0.1, 0.01, 0.001]
    listed = {
        (row.array, row.density, row.selector): row.over_baseline
        for row in read_rows(RESULTS / "select/speeds.csv", Gain)
    }
    for gain in read_rows(RESULTS / "select/gains.csv", select.Gain):
        yield str(listed[f"{gain.elements:,}", gain.density, gain.name]), gain.speed_up
        if cells := search_row("select", f"| δ = {gain.density:g} |", f"`{gain.name}`"):
            yield cells[[260_000, 2_600_000, 26_000_000].index(gain.elements)], gain.speed_up
    for count in read_rows(RESULTS / "select/counts.csv", select.Count):
        cells = find_row("select", f"| {count.stream}, with feedback", f"`{count.name}`")
        yield cells[columns.index(count.density)], count.mean


def list_collectives() -> Iterator[tuple[str, float]]:
    for one in read_rows(RESULTS / "collectives/ratios.csv", collectives.Ratio):
        section = "### Open MPI, 1 Gbit, n = 4"
        place = find_row("collectives", section, "ms").index(one.case.split(", ", 2)[2])
        cell = find_row("collectives", section, one.name)[place]
        yield cell.partition("(")[2].rstrip(")"), one.ratio
    ranks = [2, 4, 8, 16, 32, 64, 128]
    for point in read_rows(RESULTS / "collectives/points.csv", Point):
        place = ranks.index(point.ranks)
        yield find_row("collectives", "| ranks |", f"{point.method}, bytes")[place], point.nbytes
        yield find_row("collectives", "| ranks |", f"{point.method}, ms")[place], 1e3 * point.seconds
    calls = {
        (row.ranks, row.name): row.milliseconds
        for row in kept.load()
        if (row.kind, row.rate, row.case) == ("exchange", "1 Gbit", CASE.name)
    }
    for time in read_rows(RESULTS / "collectives/times.csv", collectives.Time):
        yield str(calls[time.ranks, time.method]), 1e3 * time.seconds


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
        write_rows(path, [collectives.Ratio("case", "name", ratio)])
    assert read_rows(path, collectives.Ratio) == [collectives.Ratio("case", "name", 2.0)]
