"""Samples of cases, the line about skips, and the names of failing tests."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.sampling import is_in_part, labels_of, sample_cases
from tests.skips import summarize_skips
from tests.slow import ALWAYS, choose_slow, mark_slow, read_slow


def cases_of(**values: list[Any]) -> list[Any]:
    """Return stand-ins for the cases of a test with these parameters."""
    return [
        SimpleNamespace(callspec=SimpleNamespace(params=dict(zip(values, case, strict=True))))
        for case in product(*values.values())
    ]


def test_a_sample_shows_every_value_and_is_small() -> None:
    labels = labels_of(cases_of(codec=list("abcdefgh"), dtype=["f4", "f8"], size=[1, 2, 3]))
    sample = sample_cases(labels)
    assert set().union(*(labels[n] for n in sample)) == set().union(*labels)
    assert len(sample) == 8
    assert sample_cases(labels) == sample
    assert len(sample_cases(labels, 20)) == 20


def test_a_size_bounds_the_sample_of_one_parameter() -> None:
    assert len(sample_cases(labels_of(cases_of(part=list(range(1000, 1020)))), 3)) == 3


def test_every_test_is_in_one_part() -> None:
    names = [f"test[{n}]" for n in range(400)]
    parts = [[name for name in names if is_in_part(name, f"{i}/4")] for i in (1, 2, 3, 4)]
    assert sorted(name for part in parts for name in part) == sorted(names)
    assert all(50 < len(part) < 150 for part in parts)
    with pytest.raises(ValueError, match="it must be 1/4 to 4/4"):
        is_in_part("test", "5/4")


def test_skips_are_one_line_with_their_reasons_counted() -> None:
    reports: Any = [
        SimpleNamespace(longrepr=("file.py", line, f"Skipped: {reason}"))
        for line, reason in enumerate(["no torch", "no GPU", "no torch\nmore", "x" * 200])
    ]
    line = summarize_skips(reports)
    assert line.startswith("skipped: 2 no torch; 1 no GPU; 1 xxx")
    assert line.endswith("...")
    assert summarize_skips([]) == ""


def test_a_failing_test_is_named_before_the_next_test(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("from tests.conftest import pytest_report_teststatus\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_it.py").write_text("def test_bad(): assert 0\ndef test_good(): pass\n")
    command = [sys.executable, "-m", "pytest", "-q", "--color=no", "--rootdir=.", "-p", "no:cacheprovider"]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert run.stdout.splitlines()[1] == "F test_it.py::test_bad"
    assert run.stdout.splitlines()[2].startswith(". ")


def test_every_slow_test_exists() -> None:
    """A test that is renamed is no longer slow, unless slow.tsv follows."""
    root = Path(__file__).parents[1]
    for name in read_slow():
        path, _, function = name.partition("::")
        assert f"def {function}(" in (root / path).read_text(), name


def test_make_test_runs_one_case_of_a_slow_function_or_none() -> None:
    marked: list[str] = []

    class Item:
        def __init__(self, nodeid: str) -> None:
            self.nodeid = nodeid

        def add_marker(self, _: str) -> None:
            marked.append(self.nodeid)

    slow = read_slow()
    kept = [name + case for name, case in slow.items() if case]
    without = [name for name, case in slow.items() if not case and not name.startswith(ALWAYS)]
    others: Any = [Item(name) for name in [*kept, *slow, "tests/x.py::test_fast"]]
    mark_slow(others)
    assert set(without) <= set(marked)
    assert not {*kept, "tests/x.py::test_fast"} & set(marked)


def test_slow_functions_keep_a_fast_case() -> None:
    log = """
20.00s call     tests/x.py::test_long
4.00s setup    tests/x.py::test_cases[a-b c]
9.00s call     tests/x.py::test_cases[a-b c]
1.00s call     tests/x.py::test_cases[d]
3.00s call     tests/x.py::test_short
30.00s call     tests/test_prose.py::test_words
"""
    assert choose_slow(log, 0.25) == [
        ("tests/x.py::test_cases", 3.5, "[d]"),
        ("tests/x.py::test_long", 5.0, ""),
    ]
