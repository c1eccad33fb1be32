"""AdaComp's part of the page."""

from __future__ import annotations

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
from benchmarks.papers.pages.table import NOT_TRIED, PARTLY, REPRODUCED, WRONG, Row, format_rows

__all__ = ["find_best", "format_section", "list_rows", "read_rates"]

MARGIN = 0.01
"""Test error above dense training's that Figure 7 accepts."""


def format_section(found: Result) -> str:
    """Format AdaComp's part of the page."""
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
    return f"""## AdaComp (Chen et al., 2018)

{format_rows(list_rows(found))}
### Figures 1, 4, 5 and 6: stress tests

All layers compressed alike, or *FC alone*, the fully connected ones, as in Figures 5 and 6. Each tensor has
its own scale, as in the paper. Momentum 0.9, {found.steps} steps; dense training ends with a test error of
{found.baselines[BATCH]:.1%}. *Local Selection* is `adacomp(factor=1)`, *Dryden* top-k with one mean per sign,
*Seide* one bit of every element with one mean per sign, for the convolutions. The rate counts 8 bits per
element that is sent for bins below 64 and 16 bits for larger ones. RG and dW are the 95th percentiles of the
magnitudes of residual and gradient. Rates and test errors are means of {len(SEEDS)} seeds. RG and dW are the
first seed's.

{format_markdown(header, rows)}
![test error over rate](papers_adacomp.png)
![residuals over steps](papers_adacomp_residuals.png)
![histogram of the residuals](papers_adacomp_histogram.png)

### Figure 7: batch and learners

a) The largest rate with a test error of at most 1 % above dense training's at the same batch, among bins of
{", ".join(map(str, (*BINS, LARGEST)))}, and its test error; {found.steps} steps of one learner, means of
{len(SEEDS)} seeds. The paper's 16 bits can address bins of up to {LARGEST:,} elements. The last
column is AdaComp's rate with bins of {BINS[0]}.

{format_markdown(_BATCH_HEADER, _list_batches(found))}
b) AdaComp with bins of {LEARNER_BIN}, {SUPER_BATCH} images per step over all learners, {found.steps // 2}
steps.

{format_markdown(["learners", "images per learner", "rate", "test error"], _list_learners(found))}"""


_BATCH_HEADER = ("images per step", "dense", "AdaComp", "Dryden", "AdaComp, fixed bins")


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
        cells = [f"{run.rate:,.0f}×, {run.error:.1%}" if run else "none" for run in runs]
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
    dense_only, mixed = found.mixed
    fixed = ", ".join(f"{_find_rate(found, batch):,.0f}×" for batch in BATCHES)
    best = [[find_best(found, batch, method) for batch in BATCHES] for method in ("AdaComp", "Dryden")]
    ratios = [ours.rate / other.rate for ours, other in zip(*best, strict=True) if ours and other]
    rates = [run.rate for run in best[0] if run]
    falls = len(rates) == len(BATCHES) and rates == sorted(rates, reverse=True)
    ahead = len(ratios) == len(BATCHES) and min(ratios) >= FACTOR
    convolutions, lstm = read_rates()
    return [
        Row(
            "Abstract, Figure 2: rates",
            "40× for convolutions, 200× for FC and LSTM layers",
            f"ResNet-20 {convolutions[0]}×, LSTM {lstm[0]}×; by the paper's count {convolutions[1]}× and "
            f"{lstm[1]}×",
            "Theirs counts 8 or 16 bits per element; ours are the bytes of sections. Models and data differ "
            "([adacomp.md](adacomp.md)).",
            PARTLY,
        ),
        Row(
            "Figure 1: Dryden's 0.3 % of the FC layers, Seide's 1 bit for convolutions",
            "20 % test error in place of 18 % with the FC layer alone; divergence with both",
            f"{dense_only.error:.1%} and {mixed.error:.1%}, dense {found.baselines[BATCH]:.1%}",
            "Nothing diverges on the digits, whose two convolutions have 2 % of the parameters.",
            WRONG,
        ),
        Row(
            "Figure 4: test error over rate",
            "all near the baseline below 250×; AdaComp 22 % at 2,000×, the others diverge",
            f"AdaComp {describe('AdaComp')}; Local Selection {describe('Local Selection')}; "
            f"Dryden {describe('Dryden')}; dense {found.baselines[BATCH]:.1%}",
            f"Means of {len(SEEDS)} seeds. {_judge_errors(found)[0]} With Adam, as in the figure's second "
            "part: not tried.",
            _judge_errors(found)[1],
        ),
        Row(
            "Figure 5: residual over training, FC layer alone",
            "Local Selection is stable at 200 and explodes at 300; AdaComp is stable at 5,000",
            "growth from the first quarter to the end: "
            f"Local Selection {_growth(small)} at 200, {_growth(larger)} at 300, {_growth(local)} at 5,000; "
            f"AdaComp {_growth(ada)} at 5,000",
            "The figure's point is the explosion at 300. Nothing explodes in these steps, which are about 10 "
            "epochs; theirs are 140. AdaComp's residuals are the smaller ones.",
            PARTLY if _compute_growth(larger) > EXPLOSION else WRONG,
        ),
        Row(
            "Figure 6: histogram of the residual, FC layer alone",
            "Local Selection from -240,000 to 239,000; AdaComp many orders of magnitude less",
            f"bins of {BINS[-1]}: Local Selection {_reach(local)}, AdaComp {_reach(ada)}",
            "The order is the paper's, the size is not.",
            PARTLY,
        ),
        Row(
            "Figure 7a: rate over the batch",
            "falls with the batch; AdaComp's is 5 to 10 times Dryden's",
            "; ".join(f"{method} {_describe_batches(found, method)}" for method in ("AdaComp", "Dryden"))
            + f"; AdaComp with bins of {BINS[0]} {fixed}",
            f"For {', '.join(map(str, BATCHES))} images per step. AdaComp's rate "
            f"{'falls' if falls else 'does not fall'} with the batch; it is {_join(ratios)} times Dryden's, "
            f"so at least {min(ratios, default=0):.2g} times. Means of {len(SEEDS)} seeds; few errors of 497 "
            "images decide whether a rate is acceptable.",
            REPRODUCED if falls and ahead else PARTLY if falls or ahead else WRONG,
        ),
        Row(
            "Figure 7b: rate over the number of learners",
            "dramatically scales with the learners",
            f"{found.learners[0].rate:,.0f}× with 1 learner, {found.learners[-1].rate:,.0f}× with "
            f"{found.learners[-1].learners}",
            f"A weaker form: {found.learners[-1].rate / found.learners[0].rate:.2f} times the rate. Bins are "
            "fixed here; theirs may have been chosen per point.",
            PARTLY if found.learners[-1].rate > found.learners[0].rate else WRONG,
        ),
        Row(
            "Table 2, Figure 3: training",
            "test errors with SGD and Adam",
            "[training.md](training.md)",
            "Our models; not theirs.",
        ),
        Row(
            "Figure 2: stress tests of two networks",
            "bins of 800 for convolutions and 8,000 for FC layers (CIFAR10-CNN), 500 for all (AlexNet): the "
            "limits of compression",
            "–",
            "The text has no number: the result is a curve. Figure 4 has such bins on the digits.",
            NOT_TRIED,
        ),
        Row(
            "Tables 1, 2, Figure 2: AlexNet, ResNet-18 and -50, BN50, Shakespeare; up to 128 learners",
            "test errors as the baselines",
            "–",
            "No such data; they need GPUs.",
            NOT_TRIED,
        ),
    ]


