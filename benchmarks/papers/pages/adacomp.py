"""AdaComp's part of the page."""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from benchmarks.common.results import RESULTS, format_markdown
from benchmarks.papers.adacomp import (
    BATCH,
    BATCHES,
    BINS,
    LARGEST,
    LEARNER_BIN,
    SEEDS,
    SUPER_BATCH,
    Result,
    Run,
)
from benchmarks.papers.pages.table import NOT_TRIED, PARTLY, REPRODUCED, WRONG, Row, Table, format_rows

__all__ = [
    "Rate",
    "find_best",
    "format_section",
    "list_rows",
    "list_stress",
    "read_rates",
    "read_trained_rate",
]

MARGIN = 0.01
"""Test error above dense training's that Figure 7 accepts."""


def list_stress(found: Result) -> Table:
    """List the stress tests of all methods and bins, for a data file."""
    rows = [
        [
            f"{run.method}, {run.bin}{', FC alone' if run.scope == 'FC' else ''}",
            f"{run.rate:,.0f}×" if "Seide" not in run.method else "–",
            f"{run.error:.1%}",
            f"{run.residuals[len(run.residuals) // 4]:.2g}",
            f"{run.residuals[-1]:.2g}",
            f"{run.gradients[-1]:.2g}",
            f"{run.last_residual.min():.2g} … {run.last_residual.max():.2g}",
        ]
        for run in (*found.runs, *found.dense_layers, *found.mixed)
    ]
    header = ["method, bin", "rate", "test error", "RG, first quarter", "RG, end", "dW, end", "range of RG"]
    return Table(header, rows)


def format_section(found: Result) -> str:
    """Format AdaComp's part of the page."""
    return f"""## AdaComp (Chen et al., 2018)

{format_rows(list_rows(found))}
### Figures 1, 4, 5 and 6: stress tests

All layers compressed alike, or *FC alone*, the fully connected ones, as in Figure 5. Momentum 0.9,
{found.steps} steps; dense training ends with a test error of {found.baselines[BATCH]:.1%}. *Local
Selection*: `adacomp(factor=1)`; *Dryden*: top-k with one mean per sign; *Seide*: one bit of every element,
for the convolutions. The rate counts 8 bits per element sent for bins below 64, 16 for larger ones.
[adacomp_stress.csv](papers/adacomp_stress.csv) has rates and test errors, means of {len(SEEDS)} seeds, and RG
and dW: 95th percentiles of the magnitudes of residual and gradient, first seed. Pictures: all layers
compressed.

![test error over rate](papers_adacomp.png)
![residuals over steps](papers_adacomp_residuals.png)
![histogram of the residuals](papers_adacomp_histogram.png)

### Figure 7: batch and learners

a) The largest rate with a test error of at most 1 % above dense training's at the same batch, among bins of
{", ".join(map(str, (*BINS, LARGEST)))} (16 bits address no larger ones); {found.steps} steps of one
learner, means of {len(SEEDS)} seeds. The last column is AdaComp's rate with bins of {BINS[0]}.

{format_markdown(_BATCH_HEADER, _list_batches(found))}
b) AdaComp with bins of {LEARNER_BIN}, {SUPER_BATCH} images per step over all learners, {found.steps // 2}
steps, one seed.

{format_markdown(["learners", "images per learner", "rate", "test error"], _list_learners(found))}"""


_BATCH_HEADER = (
    *("images per step", "dense", "AdaComp: rate, error, bin", "Dryden: rate, error, bin"),
    "AdaComp, fixed bins",
)


def _find_rate(found: Result, batch: int) -> float:
    """Return AdaComp's rate with the smallest bins."""
    return next(r.rate for r in found.batches if (r.batch, r.method, r.bin) == (batch, "AdaComp", BINS[0]))


def find_best(found: Result, batch: int, method: str) -> Run | None:
    """Return the run with the largest rate whose test error is acceptable, or None."""
    limit = found.baselines[batch] + MARGIN
    runs = [r for r in found.batches if (r.batch, r.method) == (batch, method) and r.error <= limit]
    return max(runs, key=lambda run: run.rate, default=None)


def _list_batches(found: Result) -> list[list[str]]:
    rows = []
    for batch in BATCHES:
        runs = [find_best(found, batch, method) for method in ("AdaComp", "Dryden")]
        cells = [f"{run.rate:,.0f}×, {run.error:.1%}, {run.bin:,}" if run else "none" for run in runs]
        fixed = f"{_find_rate(found, batch):,.0f}×"
        rows.append([str(batch), f"{found.baselines[batch]:.1%}", *cells, fixed])
    return rows


