"""The FFT paper's part of the page."""

from __future__ import annotations

import math

import numpy as np

import wirecodec as wc
from benchmarks.common.results import format_markdown
from benchmarks.papers.fft import EXPONENT, FIXED, IEEE, RANKS, Result
from benchmarks.papers.min_ratio import published_min_ratio
from benchmarks.papers.pages.table import (
    NOT_TRIED,
    PARTLY,
    REPRODUCED,
    WRONG,
    Row,
    format_rows,
    read_milliseconds,
)
from benchmarks.value.papers import DecodedGradient
from benchmarks.value.peers import compute_rms

__all__ = ["find_limit", "format_section", "list_rows"]


def format_section(found: Result) -> str:
    """Format the FFT paper's part of the page."""
    status = [[f"{t:g}", f"{s:.1%}", f"{bitmap:.1f}×", f"{rice:.1f}×"] for t, s, bitmap, rice in found.status]
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

{format_markdown(["θ", "bitmap's part of the bytes", "ratio, bitmap", "ratio, Rice codes"], status)}
![bitmap's part of the bytes over the ratio of coefficients](papers_fft_status.png)

### Figures 7 and 9: representable numbers of 8 bits

{format_markdown(["format", "numbers", "below 1 % of the largest", "below 10 %", "below 50 %"], numbers)}
![how many numbers of each format are in each part of its range](papers_fft_numbers.png)

### Figure 10: least ratio

T_comm is the bandwidth of the link and T_s the throughput of the selection. The lines are equations 1-4 of
the paper, with the constants of the table above.

![least ratio that pays, over the bandwidth, by throughput of the selection](papers_fft_ratio.png)

### Figure 12: α of Assumption 3.2

v is the mean of the ranks' gradients, and v̂ that of the decoded ones.

![α over the steps](papers_fft_alpha.png)

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


def list_rows(found: Result) -> list[Row]:
    """List the paper's tables and figures."""
    figure_5 = found.reproductions.figure_5["resnet20_raw"]
    errors = {each.method: each.error for each in figure_5}
    share = next(s for t, s, _, _ in found.status if t == 0.95)
    ratio = published_min_ratio(10e9 / 8, **FIXED, packing=34e9, selection=12e9)
    transformed, direct = found.layers
    ieee = found.numbers[IEEE]
    sent = {each.method: each for each in found.reproductions.figure_15}
    quantiles = {method: _compute_errors(each) for method, each in sent.items()}
    least = [min(quantiles, key=lambda method: quantiles[method][place]) for place in range(len(PARTS))]
    gathers = {n: ms for (link, n), ms in read_milliseconds("allgather", GATHERED).items() if link == LINK}
    gpu = "It needs several GPUs; [gpu.md](gpu.md) has one."
    return [
        Row(
            "Figure 5: FFT top-k and direct top-k",
            "err 0.0209 and 0.0246: FFT preserves more",
            f"one vector of all layers, as in step 1 of section 3.1: {errors['FFT, top-k']:.3f} and "
            f"{errors['top-k']:.3f}; each layer by itself: {transformed:.3f} and {direct:.3f}",
            "Relative errors of ResNet-20's raw gradient at θ = 0.85. FFT loses less within layers, and more "
            "if top-k may choose among layers ([value.md](value.md)).",
            PARTLY,
        ),
        Row(
            "Figure 6: status vector",
            "non-negligible after the ratio exceeds 20",
            f"{share:.0%} of the bytes at θ = 0.95",
            "Rice codes end the effect.",
            REPRODUCED,
        ),
        Row(
            "Figures 7, 9: representable numbers",
            "dense near 0, within the given range; uniform and IEEE 754 are not",
            f"table and picture; {IEEE}, {EXPONENT} bits of exponent: range ±{ieee.max():g}, "
            f"{np.mean(np.abs(ieee) <= 1):.0%} of the numbers in ±1",
            "The same, with codes for 0 and for negative numbers. The range of IEEE 754 does not fit "
            "gradients.",
            REPRODUCED,
        ),
        Row(
            "Figure 8: 0.256 with m = 3, eps = 0.125",
            "code 9, 0.25",
            f"{_decode_example():g}",
            "The same; a test holds the code.",
            REPRODUCED,
        ),
        Row(
            "Figure 10, equations 1-4: least ratio",
            "2 is enough at 10 Gbit/s; none pays above 22 Gbit/s with T_s = 12 GB/s; about 30 at 56 Gbit/s",
            f"{ratio:.2f} at 10 Gbit/s; none above {find_limit(12):.0f} Gbit/s",
            "The paper states neither T_m nor T_f. Only 2/T_m + 1/T_f counts, and 0.069 s/GB is "
            "fitted to the first two numbers; T_p = 34 GB/s. The third has a larger T_s, not stated.",
            PARTLY,
        ),
        Row(
            "Figure 11: latency of the all-gather",
            "grows almost linearly with the GPUs",
            f"{', '.join(f'{ms:,.0f}' for ms in gathers.values())} ms with {', '.join(map(str, gathers))} "
            "hosts",
            f"Top-k's {GATHERED} at {LINK}/s, between network namespaces, no InfiniBand "
            "([collectives.md](collectives.md)).",
            PARTLY,
        ),
        Row(
            "Figure 12, Assumption 3.2: α",
            "in [0, 1]",
            f"{found.alphas.min():.2f}-{found.alphas.max():.2f}, {RANKS} ranks",
            "θ = 0.85 and 10 bits on the demo's network, without feedback; theirs has momentum 0.9.",
            REPRODUCED,
        ),
        Row(
            "Figure 15: distribution of decoded gradients",
            "FFT is the only one that retains the distribution; its error is the lowest from 1e-5 to 1e-2",
            "; ".join(
                f"{method} {' / '.join(f'{error:.3f}' for error in errors)}"
                for method, errors in quantiles.items()
            ),
            f"Errors at {' / '.join(f'{100 * part:.0f}' for part in PARTS)} % of the elements, in "
            "rms of the gradient. Only FFT retains the distribution ([value.md](value.md)). "
            f"{_describe_least(least)}",
            REPRODUCED if set(least) == {"FFT"} else PARTLY if "FFT" in least else WRONG,
        ),
        Row(
            "Section 4.2: compression ratios",
            "FFT 21.3×, top-k 6.67×, TernGrad 16×, QSGD 10.6×",
            f"FFT {1 / sent['FFT'].volume:.1f}×, top-k {1 / sent['Top-k'].volume:.1f}×, TernGrad "
            f"{1 / sent['TernGrad'].volume:.1f}×, QSGD {1 / sent['QSGD'].volume:.1f}×; without the bitmap "
            f"FFT {_compute_ratio(sent['FFT']):.1f}×, top-k {_compute_ratio(sent['Top-k']):.2f}×",
            "Theirs counts values alone; ours are containers with the status vector. TernGrad here packs "
            "five values per byte.",
            PARTLY,
        ),
        Row(
            "Figure 13, Table 2: accuracy",
            "θ = 0.5 as SGD, θ = 0.9 worse, θ from 0.9 to 0 as SGD; FFT -0.12 and +0.09 points from SGD",
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
            "AlexNet's convolutions take 10 times their communication, ResNet's as long or less; FFT has the "
            "highest throughput from 8 to 32 GPUs",
            "–",
            gpu,
            NOT_TRIED,
        ),
        Row(
            "Figure 4: distribution of gradients",
            "a lot of near-zero components",
            "the densities of SIDCo's Figures 2 and 8, above",
            "The same. `wirecodec stats --png` draws it for any gradient.",
            REPRODUCED,
        ),
        Row(
            "Figures 1, 3, Table 1: schemes of parallelism, steps of the method, symbols",
            "drawings",
            "–",
            "Nothing to measure. A parameter server is not part of this library.",
        ),
    ]


PARTS = (0.5, 0.9, 0.99)
"""Fractions of the elements at which errors are compared."""
GATHERED, LINK = "26M, 1 %", "100 Mbit"
"""Column of collectives.md, and its link."""


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


def _compute_ratio(sent: DecodedGradient) -> float:
    """Return the compression ratio of the values alone."""
    return sent.gradient.nbytes / sent.value


def _decode_example() -> float:
    codec = "offset-float(bits=8, mantissa=3, min=-4.0, max=4.0, eps=0.125)"
    return float(wc.decode(wc.encode(np.array([0.256], np.float32), f"all | raw-index | {codec}")).values[0])