FACTOR = 5
"""The paper's least factor between AdaComp's rate and Dryden's."""
EXPLOSION = 10
"""Growth of a residual that counts as an explosion; the paper's is by orders of magnitude."""
MODERATE, DIVERGED = 250, 0.5
"""The paper's rate below which all methods are near the baseline, and the test error of a divergence."""


def read_rates() -> tuple[tuple[str, str], tuple[str, str]]:
    """Return the last rates of ResNet-20 and of the LSTM in adacomp.md: ours, and by the paper's count."""
    lines = (RESULTS / "adacomp.md").read_text(encoding="utf-8").splitlines()
    table = [[cell.strip(" ×") for cell in line.split("|")[1:-1]] for line in lines if line.startswith("|")]
    head = next(row for row in table if row[0].startswith("model"))
    ours, counted = head.index("rate"), head.index("rate as in the paper")
    first, second = (
        next(row for row in reversed(table) if row[0].startswith(name))
        for name in ("resnet20, 50", "lstm, 500")
    )
    return (first[ours], first[counted]), (second[ours], second[counted])


def _judge_errors(found: Result) -> tuple[str, str]:
    """Judge Figure 4: near the baseline at small rates, and other methods diverge at large ones."""
    limit = found.baselines[BATCH] + MARGIN
    near = all(run.error <= limit for run in found.runs if run.rate < MODERATE)
    others = [run for run in found.runs if run.method != "AdaComp"]
    diverge = any(run.error >= DIVERGED for run in others)
    below = f"All are{'' if near else ' not'} within 1 % of dense below {MODERATE}×."
    above = "Others diverge at large rates." if diverge else "No method diverges on this small task."
    return f"{below} {above}", REPRODUCED if near and diverge else PARTLY if near or diverge else WRONG


def _join(numbers: list[float]) -> str:
    return ", ".join(f"{number:.2g}" for number in numbers)


def _describe_batches(found: Result, method: str) -> str:
    runs = [find_best(found, batch, method) for batch in BATCHES]
    return ", ".join(f"{run.rate:,.0f}×" if run else "none" for run in runs)


def _compute_growth(run: Run) -> float:
    return float(run.residuals[-1] / max(run.residuals[len(run.residuals) // 4], 1e-300))


def _growth(run: Run) -> str:
    return f"{_compute_growth(run):.2g}×"


def _reach(run: Run) -> str:
    return f"±{np.abs(run.last_residual).max():.2g}"
