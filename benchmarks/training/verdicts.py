"""Whether these runs reproduce the papers' claims, and the runs that this takes."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from benchmarks.common.results import format_markdown
from benchmarks.training.claims import CLAIMS, FFT_LOSS, TABLE_2, TABLE_3, Claim
from benchmarks.training.rows import (
    LEAST,
    SEEDS,
    Difference,
    Row,
    measure_difference,
    measure_interval,
)
from benchmarks.training.tasks.task import Task

__all__ = [
    "NEAR",
    "Judged",
    "Record",
    "format_claims",
    "format_counts",
    "judge",
    "judge_all",
    "judge_rows",
    "list_cells",
    "list_records",
]

VERDICTS = ("reproduced", "not reproduced", "undecided", "not run")

QUOTED = {
    "recommendations": (
        *("budget 0.25", "local updates every 16, 0.07 bits per step", "PowerSGD, rank 4"),
        "local updates every 16, 0.1 % per step",
    ),
    "images": (
        *("budget 0.25", "budget 0.1", "PowerSGD, rank 4", "top-k 0.1 %, warm-up", "budget 0.03"),
        "local updates every 4, 0.25 bits per step",
        "local updates every 8, 0.1 bits per step",
        "local updates every 16, 0.03 bits per step",
    ),
    "text-lstm": (
        "PowerSGD, rank 4",
        "local updates every 24, 0.035 bits per step, inner momentum 0.5, delay 5",
        "local updates every 24, 0.035 bits per step, inner momentum 0.5, delay 5, alpha 0.5",
    ),
    "text-transformer": (
        *("budget 0.25", "budget 0.1", "PowerSGD, rank 4"),
        "local updates every 4, 0.25 bits per step, inner momentum 0.5",
        "local updates every 8, 0.1 bits per step, inner momentum 0.5",
    ),
}
"""Systems that the README or a guide quotes, by task."""

ORDER = (
    *("recommendations", "images", "text-lstm", "images-2-workers", "images-8-workers", "images-large"),
    *("images-adam", "text-transformer", "images-16-workers"),
)
"""Tasks of the claims: those whose runs decide the most per hour first."""
PAPERS = ("FFT", "SIDCo", "DeepReduce", "AdaComp", "ScaleCom")
"""Papers, in the order of what their missing runs decide."""

_BEFORE = {
    "top-k 0.1 % as published": ("sidco",),
    "FFT, 90 % left out": ("FFT, 85 % left out", "FFT, 90 % left out, then none"),
    "CLT-k 1 %, beta 1": ("CLT-k by FLOPs", "CLT-k 47x"),
    "local updates every 24, 0.035 bits per step, inner momentum 0.5": (
        "local updates every 24, 0.035 bits per step, inner momentum 0.5, delay 5",
        "local updates every 24, 0.035 bits per step, inner momentum 0.5, delay 5, alpha 0.5",
    ),
    "dense": (
        *("qsgd-3-bits", "terngrad-noclip", "one worker alone"),
        *("deepreduce-sparse", "skcompress", "deepreduce-qsgd-bf-p0"),
    ),
}
_CONTROLS = ("images-2-workers", "images-8-workers", "images-16-workers", "images-large")
NEAR = {("", name): other for other, names in _BEFORE.items() for name in names} | {
    (task, "top-k 1 % as published"): "CLT-k 1 %, beta 1" for task in _CONTROLS
}
"""{(task or "" for all, system): another system}: only its best point and the rates next to it are tried."""


def list_cells() -> list[tuple[str, str]]:
    """List (task, system) of all verdicts that are quoted or a paper's, the most important first."""

    def rank(claim: Claim) -> tuple[int, int]:
        return ORDER.index(claim.task), PAPERS.index(claim.where.partition(",")[0])

    claims = sorted(CLAIMS, key=rank)
    quoted = [(task, name) for task, names in QUOTED.items() for name in names]
    return list(dict.fromkeys([*quoted, *((c.task, name) for c in claims for name in (c.against, c.system))]))


def judge(claim: Claim, difference: Difference) -> str:
    """Return whether a claim holds.

    Args:
        claim: the claim.
        difference: of ``system`` from ``against``, less the margin.
    """
    found, half = str(difference), difference.half
    if half is None:
        return f"undecided, {found}: fewer than {SEEDS} seeds"
    verdict = difference.verdict
    if claim.better is None:
        if difference.worse + half <= (0 if claim.margin else LEAST):
            return f"reproduced, {found}"
        return f"{'not reproduced' if verdict == 'worse' else 'undecided'}, {found}"
    if verdict == ("better" if claim.better else "worse"):
        return f"reproduced, {found}"
    ahead = -difference.worse if claim.better else difference.worse
    return f"{'not reproduced' if ahead + half <= LEAST else 'undecided'}, {found}"


def judge_rows(claim: Claim, task: Task, ours: Row | None, other: Row | None) -> str:
    """Return whether a claim holds for two rows; "not run" if one is missing."""
    if ours is None or other is None:
        return "not run"
    if claim.steps:
        steps = [[count for count in row.steps if count is not None] for row in (ours, other)]
        if any(len(found) < len(row.tests) for found, row in zip(steps, (ours, other), strict=True)):
            return "undecided: not every seed reaches dense's loss"
        mean, half = statistics.fmean(steps[1]), measure_interval(*steps)
        verdict = judge(
            claim, Difference(statistics.fmean(steps[0]) / mean - 1, None if half is None else half / mean)
        )
    else:
        margin = claim.margin / (100 - other.test) if task.higher_is_better else claim.margin
        found = measure_difference(task, ours, other)
        verdict = judge(claim, replace(found, worse=found.worse - margin))
    return (
        verdict if min(ours.tries / ours.grid, other.tries / other.grid) == 1 else f"{verdict}; provisional"
    )


