"""Ablations as questions: two systems that differ in one respect, and which of them trains better."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.common.results import format_markdown
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


def _list_choices() -> tuple[Choice, ...]:
    text, images = "text-lstm", "images"
    density = "more elements in fewer bits each?"
    scope = "one vector of the whole model, or a choice per tensor?"
    values = "fewer bits per value, under feedback?"
    kept = "more bits for some layers?"
    local = "several local steps per exchange?"
    choices = [
        Choice(density, text, "top-k 10 %, error 0.1", "top-k 1 % as published"),
        Choice(density, text, "budget 0.64", "top-k 1 % as published"),
        Choice(density, text, "budget 0.64", "top-k 10 %, error 0.1"),
        Choice(density, images, "budget 0.64", "top-k 1 % as published"),
        Choice(density, "text-transformer", "budget 0.64", "top-k 1 % as published"),
        Choice(density, "recommendations", "budget 0.64", "top-k 1 % as published"),
        Choice(scope, text, "budget 0.1", "budget 0.1, per tensor"),
        Choice(scope, text, "top-k 10 %, error 0.1", "top-k 10 %, error 0.1, per tensor"),
        Choice(values, text, "top-k 1 %, qsgd 4 bits", "top-k 1 %, float32"),
        Choice(values, text, "top-k 1 %, sign and scale", "top-k 1 %, float32"),
        Choice("feedback?", text, "budget 0.1", "budget 0.1, no feedback"),
        Choice("decay of the feedback?", text, "budget 0.1, decay 0.95", "budget 0.1"),
        Choice(kept, text, "budget 0.1, embeddings at 2 bits", "budget 0.1"),
        Choice(kept, text, "budget 0.1, output layer at 2 bits", "budget 0.1"),
    ]
    choices += [
        Choice("corrected momentum?", images, f"{system}, corrected momentum", system)
        for system in ("budget 0.25", "budget 0.1", "budget 0.03", "top-k 0.1 %")
    ]
    choices += [
        Choice(
            "masking of corrected momentum?",
            images,
            "budget 0.1, corrected momentum",
            "budget 0.1, no masking",
        ),
        Choice("a warm-up of the density?", images, "top-k 0.1 %, warm-up", "top-k 0.1 %"),
    ]
    choices += [
        Choice(local, task, f"local updates every {every}, {bits} bits per step{inner}", f"budget {bits}")
        for task, inner in (
            (text, ""),
            ("text-transformer", ", inner momentum 0.5"),
            (images, ""),
            ("recommendations", ""),
        )
        for every, bits in ((4, "0.25"), (8, "0.1"), (16, "0.03"))
    ]
    every_24 = "local updates every 24, 0.035 bits per step, inner momentum 0.5"
    choices += [
        Choice("a delay of 5 steps?", text, f"{every_24}, delay 5", every_24),
        Choice("a delay of 5 steps, and alpha 0.5?", text, f"{every_24}, delay 5, alpha 0.5", every_24),
    ]
    choices += [
        Choice(question, task, system, "top-k 1 %, float32")
        for question, system, tasks in (
            (
                "Ok-Topk in place of gathering, as many elements?",
                "Ok-Topk 1 %",
                (
                    *("images-8-workers-owners", "images-16-workers-owners"),
                    *("text-lstm-8-workers", "text-lstm-16-workers"),
                ),
            ),
            (
                "Ok-Topk in place of gathering, as many bytes sent and received?",
                "Ok-Topk 2 %",
                ("images-8-workers-owners", "text-lstm-8-workers"),
            ),
        )
        for task in tasks
    ]
    return tuple(choices)


CHOICES = _list_choices()

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
