"""Page of the training benchmark, from the results that are there."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common.results import format_markdown
from benchmarks.common.tables import write_rows
from benchmarks.training.choices import CHOICES, format_choices, list_answers
from benchmarks.training.method import CLAIMED, CLAIMS, FURTHER_RUNS, METHOD, NOTES, PROVENANCE
from benchmarks.training.plan import Plan
from benchmarks.training.rows import SEEDS, Row, collect_rows, compare
from benchmarks.training.runs import load_results
from benchmarks.training.systems.system import System
from benchmarks.training.targets import format_targets
from benchmarks.training.tasks.task import Task

__all__ = ["Details", "format_answer", "format_page", "format_tasks", "write_details"]

HEADER = ["system", "bits", "test", "worse than dense", "± (seeds)"]
DETAILS = "systems.csv"
"""Data file beside the results, with every figure of the systems."""
ANSWERS = "choices.csv"
"""Data file of all choices."""
FURTHER = "further.csv"
"""Data file of the runs that chose a system's settings."""
OWN, OTHER = "budget 0.25", "PowerSGD, rank 4"
"""Systems of the answer."""


@dataclass(frozen=True)
class Details:
    """One system on one task, with its settings and times.

    Attributes:
        task, group, system: names.
        bits: per parameter, worker and step.
        test: mean test metric.
        worse: than dense, relative; NaN without dense.
        deviation: over seeds, NaN for one seed.
        seeds, diverged: numbers of seeds with a result, and of those that diverged.
        settings: best on validation.
        at_edge: whether their rate is at the edge of the grid.
        tries, grid: grid points with a result, and all.
        milliseconds: of compression, per worker and step.
        steps: until dense's loss + 5 %; None if not reached.
    """

    task: str
    group: str
    system: str
    bits: float
    test: float
    worse: float
    deviation: float
    seeds: int
    diverged: int
    settings: str
    at_edge: bool
    tries: int
    grid: int
    milliseconds: float
    steps: float | None


@dataclass(frozen=True)
class Further:
    """Change of a setting, and the validation metrics with it."""

    task: str
    change: str
    validation: str


JUDGED = {choice.task for choice in CHOICES} | CLAIMED
"""Tasks that choices or claims judge."""
OTHER_GROUPS = ("papers", "ablation")
"""Groups whose figures on judged tasks only the data file has."""
NOT_OURS = ("in use today", *OTHER_GROUPS)
OTHER_TASKS = """[Choices](#what-to-choose) and [claims](training_claims.md) need these;
[systems.csv](training/systems.csv) has their figures. Metrics and warm-up are those of images and text-lstm.
"""
GPU = "stacked on cuda"
"""What the versions of a run on a GPU end with."""


def format_page(plan: Plan, tasks: Sequence[Task], systems: Sequence[System]) -> str:
    """Format the page as Markdown.

    Args:
        plan: with the folder of the results.
        tasks, systems: all of them; what is missing is listed.
    """
    versions = Counter(
        result.versions for task in tasks for result in load_results(plan.folder, task.name).values()
    )
    found = {task.name: collect_rows(plan, task, systems) for task in tasks}
    parts = [f"{format_answer(found, tasks)}{CLAIMS}"]
    parts.append(f"`make bench-training`. {_format_versions(versions)}\n\n{PROVENANCE}\n{METHOD}")
    parts += [format_targets(found, tasks), format_choices(list_answers(found, tasks))]
    others = [task for task in tasks if _is_in_details(task, found[task.name])]
    parts += [
        _format_task(plan, task, systems, found[task.name], whole=False)
        for task in tasks
        if task not in others
    ]
    if others:
        lines = [f"- {task.name}: {task.about}; {_count_steps(plan, task):,} steps.\n" for task in others]
        parts.append(f"## Other tasks\n\n{OTHER_TASKS}\n{''.join(lines)}")
        parts += [line for task in others if (line := _list_absent(task, systems, found[task.name]))]
    return "\n".join(parts)


def _is_in_details(task: Task, rows: Sequence[Row]) -> bool:
    """Return whether the page has no table of a task: it is judged, and has no system of this library."""
    return task.name in JUDGED and bool(rows) and all(row.system.group in NOT_OURS for row in rows)


def _describe_task(plan: Plan, task: Task) -> str:
    steps = _count_steps(plan, task)
    return f"{task.about}; {steps:,} steps, rates warm up in {task.warm_up}. Metric: {task.metric}."


def _count_steps(plan: Plan, task: Task) -> int:
    return max(1, round(task.steps * plan.steps))


def _list_absent(task: Task, systems: Sequence[System], rows: Sequence[Row]) -> str:
    done = {row.system.name for row in rows}
    absent = [one.name for one in systems if task.includes(one.name) and one.name not in done]
    return f"Not run yet of {task.name}: {'; '.join(absent)}.\n" if absent else ""


def format_tasks(plan: Plan, tasks: Sequence[Task], systems: Sequence[System]) -> str:
    """Format the tables of some tasks, with every system."""
    return "\n".join(
        _format_task(plan, task, systems, collect_rows(plan, task, systems), whole=True) for task in tasks
    )


def _format_versions(versions: Mapping[str, int]) -> str:
    """Format how many runs have which version of wirecodec, and how many were on a GPU."""
    own: Counter[str] = Counter()
    for text, count in versions.items():
        own[text.partition(",")[0]] += count
    gpu = sum(count for text, count in versions.items() if text.endswith(GPU))
    return (
        f"{sum(own.values()):,} runs are kept: {', '.join(f'{own[key]:,} of {key}' for key in sorted(own))}; "
        f"{gpu:,} of them on a GPU."
    )


