"""How much faster than a top k is a threshold, on a GPU? The SIDCo paper's Figure 16, in our numbers.

For vectors of 0.26 to 260 million elements and densities of 0.1, 0.01 and 0.001: each selector's time to
indices and values on the device, its host's share included, as a speed-up over torch.topk and a gather, which
is what the paper calls Topk; over CuPy's argpartition where torch has no CUDA. RedSync and GaussianK have no
kernels here and are left out, as is SIDCo's gamma fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import wirecodec as wc
from benchmarks.common.timing import markdown
from wirecodec.arrays import DeviceFlat
from wirecodec.gpu.select import select
from wirecodec.gpu.support import Context
from wirecodec.gpu.warm import LastTop
from wirecodec.kernels.cuda.device import CupyDevice

__all__ = ["DENSITIES", "SIZES", "Time", "draw", "report", "times"]

SIZES = [260_000, 2_600_000, 26_000_000, 260_000_000]
DENSITIES = [0.1, 0.01, 0.001]
BASES = ["torch.topk + gather", "cupy.argpartition"]
"""What speed-ups are over: the first of them that was measured."""
CAPTION = """The time of {base} over that of each selector, to indices and values on the device, the host's
share included; Laplace values, float32. `topk, warm` begins where the last step's search ended.

"""


@dataclass(frozen=True)
class Time:
    """What one selector took: ``ms`` of the device, of a vector and a density."""

    name: str
    elements: int
    density: float
    ms: float


def times(
    device: CupyDevice, x: Any, density: float, clock: Callable[[Callable[[], object]], float]
) -> Iterator[Time]:
    """Every selector and rival on (n,) float32 ``x`` of the device; ``clock`` gives a call's milliseconds."""
    flat = DeviceFlat(x.view(np.uint32), np.dtype(np.float32), (x.size,))
    last = LastTop()
    asked: dict[str, tuple[Any, Context]] = {
        "topk": (wc.TopK(density), Context()),
        "topk, warm": (wc.TopK(density), Context(last=last)),
        "dgc": (wc.DGC(density), Context()),
        "sidco": (wc.SIDCo(density), Context()),
        "sidco, gp": (wc.SIDCo(density, sid="gp"), Context()),
        "sidco, one stage": (wc.SIDCo(density, mode="faithful", stages=1), Context()),
    }
    calls: dict[str, Callable[[], object]] = {
        name: lambda selector=selector, context=context: select(device, flat, selector, context)  # type: ignore[misc]
        for name, (selector, context) in asked.items()
    }
    for name, call in (calls | rivals(device.cupy, x, max(1, int(density * x.size)))).items():
        yield Time(name, x.size, density, clock(call))


def rivals(cupy: Any, x: Any, k: int) -> dict[str, Callable[[], object]]:
    """Others' top k, values gathered."""

    def partition() -> object:
        return x[cupy.argpartition(cupy.abs(x), x.size - k)[-k:]]

    found: dict[str, Callable[[], object]] = {"cupy.argpartition": partition}
    try:
        import torch
    except ImportError:
        return found
    if torch.cuda.is_available():
        there = torch.from_dlpack(x)
        found["torch.topk + gather"] = lambda: there[torch.topk(there.abs(), k, sorted=False)[1]]
    return found


def base_of(measured: Sequence[Time]) -> str:
    """What speed-ups are over."""
    names = {each.name for each in measured}
    return next(base for base in BASES if base in names)


def speed_up(measured: Sequence[Time], one: Time) -> float:
    """Over the base's time of the same vector and density."""
    base = base_of(measured)
    over = next(
        each.ms
        for each in measured
        if (each.name, each.elements, each.density) == (base, one.elements, one.density)
    )
    return over / one.ms


def report(measured: Sequence[Time]) -> str:
    """The table: a row a selector and vector, a column a density."""
    rows = []
    for elements in dict.fromkeys(each.elements for each in measured):
        some = [each for each in measured if each.elements == elements]
        for name in dict.fromkeys(each.name for each in some):
            cells = [
                f"{speed_up(measured, each):.2f}× ({each.ms:.3f} ms)" for each in some if each.name == name
            ]
            rows.append([f"{name}, {elements:,}", *cells])
    header = ["", *(f"{density:g}" for density in dict.fromkeys(each.density for each in measured))]
    return CAPTION.format(base=base_of(measured)) + markdown(header, rows)


def draw(path: Path, measured: Sequence[Time], gpu: str) -> None:
    """A panel for each size, as the paper has it; Matplotlib is needed.

    Args:
        path: of the PNG.
        measured: all times.
        gpu: the device's name.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    sizes = list(dict.fromkeys(each.elements for each in measured))
    densities = list(dict.fromkeys(each.density for each in measured))
    names = list(dict.fromkeys(each.name for each in measured))
    fig, axes = plt.subplots(1, len(sizes), figsize=(4 * len(sizes), 4), layout="constrained", squeeze=False)
    for axis, elements in zip(axes[0], sizes, strict=True):
        for i, name in enumerate(names):
            found = [each for each in measured if (each.name, each.elements) == (name, elements)]
            places = [
                densities.index(each.density) + (i - len(names) / 2) / (len(names) + 1) for each in found
            ]
            heights = [speed_up(measured, each) for each in found]
            axis.bar(places, heights, 1 / (len(names) + 2), label=name, color=f"C{i}")
        axis.set_xticks(range(len(densities)), [f"δ = {density:g}" for density in densities])
        axis.set_yscale("log")
        axis.axhline(1, color="grey", linewidth=0.8)
        axis.set_title(f"{elements:,} elements", fontsize=10)
    axes[0, 0].set_ylabel(f"speed-up over {base_of(measured)}")
    axes[0, -1].legend(fontsize=7)
    fig.suptitle(f"Selectors on a GPU: {gpu}")
    fig.savefig(path, dpi=100)
    plt.close(fig)
