"""Samples of cases and the line about skips."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import Any

from tests.sampling import labels_of, sample_cases
from tests.skips import summarize_skips


def cases_of(**values: list[Any]) -> list[Any]:
    """Make stand-ins for the cases of a test with these parameters."""
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


def test_skips_are_one_line_with_their_reasons_counted() -> None:
    reports: Any = [
        SimpleNamespace(longrepr=("file.py", line, f"Skipped: {reason}"))
        for line, reason in enumerate(["no torch", "no GPU", "no torch\nmore", "x" * 200])
    ]
    line = summarize_skips(reports)
    assert line.startswith("skipped: 2 no torch; 1 no GPU; 1 xxx")
    assert line.endswith("...")
    assert summarize_skips([]) == ""
