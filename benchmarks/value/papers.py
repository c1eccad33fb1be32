"""Tables and figures of two papers, reproduced with our codecs and gradients.

DeepReduce (Xu et al., 2021): Table 2, an inherently sparse model, and Figure 10, bytes and times of its
instantiations. The FFT paper (Wang et al., HPDC 2020): Figure 5, top-k with and without a transform, and
Figure 15, the distribution of decoded gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from scipy.stats import ks_2samp

import wirecodec as wc
from benchmarks.common.results import markdown_table
from benchmarks.common.timing import minimum_time
from benchmarks.value.distributions import Floats
from benchmarks.value.peers import relative_error, rms

__all__ = ["PARTS", "DecodedGradient", "Reproductions", "format_sections", "reproduce"]

PARTS = ("DeepReduce, Table 2", "DeepReduce, Figure 10", "FFT, Figure 5", "FFT, Figure 15")

SPARSE, FEEDBACK, DENSE = "lstm_raw_slice", "resnet20_residual", "resnet20_raw"

TABLE_2 = {
    "Baseline": ("all | raw-index | raw", "1"),
    "DR Fit-Poly, BF-P2": ("nonzero | bloom(policy=p2, fpr=0.01) | polyfit(degree=5)", "0.5879"),
    "SKCompress": ("nonzero | huffman | sketchml(buckets=128)", "0.2175"),
    "DR QSGD, BF-P0": ("nonzero | bloom(policy=p0, fpr=0.6) | qsgd(bits=7, bucket=512)", "0.2063"),
    "auto-index, QSGD": ("nonzero | auto-index | qsgd(bits=7, bucket=512)", ""),
    "auto-index, ErrorBounded": ("nonzero | auto-index | error-bounded(error=0.01)", ""),
}
"""For each method, (scheme, relative volume in the paper)."""

FIGURE_10 = {
    "Top-r": "raw-index | raw",
    "DR RLE, –": "rle | raw",
    "DR Huffman, –": "huffman | raw",
    "DR BF-P0, –": "bloom(policy=p0, fpr=0.001) | raw",
    "DR BF-P1, –": "bloom(policy=p1, fpr=0.001) | raw",
    "DR BF-P2, –": "bloom(policy=p2, fpr=0.001) | raw",
    "DR –, Deflate": "raw-index | deflate",
    "DR –, QSGD": "raw-index | qsgd(bits=7, bucket=512)",
    "DR –, Fit-Poly": "raw-index | polyfit(degree=5)",
    "DR –, Fit-DExp": "raw-index | dexpfit",
    "DR BF-P2, Fit-Poly": "bloom(policy=p2, fpr=0.001) | polyfit(degree=5)",
    "DR BF-P0, QSGD": "bloom(policy=p0, fpr=0.001) | qsgd(bits=7, bucket=512)",
    "SKCompress": "huffman | sketchml(buckets=64)",
    "rice, QSGD": "rice | qsgd(bits=4)",
    "rice, ErrorBounded": "rice | error-bounded(error=0.05)",
}

FIGURE_5 = {
    "top-k": "topk(0.15) | bitmap | raw",
    "FFT, top-k": "rfft | topk(0.15) | bitmap | raw",
    "DCT, top-k": "dct | topk(0.15) | bitmap | raw",
    "FFT, top-k, 10 bits": "rfft | topk(0.15) | bitmap | offset-float(bits=10)",
    "DCT, top-k, 10 bits": "dct | topk(0.15) | bitmap | offset-float(bits=10)",
}

FIGURE_15 = {
    "FFT": "rfft | topk(0.15) | bitmap | offset-float(bits=10)",
    "Top-k": "topk(0.15) | bitmap | raw",
    "QSGD": "all | raw-index | qsgd(bits=3)",
    "TernGrad": "all | raw-index | terngrad",
}


@dataclass(frozen=True, eq=False)
class DecodedGradient:
    """Gradient encoded and decoded with a scheme.

    Attributes:
        method: name of the method in the paper.
        scheme: our scheme.
        gradient, decoded: (d,) float32.
        nbytes: bytes of the container.
        index, value: bytes of the index and value sections; maps of sorted values count as values.
        encode, decode: seconds.
    """

    method: str
    scheme: str
    gradient: Floats = field(repr=False)
    decoded: Floats = field(repr=False)
    nbytes: int
    index: int
    value: int
    encode: float
    decode: float

    @property
    def volume(self) -> float:
        """Return the bytes relative to the dense gradient."""
        return self.nbytes / self.gradient.nbytes

    @property
    def error(self) -> float:
        """Return the relative L2 error over all elements."""
        return relative_error(self.gradient, self.decoded)

    @property
    def cosine(self) -> float:
        """Return the cosine similarity of the gradient and its decoded form."""
        a, b = self.gradient.astype(np.float64), self.decoded.astype(np.float64)
        return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b) or 1))


@dataclass(frozen=True, eq=False)
class Reproductions:
    """Results of the four parts.

    Attributes:
        table_2, figure_10, figure_15: one entry per method.
        figure_5: the same for each gradient.
    """

    table_2: list[DecodedGradient]
    figure_10: list[DecodedGradient]
    figure_5: dict[str, list[DecodedGradient]]
    figure_15: list[DecodedGradient]


def reproduce(files: Sequence[Path], step: Callable[[str], None]) -> Reproductions:
    """Run the four parts.

    Args:
        files: the gradients of tests/data.
        step: called with the name of each part before it starts.
    """
    gradients = {path.stem: np.load(path).reshape(-1).astype(np.float32) for path in files}
    step(PARTS[0])
    table_2 = _encode_with_each({name: scheme for name, (scheme, _) in TABLE_2.items()}, gradients[SPARSE])
    step(PARTS[1])
    figure_10 = _encode_with_each(
        {name: f"topk(0.01) | {rest}" for name, rest in FIGURE_10.items()}, gradients[FEEDBACK]
    )
    step(PARTS[2])
    figure_5 = {name: _encode_with_each(FIGURE_5, gradient) for name, gradient in gradients.items()}
    step(PARTS[3])
    return Reproductions(table_2, figure_10, figure_5, _encode_with_each(FIGURE_15, gradients[DENSE]))


def _encode_with_each(schemes: dict[str, str], gradient: Floats) -> list[DecodedGradient]:
    return [_encode_and_decode(name, scheme, gradient) for name, scheme in schemes.items()]


def _encode_and_decode(method: str, scheme: str, gradient: Floats) -> DecodedGradient:
    blob = wc.encode(gradient, scheme)
    (entry,) = wc.inspect(blob).entries
    decoded = np.zeros_like(gradient)
    wc.decode_add(blob, decoded)
    return DecodedGradient(
        method=method,
        scheme=scheme,
        gradient=gradient,
        decoded=decoded,
        nbytes=blob.nbytes,
        index=entry.index_bytes,
        value=entry.value_bytes + entry.map_bytes,
        encode=minimum_time(lambda: wc.encode(gradient, scheme), budget=0.05, min_calls=3),
        decode=minimum_time(lambda: wc.decode(blob), budget=0.05, min_calls=3),
    )


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
SKCompress has no grouped MinMaxSketch and no separate signs.

{markdown_table(["method", "scheme", "relative volume", "in the paper", "error", "cosine"], rows)}"""


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

