"""Tests that ``make test`` leaves out because they take long; ``make test-slow`` and CI run them.

They are in slow.tsv: a test function per line, with the seconds of its cases and the case that ``make test``
runs, if one of them is fast. ``python -m tests.slow LOG SCALE`` writes the file from the output of
``pytest --durations=0 --durations-min=0.05``; times SCALE are those of an idle machine.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

FILE = Path(__file__).with_name("slow.tsv")
MAX_SECONDS, MAX_KEPT = 1.25, 0.6
"""Seconds of all cases of a function, and of a case that is kept, on two idle cores."""
ALWAYS = (
    "tests/test_documents.py::test_blocks_run[README.md]",
    "tests/test_prose.py",
    "tests/test_public_names.py",
    "tests/wirecodec/test_layers.py",
    "tests/wirecodec/test_walks.py",
)
"""Tests that find what a change breaks most often; they are not slow, whatever they take."""


def read_slow() -> dict[str, str]:
    """Return the case that ``make test`` runs, or "", by the name of each slow function."""
    lines = FILE.read_text(encoding="utf-8").splitlines()[1:]
    return {name: kept for name, _, kept in (line.split("\t") for line in lines)}


def mark_slow(items: Iterable[pytest.Item]) -> None:
    """Mark the tests that slow.tsv lists."""
    slow = read_slow()
    for item in items:
        name = item.nodeid.partition("[")[0]
        is_kept = name in slow and slow[name] and item.nodeid == name + slow[name]
        if name in slow and not is_kept and not item.nodeid.startswith(ALWAYS):
            item.add_marker("slow")


def choose_slow(log: str, scale: float) -> list[tuple[str, float, str]]:
    """Return (function, seconds, case that is kept) of the slow functions in the output of pytest."""
    cases: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for seconds, test in re.findall(r"^ *([\d.]+)s (?:call|setup|teardown) +(\S.*?) *$", log, re.MULTILINE):
        name, bracket, case = test.partition("[")
        times = cases[name]
        times[bracket + case] = times.get(bracket + case, 0.0) + float(seconds) * scale
    found = []
    for name, times in sorted(cases.items()):
        total = sum(times.values())
        if total > MAX_SECONDS and not name.startswith(ALWAYS):
            least = min(times, key=lambda case: (times[case], case))
            found.append((name, total, least if len(times) > 1 and times[least] <= MAX_KEPT else ""))
    return found


def main(arguments: Sequence[str]) -> None:
    """Write slow.tsv."""
    log, scale = Path(arguments[0]).read_text(encoding="utf-8"), float(arguments[1])
    rows = [f"{name}\t{seconds:.1f}\t{kept}" for name, seconds, kept in choose_slow(log, scale)]
    FILE.write_text("\n".join(["test\tseconds\tkept", *rows]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
