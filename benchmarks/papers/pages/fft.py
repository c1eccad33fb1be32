"""The FFT paper's part of the page."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.stats import laplace as laplace_of
from scipy.stats import norm

import wirecodec as wc
from benchmarks.common.results import format_markdown
from benchmarks.papers.fft import EXPONENT, FIXED, IEEE, MANTISSA, RANKS, Result, list_ieee_numbers
from benchmarks.papers.min_ratio import published_min_ratio
from benchmarks.papers.pages.table import (
    NOT_TRIED,
    PARTLY,
    REPRODUCED,
    WRONG,
    Row,
    Table,
    format_rows,
    read_gpu_kernel,
    read_milliseconds,
)
from benchmarks.value.papers import DecodedGradient
from benchmarks.value.peers import compute_rms

__all__ = ["compute_distances", "find_limit", "format_section", "list_rows"]

Array = Any


def format_section(found: Result) -> str:
    """Format the FFT paper's part of the page."""
    numbers = [
        [
            name,
            str(n.size),
            *(f"{np.mean(np.abs(n) < part * np.abs(n).max()):.0%}" for part in (0.01, 0.1, 0.5)),
        ]
        for name, n in found.numbers.items()
    ]
    saturated = [[f"{s:g}", f"{fixed:.3f}", f"{free:.3f}"] for s, fixed, free in found.saturated]
    return f"""## FFT-based sparsification (Wang et al., 2020)

{format_rows(list_rows(found))}
### Figure 6: cost of the status vector

[fft_status.csv](papers/fft_status.csv) also has the ratios with a bitmap and with Rice codes.

![bitmap's part of the bytes over the ratio of coefficients](papers_fft_status.png)

### Figures 7 and 9: representable numbers of 8 bits

{format_markdown(["format", "numbers", "below 1 % of the largest", "below 10 %", "below 50 %"], numbers)}
![how many numbers of each format are in each part of its range](papers_fft_numbers.png)

### Figure 10: least ratio

T_comm: bandwidth of the link; T_s: throughput of the selection. The lines are the paper's equations 1-4,
with the constants above. Lines by T_p have the same shape.

![least ratio that pays, over the bandwidth, by throughput of the selection](papers_fft_ratio.png)

### Figure 12: α of Assumption 3.2

v is the mean of the ranks' gradients, and v̂ that of the decoded ones.

![α over the steps](papers_fft_alpha.png)

### The range of the floats

Error of `rfft | topk(0.15) | bitmap | offset-float(bits=10)` for a ResNet-20 gradient whose largest element
is scaled: a fixed range of ±1 clamps larger coefficients.

{format_markdown(["scale", "range ±1", "range per chunk"], saturated)}"""


def find_limit(selection: float) -> float:
    """Return the bandwidth in Gbit/s from which no ratio pays, for a selection throughput in GB/s."""
    low, high = 0.01, 1e5
    for _ in range(60):
        middle = math.sqrt(low * high)
        ratio = published_min_ratio(middle / 8 * 1e9, **FIXED, packing=34e9, selection=selection * 1e9)
        low, high = (low, middle) if ratio == math.inf else (middle, high)
    return low


def list_status(found: Result) -> Table:
    """List the cost of the status vector, for a data file."""
    rows = [[f"{t:g}", f"{s:.1%}", f"{bitmap:.1f}×", f"{rice:.1f}×"] for t, s, bitmap, rice in found.status]
    return Table(["θ", "bitmap's part of the bytes", "ratio, bitmap", "ratio, Rice codes"], rows)


