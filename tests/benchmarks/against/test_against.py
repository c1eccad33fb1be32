"""The comparison of two revisions: ratios, and what counts as slower."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rich", reason="benchmarks need the extra [bench]")

from benchmarks.against import calls
from benchmarks.against.__main__ import compare, find_slower, format_table


def test_only_what_is_slower_in_all_rounds_counts() -> None:
    old = [{"a": 1.0, "b": 4.0, "gone": 1.0}, {"a": 2.0, "b": 2.0, "gone": 1.0}]
    slow, fast = ({"a": a, "b": 2.4, "new": 1.0} for a in (1.2, 1.0))
    rounds = [compare(old, [one, one]) for one in (slow, fast, slow)]
    assert rounds[0] == {"a": 1.2, "b": 1.2}
    assert find_slower(rounds, 1.05) == ["b"]
    assert format_table(rounds, 1.05).endswith("slower by more than 5% in all rounds: b")


def test_calls_of_a_small_vector_are_measured() -> None:
    names = [name for name, _, _ in calls._calls_of_one("x", np.ones(8, "f4"), calls.SCHEMES[0], 1)]
    assert names == ["x: encode", "x: decode", "x: decode_add"]
    assert calls.measure(lambda: None, 1) >= 0
