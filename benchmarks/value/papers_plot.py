"""Pictures of the reproduced figures: deepreduce_10.png, fft_5.png, fft_15.png."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.common.palette import BLUE, PALE, SKY
from benchmarks.common.pictures import open_picture
from benchmarks.value.papers import DENSE, DecodedGradient, Reproductions

__all__ = ["draw"]

SHOWN = 200
"""Elements of the gradient in fft_5.png."""


def draw(folder: Path, found: Reproductions) -> None:
    """Draw the three pictures into a folder."""
    _draw_bytes_and_times(folder / "deepreduce_10.png", found.figure_10)
    _, slices = max(found.figure_5.items(), key=lambda item: item[0] == DENSE)
    _draw_slices(folder / "fft_5.png", slices)
    _draw_distributions(folder / "fft_15.png", found.figure_15)


def _draw_bytes_and_times(path: Path, sent: Sequence[DecodedGradient]) -> None:
    names, at = [one.method for one in sent], np.arange(len(sent))
    index, value = (
        np.array([100 * getattr(one, part) / one.gradient.nbytes for one in sent])
        for part in ("index", "value")
    )
    title = "How many bytes and milliseconds does the largest 1 % of a gradient take?"
    with open_picture(path, 1, 2, title=title, height=5.6, sharey=True) as axes:
        left, right = axes[0]
        left.barh(at, index, color=BLUE)
        left.barh(at, value, left=index, color=SKY)
        left.set(title="dark: indices, light: values and maps", xlabel="bytes, % of the dense gradient")
        right.barh(at - 0.2, [1e3 * one.encode for one in sent], 0.4, color=BLUE)
        right.barh(at + 0.2, [1e3 * one.decode for one in sent], 0.4, color=SKY)
        right.set(title="dark: encode, light: decode", xlabel="milliseconds")
        left.set_yticks(at, names)
        left.invert_yaxis()
        for axis in axes[0]:
            axis.grid(axis="x", color="0.92")
            axis.set_axisbelow(True)


def _draw_slices(path: Path, sent: Sequence[DecodedGradient]) -> None:
    title = "What arrives of a ResNet-20's gradient if 15 % of elements or coefficients are sent?"
    with open_picture(path, len(sent), title=title, height=1.7, sharex=True, sharey=True) as axes:
        for axis, one in zip(axes[:, 0], sent, strict=True):
            start = one.gradient.size // 2
            part = slice(start, start + SHOWN)
            axis.plot(np.arange(SHOWN), one.gradient[part], color=PALE, lw=3)
            axis.plot(np.arange(SHOWN), one.decoded[part], color=BLUE, lw=1.2)
            text = f"{one.method}, relative error {100 * one.error:.1f} % (grey: gradient, blue: decoded)"
            axis.set_title(text, loc="left")
            axis.set_ylabel("value")
        axes[-1, 0].set_xlabel("element, counted from the middle of the gradient")
        axes[-1, 0].set_xlim(0, SHOWN - 1)


def _draw_distributions(path: Path, sent: Sequence[DecodedGradient]) -> None:
    edge = float(np.quantile(np.abs(sent[0].gradient), 0.999))
    bins = np.linspace(-edge, edge, 101)
    title = "Does a decoded gradient have the distribution of the gradient?"
    with open_picture(path, 2, 2, title=title, height=2.7, sharex=True, sharey=True) as axes:
        for axis, one in zip(axes.flat, sent, strict=True):
            axis.hist(one.gradient, bins, color=PALE)
            axis.hist(one.decoded, bins, histtype="step", color=BLUE, lw=1.2)
            axis.set_yscale("log")
            axis.set_title(f"{one.method} (grey: gradient, blue: decoded)", loc="left")
        for axis in axes[:, 0]:
            axis.set_ylabel("elements")
        for axis in axes[-1]:
            axis.set_xlabel("value of an element")
