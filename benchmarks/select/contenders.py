"""The selectors to measure, and the top-k of NumPy and torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import wirecodec as wc

try:
    import torch
except ImportError:  # the tables omit torch.topk
    torch = None

__all__ = ["Contender", "build_contenders", "format_selector"]


@dataclass(frozen=True)
class Contender:
    """One way to select.

    Attributes:
        name: its name in the tables, with δ for the density.
        call: selects from a flat float32 array.
        peer: True for third-party software.
    """

    name: str
    call: Callable[[Any], Any]
    peer: bool = False


def format_selector(selector: wc.Selector, density: float) -> str:
    """Return a selector as schemes spell it, with δ for the density."""
    text = str(wc.Scheme(selector, wc.codecs.RawIndex(), wc.codecs.Raw())).split(" | ")[0]
    return text.replace(f"({density:g}", "(δ", 1)


def _compute_target_count(density: float, size: int) -> int:
    """Return k, the number of elements that top-k selects at a density."""
    return wc.selectors.TopK(density).count(size)


def build_contenders(density: float) -> list[Contender]:
    """Build every contender for one density."""
    chunk = round(1 / density)
    selectors: Sequence[wc.Selector] = (
        wc.selectors.TopK(density),
        wc.selectors.SIDCo(density),
        wc.selectors.SIDCo(density, mode="faithful"),
        wc.selectors.DGC(density),
        wc.selectors.RedSync(density),
        wc.selectors.GaussianK(density),
        wc.selectors.RandomK(density),
    )
    contenders = [Contender(format_selector(selector, density), selector.select) for selector in selectors]
    for name, size in (("1/δ", chunk), ("32/δ", 32 * chunk)):
        contenders.append(Contender(f"chunk-topk(δ, {name})", wc.selectors.ChunkTopK(density, size).select))
    contenders += [
        Contender("threshold", wc.selectors.Threshold(round(-math.log(density), 2)).select),
        Contender("adacomp(50)", lambda x: wc.selectors.AdaComp(50).select(x, gradient=x)),
        Contender(
            "np.argpartition",
            lambda x: _run_argpartition(x, _compute_target_count(density, x.size)),
            peer=True,
        ),
    ]
    if torch is not None:
        contenders.append(
            Contender(
                "torch.topk", lambda x: _run_torch_topk(x, _compute_target_count(density, x.size)), peer=True
            )
        )
    return contenders


def _run_argpartition(x: Any, k: int) -> Any:
    return np.argpartition(np.abs(x), x.size - k)[x.size - k :]


def _run_torch_topk(x: Any, k: int) -> Any:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return torch.from_numpy(x).abs().topk(k, sorted=False).indices
    finally:
        torch.set_num_threads(threads)
