"""Page sections of the reproduced tables and figures, each with its differences from the paper."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import ks_2samp

from benchmarks.common.results import format_markdown
from benchmarks.value.papers import TABLE_2, DecodedGradient, Reproductions
from benchmarks.value.peers import compute_rms

__all__ = ["format_sections"]


def format_sections(found: Reproductions) -> list[str]:
    """Format the four parts as Markdown, each with its differences from the paper."""
    return [
        _format_table_2(found),
        _format_figure_10(found),
        _format_figure_5(found),
        _format_figure_15(found),
    ]


def _format_table_2(found: Reproductions) -> str:
    rows = [
        [
            sent.method,
            _format_scheme(sent),
            f"{sent.volume:.4f}",
            TABLE_2[sent.method][1] or "–",
            f"{100 * sent.error:.2f} %",
            f"{sent.cosine:.5f}",
        ]
        for sent in found.table_2
    ]
    return f"""## DeepReduce's Table 2: an inherently sparse model

The paper trains NCF on ML-20m, whose gradients are 40 % zeros, and reports the best hit rate. Here is the
error of one gradient, {_describe(found.table_2)}: a slice of an LSTM gradient. So the columns of volumes
are of different models. QSGD's scale is the largest magnitude of 512 values. SKCompress
has no grouped MinMaxSketch, as in the paper.

{format_markdown(["method", "scheme", "relative volume", "in the paper", "error", "cosine"], rows)}"""


def _format_figure_10(found: Reproductions) -> str:
    rows = [
        [
            sent.method,
            _format_scheme(sent),
            f"{100 * sent.index / sent.gradient.nbytes:.3f}",
            f"{100 * sent.value / sent.gradient.nbytes:.3f}",
            f"{100 * sent.volume:.3f}",
            f"{1e3 * sent.encode:.2f} / {1e3 * sent.decode:.2f}",
            f"{100 * sent.error:.3f} %",
        ]
        for sent in found.figure_10
    ]
    return f"""## DeepReduce's Figure 10: indices, values, times

The paper measures ResNet-20 on CIFAR-10 during training, with its own programs; it does not list their
parameters. Here is one gradient, {_describe(found.figure_10)}: residual + gradient of a ResNet-20. The
largest 1 % are sent, with the parameters of the paper's other experiments. The last two rows are this
library's own schemes. Volumes are % of the dense gradient; "all" has
the header, too, and maps of sorted values count as values. The error is over all elements, most of which no
method sends. Picture: deepreduce_10.png.

{format_markdown(["method", "scheme", "indices", "values", "all", "encode / decode, ms", "error"], rows)}"""


def _format_figure_5(found: Reproductions) -> str:
    by_method = zip(*found.figure_5.values(), strict=True)
    rows = [
        [
            sent[0].method,
            _format_scheme(sent[0]),
            f"{1 / sent[0].volume:.1f}×",
            *(f"{_compute_l2_error(each):.4f}, {100 * each.error:.2f} %" for each in sent),
        ]
        for sent in by_method
    ]
    return f"""## The FFT paper's Figure 5: top-k with and without a transform

The paper shows one gradient after top-k, directly (err = 0.0246) and in the frequency domain (err =
0.0209), at the same fraction of elements; it does not name the norm. Here 85 % are dropped, θ of its other
figures. Cells have the L2 error and the relative one. A complex coefficient counts as one of n/2 + 1.
Picture: fft_5.png.

{format_markdown(["method", "scheme", "compression ratio", *found.figure_5], rows)}"""


def _compute_l2_error(sent: DecodedGradient) -> float:
    return float(sent.error * compute_rms(sent.gradient) * sent.gradient.size**0.5)


def _format_figure_15(found: Reproductions) -> str:
    rows = []
    for sent in found.figure_15:
        errors = np.abs(sent.decoded - sent.gradient) / compute_rms(sent.gradient)
        p50, p90, p99 = np.quantile(errors, (0.5, 0.9, 0.99))
        rows.append(
            [
                sent.method,
                _format_scheme(sent),
                f"{1 / sent.volume:.1f}×",
                f"{100 * sent.error:.1f} %",
                f"{p50:.3f} / {p90:.3f} / {p99:.3f}",
                f"{_compute_ks_distance(sent):.3f}",
                f"{np.unique(sent.decoded).size:,}",
                f"{100 * np.mean(sent.decoded == 0):.1f} %",
            ]
        )
    header = [
        "method",
        "scheme",
        "compression ratio",
        "error",
        "errors at 50 / 90 / 99 %, rms",
        "KS distance",
        "distinct values",
        "zeros",
    ]
    return f"""## The FFT paper's Figure 15: distribution of decoded gradients

The paper samples gradients of ResNet-32 every tenth epoch, of all nodes. Here is one gradient of one node,
{_describe(found.figure_15)}. FFT has θ = 85 % and 10 bits, and top-k has the same θ. QSGD has 3 bits (seven
of the paper's eight levels) and buckets of 512. TernGrad has one scale. KS distance: Kolmogorov-Smirnov
statistic of the gradient and its decoded form. Picture: fft_15.png.

{format_markdown(header, rows)}"""


def _compute_ks_distance(sent: DecodedGradient) -> float:
    """Compute the Kolmogorov-Smirnov statistic of the gradient and its decoded form."""
    return float(ks_2samp(sent.gradient, sent.decoded, method="asymp").statistic)


def _format_scheme(sent: DecodedGradient) -> str:
    return f"`{sent.scheme}`".replace("|", "·")


def _describe(sent: Sequence[DecodedGradient]) -> str:
    gradient = sent[0].gradient
    zeros = 100 * np.mean(gradient == 0)
    return f"{gradient.size:,} elements, {zeros:.1f} % zeros"