{markdown_table(["method", "scheme", "indices", "values", "all", "encode / decode, ms", "error"], rows)}"""


def _format_figure_5(found: Reproductions) -> str:
    rows = [
        [
            f"{name}, {sent.method}",
            _format_scheme(sent),
            f"{sent.error * rms(sent.gradient) * sent.gradient.size**0.5:.4f}",
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

{markdown_table(["gradient, method", "scheme", "L2 error", "relative", "compression ratio"], rows)}"""


def _format_figure_15(found: Reproductions) -> str:
    rows = []
    for sent in found.figure_15:
        errors = np.abs(sent.decoded - sent.gradient) / rms(sent.gradient)
        p50, p90, p99 = np.quantile(errors, (0.5, 0.9, 0.99))
        rows.append(
            [
                sent.method,
                _format_scheme(sent),
                f"{1 / sent.volume:.1f}×",
                f"{100 * sent.error:.1f} %",
                f"{p50:.3f} / {p90:.3f} / {p99:.3f}",
                f"{_ks_statistic(sent):.3f}",
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

The paper samples gradients of ResNet-32 every tenth epoch and aggregates those of eight nodes. We use one
gradient of one node, {_describe(found.figure_15)}. FFT has θ = 85 % and 10 bits, and top-k has the same θ.
QSGD has 3 bits (seven of the paper's eight levels) and buckets of 512. TernGrad has one scale. "KS distance"
is the Kolmogorov-Smirnov statistic: the largest difference between the distribution functions of the gradient
and its decoded form. The picture is fft_15.png.

{markdown_table(header, rows)}"""


def _ks_statistic(sent: DecodedGradient) -> float:
    """Compute the Kolmogorov-Smirnov statistic of the gradient and its decoded form."""
    return float(ks_2samp(sent.gradient, sent.decoded, method="asymp").statistic)


def _format_scheme(sent: DecodedGradient) -> str:
    return f"`{sent.scheme}`".replace("|", "·")


def _describe(sent: Sequence[DecodedGradient]) -> str:
    gradient = sent[0].gradient
    zeros = 100 * np.mean(gradient == 0)
    return f"{gradient.size:,} elements, {zeros:.1f} % zeros"
