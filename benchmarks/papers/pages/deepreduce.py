"""DeepReduce's part of the page."""

from __future__ import annotations

from benchmarks.common.results import format_markdown
from benchmarks.papers.deepreduce import RATES, PolicyPoint, Result
from benchmarks.papers.embedding import PAIRS
from benchmarks.papers.pages.table import Row, format_rows

__all__ = ["format_section"]


def format_section(found: Result) -> str:
    """Format DeepReduce's part of the page."""
    header = ["rate", *(f"{policy}: kept, volume, error" for policy in ("P0", "P1", "P2"))]
    rows = []
    for rate in RATES:
        cells = []
        for point in (p for p in found.points if p.rate == rate):
            text = f"{point.kept:.1%}, {point.volume:.2f}, {point.error:.2f}"
            cells.append(f"{text} (refused)" if point.refused else text)
        rows.append([f"{rate:g}", *cells])
    fits = [[fit.codec, f"{fit.error:.2%}", f"{fit.nbytes:.3f}"] for fit in found.fits]
    return f"""## DeepReduce (Xu et al., 2021)

{format_rows(_list_rows(found))}
### Figure 6: policies over the false-positive rate

The largest 1 % of residual + gradient of a ResNet-20. *Kept* is the fraction of them that arrives, *volume*
the bytes of filter and float32 values relative to 8 bytes per element, *error* that of the decoded gradient
relative to the norm of the 1 %. Values at false positives are the gradient's own, so they reduce the
residual, too. *Refused*: readers refuse p2 above 2.5 positives per element; the numbers are computed without
this bound. [codecs.md](codecs.md) shows that the bound costs nothing.

{format_markdown(header, rows)}
![fraction kept and volume over the rate; a fit with 8 pieces](papers_deepreduce.png)

### Figures 5 and 8: curve fits

{format_markdown(["codec", "error", "bytes per value, without the map"], fits)}
### Table 2: an inherently sparse model

Skip-gram embeddings in place of NCF: {format_zeros(found)}. NCF's gradients have about 40 % zeros.
*Volume* is the mean size of the containers over the training, relative to the dense gradient. One worker,
plain gradient descent without feedback, because a residual would fill the zeros. Steps are fewer with the
larger batch. QSGD and SKCompress have 7 bits, as in the paper. The last two rows are this library's.

{format_sparse(found)}"""


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


def _list_rows(found: Result) -> list[Row]:
    def point(policy: str, rate: float) -> PolicyPoint:
        return next(p for p in found.points if (p.policy, p.rate) == (policy, rate))

    crossing = next((p.rate for p in found.points if p.policy == "P0" and p.volume > 1), None)
    pairs = max(PAIRS)
    dense, *sparse = [run for run in found.sparse if run.pairs == pairs]
    table_2 = ", ".join(f"{run.method} {run.volume:.3f}" for run in sparse[:3])
    hits = [run.hits for run in sparse[:3]]
    both = next(e for e in found.reproductions.figure_10 if e.method == "DR BF-P2, Fit-Poly")
    return [
        Row(
            "Figure 5: fit with 8 pieces",
            "close to the sorted values of a convolution",
            f"error {found.fits[0].error:.2%}",
            "The number of pieces is 8 as in the figure; by default it follows from the error.",
        ),
        Row(
            "Figure 6a: P0 over the rate",
            "sends more than the sparse gradient above 0.004",
            f"more from {crossing:g} on" if crossing else "never",
            "The paper's and ours are the same filter sizes; rates are on a coarse grid here.",
        ),
        Row(
            "Figure 6b, 6c: P1 and P2 over the rate",
            "accuracy falls with the rate, less with P2",
            f"kept at 0.001: P1 {point('P1', 0.001).kept:.1%}, P2 {point('P2', 0.001).kept:.1%}; "
            f"at 0.01: {point('P1', 0.01).kept:.1%}, {point('P2', 0.01).kept:.1%}",
            "No training here: the fraction that is kept instead of accuracy.",
        ),
        Row(
            "Figure 8: Fit-Poly and Fit-DExp",
            "both converge",
            f"errors {found.fits[1].error:.2%} and {found.fits[4].error:.2%}",
            "Errors instead of accuracy.",
        ),
        Row(
            "Figure 10a: volume of both together",
            "shown per variant",
            f"{both.volume:.2%} of the dense gradient",
            "[value.md](value.md) has all variants and their times (10b).",
        ),
        Row(
            "Table 2: inherently sparse model, volumes",
            "DR Fit-Poly, BF-P2 0.588, SKCompress 0.218, DR QSGD, BF-P0 0.206",
            f"{table_2}, at {dense.zeros:.0%} zeros",
            "Embeddings of words in place of NCF, whose data must be downloaded. Their rows are zero as a "
            "whole, so indices cost little.",
        ),
        Row(
            "Table 2: best hit rate",
            "within 0.2 % of the baseline",
            f"{min(hits):.1f}-{max(hits):.1f} %, baseline {dense.hits:.1f} %",
            "One seed and few steps.",
        ),
        Row(
            "Figure 11: speed-up over bandwidth",
            "larger on slower networks, 100 Mbit/s to 10 Gbit/s; also with FP16",
            "[collectives.md](collectives.md)",
            "Communication alone, measured between network namespaces; no NCF, no GPU.",
        ),
        Row(
            "Figure 13: naive Bloom error",
            "values shift after the first false positive",
            f"{found.naive[0]:.1%} of the values arrive at their index; error {found.naive[1]:.0%}",
            "The same effect.",
        ),
        Row(
            "Figures 7, 9, 15, Table 1: training",
            "accuracy over epochs and volume",
            "[training.md](training.md)",
            "Our models; not theirs.",
        ),
        Row(
            "Table 3: devices",
            "which method runs on CPU or GPU",
            "[the GPU page](../../wirecodec/gpu/README.md)",
            "P2, RLE, Huffman, curve fits and Deflate run on the host; tensors on a GPU are copied.",
        ),
    ]
