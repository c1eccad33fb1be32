"""The selectors that are measured, and what NumPy and torch, where it is installed, do in their place."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import wirecodec as wc
from wirecodec.scheme import call_string
from wirecodec.select.base import Selector
from wirecodec.select.topk import share_of

try:
    import torch
except ImportError:  # the tables do without it
    torch = None

__all__ = ["DENSITIES", "Rival", "judged", "named", "rivals"]

DENSITIES = (0.1, 0.01, 0.001)


@dataclass(frozen=True)
class Rival:
    """One way to select.

    Args:
        name: in the tables, the density left out.
        call: selects from a flat float32 array.
        peer: whether it is another's work.
    """

    name: str
    call: Callable[[Any], Any]
    peer: bool = False


def named(selector: Selector, density: float) -> str:
    """A selector as a scheme writes it, with "δ" for the density."""
    return call_string(selector).replace(f"({density:g}", "(δ", 1)


def rivals(density: float) -> list[Rival]:
    """Everything, for one density."""
    chunk = round(1 / density)
    selectors: Sequence[Selector] = (
        wc.TopK(density),
        wc.SIDCo(density),
        wc.SIDCo(density, mode="faithful"),
        wc.DGC(density),
        wc.RedSync(density),
        wc.GaussianK(density),
        wc.RandomK(density),
    )
    found = [Rival(named(one, density), one.select) for one in selectors]
    for name, size in (("1/δ", chunk), ("32/δ", 32 * chunk)):
        found.append(Rival(f"chunk-topk(δ, {name})", wc.ChunkTopK(density, size).select))
    found.append(Rival("threshold", wc.Threshold(round(-math.log(density), 2)).select))
    found.append(Rival("adacomp(50)", lambda x: wc.AdaComp(50).select(x, gradient=x)))
    found.append(Rival("np.argpartition", lambda x: _argpartition(x, share_of(density, x.size)), peer=True))
    if torch is not None:
        found.append(Rival("torch.topk", lambda x: _torch_topk(x, share_of(density, x.size)), peer=True))
    return found


def judged(density: float) -> dict[str, Selector]:
    """Those that need not meet k: the default, the paper's three, and what it compares with."""
    return {
        "sidco": wc.SIDCo(density),
        "SIDCo-E": wc.SIDCo(density, mode="faithful"),
        "SIDCo-GP": wc.SIDCo(density, "gamma-gp", mode="faithful"),
        "SIDCo-P": wc.SIDCo(density, "gp", mode="faithful"),
        "dgc": wc.DGC(density),
        "redsync": wc.RedSync(density),
        "gaussiank": wc.GaussianK(density),
    }


def _argpartition(x: Any, k: int) -> Any:
    return np.argpartition(np.abs(x), x.size - k)[x.size - k :]


def _torch_topk(x: Any, k: int) -> Any:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return torch.from_numpy(x).abs().topk(k, sorted=False).indices
    finally:
        torch.set_num_threads(threads)
