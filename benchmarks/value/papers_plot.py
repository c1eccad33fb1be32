"""Pictures of the reproduced figures: deepreduce_10.png, fft_5.png, fft_15.png."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np

from benchmarks.value.papers import DecodedGradient, Reproductions

__all__ = ["draw"]

SHOWN = 200
"""Elements of the gradient in fft_5.png."""


def draw(folder: Path, found: Reproductions) -> None:
    """Draw the three pictures into a folder."""
    mpl.use("Agg")
    _draw_bytes_and_times(folder / "deepreduce_10.png", found.figure_10)
    _draw_slices(
        folder / "fft_5.png", *max(found.figure_5.items(), key=lambda item: item[0] == "resnet20_raw")
    )
    _draw_distributions(folder / "fft_15.png", found.figure_15)


def _draw_bytes_and_times(path: Path, sent: Sequence[DecodedGradient]) -> None:
    import matplotlib.pyplot as plt

    fig, (left, right) = plt.subplots(1, 2, figsize=(15, 6), layout="constrained")
    names = [one.method for one in sent]
    index, value = (
        np.array([100 * getattr(one, part) / one.gradient.nbytes for one in sent])
        for part in ("index", "value")
    )
    left.barh(names, index, label="indices", color="#1f4e9c")
    left.barh(names, value, left=index, label="values and maps", color="#c2571a")
    left.set_xlabel("bytes, % of the dense gradient")
    at = np.arange(len(sent))
    right.barh(at - 0.2, [1e3 * one.encode for one in sent], 0.4, label="encode", color="#1f4e9c")
    right.barh(at + 0.2, [1e3 * one.decode for one in sent], 0.4, label="decode", color="#c2571a")
    right.set_yticks(at, names)
    right.set_xlabel("milliseconds")
    for axis in (left, right):
        axis.invert_yaxis()
        axis.grid(axis="x", color="0.9")
        axis.set_axisbelow(True)
        axis.legend(frameon=False)
    fig.suptitle("After DeepReduce's Figure 10: the largest 1 % of a ResNet-20's residual + gradient")
    fig.savefig(path, dpi=90)
    plt.close(fig)


def _draw_slices(path: Path, name: str, sent: Sequence[DecodedGradient]) -> None:
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(
        len(sent), 1, figsize=(13, 2.6 * len(sent)), layout="constrained", sharex=True, squeeze=False
    )
    for axis, one in zip(axes.flat, sent, strict=True):
        start = one.gradient.size // 2
        part = slice(start, start + SHOWN)
        axis.plot(np.arange(SHOWN), one.gradient[part], color="0.7", lw=3, label="gradient")
        axis.plot(np.arange(SHOWN), one.decoded[part], color="#1f4e9c", lw=1, label=one.method)
        axis.set_title(f"{one.method}: relative error {100 * one.error:.2f} %", fontsize=10)
        axis.legend(frameon=False, loc="upper right")
    fig.supxlabel(f"element, from the middle of {name}")
    fig.suptitle("After the FFT paper's Figure 5: 15 % of the elements, or of the coefficients")
    fig.savefig(path, dpi=90)
    plt.close(fig)


def _draw_distributions(path: Path, sent: Sequence[DecodedGradient]) -> None:
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, len(sent) + 1, figsize=(4 * len(sent) + 4, 4.2), layout="constrained")
    edge = float(np.quantile(np.abs(sent[0].gradient), 0.999))
    bins = np.linspace(-edge, edge, 101)
    for axis, one in zip(axes, sent, strict=False):
        axis.hist(one.gradient, bins, color="0.75", label="gradient")
        axis.hist(one.decoded, bins, histtype="step", color="#1f4e9c", label="decoded")
        axis.set_yscale("log")
        axis.set_title(one.method)
        axis.legend(frameon=False, fontsize=8)
    last = axes[-1]
    for one in sent:
        errors = np.sort(np.abs(one.decoded.astype(np.float64) - one.gradient))
        last.plot(np.maximum(errors, 1e-9), np.arange(1, errors.size + 1) / errors.size, label=one.method)
    last.set_xscale("log")
    last.set_title("fraction of elements up to this error")
    last.legend(frameon=False, fontsize=8)
    fig.suptitle("After the FFT paper's Figure 15: distribution of a gradient, and errors of its elements")
    fig.savefig(path, dpi=90)
    plt.close(fig)