def format_answer(found: Mapping[str, Sequence[Row]], tasks: Sequence[Task]) -> str:
    """Answer the benchmark's question: how far two systems are from dense training; may be empty.

    Args:
        found: rows by task.
        tasks: all tasks.
    """
    worse: dict[str, list[float]] = {OWN: [], OTHER: []}
    bits: dict[str, list[float]] = {OWN: [], OTHER: []}
    for task in tasks:
        rows = {row.system.name: row for row in found.get(task.name, ())}
        if {"dense", OWN, OTHER} <= rows.keys():
            for name, found_worse in worse.items():
                found_worse.append(compare(task, rows[name].test, rows["dense"].test))
                bits[name].append(rows[name].best.bits)
    if not worse[OWN]:
        return ""
    own, other = (f"{min(ends):+.1%} to {max(ends):+.1%}" for ends in worse.values())
    return (
        f"With {statistics.fmean(bits[OWN]):.2g} bits per parameter, worker and step, `budget` ends {own} "
        f"worse than dense training on {len(worse[OWN])} tasks. {OTHER}, takes {min(bits[OTHER]):.3g} to "
        f"{max(bits[OTHER]):.3g} bits and ends {other} worse.\n\n"
    )


def write_details(plan: Plan, tasks: Sequence[Task], systems: Sequence[System]) -> Path:
    """Write every row with its settings and times to a data file; return its path.

    Beside it are the files of all choices and of further runs.
    """
    path = plan.folder / DETAILS
    found = {task.name: collect_rows(plan, task, systems) for task in tasks}
    write_rows(path, [one for task in tasks for one in _list_details(task, found[task.name])])
    write_rows(plan.folder / ANSWERS, list_answers(found, tasks))
    names = [task.name for task in tasks if task.name in FURTHER_RUNS]
    write_rows(
        plan.folder / FURTHER, [Further(name, *change) for name in names for change in FURTHER_RUNS[name][1]]
    )
    return path


def _list_details(task: Task, rows: Sequence[Row]) -> list[Details]:
    dense = next((row.test for row in rows if row.system.name == "dense"), math.nan)
    return [_detail(task, row, dense) for row in rows]


def _detail(task: Task, row: Row, dense: float) -> Details:
    return Details(
        task.name,
        row.system.group,
        row.system.name,
        row.best.bits,
        row.test,
        compare(task, row.test, dense),
        row.deviation,
        len(row.tests),
        row.diverged,
        row.system.describe_settings(row.best.run.settings),
        row.at_edge,
        row.tries,
        row.grid,
        1e3 * row.best.compression_seconds,
        row.steps[0],
    )


def _format_task(
    plan: Plan, task: Task, systems: Sequence[System], rows: Sequence[Row], *, whole: bool
) -> str:
    """Format a task; of a judged one, ``whole`` includes systems of few seeds, of papers and ablations."""
    text = [f"## {task.name}\n", f"{_describe_task(plan, task)}\n"]
    done, absent = {row.system.name for row in rows}, _list_absent(task, systems, rows)
    dense = next((row for row in rows if row.system.name == "dense"), None)
    rates = {settings.rate for settings in task.grid}
    if len(rates) < 3 and len(task.grid) > len(rates):
        text.append(
            f"Systems try {len(task.grid)} settings of {len(rates)} rates (*one worker alone*: two), so each"
            " best rate is at an edge. Dense tries two momenta where local updates try two outer"
            " optimizers.\n"
        )
    counts = [_count_on_gpu(plan, task, row.system) for row in rows]
    if on_gpu := sum(some for some, _ in counts):
        file = f"[{task.name}.jsonl](training/{task.name}.jsonl)"
        text.append(
            f"{on_gpu} of {sum(all_ for _, all_ in counts)} runs were on a GPU (NVIDIA H100 or H200);"
            f" {file} names them.\n"
        )
    lines = []
    groups = dict.fromkeys(system.group for system in systems)
    if not whole and task.name in JUDGED:
        groups = dict.fromkeys(group for group in groups if group not in OTHER_GROUPS)
        rows = [row for row in rows if len(row.tests) >= SEEDS] or rows
    for group in groups:
        chosen = [_format_row(task, row, dense) for row in rows if row.system.group == group]
        lines += [[f"*{group}*", "", "", "", ""], *chosen] if chosen else []
    if lines:
        text.append(format_markdown(HEADER, lines))
    text += [
        f"{system}: {note}\n"
        for (name, system), note in NOTES.items()
        if name == task.name and system in done
    ]
    if tries := FURTHER_RUNS.get(task.name):
        about, _ = tries
        text.append(f"### further runs\n\n{about} [further.csv](training/further.csv) has them.\n")
    return "\n".join([*text, *filter(None, [absent])])


def _count_on_gpu(plan: Plan, task: Task, system: System) -> tuple[int, int]:
    """Return how many of a system's runs were on a GPU, and how many there are."""
    runs = dict.fromkeys([*plan.tune(task, system), *plan.repeat(task, system)])
    found = [result.versions.endswith(GPU) for result in plan.find(list(runs)) if result is not None]
    return sum(found), len(found)


def _format_row(task: Task, row: Row, dense: Row | None) -> list[str]:
    worse = f"{compare(task, row.test, dense.test):+.1%}" if dense else ""
    deviation = f"{row.deviation:.3f} ({len(row.tests)})" if len(row.tests) > 1 else "(1)"
    if row.diverged:
        deviation += f", {row.diverged} diverged"
    if row.tries < row.grid:
        deviation += ", provisional"
    return [
        row.system.name,
        f"{row.best.bits:.3g}",
        f"{row.test:.4g}",
        worse,
        f"{deviation}{' *' if row.at_edge else ''}",
    ]
