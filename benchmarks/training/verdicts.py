"""Whether these runs reproduce the papers' claims, and the runs that this takes."""

from __future__ import annotations

import math
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
    "format_claims",
    "format_counts",
    "judge",
    "judge_all",
    "judge_rows",
    "list_cells",
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


def format_claims(judged: Sequence[Judged]) -> str:
    """Format a table of the claims."""
    header = ["paper", "claim", "system here", "against", "metric, bits", "its metric, bits", "verdict"]
    lines = []
    for one in judged:
        claim, rows = one.claim, (one.ours, one.other)
        cells = [_describe(row, steps=claim.steps) for row in rows]
        system = f"{claim.task}: {claim.system}"
        lines.append([claim.where, claim.text, system, claim.against, *cells, one.verdict])
    return f"## The papers' claims about training\n\n{ABOUT}\n{format_markdown(header, lines)}"


def _describe(row: Row | None, *, steps: bool) -> str:
    if row is None:
        return "–"
    if steps:
        found = [count for count in row.steps if count is not None]
        return f"{statistics.fmean(found):,.0f} steps ({len(row.tests)})" if found else "not reached"
    deviation = "" if math.isnan(row.deviation) else f" ± {row.deviation:.2g}"
    return f"{row.test:.4g}{deviation} ({len(row.tests)}){' *' if row.at_edge else ''}, {row.best.bits:.3g}"


ABOUT = f"""Models and data differ from the papers', so only the direction can agree. A verdict needs
{SEEDS} seeds of both systems, and uses the interval of [the choices](#what-to-choose). A claim of equality is
*reproduced* if the whole interval is below +{LEAST:.0%}, and *not reproduced* if the system is *worse* by the
rule there. A claim of more or less is *reproduced* by that rule, and *not reproduced* if no part of the
interval is more than {LEAST:.0%} on the claimed side. Everything else is *undecided*. Accuracies are compared
by their distance from 100 %; the number of seeds is in brackets. `*`: the best rate is at the edge of those
that were tried, so a better one may be outside.

Some papers allow a loss. The verdict's difference is what is left after subtracting it, and its interval has
to end below 0. AdaComp's text allows 1 %: points of an accuracy, and here a fraction of a perplexity. The
others' own tables have losses. ScaleCom's ResNet-50 loses {TABLE_2:.2g} points in Table 2 and {TABLE_3:.2g}
in Table 3, and FFT loses {FFT_LOSS:.2g} at most. The loss of BLEU of ScaleCom's Transformer has no equivalent
in perplexity, so nothing is subtracted there.

With 8 and 16 workers there are 300 steps. CLT-k changes 1 % of the elements in a step, so each about three
times after the warm-up; gathered top-k changes each worker's 1 %. Hence the controls. They are no claims of a
paper, and do not count. ScaleCom has beta 1 for up to 8 workers, and beta 0.1 for large batches.
`CLT-k by FLOPs` has the rates for 32 samples per worker; images has 16, and text-lstm 8. The paper would
adjust the rates, by a rule that it does not state.

Known differences: ScaleCom and AdaComp train with dense training's rate and momentum. Here every system has
its own best ones. On ImageNet, ScaleCom's large batches keep 32 images per worker and add workers, from 8
to 64. images-large has 4 workers, and 64 examples each in place of 16. Local top-k degrades a Transformer in
Figure 1c; ours is a ResNet. Neither other betas (footnote 8) nor the loss of large data sets with beta 1
(section 4) were tried. FFT's TernGrad leaves the last layer as it is; ours quantises it, too. AdaComp's paper
tried Adam on a CNN only. The gradients of recommendations are mostly zeros: `deepreduce-sparse` takes 1.7
bits per parameter, where the paper's, with 40 % zeros, take 18.8. FFT's range is ±1; ours is that of
each chunk. SIDCo's training has a warm-up of 5 epochs, and the paper does not state of what; here `sidco`
warms up the rate alone.

In SIDCo and FFT, too, all systems have dense training's rate and momentum. SIDCo's LSTM has Nesterov momentum
and DeepReduce's NCF Adam; text-lstm has Adam, and recommendations SGD. RedSync keeps k to 2k elements here,
and about a hundredth of k on SIDCo's PTB. DeepReduce counts steps until an accuracy is reached; the steps
here end at dense's training loss. FFT with θ = 0 is here the gradient itself, in float32.
"""
