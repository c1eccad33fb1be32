"""Tables and figures of two papers, reproduced with our codecs and gradients.

DeepReduce (Xu et al., 2021): Table 2, an inherently sparse model, and Figure 10, bytes and times of its
instantiations. The FFT paper (Wang et al., HPDC 2020): Figure 5, top-k with and without a transform, and
Figure 15, the distribution of decoded gradients.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

import wirecodec as wc
from benchmarks.common.inputs import TEST_GRADIENTS, list_gradient_files
from benchmarks.common.timing import measure_minimum_time
from benchmarks.value.distributions import Floats
from benchmarks.value.peers import compute_relative_error

__all__ = ["TABLE_2", "DecodedGradient", "Reproductions", "reproduce"]

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
    def error(self) -> float:
        """Return the relative L2 error over all elements."""
        return compute_relative_error(self.gradient, self.decoded)


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


def reproduce() -> Reproductions:
    """Encode the gradients of tests/data with the schemes of two papers."""
    files = list_gradient_files(TEST_GRADIENTS)
    gradients = {path.stem: np.load(path).reshape(-1).astype(np.float32) for path in files}
    figure_10 = {name: f"topk(0.01) | {rest}" for name, rest in FIGURE_10.items()}
    return Reproductions(
        _encode_with_each({name: scheme for name, (scheme, _) in TABLE_2.items()}, gradients[SPARSE]),
        _encode_with_each(figure_10, gradients[FEEDBACK]),
        {name: _encode_with_each(FIGURE_5, gradient) for name, gradient in gradients.items()},
        _encode_with_each(FIGURE_15, gradients[DENSE]),
    )


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
        encode=measure_minimum_time(lambda: wc.encode(gradient, scheme), budget=0.05, min_calls=3),
        decode=measure_minimum_time(lambda: wc.decode(blob), budget=0.05, min_calls=3),
    )
