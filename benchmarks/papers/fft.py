"""The FFT paper's figures: status vector, representable numbers, cost model, and the error of means."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import wirecodec as wc
from benchmarks.common.inputs import TEST_GRADIENTS
from benchmarks.common.results import format_markdown
from benchmarks.demo import data, model
from benchmarks.papers.table import Row, format_rows
from benchmarks.papers.training import BATCH, RATE, flatten, unflatten
from benchmarks.value.papers import Reproductions
from wirecodec.cli.break_even import published_min_ratio

__all__ = ["BANDWIDTHS", "FORMATS", "THROUGHPUTS", "Result", "format_section", "measure"]

Array = Any
THETAS = (0.5, 0.7, 0.85, 0.9, 0.95, 0.97, 0.99, 0.999)
FORMATS = {
    "uniform": ("qsgd(bits=8)", 1.0),
    "range ±0.5": ("offset-float(bits=8, min=-0.5, max=0.5)", 0.5),
    "range ±5": ("offset-float(bits=8, min=-5.0, max=5.0)", 5.0),
}
"""(codec, largest magnitude) of the distributions of Figures 7 and 9."""
BANDWIDTHS = np.geomspace(1, 100, 60)
"""Gbit/s."""
THROUGHPUTS = (5, 12, 34, 100, 300)
"""GB/s of selection or packing."""
FIXED = {"conversion": 250e9, "transform": 120e9}
RANKS = 4


@dataclass(frozen=True, eq=False)
class Result:
    """Results of all figures.

    Attributes:
        status: per θ, fraction of the bytes that are the bitmap's, its ratio, and that of Rice codes.
        numbers: {format: representable numbers}.
        saturated: errors of a range of ±1 and of a range per chunk, per scale of the gradient.
        alphas: per step, α of Assumption 3.2 with θ = 0.85, for the mean of the ranks.
        reproductions: Figures 5 and 15.
    """

    status: list[tuple[float, float, float, float]]
    numbers: dict[str, Array]
    saturated: list[tuple[float, float, float]]
    alphas: Array
    reproductions: Reproductions


def measure(reproductions: Reproductions, steps: int, step: Callable[[str], None]) -> Result:
    """Measure everything that needs no GPU.

    Args:
        reproductions: of ``benchmarks.value.papers``.
        steps: of the training that measures α.
        step: called with the name of each measurement before it starts.
    """
    x = np.load(TEST_GRADIENTS / "resnet20_raw.npy").reshape(-1).astype(np.float32)
    step("FFT: status vector")
    status = [_measure_status(x, theta) for theta in THETAS]
    step("FFT: representable numbers")
    numbers = {name: _list_numbers(codec, largest) for name, (codec, largest) in FORMATS.items()}
    saturated = [_measure_saturation(x / np.abs(x).max() * scale, scale) for scale in (0.01, 1.0, 100.0)]
    step("FFT: error of the mean over ranks")
    return Result(status, numbers, saturated, _measure_alphas(steps), reproductions)


def _measure_status(x: Array, theta: float) -> tuple[float, float, float, float]:
    def encode(index: str) -> Any:
        return wc.encode(x, f"rfft | topk({round(1 - theta, 6)}) | {index} | offset-float(bits=10)")

    blob = encode("bitmap")
    (entry,) = wc.inspect(blob).entries
    share = entry.index_bytes / (entry.index_bytes + entry.value_bytes)
    return theta, share, x.nbytes / blob.nbytes, x.nbytes / encode("rice").nbytes


def _list_numbers(codec: str, largest: float) -> Array:
    """Decode a fine grid; each number that the codec can represent is in the result."""
    grid = np.concatenate([np.linspace(-largest, largest, 400_001), np.geomspace(1e-6, 1, 100_000) * largest])
    grid = np.concatenate([grid, -grid[400_001:]]).astype(np.float32)
    bucket = 512
    pad = np.full(-grid.size % (bucket - 1), largest, np.float32)
    rows = np.concatenate([grid, pad]).reshape(-1, bucket - 1)
    rows = np.concatenate([rows, np.full((len(rows), 1), largest, np.float32)], axis=1)  # one scale for all
    return np.unique(wc.decode(wc.encode(rows.ravel(), f"all | raw-index | {codec}")).values)


def _measure_saturation(x: Array, scale: float) -> tuple[float, float, float]:
    def error(value: str) -> float:
        y = wc.decode(wc.encode(x, f"rfft | topk(0.15) | bitmap | {value}")).to_dense()
        return float(np.linalg.norm(y - x) / np.linalg.norm(x))

    return scale, error("offset-float(bits=10, min=-1.0, max=1.0)"), error("offset-float(bits=10)")


def _measure_alphas(steps: int) -> Array:
    """Train on several ranks with the preset, without feedback; return ‖v - v̂‖ / ‖v‖ of each step."""
    training, _ = data.load()
    shards = [data.shard(training, rank, RANKS) for rank in range(RANKS)]
    batches = [data.generate_batches(s, BATCH, seed=0, rank=rank) for rank, s in enumerate(shards)]
    params, scheme, alphas = model.initialise(0), wc.preset("fft"), []
    for _ in range(steps):
        exact, decoded = [], []
        for batch in map(next, batches):
            gradient = flatten(model.compute_gradients(params, batch.images, batch.labels)[1])
            exact.append(gradient)
            decoded.append(wc.decode(wc.encode(gradient, scheme)).to_dense())
        v, sent = np.mean(exact, axis=0), np.mean(decoded, axis=0)
        alphas.append(float(np.linalg.norm(v - sent) / np.linalg.norm(v)))
        change = unflatten(sent, params)
        params = {name: p - np.float32(RATE) * change[name] for name, p in params.items()}
    return np.array(alphas)


def format_section(found: Result) -> str:
    """Format the FFT paper's part of the page."""
    status = [[f"{t:g}", f"{s:.1%}", f"{bitmap:.1f}×", f"{rice:.1f}×"] for t, s, bitmap, rice in found.status]
    numbers = [
        [
            name,
            str(n.size),
            *(f"{np.mean(np.abs(n) < part * FORMATS[name][1]):.0%}" for part in (0.01, 0.1, 0.5)),
        ]
        for name, n in found.numbers.items()
    ]
    saturated = [[f"{s:g}", f"{fixed:.3f}", f"{free:.3f}"] for s, fixed, free in found.saturated]
    return f"""## FFT-based sparsification (Wang et al., 2020)

{format_rows(_list_rows(found))}
### Figure 6: cost of the status vector

{format_markdown(["θ", "bitmap's part of the bytes", "ratio, bitmap", "ratio, Rice codes"], status)}
### Figures 7 and 9: representable numbers of 8 bits

{format_markdown(["format", "numbers", "below 1 % of the largest", "below 10 %", "below 50 %"], numbers)}
![distributions, status vector, cost model, α](papers_fft.png)

### The range of the floats

Error of `rfft | topk(0.15) | bitmap | offset-float(bits=10)` for a ResNet-20 gradient whose largest element
is scaled. A fixed range of ±1 clamps larger coefficients, unless `overflow=raise` refuses them.

{format_markdown(["scale", "range ±1", "range per chunk"], saturated)}"""


