"""Sample the cases of a parametrised test: ``@pytest.mark.sampled``.

    @pytest.mark.sampled          every value of every parameter occurs in a case of the sample
    @pytest.mark.sampled(10)      10 cases, with as many values as 10 cases can show

Of the other cases, 12 per test get the marker ``sweep`` and the rest ``nightly``; plain ``pytest`` leaves
both out. The sample depends on the order of the cases alone, so every process and every run picks the same
one. ``pytest -m sweep --part 2/4`` runs the second of four parts.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Sequence

import pytest

__all__ = ["is_in_part", "mark_sweeps", "sample_cases"]

Labels = frozenset[tuple[str, int]]

MAX_SWEEP = 12
"""Cases per test that are a sweep."""


def mark_sweeps(items: Sequence[pytest.Item]) -> None:
    """Give the marker ``sweep`` or ``nightly`` to cases of sampled tests that are not in the sample.

    Cases under mpirun have a sample of their own. Cases on a GPU are in none, nor are other sweeps.
    """
    tests: defaultdict[tuple[str, str, bool], list[pytest.Function]] = defaultdict(list)
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        if isinstance(item, pytest.Function) and "sampled" in marks and not marks & {"sweep", "gpu"}:
            tests[str(item.path), item.originalname, "mpi" in marks].append(item)
    for cases in tests.values():
        mark = cases[0].get_closest_marker("sampled")
        assert mark is not None
        labels = labels_of(cases)
        sample = sample_cases(labels, *mark.args)
        left = sorted(set(range(len(cases))) - sample, key=lambda n: _hash(labels[n]))
        for number, position in enumerate(left):
            cases[position].add_marker("sweep" if number < MAX_SWEEP else "nightly")


def is_in_part(name: str, part: str) -> bool:
    """Return whether a test is in a part of all tests.

    Args:
        name: of the test.
        part: number of the part, from 1, and the number of parts: "2/4".

    Raises:
        ValueError: ``part`` has another form.
    """
    number, count = map(int, part.split("/"))
    if not 1 <= number <= count:
        raise ValueError(f"part is {part!r}; it must be 1/{count} to {count}/{count}")
    return zlib.crc32(name.encode()) % count == number - 1


def labels_of(cases: Sequence[pytest.Function]) -> list[Labels]:
    """Return (name, number of its value) of each parameter of each case, by identity of the values."""
    numbers: dict[tuple[str, int], int] = {}
    return [
        frozenset(
            (name, numbers.setdefault((name, id(value)), len(numbers)))
            for name, value in case.callspec.params.items()
        )
        for case in cases
    ]


def sample_cases(cases: Sequence[Labels], size: int | None = None) -> set[int]:
    """Return the positions of ``size`` cases that show many labels, or of as many as show every label.

    Greedy: the case with the most labels that no earlier one has; among equals the least checksum.
    """
    order = sorted(range(len(cases)), key=lambda n: _hash(cases[n]))
    missing: set[tuple[str, int]] = set().union(*cases)
    sample: set[int] = set()
    while order and (missing if size is None else len(sample) < size):
        best = max(order, key=lambda n: len(cases[n] & missing))
        missing -= cases[best]
        sample.add(best)
        order.remove(best)
    return sample


def _hash(labels: Labels) -> int:
    return zlib.crc32(repr(sorted(labels)).encode())
