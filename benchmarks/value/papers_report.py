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

The paper trains NCF on ML-20m, whose gradients are 40 % zeros, and reports the best hit rate. We use one
gradient, {_describe(found.table_2)}: a slice of an LSTM gradient, whose embedding rows are updated in part by
each batch. The table therefore shows the gradient's error instead of a hit rate, and the two columns of
volumes belong to different models. The scale of QSGD is the largest magnitude of 512 values. As in the paper,
SKCompress has no grouped MinMaxSketch. The paper omits the separation of signs, too; here, buckets never hold
both.

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

The paper shows bytes and wall-clock times of ResNet-20 on CIFAR-10 during training, with its own programs
on a GPU or a CPU. Its parameters give similar accuracies, but it does not list them. We use one gradient,
{_describe(found.figure_10)}: residual + gradient of a ResNet-20. The largest 1 % are sent, with the
parameters of the paper's other experiments. The last two rows are this library's own schemes. Every method
runs on one CPU with this library, so that the times compare methods and not programs. Volumes are % of the
dense gradient; "all" includes the container's header, and maps of sorted values count as values. The error is
over all elements, most of which no method sends. With fewer than 3,000 values, the cost of a call is a large
part of the times. The picture is deepreduce_10.png.

{format_markdown(["method", "scheme", "indices", "values", "all", "encode / decode, ms", "error"], rows)}"""


def _format_figure_5(found: Reproductions) -> str:
    rows = [
        [
            f"{name}, {sent.method}",
            _format_scheme(sent),
            f"{sent.error * compute_rms(sent.gradient) * sent.gradient.size**0.5:.4f}",
            f"{100 * sent.error:.2f} %",
            f"{1 / sent.volume:.1f}×",
        ]
        for name, sent_methods in found.figure_5.items()
        for sent in sent_methods
    ]
    return f"""## The FFT paper's Figure 5: top-k with and without a transform

The paper shows one gradient after top-k, directly (err = 0.0246) and in the frequency domain (err = 0.0209),
at the same fraction of elements. It does not name the norm. We drop 85 %, θ of its other figures, from each
gradient of tests/data. A complex coefficient counts as one of n/2 + 1. The picture is fft_5.png.

{format_markdown(["gradient, method", "scheme", "L2 error", "relative", "compression ratio"], rows)}"""


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

The paper samples gradients of ResNet-32 every tenth epoch and aggregates those of all nodes. We use one
gradient of one node, {_describe(found.figure_15)}. FFT has θ = 85 % and 10 bits, and top-k has the same θ.
QSGD has 3 bits (seven of the paper's eight levels) and buckets of 512. TernGrad has one scale. "KS distance"
is the Kolmogorov-Smirnov statistic: the largest difference between the distribution functions of the gradient
and its decoded form. The picture is fft_15.png.

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
