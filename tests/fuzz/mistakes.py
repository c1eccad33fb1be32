"""Mistakes of implementers, made in the reference decoder: which of them no vector notices.

    python -m tests.fuzz.mistakes

mistakes.tsv has a row per mistake: a module of formats/reference, a text that it has once, another text in
its place, and the mistake in words. They were chosen by hand. They are what someone does who has read a page
too fast, not changes of one operator (mutants.py). A mistake is noticed if a vector gives another result. One
that none notices has its reason in the last column. The command prints those without a reason.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.fuzz.mutation import TARGETS, find_edit, place_of
from tests.fuzz.trials import find_trials, is_killed, order_trials

PAGE = Path(__file__).with_name("mistakes.tsv")
OF_PATCHES = ("patch.py", "index/by_class.py", "value/steps.py")
"""The modules that the vectors of patches test."""


class Mistake(NamedTuple):
    """A row of mistakes.tsv; the reason is empty if a vector notices the mistake."""

    path: str
    old: str
    new: str
    mistake: str
    reason: str

    @property
    def target(self) -> str:
        """Name of the decoder that has the module."""
        return "reference-patches" if self.path in OF_PATCHES else "reference"


def read_mistakes() -> list[Mistake]:
    """Read mistakes.tsv."""
    with PAGE.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [
            Mistake(**{"path" if key == "file" else key: text for key, text in row.items()}) for row in rows
        ]


def find_unnoticed(mistakes: Sequence[Mistake]) -> list[Mistake]:
    """Return the mistakes that no vector notices."""
    found = []
    for name in ("reference", "reference-patches"):
        own = [one for one in mistakes if one.target == name]
        trials = find_trials(TARGETS[name]) if own else {}
        for one in own:
            edit = find_edit(one.path, one.old, one.new, TARGETS[name])
            noticing = order_trials(trials.get(place_of(edit.function.__code__), []))
            if not is_killed(edit, [each.trial for each in noticing]):
                found.append(one)
    return found


def main() -> int:
    """Run the command; return 0 if each mistake is noticed, or has a reason."""
    mistakes = read_mistakes()
    unnoticed = find_unnoticed(mistakes)
    for one in unnoticed:
        print(f"{one.path}: {one.mistake} {one.reason or 'NO REASON'}")
    print(f"{len(mistakes) - len(unnoticed)} of {len(mistakes)} mistakes are noticed.")
    return int(any(not one.reason for one in unnoticed))


if __name__ == "__main__":
    sys.exit(main())
