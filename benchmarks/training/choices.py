"""Ablations as questions: two systems that differ in one respect, and which of them trains better."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common.results import format_markdown
from benchmarks.common.tables import read_rows
from benchmarks.training.rows import CONFIDENCE, LEAST, SEEDS, Difference, Row, measure_difference
from benchmarks.training.tasks.task import Task

__all__ = ["CHOICES", "Answer", "Choice", "format_choices", "list_answers"]


@dataclass(frozen=True)
class Choice:
    """One respect in which two systems differ.

    Attributes:
        question: which users ask.
        task, system, instead: names in this benchmark.
    """

    question: str
    task: str
    system: str
    instead: str


@dataclass(frozen=True)
class Answer:
    """Choice whose systems have results.

    Attributes:
        question, task, system, instead: of the choice.
        test, instead_test: mean test metrics.
        difference, half: of the two, relative; half the width of its interval, None with too few seeds.
        verdict: as of ``Difference``, with "; provisional" if grid points are missing.
    """

    question: str
    task: str
    system: str
    test: float
    instead: str
    instead_test: float
    difference: float
    half: float | None
    verdict: str


CHOICES = tuple(read_rows(Path(__file__).with_suffix(".csv"), Choice))

ABOUT = f"""Two systems that differ in one respect, each at its best settings. *Difference*: how much worse
the first is, with the {CONFIDENCE:.0%} interval of the two means (Welch). *Better* or *worse*: the interval
excludes 0 and the difference exceeds {LEAST:.0%}. *No difference*: the interval is within {LEAST:.0%}.
Everything else is *undecided*. The bits of some pairs differ, too.
"""
UNDECIDED = """[choices.csv](training/choices.csv) has all pairs, also {count} undecided ones, of which {few}
have fewer than {seeds} seeds.
"""


def list_answers(found: Mapping[str, Sequence[Row]], tasks: Sequence[Task]) -> list[Answer]:
    """List the choices whose systems have results.

    Args:
        found: rows by task.
        tasks: all tasks.
    """
    answers = []
    by_name = {task.name: task for task in tasks}
    for choice in CHOICES:
        rows = {row.system.name: row for row in found.get(choice.task, ())}
        if choice.system not in rows or choice.instead not in rows:
            continue
        one, other = rows[choice.system], rows[choice.instead]
        difference = measure_difference(by_name[choice.task], one, other)
        complete = min(one.tries / one.grid, other.tries / other.grid) == 1
        answers.append(
            Answer(
                choice.question,
                choice.task,
                choice.system,
                one.test,
                choice.instead,
                other.test,
                difference.worse,
                difference.half,
                difference.verdict if complete else f"{difference.verdict}; provisional",
            )
        )
    return answers


def format_choices(answers: Sequence[Answer]) -> str:
    """Format a table of the answers that are decided, and the number of the others; may be empty."""
    if not answers:
        return ""
    undecided = [one for one in answers if one.verdict.startswith("undecided")]
    lines = [
        [
            one.question,
            one.task,
            f"{one.system}: {one.test:.4g}",
            f"{one.instead}: {one.instead_test:.4g}",
            str(Difference(one.difference, one.half)),
            one.verdict,
        ]
        for one in answers
        if one not in undecided
    ]
    header = ["question", "task", "with", "without", "difference", "verdict"]
    text = f"## What to choose\n\n{ABOUT}\n{format_markdown(header, lines)}"
    few = sum(one.half is None for one in undecided)
    return f"{text}\n{UNDECIDED.format(count=len(undecided), few=few, seeds=SEEDS)}"
