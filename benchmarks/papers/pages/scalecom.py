"""ScaleCom's part of the page."""

from __future__ import annotations

import numpy as np

import collectives as co
from benchmarks.common.results import format_markdown
from benchmarks.papers import balanced, comparators, memories
from benchmarks.papers.layers import NETWORKS, compute_rate
from benchmarks.papers.pages.table import (
    NOT_TRIED,
    PARTLY,
    REPRODUCED,
    UNDECIDED,
    WRONG,
    Row,
    Table,
    format_rows,
)
from benchmarks.papers.scalecom import (
    EFFICIENCY,
    METHODS,
    MINIBATCHES,
    RATIO,
    TERAFLOPS,
    WORKERS,
    Result,
    compute_shares,
)

__all__ = ["format_section", "list_methods", "list_model", "list_rows", "list_similarity", "list_splits"]

SPEECH = {"LSTM": 21.0}
"""A weight of an LSTM is used at each of the 21 frames of a sample."""
LEAST, MOST = 0.6, 0.8
"""Range of d/k in Figure 3."""
SHARED = 0.7
"""Part of the true top 2 %'s area that the local one shares in Figure 2b, at least."""


def list_similarity(found: Result) -> Table:
    """List the similarity of the ranks in every run, for a data file."""
    runs = [
        [
            run.name,
            f"{run.distances[0]:.2f}, {run.distances.min():.2f}, {run.distances[-1]:.2f}",
            f"{run.areas.max():.0%}, {run.areas[-1]:.0%}",
            f"{run.hamming.min():.2f}-{run.hamming.max():.2f}",
            f"{run.contraction[-1]:.3f}",
            f"{run.top[-1]:.3f}",
            f"{run.loss:.2g}",
        ]
        for run in found.runs
    ]
    return Table(["run", "distance", "area", "d/k", "contraction", "γ₀", "loss"], runs)


def format_section(found: Result) -> str:
    """Format ScaleCom's part of the page."""
    sent = [[str(n), f"{gather / 1e3:,.0f}", f"{clt_k / 1e3:,.0f}"] for n, gather, clt_k in found.sent]
    return f"""## ScaleCom (Chen et al., 2020)

{format_rows(list_rows(found))}
### Figures 2 and 3: similarity of the ranks

The paper's set-up on the demo's network: {memories.BATCH} images per rank and step, the first
{int(found.runs[0].steps[-1])} iterations, which are 4 to 18 epochs of the digits. The paper does not state
the rate of 2a and 2b, the workers of 2b to 2d, or the ratio of 2c and 2d: here 0.01, 4 for CLT-k, and
0.001. All parameters are one vector; the last runs have 1/400. *Distance*: cosine distance of the memories
of ranks 0 and 1, first, least and last. *Area*: the magnitudes in the top {memories.TOP:.0%} of both rank 0
and the mean, over those of the mean's, largest and last. d/k and contraction (the part of the energy that
is lost) are rank 0's; γ₀ is the true top k's. `co.similarity` measures these of a CLT-k in use.
[scalecom_similarity.csv](papers/scalecom_similarity.csv) has all runs.

![cosine distance of the memories over the steps](papers_scalecom_memories.png)
![Hamming distance d/k over the steps](papers_scalecom_selections.png)
![histograms of all magnitudes, of rank 0's top 2 %, and of the true one](papers_scalecom_areas.png)

### Figure 1a: build-up

Bytes a rank sends for 2,000,000 elements at a ratio of {RATIO:g}, in kB. CLT-k's include the indices.

{format_markdown(["ranks", "all-gather of top-k", "CLT-k"], sent)}
### Figures 1b and 6: performance model

A parameter server with 32 GB/s, ResNet-50, a compression of 112× as in Figure 1b (Figure 6: about 100×).
[scalecom_model.csv](papers/scalecom_model.csv) has the part of a step's time that is communication, and the
speed-up over dense. Workers compute at {EFFICIENCY:.0%} of the peak; the paper states none, and with this one
the numbers are near its own. ScaleCom's 112× is that of its values, top-k's that of all its bytes.

![communication per step over the workers, and parts of a step](papers_scalecom_model.png)

{_describe_comparison(found.steps)}
{_describe_splits()}"""


