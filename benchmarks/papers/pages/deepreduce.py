"""DeepReduce's part of the page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from benchmarks.common.results import format_markdown
from benchmarks.papers.deepreduce import PRINTED, RATES, PolicyPoint, Result
from benchmarks.papers.embedding import PAIRS
from benchmarks.papers.pages.table import (
    NOT_TRIED,
    PARTLY,
    REPRODUCED,
    WRONG,
    Row,
    Table,
    format_rows,
    read_milliseconds,
)
from benchmarks.value.papers import DecodedGradient

__all__ = ["format_section", "list_rates", "list_rows"]


def format_section(found: Result) -> str:
    """Format DeepReduce's part of the page."""
    fits = [[fit.codec, f"{fit.error:.2%}", f"{fit.nbytes:.3f}"] for fit in found.fits]
    return f"""## DeepReduce (Xu et al., 2021)

{format_rows(list_rows(found))}
### Figure 6: policies over the false-positive rate

The largest 1 % of residual + gradient of a ResNet-20. [deepreduce_rates.csv](papers/deepreduce_rates.csv)
has the fraction that is kept, the volume (filter and float32 values relative to 8 bytes per element), and the
error (relative to the norm of the 1 %). *P2* is this library's: it skips every list that holds a selected
element. *P2 as printed* is Algorithm 1 with random hash functions, but it stops at r elements. *Refused*:
above 2.5 positives per element, which readers refuse at no cost ([codecs.md](codecs.md)).

![fraction kept and volume over the rate](papers_deepreduce.png)

### Figure 5, section 6.2: curve fits

Picture: the raw gradient of ResNet-20's largest convolution. Table: the largest 1 % of the network's
residual + gradient.

{format_markdown(["codec", "error", "bytes per value, without the map"], fits)}
![a gradient's sorted values, and a fit with 8 pieces](papers_deepreduce_fit.png)

### Table 2: an inherently sparse model

Skip-gram embeddings in place of NCF: {format_zeros(found)}. NCF's gradients have about 40 % zeros.
*Volume*: mean size of the containers relative to the dense gradient. One worker, plain gradient descent, no
feedback, which would fill the zeros. Steps are fewer with the larger batch. QSGD and SKCompress have 7
bits, as in the paper. The last two rows are this library's.

{format_sparse(found)}"""


def list_rates(found: Result) -> Table:
    """List Figure 6's policies at every rate, for a data file."""
    rows = [
        [
            *(f"{p.rate:g}", p.policy, f"{p.kept:.1%}", f"{p.volume:.2f}", f"{p.error:.2f}"),
            "refused" if p.refused else "",
        ]
        for rate in RATES
        for p in found.points
        if p.rate == rate
    ]
    return Table(["rate", "policy", "kept", "volume", "error", "reader"], rows)


def _find_crossing(points: Sequence[PolicyPoint]) -> float | None:
    """Return the rate, between two points, at which a policy sends as much as the sparse gradient."""
    for low, high in pairwise(points):
        if low.volume <= 1 < high.volume:
            return low.rate + (high.rate - low.rate) * (1 - low.volume) / (high.volume - low.volume)
    return None


def _list_better(found: Result) -> str:
    """List the rates, in words, at which this library's P2 keeps more than the printed one."""
    kept = {(p.policy, p.rate): p.kept for p in found.points}
    rates = [rate for rate in RATES if kept["P2", rate] > kept[PRINTED, rate]]
    return f"{len(rates)} of {len(RATES)} rates, {min(rates):g} to {max(rates):g}" if rates else "no rate"


def _find_density(rate: float) -> float:
    """Return the density at which P0 with a filter of Remark 2 sends 64 bits per element, as Top-r does."""
    bits = -math.log(rate) / math.log(2) ** 2
    return 1 / (1 + (32 - bits) / (32 * rate))


CROSSING = 0.004
"""The paper's rate above which P0 sends more than Top-r."""
CLOSE = 0.01
"""Relative error of a fit that follows the values."""
GATHERED, HOSTS = "2.6M", 4
"""Elements of collectives.md, and its hosts."""
OWN, THEIRS = "1 %", "10 %"
"""Densities of its columns: one that every link has, and that of the paper's Figure 11."""


def _read_speed_ups(column: str) -> dict[str, float]:
    """Return how many times as fast as a dense all-reduce a whole call is, by link."""
    dense, sparse = (read_milliseconds(row, column, whole=True) for row in ("native dense", "allgather"))
    return {link: dense[link, n] / ms for (link, n), ms in sparse.items() if n == HOSTS}


def _format_speed_ups(speed_ups: Mapping[str, float]) -> str:
    return ", ".join(f"{speed_up:.1f}× at {link}/s" for link, speed_up in speed_ups.items())


def _falls(speed_ups: Mapping[str, float]) -> bool:
    """Return whether each faster link has a smaller speed-up."""
    return list(speed_ups.values()) == sorted(speed_ups.values(), reverse=True)


