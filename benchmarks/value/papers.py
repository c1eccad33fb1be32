"""Two papers' tables and figures, rebuilt with our codecs and our gradients.

DeepReduce (Xu et al., 2021): Table 2, an inherently sparse model, and Figure 10, bytes and times of its
instantiations. The FFT paper (Wang et al., HPDC 2020): Figure 5, what top-k keeps with and without a
transform, and Figure 15, how gradients are distributed once they are decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import wirecodec as wc
from benchmarks.common.timing import least_time, markdown
from benchmarks.value.distributions import Floats
from benchmarks.value.peers import relative_error, rms

__all__ = ["PARTS", "Found", "Sent", "measured", "sections"]

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
"""{method: (scheme, the paper's relative volume)}."""

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
class Sent:
    """A gradient through a scheme and back.

    Args:
        method: as the paper calls it, or what it is.
        scheme: ours.
        gradient, decoded: (d,) float32.
        nbytes: of the whole container.
        index, value: bytes of the sections of indices and of values, maps of sorted values with those.
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
        """Bytes relative to the dense gradient's."""
        return self.nbytes / self.gradient.nbytes

    @property
    def error(self) -> float:
        """Relative L2, over all elements."""
        return relative_error(self.gradient, self.decoded)

    @property
    def cosine(self) -> float:
        """Of the angle between what was meant and what arrives."""
        a, b = self.gradient.astype(np.float64), self.decoded.astype(np.float64)
        return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b) or 1))


@dataclass(frozen=True, eq=False)
class Found:
    """What the four parts gave; figure 5 by gradient."""

    table_2: list[Sent]
    figure_10: list[Sent]
    figure_5: dict[str, list[Sent]]
    figure_15: list[Sent]


def measured(files: Sequence[Path], step: Callable[[str], None]) -> Found:
    """All four parts.

    Args:
        files: the gradients of tests/data.
        step: called with the name of what is measured next.
    """
    gradients = {path.stem: np.load(path).reshape(-1).astype(np.float32) for path in files}
    step(PARTS[0])
    table_2 = _each({name: scheme for name, (scheme, _) in TABLE_2.items()}, gradients[SPARSE])
    step(PARTS[1])
    figure_10 = _each({name: f"topk(0.01) | {rest}" for name, rest in FIGURE_10.items()}, gradients[FEEDBACK])
    step(PARTS[2])
    figure_5 = {name: _each(FIGURE_5, gradient) for name, gradient in gradients.items()}
    step(PARTS[3])
    return Found(table_2, figure_10, figure_5, _each(FIGURE_15, gradients[DENSE]))


def _each(schemes: dict[str, str], gradient: Floats) -> list[Sent]:
    return [_sent(name, scheme, gradient) for name, scheme in schemes.items()]


def _sent(method: str, scheme: str, gradient: Floats) -> Sent:
    blob = wc.encode(gradient, scheme)
    (entry,) = wc.inspect(blob).entries
    decoded = np.zeros_like(gradient)
    wc.decode_add(blob, decoded)
    return Sent(
        method=method,
        scheme=scheme,
        gradient=gradient,
        decoded=decoded,
        nbytes=blob.nbytes,
        index=entry.index_bytes,
        value=entry.value_bytes + entry.map_bytes,
        encode=least_time(lambda: wc.encode(gradient, scheme), budget=0.05, least=3),
        decode=least_time(lambda: wc.decode(blob), budget=0.05, least=3),
    )


def sections(found: Found) -> list[str]:
    """The four parts in Markdown, each with what differs from the paper."""
    return [_table_2(found), _figure_10(found), _figure_5(found), _figure_15(found)]


def _table_2(found: Found) -> str:
    rows = [
        [
            sent.method,
            _scheme(sent),
            f"{sent.volume:.4f}",
            TABLE_2[sent.method][1] or "–",
            f"{100 * sent.error:.2f} %",
            f"{sent.cosine:.5f}",
        ]
        for sent in found.table_2
    ]
    return f"""## DeepReduce's Table 2: an inherently sparse model

The paper trains NCF on ML-20m, whose gradients are 40 % zeros, and gives the best hit rate. Ours is one
gradient, {_about(found.table_2)}: a slice of an LSTM's, whose embedding a batch touches only in part; so
there is an error of that gradient in the place of a hit rate, and the volumes of the two columns are not
those of one model. QSGD's scale is the largest magnitude of 512 values, SKCompress has neither grouped
MinMaxSketch nor signs apart, as in the paper.

{markdown(["method", "scheme", "relative volume", "in the paper", "error", "cosine"], rows)}"""