def list_model() -> Table:
    """List the performance model's parts of a step, for a data file."""
    rows = []
    for teraflops in TERAFLOPS:
        for minibatch in MINIBATCHES:
            for workers in WORKERS[::2]:
                times = {m: compute_shares(workers, minibatch, teraflops, m) for m in METHODS}
                totals = {m: sum(t) for m, t in times.items()}
                rows.append(
                    [
                        *(str(teraflops), str(minibatch), str(workers)),
                        *(f"{times[m][1] / totals[m]:.0%}" for m in METHODS),
                        *(f"{totals['dense'] / totals[m]:.2f}×" for m in METHODS[1:]),
                    ]
                )
    header = ["TFLOPs", "images", "workers", *METHODS, *(f"speed-up, {m}" for m in METHODS[1:])]
    return Table(header, rows)


def _rate_speech(batch: int) -> float:
    return 1 / co.ratios_by_flops(SPEECH, dense_first=False, batch=batch)["LSTM"]


def _describe_distances(runs: list[memories.Run]) -> str:
    """Describe how the distances of the memories change, from the first, the least and the last."""
    falls = [run for run in runs if run.distances.min() < run.distances[0]]
    rises = [run for run in falls if run.distances[-1] > run.distances.min()]
    if len(rises) == len(runs):
        ends = [run.distances[-1] for run in runs]
        larger = " It ends larger with more ranks." if ends == sorted(ends) else ""
        return f"The distance falls in the first iterations, then rises slowly.{larger}"
    return f"The distance falls in {len(falls)} of {len(runs)} runs, and rises again in {len(rises)}."


def _describe_areas(runs: list[memories.Run]) -> str:
    """Describe which runs share the paper's part of the area, and when."""
    ends = sum(run.areas[-1] > SHARED for run in runs)
    peaks = sum(run.areas.max() > SHARED for run in runs)
    return (
        f"At iteration 90, {ends or 'none'} of {len(runs)} runs has more than {SHARED:.0%}; "
        f"{peaks or 'none'} has at some iteration before."
    )


def _describe_means(runs: list[memories.Run]) -> str:
    """Describe which means of d/k are in the range of Figure 3."""
    means = [run.hamming.mean() for run in runs]
    inside = sum(LEAST <= mean <= MOST for mean in means)
    above = sum(mean > MOST for mean in means)
    return f"{inside} of {len(runs)} means are in the paper's range, {above} above it. The ranges are wider."


def _areas(run: memories.Run) -> str:
    return f"{run.areas.max():.0%} at most, {run.areas[-1]:.0%} at 90"