def find_limit(selection: float) -> float:
    """Return the bandwidth in Gbit/s from which no ratio pays, for a selection throughput in GB/s."""
    low, high = 0.01, 1e5
    for _ in range(60):
        middle = math.sqrt(low * high)
        ratio = published_min_ratio(middle / 8 * 1e9, **FIXED, packing=34e9, selection=selection * 1e9)
        low, high = (low, middle) if ratio == math.inf else (middle, high)
    return low


def _list_rows(found: Result) -> list[Row]:
    figure_5 = found.reproductions.figure_5["resnet20_raw"]
    errors = {each.method: each.error for each in figure_5}
    share = next(s for t, s, _, _ in found.status if t == 0.95)
    ratio = published_min_ratio(10e9 / 8, **FIXED, packing=34e9, selection=12e9)
    return [
        Row(
            "Figure 5: FFT top-k and direct top-k",
            "FFT loses less",
            f"error {errors['FFT, top-k']:.3f} and {errors['top-k']:.3f}",
            "Our raw gradients contradict it: [value.md](value.md).",
        ),
        Row(
            "Figure 6: status vector",
            "not negligible from a ratio of 20 on",
            f"{share:.0%} of the bytes at θ = 0.95",
            "Rice codes end the effect.",
        ),
        Row(
            "Figures 7, 9: representable numbers",
            "dense near 0, within the given range",
            "table and picture",
            "The same, with codes for 0 and for negative numbers.",
        ),
        Row(
            "Figure 8: 0.256 with m = 3, eps = 0.125",
            "code 9, 0.25",
            f"{_decode_example():g}",
            "The same; a test holds the code.",
        ),
        Row(
            "Figure 10, equations 1-4: least ratio",
            "2 at 10 Gbit/s; none pays above 22 Gbit/s with T_s = 12 GB/s",
            f"{ratio:.2f} at 10 Gbit/s; none above {find_limit(12):.0f} Gbit/s",
            "The paper does not state all throughputs; here T_m = 250, T_f = 120, T_p = 34 GB/s. "
            "`wirecodec min-ratio` takes any.",
        ),
        Row(
            "Figure 11: latency of the all-gather",
            "grows with the ranks",
            "[collectives.md](collectives.md)",
            "2 to 8 hosts, no InfiniBand.",
        ),
        Row(
            "Figure 12, Assumption 3.2: α",
            "below 1 throughout",
            f"{found.alphas.min():.2f}-{found.alphas.max():.2f}, {RANKS} ranks",
            "θ = 0.85 and 10 bits on the demo's network, without feedback.",
        ),
        Row(
            "Figure 15: distribution of decoded gradients",
            "FFT is closest",
            "[value.md](value.md)",
            "Described there.",
        ),
        Row(
            "Figures 1-4, 13, 14, 16, Table 2",
            "schemes of parallelism, training, weak scaling, GPU throughput",
            "–",
            "Training, parameter server and GPU runs are not on this page.",
        ),
    ]


def _decode_example() -> float:
    codec = "offset-float(bits=8, mantissa=3, min=-4.0, max=4.0, eps=0.125)"
    return float(wc.decode(wc.encode(np.array([0.256], np.float32), f"all | raw-index | {codec}")).values[0])
