"""Shared parts of the benchmarks: limits of targets, missing peers, choice by name, tables."""

from __future__ import annotations

import importlib
import math
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("rich", reason="benchmarks need the extra [bench]")

from benchmarks.common.command import choose_names
from benchmarks.common.peers import load_peers
from benchmarks.common.pictures import _spread, label_lines, open_picture
from benchmarks.common.results import pivot_rows
from benchmarks.common.tables import append_rows, read_rows
from benchmarks.common.targets import check_at_least, check_at_most

ROOT = Path(__file__).parents[3]


def test_limits_are_inclusive() -> None:
    assert check_at_most("x", 2, [("a", 1), ("b", 2)]).met
    assert not check_at_most("x", 2, [("a", 1), ("b", 2.1)]).met
    assert check_at_least("x", 2, [("a", 2), ("b", 3)]).case == "a"
    assert check_at_least("x", 2, []).met is None
    assert check_at_most("x", 2, [("a", 3), ("b", 1), ("c", 4)]).case == "c (2 of 3)"
    assert check_at_least("x", 2, [("a", 1), ("b", 9)], "{:.1f}").worst == "1.0"


def test_nan_misses_every_target() -> None:
    for check in (check_at_most, check_at_least):
        result = check("x", 2, [("a", 2), ("b", math.nan), ("c", 2)])
        assert (result.worst.rstrip("×"), result.case, result.met) == ("nan", "b (1 of 3)", False)


def test_missing_packages_are_reported() -> None:
    assert load_peers({"no_such_package.part": lambda package: [package]}) == ([], ["no_such_package"])
    assert load_peers({"math": lambda package: [package.pi]}) == ([math.pi], [])


def test_choose_names() -> None:
    names = ["rice", "zstd-3", "zstd-19", "blosc2, gaps", "rice, gaps"]
    assert choose_names("", names) == choose_names(" ; ", names) == names
    assert choose_names("zstd; rice", names) == ["zstd-3", "zstd-19", "rice"]
    assert choose_names("blosc2, gaps;blosc", names) == ["blosc2, gaps"]
    with pytest.raises(SystemExit, match=r"^nothing is called 'rle'; there are rice; zstd-3; zstd-19; blosc"):
        choose_names("rice; rle", names)


def _list_name_options() -> list[tuple[str, str]]:
    """List the modules of benchmarks that read an option that takes names, and that option."""
    found = []
    for path in sorted((ROOT / "benchmarks").rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        names = re.findall(r"\boptions\.(only|task|system|method)\b", path.read_text())
        found += [(module, f"--{name}") for name in dict.fromkeys(names)]
    return found


def test_name_options_are_found() -> None:
    assert ("benchmarks.training.__main__", "--task") in _list_name_options()
    assert len(_list_name_options()) >= 10


@pytest.mark.parametrize(("module", "option"), _list_name_options())
def test_an_unknown_name_is_refused(module: str, option: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch", reason="some of these commands need torch")
    main = importlib.import_module(module).main
    with pytest.raises(SystemExit, match=r"^nothing is called 'no-such-name'; there are .+") as refused:
        main([option, "no-such-name"])
    assert "\n" not in str(refused.value)
    assert capsys.readouterr().out == ""


def test_pivot_rows_fill_missing_cells() -> None:
    cells = [("a", 1, "a1"), ("b", 2, "b2"), ("a", 2, "a2")]
    assert pivot_rows(cells, [1, 2], "-") == [["a", "a1", "a2"], ["b", "-", "b2"]]


@dataclass(frozen=True)
class _Row:
    name: str
    count: int
    time: float
    exact: bool
    asked: float | None


def test_rows_are_read_as_they_were_written(tmp_path: Path) -> None:
    rows = [_Row("a, b", 3, 0.1, True, None), _Row("", -1, float("inf"), False, 0.25)]
    path = tmp_path / "folder" / "rows.csv"
    append_rows(path, rows[:1])
    append_rows(path, rows[1:])
    append_rows(path, [])
    assert path.read_text() == 'name,count,time,exact,asked\n"a, b",3,0.1,True,\n,-1,inf,False,0.25\n'
    assert read_rows(path, _Row) == rows
    assert read_rows(tmp_path / "absent.csv", _Row) == []


def test_names_beside_lines_do_not_overlap() -> None:
    assert _spread([0.1, 0.5], 0.2) == [0.1, 0.5]
    assert _spread([0.5, 0.5, 0.5], 0.1) == pytest.approx([0.4, 0.5, 0.6])
    assert _spread([0.0, 0.30, 0.31, 0.41], 0.1) == pytest.approx([0.0, 0.24, 0.34, 0.44])


def test_names_cover_no_mark_no_line_and_no_other_name(tmp_path: Path) -> None:
    """A line at the middle has its name above, and the crossing line's name avoids marks in its way."""
    lines = [([(0.1, 0.5), (0.9, 0.5)], "level", "black"), ([(0.1, 0.1), (0.9, 0.9)], "rising", "black")]
    marks = [(0.15, 0.6), (0.2, 0.25), (0.85, 0.95)]
    with open_picture(tmp_path / "a.png", 1) as axes:
        axis = axes[0, 0]
        axis.set(xlim=(0, 1), ylim=(0, 1))
        label_lines(axis, lines, marks)
        boxes = [text.get_window_extent() for text in axis.texts]
        along = [i / 500 for i in range(50, 450)]
        points = axis.transData.transform([*marks, *((x, x) for x in along), *((x, 0.5) for x in along)])
        panel = axis.get_window_extent()
    assert len(boxes) == 2
    assert not boxes[0].overlaps(boxes[1])
    for box in boxes:
        assert box.count_contains(points) == 0
        assert panel.count_contains(box.corners()) == 4


def test_a_benchmark_names_the_packages_that_it_needs() -> None:
    """Without site-packages, as after an installation of the library alone."""
    command = [sys.executable, "-S", "-m", "benchmarks.papers", "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert 'pip install ".[bench,peers]"' in done.stderr