def list_rows(found: Result) -> list[Row]:
    """List the paper's tables and figures."""
    two, four, eight = found.runs[:3]
    low, high, filtered = found.runs[3:6]
    hamming = found.runs[6:]
    ranks, gather, clt_k = found.sent[-1]
    _, gather_2, clt_k_2 = found.sent[0]
    by_method = {each.method: each for each in found.comparisons}
    clt, top = (by_method[name] for name in (f"CLT-k {RATIO:g} (ScaleCom)", f"top-k {RATIO:g}, all-gather"))

    def share(minibatch: int) -> str:
        computing, sending = compute_shares(64, minibatch, 100, "dense")
        return f"{sending / (computing + sending):.0%}"

    def speed_up(minibatch: int, teraflops: float) -> str:
        dense = sum(compute_shares(64, minibatch, teraflops, "dense"))
        return f"{dense / sum(compute_shares(64, minibatch, teraflops, 'ScaleCom')):.2f}×"

    def distances(run: memories.Run) -> str:
        return f"{run.distances[0]:.2f} → {run.distances.min():.2f} → {run.distances[-1]:.2f}"

    def measure_part(teraflops: float) -> float:
        computing, sending = compute_shares(WORKERS[-1], 8, teraflops, "ScaleCom")
        return sending / (computing + sending)

    few, many, most = (compute_shares(workers, 8, 100, "top-k")[1] for workers in WORKERS[::2])
    slow, fast = map(measure_part, TERAFLOPS)
    index = compute_shares(64, 8, 100, "ScaleCom")[1] / 3 / compute_shares(64, 8, 100, "dense")[1]
    larger = int(np.sum(filtered.areas > high.areas))
    held = [run.contraction <= run.hamming + (1 - run.hamming) * run.top for run in found.runs]
    contractions = [run.contraction[-1] for run in hamming]
    ends = [run.areas[-1] > SHARED for run in found.runs[:3]]
    return [
        Row(
            "Figure 1a: build-up",
            "the gather grows with the workers; ScaleCom does not",
            f"all-gather ×{gather / gather_2:.1f}, CLT-k ×{clt_k / clt_k_2:.2f} from 2 to {ranks} ranks",
            "The ring all-reduce approaches 2.",
            REPRODUCED,
        ),
        Row(
            "Figure 1b: bottleneck of the server",
            "top-k's communication grows with the workers",
            "[scalecom_model.csv](papers/scalecom_model.csv)",
            "Our formula: the server's sum grows with the workers.",
            PARTLY,
        ),
        Row(
            "Figures 4, 5, Tables 2, 3: training",
            "accuracies close to the baseline",
            "[training.md](training.md)",
            "Our models; not theirs.",
        ),
        Row(
            "Figure 2a: cosine distance of the memories, local top-k 0.1 %",
            "decreases fast over the iterations; agnostic to the number of workers",
            f"{distances(two)} (2 ranks), {distances(four)} (4), {distances(eight)} (8): first, least, last",
            f"From iteration {memories.FIRST} on. {_describe_distances(found.runs[:3])}",
            PARTLY,
        ),
        Row(
            "Figure 2b: area of the true top 2 % that the local one shares, iteration 90",
            "more than 70 %",
            "; ".join(f"{name} ranks {_areas(run)}" for name, run in ((2, two), (4, four), (8, eight))),
            f"{_describe_areas(found.runs[:3])} Areas of magnitudes: our reading.",
            REPRODUCED if all(ends) else PARTLY if any(ends) else WRONG,
        ),
        Row(
            "Figure 2c: CLT-k's distance at 100 times the rate, and the filter",
            "much larger at rate 1 than at 0.01; β = 0.1 improves the similarity",
            "; ".join(
                f"{name} {run.distances[-1]:.2f} at 90, mean {run.distances.mean():.2f}"
                for name, run in (("rate 0.01:", low), ("rate 1:", high), ("with β = 0.1:", filtered))
            ),
            "The rate hardly changes it; the filter does not reduce it.",
            WRONG,
        ),
        Row(
            "Figure 2d: area at rate 1 with the filter",
            '"sufficient area overlap"',
            f"{_areas(filtered)}; without the filter {_areas(high)}",
            f"The mean area is {filtered.areas.mean():.0%} with the filter, {high.areas.mean():.0%} "
            f"without. It is larger with the filter in {larger} of {filtered.areas.size} measurements. The "
            "paper states no number.",
            PARTLY,
        ),
        Row(
            "Figure 3: d/k of CLT-k, 400×, rate 0.1",
            '0.6-0.8, over various numbers of workers; elsewhere "still above 0.32"',
            ", ".join(
                f"{run.hamming.min():.2f}-{run.hamming.max():.2f}, mean {run.hamming.mean():.2f}"
                for run in hamming
            )
            + " (2, 4, 8 ranks)",
            _describe_means(hamming),
            PARTLY,
        ),
        Row(
            "Lemma 1: contraction of CLT-k",
            "the part of the energy that is lost is at most d/k + (1 - d/k) γ₀ (equation 7)",
            f"in {sum(int(np.sum(one)) for one in held)} of {sum(one.size for one in held)} measurements",
            "In expectation in the paper.",
            REPRODUCED if all(one.all() for one in held) else WRONG,
        ),
        Row(
            "Theorem 1, Lemma 2: convergence, contraction over the workers",
            "a linear speed-up with the workers (Remark 4); under its conditions, the contraction falls "
            "with them (Remark 5)",
            "–",
            "Proofs. Measured for Figure 3, it does not fall: "
            f"{', '.join(f'{one:.3f}' for one in contractions)} with 2, 4, 8 ranks. Its conditions were not "
            "measured.",
        ),
        Row(
            "Figure 6a: part of the communication, 64 workers, 100 TFLOPs",
            "56 % at 8 images, 20 % at 32",
            f"{share(8)}, {share(32)}",
            f"An efficiency of {EFFICIENCY:.0%}, fitted to these numbers: the paper states none.",
            PARTLY,
        ),
        Row(
            "Figure 6a: speed-up of ScaleCom at 8 and 32 images",
            "2× and 1.23× at 100 TFLOPs; 4.1× and 1.75× at 300",
            f"{speed_up(8, 100)}, {speed_up(32, 100)}; {speed_up(8, 300)}, {speed_up(32, 300)}",
            "As above; a model, as in the paper.",
            PARTLY,
        ),
        Row(
            "Figure 6b: 8 images, up to 128 workers; section 5: cost of the indices",
            "top-k's communication grows linearly with the workers; ScaleCom's is constant, and below 3 % "
            "of the time with 128; indices 0.5 % of the baseline's communication",
            f"top-k ×{many / few:.1f} and ×{most / few:.1f} from 8 to 32 and 128 workers; ScaleCom "
            f"constant, {slow:.1%} at 100 TFLOPs and {fast:.1%} at 300; indices {index:.1%}",
            "As above.",
            PARTLY,
        ),
        Row(
            "Table 1: comparison of methods",
            "properties of each; ScaleCom converges like the true top-k (contribution 3)",
            f"CLT-k {clt.error:.1%} test error, top-k {top.error:.1%}",
            "Local top-k; one seed. With 8 and 16 workers CLT-k ends "
            "far from dense in [training.md](training.md), local top-k does not. Times: "
            "[collectives.md](collectives.md), [scale.md](scale.md).",
            UNDECIDED,
        ),
        Row(
            "Section 4: rate by the batch per worker, speech (Tables 2, 3)",
            "400× at 32 per worker, 100× at 128",
            f"{_rate_speech(32):.0f}× and {_rate_speech(128):.0f}×",
            "`ratios_by_flops(batch=…)`, in proportion: our reading of these two numbers.",
            PARTLY,
        ),
        Row(
            "Table 2: rates of ResNet-18, ResNet-50, MobileNetV2, ResNet-34, Transformer",
            "112×, 96×, 155×, 92×, 47×",
            ", ".join(f"{compute_rate(layers):.0f}×" for layers in list(NETWORKS.values())[:-1])
            + f", – ({compute_rate(list(NETWORKS.values())[-1]):.0f}× for ResNet-34 on 32 × 32 pixels)",
            "By section 4's rule. Our readings: [196,1] is 196 and more; the first layer is sent "
            "whole; ResNet-34 has 224 × 224 pixels. A 32nd of "
            "the Transformer's 4,500 tokens gives 50×, near its 47×.",
            PARTLY,
        ),
        Row(
            "Figure 1c, Tables 2, 3 on ImageNet, WMT14 and SWB300; 64 workers",
            "ScaleCom without significant loss, the Transformer also at 65× and 115×; local top-k could "
            "diverge (Figure 1c)",
            "–",
            "No such data, no GPU.",
            NOT_TRIED,
        ),
        Row(
            "Section 3, footnote 8: 128 workers with 8 images each; β from 0.1 to 0.3",
            "no noticeable degradation; convergence is robust",
            "–",
            "[training.md](training.md) has up to 16 workers, and β of 0.1 and 1.",
            NOT_TRIED,
        ),
    ]