def _list_learners(found: Result) -> list[list[str]]:
    return [
        [str(each.learners), str(SUPER_BATCH // each.learners), f"{each.rate:,.0f}×", f"{each.error:.1%}"]
        for each in found.learners
    ]


def list_rows(found: Result) -> list[Row]:
    """List the paper's tables and figures."""

    def pick(method: str, bin: int) -> Run:
        return next(run for run in found.dense_layers if (run.method, run.bin) == (method, bin))

    def describe(method: str) -> str:
        return ", ".join(f"{run.error:.1%} at {run.rate:,.0f}×" for run in found.runs if run.method == method)

    ada, small, larger, local = (
        pick(*key)
        for key in (
            ("AdaComp", BINS[-1]),
            *(("Local Selection", bin) for bin in (200, 300, BINS[-1])),
        )
    )
    smaller = [f"{run.bin:,}" for run in (local, small, larger) if ada.residuals[-1] < run.residuals[-1]]
    dense_only, mixed = found.mixed
    fixed = ", ".join(f"{_find_rate(found, batch):,.0f}×" for batch in BATCHES)
    best = [[find_best(found, batch, method) for batch in BATCHES] for method in ("AdaComp", "Dryden")]
    ratios = [ours.rate / other.rate for ours, other in zip(*best, strict=True) if ours and other]
    rates = [run.rate for run in best[0] if run]
    others = [run.rate for run in best[1] if run]
    falls, suffers = (
        len(one) == len(BATCHES) and one == sorted(one, reverse=True) for one in (rates, others)
    )
    ahead = len(ratios) == len(BATCHES) and min(ratios) >= FACTOR
    growing = all(one.rate < other.rate for one, other in pairwise(found.learners))
    convolutions, lstm = read_rates()
    with_sgd, with_adam = (read_trained_rate(task) for task in ("images", "images-adam"))
    moved = read_trained_rate("images", momentum=0.9)
    return [
        Row(
            "Abstract, Figure 2: rates",
            "40× for convolutions, 200× for FC and LSTM layers",
            f"ResNet-20 {convolutions.ours}×, LSTM {lstm.ours}×; by the paper's count "
            f"{convolutions.counted}× and {lstm.counted}×",
            "Theirs counts 8 or 16 bits per element, ours the sections' bytes. Our training losses end at "
            f"{convolutions.loss} and {lstm.loss}, uncompressed at {convolutions.dense} and {lstm.dense} "
            "([adacomp.md](adacomp.md)).",
            PARTLY,
        ),
        Row(
            "Experiment results: elements per bin",
            "typically up to 5, with bins of 50 and 500",
            f"ResNet-20 {convolutions.per_bin}, LSTM {lstm.per_bin}: means over all bins; "
            f"{convolutions.filled:.1f} and {lstm.filled:.1f} over those that are not empty",
            "At the end; the first steps have more ([adacomp.md](adacomp.md)). The paper mentions no empty "
            "bins.",
            REPRODUCED if max(convolutions.filled, lstm.filled) <= PER_BIN else PARTLY,
        ),
        Row(
            "Figure 1: Dryden's 0.3 % of the FC layers, Seide's 1 bit for convolutions",
            "20 % test error in place of 18 % with the FC layer alone; divergence with both",
            f"{dense_only.error:.1%} and {mixed.error:.1%}, dense {found.baselines[BATCH]:.1%}",
            "Nothing diverges on the digits.",
            WRONG,
        ),
        Row(
            "Figure 4: test error over rate",
            "all near the baseline below 250×; AdaComp 22 % at 2,000×, the others diverge",
            f"AdaComp {describe('AdaComp')}; Local Selection {describe('Local Selection')}; Dryden "
            f"{describe('Dryden')}; dense {found.baselines[BATCH]:.1%}",
            f"Means of {len(SEEDS)} seeds. {_judge_errors(found)[0]} {_compare_largest(found)} Adam was not "
            "tried.",
            _judge_errors(found)[1],
        ),
        Row(
            "Figure 5: residual over training, FC layer alone",
            "Local Selection is stable at 200 and explodes at 300; AdaComp is stable at 5,000. Rates: "
            "2,000× for AdaComp at 5,000, 600× for Local Selection at 300",
            f"95th percentile at the end, growth since the first quarter: Local Selection {_end(small)} at "
            f"200, {_end(larger)} at 300, {_end(local)} at 5,000; AdaComp {_end(ada)} at 5,000. Rates: "
            f"AdaComp {ada.rate:,.0f}×, Local Selection at 300 {larger.rate:,.0f}×",
            "Nothing explodes in about 10 epochs; theirs are 140. AdaComp's residuals at 5,000 are smaller "
            f"than Local Selection's at {' and '.join(smaller) or 'no bin'}; in the paper, also than those "
            "at 300.",
            PARTLY if _compute_growth(larger) > EXPLOSION else WRONG,
        ),
        Row(
            "Figure 6: histogram of the residual",
            "Local Selection from -240,000 to 239,000; AdaComp many orders of magnitude less",
            f"FC layers alone, bins of {BINS[-1]}: Local Selection {_reach(local)}, AdaComp {_reach(ada)}",
            f"Local Selection's reach only {_span(local) / _span(ada):.1f} times further, after about 10 "
            "epochs; theirs are 120. Bins and layers are not stated.",
            PARTLY,
        ),
        Row(
            "Figure 7a: rate over the batch",
            "falls with the batch, Dryden's dramatically; AdaComp's is 5 to 10 times Dryden's",
            "; ".join(f"{method} {_describe_batches(found, method)}" for method in ("AdaComp", "Dryden"))
            + f"; AdaComp with bins of {BINS[0]} {fixed}",
            f"For {', '.join(map(str, BATCHES))} images per step. AdaComp's rate "
            f"{'falls' if falls else 'does not fall'} with the batch, Dryden's "
            f"{'falls' if suffers else 'does not'}. AdaComp's is {_join(ratios)} times Dryden's. Means of "
            f"{len(SEEDS)} seeds; few errors of 497 images decide whether a rate is acceptable. "
            f"{_describe_edge(best[0])}",
            REPRODUCED if falls and ahead else PARTLY if falls or ahead else WRONG,
        ),
        Row(
            "Figure 7b: rate over the number of learners",
            "dramatically scales with the learners",
            f"{found.learners[0].rate:,.0f}× with 1 learner, {found.learners[-1].rate:,.0f}× with "
            f"{found.learners[-1].learners}",
            f"A weaker form: {found.learners[-1].rate / found.learners[0].rate:.2f} times the rate. One "
            f"seed; the rate {'grows' if growing else 'does not grow'} at each step of the table.",
            PARTLY if found.learners[-1].rate > found.learners[0].rate else WRONG,
        ),
        Row(
            "Figure 3: rates with Adam",
            "similar to those with SGD",
            f"ResNet-20 {with_adam:.1f}× with Adam, {with_sgd:.1f}× with SGD",
            f"Means of 3 seeds. SGD with momentum 0.9, as theirs: {moved:.1f}× ([training.md](training.md)).",
            REPRODUCED if abs(with_adam / with_sgd - 1) < ALIKE else WRONG,
        ),
        Row(
            "Table 2, Figure 3: training",
            "test errors with SGD and Adam",
            "[training.md](training.md)",
            "Our models; not theirs.",
        ),
        Row(
            "Figure 2: stress tests of two networks",
            "bins of 800 for convolutions and 8,000 for FC layers (CIFAR10-CNN), 500 for all (AlexNet): "
            "the limits of compression",
            "–",
            "No such data.",
            NOT_TRIED,
        ),
        Row(
            "Tables 1, 2, Figure 2: MNIST-CNN, CIFAR10-CNN, AlexNet, ResNet-18 and -50, BN50-DNN, LSTM on "
            "Shakespeare; up to 128 learners",
            "test errors almost identical with the baselines'",
            "–",
            "No such data.",
            NOT_TRIED,
        ),
    ]


PER_BIN = 5
"""The paper's number of elements that a bin typically sends, at most."""
ALIKE = 0.1
"""Largest relative difference of two rates that are similar."""
FACTOR = 5
"""The paper's least factor between AdaComp's rate and Dryden's."""
EXPLOSION = 10
"""Growth of a residual that counts as an explosion; the paper's is by orders of magnitude."""
MODERATE, DIVERGED = 250, 0.5
"""The paper's rate below which all methods are near the baseline, and the test error of a divergence."""


@dataclass(frozen=True)
class Rate:
    """A model's last row of adacomp.md with the paper's bin, as printed there.

    Attributes:
        ours, counted: rate of the sections, and by the paper's count.
        per_bin: mean number of elements that are sent per bin.
        empty: percentage of empty bins.
        loss, dense: training loss, and that of uncompressed training.
    """

    ours: str
    counted: str
    per_bin: str
    empty: str
    loss: str
    dense: str

    @property
    def filled(self) -> float:
        """Return the mean number of elements that are sent per bin that is not empty."""
        return float(self.per_bin) / (1 - float(self.empty.strip("%")) / 100)


def read_rates() -> tuple[Rate, Rate]:
    """Read the last rates of ResNet-20, with bins of 50, and of the LSTM, with bins of 500, in adacomp.md."""
    lines = (RESULTS / "adacomp.md").read_text(encoding="utf-8").splitlines()
    table = [[cell.strip(" ×") for cell in line.split("|")[1:-1]] for line in lines if line.startswith("|")]
    head = next(row for row in table if row[0].startswith("model"))
    columns = ("rate", "rate as in the paper", "sent per bin", "empty bins", "loss", "uncompressed loss")
    places = [head.index(name) for name in columns]
    first, second = (
        next(row for row in reversed(table) if row[0].startswith(name))
        for name in ("resnet20, 50,", "lstm, 500,")
    )
    return Rate(*(first[place] for place in places)), Rate(*(second[place] for place in places))


def read_trained_rate(task: str, momentum: float | None = None) -> float:
    """Read AdaComp's rate in the trainings of a task, at the settings that are best on validation.

    Args:
        task: name in benchmarks/training; its accuracy is the metric.
        momentum: of the settings; None for any.

    Returns:
        The mean over the seeds.
    """
    lines = (RESULTS / "training" / f"{task}.jsonl").read_text(encoding="utf-8").splitlines()
    runs = [one for one in map(json.loads, lines) if one["run"]["system"] == "adacomp"]
    tuned = [
        one
        for one in runs
        if one["run"]["seed"] == 0 and momentum in (None, one["run"]["settings"]["momentum"])
    ]
    best = max(tuned, key=lambda one: one["validation"])["run"]["settings"]
    return statistics.fmean(32 / one["bits"] for one in runs if one["run"]["settings"] == best)


def _describe_edge(runs: list[Run | None]) -> str:
    """Describe whether AdaComp's acceptable bins end where the grid ends."""
    ends = sum(run is not None and run.bin == LARGEST for run in runs)
    many = "every batch" if ends == len(runs) else f"{ends} of {len(runs)} batches"
    return f"AdaComp's bin is the largest tried at {many}, so its factor may be larger."


def _judge_errors(found: Result) -> tuple[str, str]:
    """Judge Figure 4: near the baseline at small rates, and other methods diverge at large ones."""
    limit = found.baselines[BATCH] + MARGIN
    near = all(run.error <= limit for run in found.runs if run.rate < MODERATE)
    others = [run for run in found.runs if run.method != "AdaComp"]
    diverge = any(run.error >= DIVERGED for run in others)
    below = f"All are{'' if near else ' not'} within 1 % of dense below {MODERATE}×."
    above = "Others diverge at large rates." if diverge else "No method diverges on this small task."
    return f"{below} {above}", REPRODUCED if near and diverge else PARTLY if near or diverge else WRONG


def _compare_largest(found: Result) -> str:
    """Compare AdaComp at its largest rate with the next larger rate of Dryden."""
    ada = max((run for run in found.runs if run.method == "AdaComp"), key=lambda run: run.rate)
    larger = [run for run in found.runs if run.method == "Dryden" and run.rate >= ada.rate]
    if not larger:
        return ""
    dryden = min(larger, key=lambda run: run.rate)
    behind = dryden.error - ada.error
    how = "more than 1 % behind" if behind > MARGIN else "within 1 %"
    return f"Dryden at {dryden.rate:,.0f}× is {how} of AdaComp at {ada.rate:,.0f}×."


def _join(numbers: list[float]) -> str:
    return ", ".join(f"{number:.1f}" for number in numbers)


def _describe_batches(found: Result, method: str) -> str:
    runs = [find_best(found, batch, method) for batch in BATCHES]
    return ", ".join(f"{run.rate:,.0f}×" if run else "none" for run in runs)


def _compute_growth(run: Run) -> float:
    return float(run.residuals[-1] / max(run.residuals[len(run.residuals) // 4], 1e-300))


def _end(run: Run) -> str:
    return f"{run.residuals[-1]:.2g} ({_compute_growth(run):.2g}×)"


def _span(run: Run) -> float:
    return float(np.abs(run.last_residual).max())


def _reach(run: Run) -> str:
    return f"±{_span(run):.2g}"
