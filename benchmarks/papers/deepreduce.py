"""DeepReduce's figures without training: policies over false-positive rates, curve fits, naive errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import wirecodec as wc
from benchmarks.common.inputs import TEST_GRADIENTS
from benchmarks.common.results import format_markdown
from benchmarks.papers.table import Row, format_rows
from benchmarks.value.papers import Reproductions
from wirecodec.index.bloom import filter_bytes, windows
from wirecodec.index.bloom_p2 import max_positives, select_inserted
from wirecodec.kernels.layout import BLOOM_PAD

__all__ = ["RATES", "PolicyPoint", "Result", "format_section", "measure"]

Array = Any
RATES = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 0.6)
DENSITY = 0.01
STREAM = 12345


@dataclass(frozen=True)
class PolicyPoint:
    """One policy at one false-positive rate.

    Attributes:
        policy: its name.
        rate: false-positive rate.
        kept: fraction of the selected elements that arrive.
        volume: bytes of filter and float32 values, relative to 8 bytes per selected element.
        error: of the decoded gradient, relative to the norm of the selected one.
        refused: whether a reader refuses such a section.
    """

    policy: str
    rate: float
    kept: float
    volume: float
    error: float
    refused: bool = False


@dataclass(frozen=True, eq=False)
class Result:
    """Results of all figures.

    Attributes:
        points: Figure 6.
        fits: Figures 5 and 8, (codec, error, bytes per value without the map).
        sorted_values, fitted: Figure 5, the values of one gradient and their fit with 8 pieces.
        naive: fraction of the values that arrive at their own index, and the error.
        reproductions: Table 2 and Figure 10.
    """

    points: list[PolicyPoint]
    fits: list[tuple[str, float, float]]
    sorted_values: Array
    fitted: Array
    naive: tuple[float, float]
    reproductions: Reproductions


def measure(reproductions: Reproductions, step: Callable[[str], None]) -> Result:
    """Measure policies and fits on residual + gradient of a ResNet-20.

    Args:
        reproductions: of ``benchmarks.value.papers``.
        step: called with the name of each measurement before it starts.
    """
    x = np.load(TEST_GRADIENTS / "resnet20_residual.npy").reshape(-1).astype(np.float32)
    indices = np.asarray(wc.TopK(DENSITY).select(x).indices, np.uint32)
    points = []
    for rate in RATES:
        step(f"DeepReduce: policies at a rate of {rate:g}")
        points += _measure_policies(x, indices, rate)
    step("DeepReduce: curve fits")
    values = np.sort(x[indices])
    fits = [
        _fit(values, codec)
        for codec in ("polyfit(pieces=8)", "polyfit", "polyfit(degree=1)", "polyfit(degree=0)", "dexpfit")
    ]
    fitted = wc.decode(wc.encode(values, "all | raw-index | polyfit(pieces=8)")).values
    naive = wc.decode(wc.encode(x, f"topk({DENSITY}) | bloom(policy=naive) | raw"))
    target, error = _sparse(x, indices), naive.to_dense() - _sparse(x, indices)
    own = naive.values == x[np.asarray(naive.indices)]
    return Result(
        points,
        fits,
        values,
        fitted,
        (float(np.mean(own)), float(np.linalg.norm(error) / np.linalg.norm(target))),
        reproductions,
    )


def _sparse(x: Array, indices: Array) -> Array:
    found = np.zeros_like(x)
    found[indices] = x[indices]
    return found


def _measure_policies(x: Array, indices: Array, rate: float) -> list[PolicyPoint]:
    """Apply the policies to one filter; p2 without the bound that a reader applies."""
    from wirecodec.kernels.cpu.index import bloom

    d, r, k = x.size, indices.size, windows(rate)
    nbytes = filter_bytes(r, rate)
    filter_ = np.zeros(nbytes + BLOOM_PAD, np.uint8)
    bloom.insert(indices, filter_, k)
    total = int(bloom.count(filter_, k, d))
    everything = np.empty(total, np.uint32)
    bloom.fill(filter_, k, d, 0, everything)
    drawn = np.empty(r, np.uint32)
    bloom.sample(filter_, k, d, total, np.uint32(STREAM), np.uint32(0), drawn)
    found = {
        "P0": everything,
        "P1": drawn,
        "P2": select_inserted(filter_, k, d, total, r, STREAM, bounded=False),
    }
    target = _sparse(x, indices)
    scale = float(np.linalg.norm(target))
    return [
        PolicyPoint(
            policy,
            rate,
            float(np.isin(indices, decoded).mean()),
            (nbytes + 4 * decoded.size) / (8 * r),
            float(np.linalg.norm(_sparse(x, decoded) - target)) / scale,
            policy == "P2" and total > max_positives(r),
        )
        for policy, decoded in found.items()
    ]


def _fit(values: Array, codec: str) -> tuple[str, float, float]:
    blob = wc.encode(values, f"all | raw-index | {codec}")
    decoded = wc.decode(blob).values
    error = np.linalg.norm(decoded.astype(np.float64) - values) / np.linalg.norm(values.astype(np.float64))
    (entry,) = wc.inspect(blob).entries
    return codec, float(error), entry.value_bytes / values.size


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
    fits = [[codec, f"{error:.2%}", f"{size:.3f}"] for codec, error, size in found.fits]
    return f"""## DeepReduce (Xu et al., 2021)