def format_zeros(found: Result) -> str:
    """Format the fraction of zeros per batch."""
    zeros = {run.pairs: run.zeros for run in found.sparse}
    return ", ".join(f"{zeros[pairs]:.0%} zeros with {pairs:,} pairs per step" for pairs in PAIRS)


def format_sparse(found: Result) -> str:
    """Format Table 2."""
    rows = []
    for method in dict.fromkeys(run.method for run in found.sparse):
        runs = [run for run in found.sparse if run.method == method]
        cells = [f"{run.volume:.4f}, {run.hits:.1f} %" for run in runs]
        rows.append([method, runs[0].theirs or "–", *cells])
    header = ["method", "their volume", *(f"{pairs:,} pairs: volume, hit rate" for pairs in PAIRS)]
    return format_markdown(header, rows)


def list_rows(found: Result) -> list[Row]:
    """List the paper's tables and figures."""

    def point(policy: str, rate: float) -> PolicyPoint:
        return next(p for p in found.points if (p.policy, p.rate) == (policy, rate))

    crossing = _find_crossing([p for p in found.points if p.policy == "P0"])
    pairs = max(PAIRS)
    dense, *sparse = [run for run in found.sparse if run.pairs == pairs]
    table_2 = ", ".join(f"{run.method} {run.volume:.3f}" for run in sparse[:3])
    hits = [run.hits for run in sparse[:3]]
    kept = [point("P0", rate).kept for rate in RATES]
    speed_ups, at_theirs = (_read_speed_ups(f"{GATHERED}, {density}") for density in (OWN, THEIRS))
    sent = {each.method: each for each in found.reproductions.figure_10}
    sparse_sent = {each.method: each for each in found.reproductions.table_2}

    def less(method: str) -> str:
        return f"{1 - sent[method].volume / sent['Top-r'].volume:.0%}"

    def slower(
        entries: Mapping[str, DecodedGradient], one: str, other: str, *, encode: bool = False
    ) -> float:
        times = [e.encode if encode else e.encode + e.decode for e in (entries[one], entries[other])]
        return times[0] / times[1]

    fits = "DR –, Fit-DExp", "DR –, Fit-Poly"
    own = [name for name in sent if name.startswith("DR") or name == "SKCompress"]
    least = min(own, key=lambda name: sent[name].volume)
    largest = max(own, key=lambda name: sent[name].volume)
    return [
        Row(
            "Figure 5: fit with 8 pieces",
            "close to the sorted values of a convolution",
            f"error {found.convolution.error:.2%}; of the largest 1 % of a whole network's residual + "
            f"gradient {found.fits[0].error:.2%}",
            f"All {found.sorted_values.size:,} values of a convolution's raw gradient. The paper states no "
            "error.",
            REPRODUCED if found.convolution.error < CLOSE else PARTLY,
        ),
        Row(
            "Figure 6a: P0 over the rate",
            f"more data than the sparse gradient if the rate is above {CROSSING:g}",
            f"more if the rate is above {crossing:.1g}" if crossing else "never",
            f"At 1 %, interpolated. The paper states no density; by Remark 2, {CROSSING:g} follows at "
            f"{_find_density(CROSSING):.2%}.",
            PARTLY if crossing else WRONG,
        ),
        Row(
            "Figure 6b, 6c: P1 and P2 over the rate",
            "the accuracy and the data of P1 decrease with the rate; P2 is more accurate, for modestly "
            "more data",
            f"kept at 0.001: P1 {point('P1', 0.001).kept:.1%}, P2 {point('P2', 0.001).kept:.1%}, as printed "
            f"{point(PRINTED, 0.001).kept:.1%}; at 0.01: {point('P1', 0.01).kept:.1%}, "
            f"{point('P2', 0.01).kept:.1%}, {point(PRINTED, 0.01).kept:.1%}; volume of P1 from "
            f"{point('P1', min(RATES)).volume:.2f} to {point('P1', max(RATES)).volume:.2f}",
            "The fraction kept, not accuracy. This library's keeps more than Algorithm 1 at "
            f"{_list_better(found)}.",
            PARTLY,
        ),
        Row(
            "Figure 6a: accuracy of P0 over the rate",
            "only marginally affected by the rate",
            f"kept at every rate from {min(RATES):g} to {max(RATES):g}: {min(kept):.0%}",
            "The fraction kept, not accuracy. [training.md](training.md) has one rate.",
            PARTLY if min(kept) == 1 else WRONG,
        ),
        Row(
            "Section 1: size of the keys",
            "the Bloom filter reduces it by 50 %",
            f"by {1 - sent['DR BF-P2, –'].index / sent['Top-r'].index:.0%}, rate 0.001",
            "The paper states no rate there.",
            REPRODUCED if 2 * sent["DR BF-P2, –"].index <= sent["Top-r"].index else WRONG,
        ),
        Row(
            "Section 6.1: data of BF-P2",
            "33 % fewer than Top-r",
            f"{less('DR BF-P2, –')} fewer, rate 0.001",
            "Remark 2 gives 14.4 bits per index at this rate, at any density. This explains our "
            f"{less('DR BF-P2, –')}, not their 33 %.",
            PARTLY,
        ),
        Row(
            "Section 6.2: data of Fit-DExp and Fit-Poly",
            "compress Top-r by roughly 50 % and 40 %",
            f"by {less(fits[0])} and {less(fits[1])}; errors {found.fits[4].error:.2%} and "
            f"{found.fits[1].error:.2%}",
            "Their 50 % leaves no bits for the order; ours takes 12 per value, as the keys ascend.",
            PARTLY,
        ),
        Row(
            "Section 6.2: time of Fit-DExp",
            "roughly 3.5 times as slow as Fit-Poly",
            f"encoding {slower(sent, *fits, encode=True):.1f}×, with decoding {slower(sent, *fits):.1f}×",
            "One core in place of a GPU.",
            PARTLY,
        ),
        Row(
            "Figure 10a: volumes",
            "all versions less than Top-r; SKCompress the least",
            f"{least} the least, {sent[least].volume:.2%} of the dense gradient; {largest} the most, "
            f"{sent[largest].volume:.2%}; Top-r {sent['Top-r'].volume:.2%}",
            "Parameters are not listed; ours are its other experiments' ([value.md](value.md)).",
            REPRODUCED if least == "SKCompress" and sent[largest].volume < sent["Top-r"].volume else WRONG,
        ),
        Row(
            "Figure 10b: times",
            "SKCompress 3 orders of magnitude slower than DR –, QSGD; 380 times slower than Table 2's DR "
            "QSGD, BF-P0",
            f"{slower(sent, 'SKCompress', 'DR –, QSGD'):.1f} and "
            f"{slower(sparse_sent, 'SKCompress', 'DR QSGD, BF-P0'):.1f} times as slow",
            "Theirs compares a CPU with a GPU; here one core.",
            WRONG,
        ),
        Row(
            "Table 2: inherently sparse model, volumes",
            "DR Fit-Poly, BF-P2 0.588, SKCompress 0.218, DR QSGD, BF-P0 0.206",
            f"{table_2}, at {dense.zeros:.0%} zeros",
            "Embeddings of words, not NCF: whole rows are zero, so gaps cost SKCompress little. "
            "Fit-Poly's map has 18 "
            "bits per value, not 19.",
            PARTLY,
        ),
        Row(
            "Table 2: best hit rate",
            "0.9496-0.9519, baseline 0.9497: virtually the same",
            f"[training.md](training.md); here {min(hits):.1f}-{max(hits):.1f} %, baseline {dense.hits:.1f} "
            "%",
            "Here one seed, near chance (10 %), at the end.",
        ),
        Row(
            "Figure 11: speed-up over bandwidth",
            "larger on slower networks, 100 Mbit/s to 10 Gbit/s; also with FP16",
            f"with {OWN} of the elements {_format_speed_ups(speed_ups)}; with {THEIRS}, as in the paper, "
            f"{_format_speed_ups(at_theirs)}",
            f"Top-k of {GATHERED} by `rice` over MPI's dense all-reduce, {HOSTS} hosts in network "
            "namespaces ([collectives.md](collectives.md)). No NCF, GPU or FP16.",
            PARTLY if all(map(_falls, (speed_ups, at_theirs))) else WRONG,
        ),
        Row(
            "Figure 13: naive Bloom error",
            "values shift after the first false positive",
            f"{found.naive[0]:.1%} of the values arrive at their index; error {found.naive[1]:.0%}",
            "–",
            REPRODUCED,
        ),
        Row(
            "Figure 9: BF-P2 alone and Fit-Poly alone, 3LC and SketchML",
            "DeepReduce balances volume and accuracy; each of the others is biased towards one",
            "–",
            "[training.md](training.md) has BF-P2, Fit-Poly and 3LC on images.",
            NOT_TRIED,
        ),
        Row(
            "Figures 7, 8: training",
            "all as accurate as the baseline, except the naive filter; BF-P2, Fit-Poly and Fit-DExp in "
            "fewer steps than Top-r",
            "[training.md](training.md)",
            "Our models; not theirs.",
        ),
        Row(
            "Section 6.2: convergence of Fit-DExp",
            "a slight advantage over Fit-Poly",
            "[training.md](training.md)",
            "Three seeds of each.",
        ),
        Row(
            "Figures 6, 15, Table 1: DenseNet, ResNet-50, Random-r",
            "DenseNet as ResNet-20; the rate affects P0's accuracy marginally with Random-r, too",
            "–",
            "No such data.",
            NOT_TRIED,
        ),
        Row(
            "Table 3: devices",
            "P0, P1, QSGD and the curve fits on a GPU; P2 alone, RLE, Huffman and Deflate on a CPU",
            "[the GPU page](../../wirecodec/gpu/README.md)",
            "Curve fits run on the host.",
        ),
        Row(
            "Figures 1-4, 12, 14: examples of the formats and methods",
            "drawings",
            "–",
            "Nothing to measure.",
        ),
    ]