def list_methods(found: Result) -> Table:
    """List the methods that ScaleCom is compared with, for a data file."""
    rows = [
        [
            each.method,
            f"{each.nbytes / 1e3:,.1f}",
            f"{found.comparisons[0].nbytes / each.nbytes:.0f}×",
            f"{each.loss:.3f}",
            f"{each.error:.1%}",
        ]
        for each in found.comparisons
    ]
    return Table(["method", "kB per rank and step", "less than dense", "loss", "test error"], rows)


def _describe_comparison(steps: int) -> str:
    """Describe the comparison of methods."""
    return f"""### Table 1: the methods that ScaleCom is compared with

{comparators.RANKS} ranks, {comparators.BATCH} images per rank and step, {steps} steps, plain gradient
descent, rate {comparators.RATE:g}, one ratio for all tensors, with error feedback. Bytes of PowerSGD and
SketchSGD, baselines outside the library, are computed for a ring all-reduce.
[scalecom_methods.csv](papers/scalecom_methods.csv) has bytes, loss and test error of each method.
"""


def list_splits(found: Result) -> Table:
    """List the comparison with Ok-Topk's balanced split, for a data file."""
    methods = list(found.splits[0].seconds)
    rows = [
        [
            f"{point.inputs}, {point.ranks} ranks",
            *(f"{1e3 * point.seconds[name]:.2f} ms, {point.nbytes[name] / 1e3:.0f} kB" for name in methods),
        ]
        for point in found.splits
    ]
    return Table(["inputs", *methods], rows)


def _describe_splits() -> str:
    """Describe the comparison with Ok-Topk's balanced split."""
    return f"""### Ok-Topk's balanced split

Li and Hoefler, 2022. Simulated links of {8e-9 / balanced.BETA:g} Gbit/s and {balanced.ALPHA * 1e6:g} µs per
message; computing takes no time. [scalecom_splits.csv](papers/scalecom_splits.csv) has the time of a call and
the bytes of the busiest rank, of top-k at 0.01. Equal and balanced ranges are `algorithm="split-pairs"`.
*Skewed*: {balanced.ELEMENTS:,} elements, most of those that are sent in the last {balanced.HOT:.0%}.
"""