{format_rows(_list_rows(found))}
### Figure 6: policies over the false-positive rate

The largest 1 % of residual + gradient of a ResNet-20. *Kept* is the fraction of them that arrives, *volume*
the bytes of filter and float32 values relative to 8 bytes per element, *error* that of the decoded gradient
relative to the norm of the 1 %. Values at false positives are the gradient's own, so they reduce the
residual, too. *Refused*: readers refuse p2 above 2.5 positives per element; the numbers are computed without
this bound. [The page of the codec](../../formats/spec/index/bloom.md) shows that it costs nothing.

{format_markdown(header, rows)}
![fraction kept and volume over the rate; a fit with 8 pieces](papers_deepreduce.png)

### Figures 5 and 8: curve fits

{format_markdown(["codec", "error", "bytes per value, without the map"], fits)}"""


def _list_rows(found: Result) -> list[Row]:
    def point(policy: str, rate: float) -> PolicyPoint:
        return next(p for p in found.points if (p.policy, p.rate) == (policy, rate))

    crossing = next((p.rate for p in found.points if p.policy == "P0" and p.volume > 1), None)
    table_2 = ", ".join(f"{each.method} {each.volume:.3f}" for each in found.reproductions.table_2[1:4])
    both = next(e for e in found.reproductions.figure_10 if e.method == "DR BF-P2, Fit-Poly")
    return [
        Row(
            "Figure 5: fit with 8 pieces",
            "close to the sorted values of a convolution",
            f"error {found.fits[0][1]:.2%}",
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
            f"errors {found.fits[1][1]:.2%} and {found.fits[4][1]:.2%}",
            "Errors instead of accuracy.",
        ),
        Row(
            "Figure 10a: volume of both together",
            "shown per variant",
            f"{both.volume:.2%} of the dense gradient",
            "[value.md](value.md) has all variants and their times (10b).",
        ),
        Row(
            "Table 2: inherently sparse gradient, volumes",
            "0.588, 0.218, 0.206",
            table_2,
            "A slice of an LSTM gradient in place of NCF, which needs ML-20m: [value.md](value.md).",
        ),
        Row(
            "Figure 11: speed-up over bandwidth",
            "larger on slower networks, 100 Mbit/s to 10 Gbit/s",
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
            "Figures 7, 9, 15, Table 1: training", "accuracy over epochs and volume", "–", "Not on this page."
        ),
        Row(
            "Table 3: devices",
            "which method runs on CPU or GPU",
            "[the GPU page](../../wirecodec/gpu/README.md)",
            "P2, RLE, Huffman, curve fits and Deflate run on the host; tensors on a GPU are copied.",
        ),
    ]