def list_rows(found: Result) -> list[Row]:
    """List the paper's tables and figures."""
    figure_5 = found.reproductions.figure_5["resnet20_raw"]
    errors = {each.method: each.error for each in figure_5}
    share, bitmap, rice = next(rest for t, *rest in found.status if t == 0.95)
    ratio = published_min_ratio(10e9 / 8, **FIXED, packing=34e9, selection=12e9)
    free = published_min_ratio(56e9 / 8, **FIXED, packing=math.inf, selection=math.inf)
    transformed, direct = found.layers
    ieee = found.numbers[IEEE]
    ranges = [list_ieee_numbers(bits, EXPONENT + MANTISSA - bits).max() for bits in EXPONENTS]
    sent = {each.method: each for each in found.reproductions.figure_15}
    quantiles = {method: _compute_errors(each) for method, each in sent.items()}
    least = [min(quantiles, key=lambda method: quantiles[method][place]) for place in range(len(PARTS))]
    gathers = {n: ms for (link, n), ms in read_milliseconds("allgather", GATHERED).items() if link == LINK}
    dense = sent["FFT"].gradient
    normal, laplace = compute_distances(dense)
    gpu = "Takes several GPUs."
    return [
        Row(
            "Figure 5: FFT top-k and direct top-k",
            "err 0.0209 and 0.0246: FFT preserves more",
            f"one vector of all layers, as in step 1 of section 3.1: {errors['FFT, top-k']:.3f} and "
            f"{errors['top-k']:.3f}; each layer by itself: {transformed:.3f} and {direct:.3f}",
            "Relative, ResNet-20's raw gradient, θ = 0.85; the paper states neither norm nor θ. FFT loses "
            "less within layers only ([value.md](value.md)).",
            PARTLY,
        ),
        Row(
            "Figure 6: status vector",
            "non-negligible after the ratio exceeds 20",
            f"{share:.0%} of the bytes at θ = 0.95",
            f"n/2 + 1 bits here, n in the paper. With Rice codes {rice:.1f}× in place of {bitmap:.1f}× at θ "
            "= 0.95.",
            REPRODUCED,
        ),
        Row(
            "Figures 7, 9: representable numbers",
            "dense near 0, within the given range; uniform is not, and IEEE 754's range is too large or "
            "too small",
            f"table and picture; {IEEE}, {EXPONENT} bits of exponent: range ±{ieee.max():g}, "
            f"{np.mean(np.abs(ieee) <= 1):.0%} of the numbers in ±1; {min(EXPONENTS)} to {max(EXPONENTS)} "
            f"bits: range ±{min(ranges):.3g} to ±{max(ranges):.2g}",
            "With codes for 0 and negative numbers.",
            REPRODUCED,
        ),
        Row(
            "Figure 8: 0.256 with m = 3, eps = 0.125",
            "code 9, 0.25",
            f"{_decode_example():g}",
            "The figure's range of ±2.",
            REPRODUCED,
        ),
        Row(
            "Figure 10, equations 1-4: least ratio",
            "2 is enough at 10 Gbit/s; none pays above 22 Gbit/s with T_s = 12 GB/s; about 30 at 56 Gbit/s",
            f"{ratio:.2f} at 10 Gbit/s; none above {find_limit(12):.0f} Gbit/s; at 56 Gbit/s none, or "
            f"{free:.0f} if selection and packing cost nothing",
            "T_m and T_f are not stated: 2/T_m + 1/T_f = 0.069 s/GB is fitted to the second number, with "
            f"T_p = 34 GB/s. Then no ratio pays above {find_limit(math.inf):.0f} Gbit/s.",
            PARTLY,
        ),
        Row(
            "Figure 11: latency of the all-gather",
            "grows almost linearly with the GPUs",
            f"{', '.join(f'{ms:,.0f}' for ms in gathers.values())} ms with {', '.join(map(str, gathers))} "
            "hosts",
            f"{_compute_growth(gathers):.1f} times from {min(gathers)} to {max(gathers)} hosts: in "
            f"proportion to n - 1. {GATHERED} at {LINK}/s, network namespaces "
            "([collectives.md](collectives.md)).",
            PARTLY,
        ),
        Row(
            "Figure 12, Assumption 3.2: α",
            "in [0, 1]",
            f"{found.alphas.min():.2f}-{found.alphas.max():.2f}, {RANKS} ranks",
            "θ = 0.85, 10 bits; theirs is unstated.",
            REPRODUCED,
        ),
        Row(
            "Figure 15: distribution of decoded gradients",
            "FFT is the only one that retains the distribution; its error is the lowest from 1e-5 to 1e-2",
            "; ".join(
                f"{method} {' / '.join(f'{error:.3f}' for error in errors)}"
                for method, errors in quantiles.items()
            ),
            f"Errors at {' / '.join(f'{100 * part:.0f}' for part in PARTS)} % of the elements, in rms. Only "
            f"FFT retains the distribution ([value.md](value.md)). {_describe_least(least)}",
            REPRODUCED if set(least) == {"FFT"} else PARTLY if "FFT" in least else WRONG,
        ),
        Row(
            "Section 4.2: compression ratios",
            "FFT 21.3×, top-k 6.67×, TernGrad 16×, QSGD 10.6×",
            f"FFT {1 / sent['FFT'].volume:.1f}×, top-k {1 / sent['Top-k'].volume:.1f}×, TernGrad "
            f"{1 / sent['TernGrad'].volume:.1f}×, QSGD {1 / sent['QSGD'].volume:.1f}×; without the bitmap "
            f"FFT {_compute_ratio(sent['FFT']):.1f}×, top-k {_compute_ratio(sent['Top-k']):.2f}×",
            "Theirs counts values alone; ours are containers. With the paper's one bit per element, FFT "
            f"would have {_compute_ratio(sent['FFT'], 1):.1f}×. TernGrad packs five values per byte.",
            PARTLY,
        ),
        Row(
            "Section 3.2: throughput of packing on a GPU",
            "34 GB/s on a V100, 689 times a single-threaded algorithm's",
            f"{_compute_throughput(KERNEL):,.0f} GB/s on an H100",
            f"*{KERNEL}* of {max(read_gpu_kernel(KERNEL)):,} elements, a threshold given "
            "([gpu.md](gpu.md)). Another GPU.",
            PARTLY,
        ),
        Row(
            "Figures 13, 14, Table 2: accuracy",
            "θ = 0.5 as SGD, θ = 0.9 worse, θ from 0.9 to 0 as SGD; FFT +0.09 (AlexNet) and -0.12 points "
            "(ResNet32) from SGD; top-k, QSGD and TernGrad 1.45 to 5.21 points below SGD",
            "[training.md](training.md)",
            "Our models; not theirs.",
        ),
        Row(
            "Table 2, Figure 14: speed-up over SGD",
            "FFT 2.26× (AlexNet) and 1.33× (ResNet32) on 8 GPUs; AlexNet 1.31× over QSGD, 1.25× over "
            "TernGrad, 1.47× over top-k",
            "–",
            gpu,
            NOT_TRIED,
        ),
        Row(
            "Figures 2, 16: layers' communication, weak scaling",
            "communication is 18.6 to 64.2 % of an iteration (section 2.1); FFT has the highest throughput "
            "from 8 to 32 GPUs",
            "–",
            gpu,
            NOT_TRIED,
        ),
        Row(
            "Figure 4: distribution of gradients",
            "a lot of near-zero components; a normal distribution (section 5)",
            f"{_count_small(dense):.0%} of the elements below 1 % of the largest; KS distance from a normal "
            f"distribution {normal:.2f}, from Laplace's {laplace:.2f}",
            "ResNet-20's raw gradient, as `wirecodec stats --png` draws it.",
            PARTLY if normal > laplace else REPRODUCED,
        ),
        Row(
            "Figures 1, 3, Table 1: schemes of parallelism, steps of the method, symbols",
            "drawings",
            "–",
            "–",
        ),
    ]