@dataclass(frozen=True)
class Judged:
    """Claim with the rows of its two systems, None if missing, and its verdict."""

    claim: Claim
    ours: Row | None
    other: Row | None
    verdict: str

    @property
    def kind(self) -> str:
        """Return the first words of the verdict, one of ``VERDICTS``."""
        return next(kind for kind in VERDICTS if self.verdict.startswith(kind))


def judge_all(found: Mapping[str, Sequence[Row]], tasks: Sequence[Task]) -> list[Judged]:
    """Judge every claim.

    Args:
        found: rows by task.
        tasks: all tasks.
    """
    by_name = {task.name: task for task in tasks}
    judged = []
    for claim in CLAIMS:
        rows = {row.system.name: row for row in found.get(claim.task, ())}
        ours, other = rows.get(claim.system), rows.get(claim.against)
        known = claim.task in by_name
        verdict = judge_rows(claim, by_name[claim.task], ours, other) if known else "not run"
        judged.append(Judged(claim, ours, other, verdict))
    return judged


def format_counts(judged: Sequence[Judged]) -> str:
    """Format how many claims of each paper have each verdict; controls do not count."""
    judged = [one for one in judged if not one.claim.is_control]
    counts = Counter((one.claim.where.partition(",")[0], one.kind) for one in judged)
    papers = dict.fromkeys(paper for paper, _ in counts)
    lines = [[paper, *(str(counts[paper, kind]) for kind in VERDICTS)] for paper in papers]
    total = Counter(one.kind for one in judged)
    return format_markdown(["claims of", *VERDICTS], [*lines, ["all", *(str(total[k]) for k in VERDICTS)]])


@dataclass(frozen=True)
class Record:
    """Judged claim as a row of a data file; ``steps`` are empty for claims about a metric."""

    paper: str
    claim: str
    control: bool
    task: str
    system: str
    against: str
    steps: str
    verdict: str


def list_records(judged: Sequence[Judged]) -> list[Record]:
    """List all claims for a data file."""
    found = []
    for one in judged:
        claim = one.claim
        steps = f"{_count_steps(one.ours)}; {_count_steps(one.other)}" if claim.steps else ""
        names = (claim.task, claim.system, claim.against)
        found.append(Record(claim.where, claim.text, claim.is_control, *names, steps, one.verdict))
    return found


def format_claims(judged: Sequence[Judged]) -> str:
    """Format a table of the claims that are reproduced or not reproduced."""
    header = ["paper", "claim", "system here", "against", "verdict"]
    decided = [one for one in judged if one.kind in VERDICTS[:2]]
    lines = [
        [record.paper, record.claim, f"{record.task}: {record.system}", record.against, record.verdict]
        for record in list_records(decided)
    ]
    return f"## The papers' claims about training\n\n{ABOUT}\n{format_markdown(header, lines)}"


def _count_steps(row: Row | None) -> str:
    found = [count for count in row.steps if count is not None] if row else []
    return f"{statistics.fmean(found):,.0f}" if found else "not reached"


ABOUT = f"""[claims.csv](training/claims.csv) has all claims, also the undecided ones. Models and data differ
from the papers', so only the direction can agree. A verdict needs {SEEDS} seeds of both systems, and uses the
interval of [the choices](#what-to-choose):

- A claim of equality is *reproduced* if the interval is below +{LEAST:.0%}, and *not reproduced* if the
  system is *worse* by the rule there.
- A claim of more or less is *reproduced* by that rule, and *not reproduced* if no part of the interval is
  more than {LEAST:.0%} on the claimed side.
- If a paper allows a loss, it is subtracted, and the interval has to end below 0: 1 % for AdaComp (points
  of an accuracy, a fraction of a perplexity); {TABLE_2:.2g} points for ScaleCom's Table 2, {TABLE_3:.2g} for
  its Table 3, {FFT_LOSS:.2g} for FFT.
- Everything else is *undecided*: the interval includes both answers, or seeds are missing.

Differences from the papers:

- Every system has its own best rate and momentum; in ScaleCom, AdaComp, SIDCo and FFT, dense's.
- ScaleCom: with 8 and 16 workers there are 300 steps, in which CLT-k changes each element about three times
  after the warm-up; hence the controls, which do not count. Beta is 1 for up to 8 workers, and 0.1 for large
  batches. `CLT-k by FLOPs` has the rates for 32 samples per worker; images has 16, text-lstm 8. Its large
  batches add workers, from 8 to 64; images-large has 4, with 64 examples each in place of 16. Its local top-k
  degrades a Transformer; ours is a ResNet. Its BLEU has no equivalent in perplexity.
- FFT: its TernGrad leaves out the last layer. Its range is ±1; ours is each chunk's. θ = 0 is the gradient.
- DeepReduce: gradients of recommendations are mostly zeros, so `deepreduce-sparse` takes 1.7 bits per
  parameter, and the paper's, with 40 % zeros, 18.8. Its NCF has Adam; recommendations SGD. It counts steps
  until an accuracy; here they end at dense's training loss.
- SIDCo: its warm-up of 5 epochs is not described; here the rate warms up. Its LSTM has Nesterov momentum,
  text-lstm Adam. Its RedSync keeps about a hundredth of k on PTB, ours k to 2k.
"""
