"""ScaleCom's part of the page."""

from __future__ import annotations

import collectives as co
from benchmarks.common.results import format_markdown
from benchmarks.papers import balanced, comparators
from benchmarks.papers.pages.table import Row, format_rows
from benchmarks.papers.scalecom import (
    BATCH,
    EFFICIENCY,
    METHODS,
    MINIBATCHES,
    RATIO,
    RUNS,
    TERAFLOPS,
    WORKERS,
    Result,
    Run,
    compute_shares,
)

__all__ = ["format_section"]

SPEECH = {"LSTM": 21.0}
"""A weight of an LSTM is used at each of the 21 frames of a sample."""


def format_section(found: Result) -> str:
    """Format ScaleCom's part of the page."""
    runs = [
        [
            run.name,
            f"{run.distances[0]:.2f} → {run.distances[-1]:.2f}",
            f"{run.hamming.min():.2f}-{run.hamming.max():.2f}",
            f"{run.contraction[-1]:.3f}",
            f"{run.top[-1]:.3f}",
            f"{run.bound[-1]:.3f}",
            f"{_overlap(run):.0%}",
            f"{run.loss:.2g}",
        ]
        for run in found.runs
    ]
    sent = [[str(n), f"{gather / 1e3:,.0f}", f"{clt_k / 1e3:,.0f}"] for n, gather, clt_k in found.sent]
    model_rows = []
    for teraflops in TERAFLOPS:
        for minibatch in MINIBATCHES:
            for workers in WORKERS[::2]:
                times = {m: compute_shares(workers, minibatch, teraflops, m) for m in METHODS}
                totals = {m: sum(t) for m, t in times.items()}
                model_rows.append(
                    [
                        f"{teraflops} TFLOPs, {minibatch} images, {workers} workers",
                        *(f"{times[m][1] / totals[m]:.0%}" for m in METHODS),
                        *(f"{totals['dense'] / totals[m]:.2f}×" for m in METHODS[1:]),
                    ]
                )
    steps = int(found.runs[0].steps[-1])
    return f"""## ScaleCom (Chen et al., 2020)

{format_rows(_list_rows(found))}
### Figures 2 and 3: similarity of the ranks

CLT-k at a ratio of {RATIO:g} on the demo's network, {BATCH} images per rank and step, {steps} steps, all
parameters as one tensor. *Distance* is the mean cosine distance of the ranks' residuals, first and last; d/k,
contraction and bound (equation 7) are the next leader's; γ₀ is the contraction of the true top k. The overlap
is the fraction of the true top k that the next leader selects. `co.similarity` measures all of it.

{
        format_markdown(
            ["run", "distance", "d/k", "contraction", "γ₀", "bound", "overlap", "loss"],
            runs,
        )
    }
![cosine distance, Hamming distance, overlap, performance model](papers_scalecom.png)

### Figure 1a: build-up

Bytes a rank sends for 2,000,000 elements at a ratio of {RATIO:g}, in kB. CLT-k's include the indices.

{format_markdown(["ranks", "all-gather of top-k", "CLT-k"], sent)}
### Figures 1b and 6: performance model

A parameter server with 32 GB/s, ResNet-50, a compression of 112×. Columns: part of a step's time that is
communication, and speed-up over dense. Computing is {
        EFFICIENCY:.0%} of the peak; the paper does not state its
efficiency.

{format_markdown(["", *METHODS, *(f"speed-up, {m}" for m in METHODS[1:])], model_rows)}
{_format_comparison(found.comparisons, found.steps)}
{_format_splits(found.splits)}"""


def _rate_speech(batch: int) -> float:
    return 1 / co.ratios_by_flops(SPEECH, dense_first=False, batch=batch)["LSTM"]


def _overlap(run: Run) -> float:
    return float(1 - run.hamming[-1])


