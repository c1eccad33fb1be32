"""Mistakes of implementers: the vectors notice them, but for those with a reason (mistakes.tsv)."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.fuzz.mistakes import find_unnoticed, read_mistakes
from tests.fuzz.mutation import TARGETS, compile_mutant, find_edit

MISTAKES = read_mistakes()


def test_sixty_mistakes_of_all_parts() -> None:
    """Each changes one function of the reference, and compiles."""
    assert len(MISTAKES) == 60
    assert len({(one.path, one.new) for one in MISTAKES}) == 60
    parts = Counter(one.path.partition("/")[0] for one in MISTAKES)
    assert min(parts[name] for name in ("index", "value", "transform", "stream_index.py", "tensors.py")) >= 3
    for one in MISTAKES:
        edit = find_edit(one.path, one.old, one.new, TARGETS[one.target])
        assert compile_mutant(edit) != edit.function.__code__


@pytest.mark.sweep
def test_vectors_notice_all_mistakes() -> None:
    """The vectors pass if a change has no effect."""
    same = MISTAKES[0]._replace(path="stream_index.py", old="total - END_BYTES", new="total - 88")
    assert find_unnoticed([*MISTAKES, same]) == [*(one for one in MISTAKES if one.reason), same]
