"""Sample the cases of a parametrised test: ``@pytest.mark.sampled``.

    @pytest.mark.sampled          every value of every parameter occurs in a case of the sample
    @pytest.mark.sampled(40)      further cases, until the sample has 40

The other cases get the marker ``sweep``, which plain ``pytest`` leaves out. The sample depends on the order
of the cases alone, so every process and every run picks the same one.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Sequence

import pytest

__all__ = ["mark_sweeps", "sample_cases"]

Labels = frozenset[tuple[str, int]]


def mark_sweeps(items: Sequence[pytest.Item]) -> None:
    """Give the marker ``sweep`` to cases of sampled tests that are not in the sample."""
    tests: defaultdict[tuple[str, str], list[pytest.Function]] = defaultdict(list)
    for item in items:
        if isinstance(item, pytest.Function) and item.get_closest_marker("sampled"):
            tests[str(item.path), item.originalname].append(item)
    for cases in tests.values():
        mark = cases[0].get_closest_marker("sampled")
        assert mark is not None
        sample = sample_cases([labels_of(case) for case in cases], *mark.args)
        for position, case in enumerate(cases):
            if position not in sample:
                case.add_marker("sweep")


def labels_of(case: pytest.Function) -> Labels:
    """Return (name, position among its values) of each parameter of a case."""
    return frozenset(case.callspec.indices.items())


def sample_cases(cases: Sequence[Labels], size: int = 0) -> set[int]:
    """Return the positions of cases that show every label, at least ``size`` of them.

    Greedy: the case with the most labels that no earlier one has; among equals the least checksum.
    """
    order = sorted(range(len(cases)), key=lambda n: zlib.crc32(repr(sorted(cases[n])).encode()))
    missing: set[tuple[str, int]] = set().union(*cases)
    sample: dict[int, None] = {}
    while missing:
        best = max(order, key=lambda n: len(cases[n] & missing))
        missing -= cases[best]
        sample[best] = None
    for position in order:
        if len(sample) >= size:
            break
        sample[position] = None
    return set(sample)