PARTS = (0.5, 0.9, 0.99)
"""Fractions of the elements at which errors are compared."""
GATHERED, LINK = "26M, 1 %", "100 Mbit"
"""Column of collectives.md, and its link."""
KERNEL = "select + bitmap + compact"
"""Row of gpu.md: status vector and dense vector."""
EXPONENTS = range(2, 8)
"""The paper's N - 2 formats of N = 8 bits."""


def compute_distances(x: Array) -> tuple[float, float]:
    """Compute the Kolmogorov-Smirnov distances from the normal and the Laplace distribution that fit best.

    Args:
        x: (n,) any number.
    """
    ascending = np.sort(x.astype(np.float64))
    middle = np.median(ascending)
    fits = norm(ascending.mean(), ascending.std()), laplace_of(middle, np.mean(np.abs(ascending - middle)))
    after = np.arange(1, x.size + 1) / x.size
    normal, laplace = (
        max(np.max(after - fit.cdf(ascending)), np.max(fit.cdf(ascending) - after + 1 / x.size))
        for fit in fits
    )
    return float(normal), float(laplace)


def _count_small(x: Array) -> float:
    """Return the fraction of the elements below 1 % of the largest."""
    return float(np.mean(np.abs(x) < 0.01 * np.abs(x).max()))


def _compute_growth(times: Mapping[int, float]) -> float:
    """Return the time with the most hosts over that with the fewest."""
    return times[max(times)] / times[min(times)]


def _compute_throughput(kernel: str) -> float:
    """Return the GB/s of uncompressed float32 elements of a kernel, for the longest vector of gpu.md."""
    elements, milliseconds = max(read_gpu_kernel(kernel).items())
    return 4 * elements / milliseconds / 1e6


def _compute_errors(sent: DecodedGradient) -> list[float]:
    """Return the errors of a decoded gradient at ``PARTS``, relative to the root mean square."""
    errors = np.abs(sent.decoded - sent.gradient) / compute_rms(sent.gradient)
    return [float(error) for error in np.quantile(errors, PARTS)]


def _describe_least(least: list[str]) -> str:
    """Describe at which parts FFT's error is the lowest."""
    named = [(f"{100 * part:.0f} %", name == "FFT") for part, name in zip(PARTS, least, strict=True)]
    lowest, others = ([part for part, own in named if own == wanted] for wanted in (True, False))
    if not lowest:
        return "Its error is the lowest at none of them."
    rest = f", not at {' or '.join(others)}" if others else ""
    return f"Its error is the lowest at {' and '.join(lowest)}{rest}."


def _compute_ratio(sent: DecodedGradient, status: int = 0) -> float:
    """Return the compression ratio of the values, and of a status vector of so many bits per element."""
    return sent.gradient.nbytes / (sent.value + status * sent.gradient.size / 8)


def _decode_example() -> float:
    codec = "offset-float(bits=8, mantissa=3, min=-2.0, max=2.0, eps=0.125)"
    return float(wc.decode(wc.encode(np.array([0.256], np.float32), f"all | raw-index | {codec}")).values[0])