def _figure_10(found: Found) -> str:
    rows = [
        [
            sent.method,
            _scheme(sent),
            f"{100 * sent.index / sent.gradient.nbytes:.3f}",
            f"{100 * sent.value / sent.gradient.nbytes:.3f}",
            f"{100 * sent.volume:.3f}",
            f"{1e3 * sent.encode:.2f} / {1e3 * sent.decode:.2f}",
            f"{100 * sent.error:.3f} %",
        ]
        for sent in found.figure_10
    ]
    return f"""## DeepReduce's Figure 10: indices, values, times

The paper shows bytes and wall-clock times of ResNet-20 on CIFAR-10 during training, its own programs on a
GPU or a CPU, parameters such that accuracies are alike, which it does not tell. Ours is one gradient,
{_about(found.figure_10)}: a ResNet-20's residual + gradient, of which the largest 1 % are sent, with the
parameters of the paper's other experiments; the last two rows are this library's own. All is on one CPU with
this library, so that times compare the methods and not their programs. Volumes are % of the dense
gradient, "all" with the container's head; the error is that of all elements, most of which no method sends,
and maps of sorted values count as values. With fewer than 3,000 values, what a call costs is a large part
of the times. The picture is deepreduce_10.png.

{markdown(["method", "scheme", "indices", "values", "all", "encode / decode, ms", "error"], rows)}"""


def _figure_5(found: Found) -> str:
    rows = [
        [
            f"{name}, {sent.method}",
            _scheme(sent),
            f"{sent.error * rms(sent.gradient) * sent.gradient.size**0.5:.4f}",
            f"{100 * sent.error:.2f} %",
            f"{1 / sent.volume:.1f}×",
        ]
        for name, all_sent in found.figure_5.items()
        for sent in all_sent
    ]
    return f"""## The FFT paper's Figure 5: top-k with and without a transform

The paper draws one gradient and what is left of it after top-k, directly (err = 0.0246) and among the
frequencies (err = 0.0209), at the same share of elements; it does not say of which norm. Here 85 % are
dropped, θ of its other figures, from each gradient of tests/data; a complex coefficient counts as one of
n/2 + 1. The picture is fft_5.png.

{markdown(["gradient, method", "scheme", "L2 error", "relative", "smaller"], rows)}"""


def _figure_15(found: Found) -> str:
    rows = []
    for sent in found.figure_15:
        off = np.abs(sent.decoded - sent.gradient) / rms(sent.gradient)
        half, most, nearly = np.quantile(off, (0.5, 0.9, 0.99))
        rows.append(
            [
                sent.method,
                _scheme(sent),
                f"{1 / sent.volume:.1f}×",
                f"{100 * sent.error:.1f} %",
                f"{half:.3f} / {most:.3f} / {nearly:.3f}",
                f"{_apart(sent):.3f}",
                f"{np.unique(sent.decoded).size:,}",
                f"{100 * np.mean(sent.decoded == 0):.1f} %",
            ]
        )
    header = [
        "method",
        "scheme",
        "smaller",
        "error",
        "errors at 50 / 90 / 99 %, rms",
        "distributions apart",
        "different values",
        "zeros",
    ]
    return f"""## The FFT paper's Figure 15: gradients once they are decoded

The paper samples ResNet-32's gradients every tenth epoch and aggregates eight nodes'. Ours is one gradient
of one node, {_about(found.figure_15)}, with θ = 85 % and 10 bits for FFT, the same θ for top-k, 3 bits for
QSGD (seven levels of the eight the paper counts) with buckets of 512, one scale for TernGrad. "Apart" is
the largest distance between the distribution functions of the gradient and of what is decoded (Kolmogorov
and Smirnov). The picture is fft_15.png.

{markdown(header, rows)}"""


def _apart(sent: Sent) -> float:
    """sup |F(x) - G(x)|, on both sides of each jump."""
    a, b = np.sort(sent.gradient), np.sort(sent.decoded)
    at = np.unique(np.concatenate([a, b]))
    sides = [np.searchsorted(a, at, side) - np.searchsorted(b, at, side) for side in ("left", "right")]
    return float(max(np.abs(side).max() for side in sides) / a.size)


def _scheme(sent: Sent) -> str:
    return f"`{sent.scheme}`".replace("|", "·")


def _about(sent: Sequence[Sent]) -> str:
    gradient = sent[0].gradient
    zeros = 100 * np.mean(gradient == 0)
    return f"{gradient.size:,} elements, {zeros:.1f} % of them zero"