def _list_rows(found: Result) -> list[Row]:
    by_name = {run.name: run for run in found.runs}
    plain, high, filtered = (by_name[name] for name in list(RUNS)[1:2] + list(RUNS)[3:])
    ranks, gather, clt_k = found.sent[-1]
    _, gather_2, clt_k_2 = found.sent[0]

    def share(minibatch: int) -> str:
        computing, sending = compute_shares(64, minibatch, 100, "dense")
        return f"{sending / (computing + sending):.0%}"

    def speed_up(minibatch: int, teraflops: float) -> str:
        dense = sum(compute_shares(64, minibatch, teraflops, "dense"))
        return f"{dense / sum(compute_shares(64, minibatch, teraflops, 'ScaleCom')):.2f}×"

    scalecom = compute_shares(128, 8, 100, "ScaleCom")
    return [
        Row(
            "Figure 1a: build-up",
            "the gather grows with the workers, ScaleCom does not",
            f"all-gather ×{gather / gather_2:.1f}, CLT-k ×{clt_k / clt_k_2:.2f} from 2 to {ranks} ranks",
            "CLT-k's ring all-reduce sends 2 (n-1)/n of the values, which approaches 2.",
        ),
        Row(
            "Figure 1b: bottleneck of the server",
            "top-k's communication grows with the workers",
            "table below",
            "The same model, with assumptions that the paper does not state.",
        ),
        Row(
            "Figure 2a: cosine distance of the memories",
            "falls quickly, to about 0; alike for all numbers of workers",
            f"{plain.distances[0]:.2f} → {plain.distances[-1]:.2f} (4 ranks)",
            "Ours falls first and then rises: the digits are soon learnt, and the ranks' "
            "gradients then differ. It is the mean over all pairs, theirs that of workers 0 and "
            "1.",
        ),
        Row(
            "Figure 2b: overlap with the true top k",
            "more than 70 %",
            f"{_overlap(plain):.0%}",
            "Late in the training, as above. Theirs is an area in a histogram of magnitudes; ours "
            "counts elements.",
        ),
        Row(
            "Figure 2c: high rate, filter",
            "the distance grows at 100 times the rate; β = 0.1 reduces it",
            f"{high.distances[-1]:.2f} at rate 0.2, {filtered.distances[-1]:.2f} with β 0.1",
            "The rate is 20 times larger here; the filter helps in the first 100 steps only.",
        ),
        Row(
            "Figure 2d: overlap at the high rate with the filter",
            "sufficient",
            f"{_overlap(filtered):.0%}; without it {_overlap(high):.0%}",
            "As in 2b.",
        ),
        Row(
            "Figure 3: d/k",
            "0.6-0.8",
            f"{plain.hamming.min():.2f}-{plain.hamming.max():.2f}",
            "The upper end is late in the training.",
        ),
        Row(
            "Figure 6a: part of the communication, 64 workers, 100 TFLOPs",
            "56 % at 8 images, 20 % at 32",
            f"{share(8)}, {share(32)}",
            "Depends on the efficiency that is assumed.",
        ),
        Row(
            "Figure 6a: speed-up of ScaleCom at 8 and 32 images",
            "2× and 1.23× at 100 TFLOPs; 4.1× and 1.75× at 300",
            f"{speed_up(8, 100)}, {speed_up(32, 100)}; {speed_up(8, 300)}, {speed_up(32, 300)}",
            "As above.",
        ),
        Row(
            "Figure 6b: 128 workers, 8 images",
            "ScaleCom below 3 %",
            f"{scalecom[1] / sum(scalecom):.1%}",
            "As above.",
        ),
        Row(
            "Table 1: comparison of methods",
            "gTop-k, SketchSGD, PowerSGD and others by their properties",
            "table below",
            "Bytes and errors of a small training instead of properties; times: [model.md](model.md).",
        ),
        Row(
            "Section 4: rate by the batch per worker, speech (Tables 2, 3)",
            "400× at 32 per worker, 100× at 128",
            f"{_rate_speech(32):.0f}× and {_rate_speech(128):.0f}×",
            "`ratios_by_flops(batch=…)`, in proportion. The paper gives no formula; "
            "its other models keep 32.",
        ),
        Row(
            "Table 2: rates of ResNet-18, ResNet-50, MobileNetV2",
            "112×, 96×, 155×",
            "116×, 97×, 166×",
            "By the rule of section 4, with layers' shapes; a test holds ours. The paper leaves the rule's "
            "bounds open.",
        ),
        Row(
            "Figures 1c, 4, 5, Tables 2, 3: training",
            "accuracy",
            "[training.md](training.md)",
            "Our models; not theirs.",
        ),
    ]


def _format_comparison(found: list[comparators.Comparison], steps: int) -> str:
    """Format the table of methods."""
    rows = [
        [
            each.method,
            f"{each.nbytes / 1e3:,.1f}",
            f"{found[0].nbytes / each.nbytes:.0f}×",
            f"{each.loss:.3f}",
            f"{each.error:.1%}",
        ]
        for each in found
    ]
    header = ["method", "kB per rank and step", "less than dense", "loss", "test error"]
    return f"""### Table 1: the methods that ScaleCom is compared with

{comparators.RANKS} ranks, {comparators.BATCH} images per rank and step, {steps} steps, plain gradient
descent, rate {comparators.RATE:g}, one ratio for all tensors. All but dense keep what they do not send.
Bytes are counted; those of PowerSGD and SketchSGD are computed for a ring all-reduce. These two are baselines
of the benchmarks, not part of the library.

{format_markdown(header, rows)}"""


def _format_splits(found: list[balanced.Point]) -> str:
    """Format the comparison with Ok-Topk's balanced split."""
    methods = list(found[0].seconds)
    rows = [
        [
            f"{point.inputs}, {point.ranks} ranks",
            *(f"{1e3 * point.seconds[name]:.2f} ms, {point.nbytes[name] / 1e3:.0f} kB" for name in methods),
        ]
        for point in found
    ]
    return f"""### Ok-Topk's balanced split

Not in the five papers: Li and Hoefler, 2022. Simulated links of {8e-9 / balanced.BETA:g} Gbit/s and
{balanced.ALPHA * 1e6:g} µs per message; computing takes no time. Time of a call, and bytes of the busiest
rank. Both last columns are `algorithm="split-pairs"`; its first call on a channel has equal ranges. *The
demo's training*: top-k at 0.01 with feedback. *Skewed*: {balanced.ELEMENTS:,} elements, top-k at 0.01, of
which most are in the last {balanced.HOT:.0%}.

{format_markdown(["", *methods], rows)}"""
