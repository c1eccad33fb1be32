"""What does each kernel take on a GPU, as a share of what the device's memory allows?

A kernel's *floor* is the bytes that it must read and write; its share is that floor over the bandwidth of a
copy from device to device, measured in the same run, over its time. Beside them torch.topk, and CuPy's sort
and argpartition; then the SIDCo paper's Figure 16 (``figure16``). Times are medians of CUDA events around
calls that are warmed up. Without a GPU it refuses, and writes nothing.

    python -m benchmarks.gpu [--elements 26000000 260000000]
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import wirecodec as wc
from benchmarks.common import timing as measure
from benchmarks.common.timing import keep, markdown
from benchmarks.gpu import figure16
from wirecodec.errors import DeviceError
from wirecodec.kernels.cuda import moments, packing, spans, values
from wirecodec.kernels.cuda.device import CupyDevice, cupy_device
from wirecodec.kernels.cuda.select import Selector, infinity_of, rule_of
from wirecodec.kernels.cuda.topk import Search

SIZES = [26_000_000, 260_000_000]
DENSITY = 0.01
CALLS, WARM = 20, 3
INFINITY = infinity_of(np.float32)
MAGNITUDE = 2**31 - 1
ENCODED = f"topk({DENSITY:g}) | rice | qsgd(bits=4)"
HEADER = ["", "elements", "ms", "floor, bytes an element", "share of the copy bandwidth", "target"]
CAPTION = """A share is floor / copy bandwidth / time. Laplace values, float32, {density:g} of them kept;
QSGD and packing with 4 bits, OffsetFloat with 8. Rivals have the floor of an exact top k, two reads. Encoding
is that of {encoded}, to a whole container, with the floor of a warm top k.

"""


@dataclass(frozen=True)
class Case:
    """A call to be timed.

    Attributes:
        name: what the table calls it.
        floor: bytes an element that it must move.
        target: the least share that is asked for; 0 for rivals.
        call: what is timed.
    """

    name: str
    floor: float
    target: float
    call: Callable[[], object]


def milliseconds(cupy: Any, call: Callable[[], object]) -> float:
    """Median of the device's time."""
    for _ in range(WARM):
        call()
    times = []
    for _ in range(CALLS):
        start, stop = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        call()
        stop.record()
        stop.synchronize()
        times.append(float(cupy.cuda.get_elapsed_time(start, stop)))
    return statistics.median(times)


def laplace(cupy: Any, size: int) -> Any:
    """Values, float32."""
    return cupy.random.default_rng(0).laplace(size=size).astype(np.float32)


def cases(device: CupyDevice, x: Any) -> Iterator[Case]:
    """Every kernel on ``x``."""
    n, k = x.size, int(DENSITY * x.size)
    words = x.view(np.uint32)
    least = int(np.array([-np.log(DENSITY)], np.float32).view(np.uint32)[0])  # Laplace's own quantile
    rule, room = device.put(rule_of(least)), 2 * k
    kept = 8 * DENSITY
    with_bitmap = Selector(device, n, np.uint32, room, bitmap=True)
    yield Case(
        "select + bitmap + compact",
        4 + 1 / 8 + kept,
        0.75,
        lambda: with_bitmap.select(words, rule, mask=MAGNITUDE, infinity=INFINITY),
    )
    search = Search(device, n, np.uint32, k)
    yield Case("exact top k, cold", 8, 0.75, lambda: search.cold(words, INFINITY))
    yield Case("exact top k, warm", 4.1, 0.70, lambda: search.warm(words, INFINITY))
    yield Case("SIDCo's sums", 4, 0.75, lambda: moments.sums(device, words, 1, 2**31, 0.0, 1.0))
    yield from steps(device, x, with_bitmap, rule, search)
    largest = float(np.finfo(np.float32).max)
    codes, packed = device.empty(n, np.uint8), device.empty(packing.packed_words(n, 4), np.uint32)
    device.clear(codes)
    yield Case("pack, 4 bits", 1.5, 0.70, lambda: packing.pack(device, codes, 4, packed))
    yield Case("qsgd", 4.5, 0.70, lambda: values.qsgd(device, words, 4, 512, 0, largest, 7))
    asked = values.OffsetFormat(8, None, None, None, None, INFINITY - 1, False)
    yield Case("offset-float", 9, 0.70, lambda: values.offset_float(device, words, asked, 7))
    yield from encoding(device.cupy, x)
    yield from rivals(device.cupy, x, k)


def steps(device: CupyDevice, x: Any, selector: Selector, rule: Any, search: Search) -> Iterator[Case]:
    """What a step of training takes: a residual added, elements chosen, and encoded.

    Gradient and residual are read and what is not sent is written: 12 bytes an element, beside what is kept.
    """
    residual, rest = device.cupy.zeros_like(x), device.empty(x.size, np.uint32)
    top = search.cold(x.view(np.uint32), INFINITY)
    largest, kept = float(np.finfo(np.float32).max), 8 * DENSITY

    def thresholded() -> None:
        selector.select_sum(x, residual, rest, rule)
        spans.rice(device, top.indices, x.size)

    def topped() -> None:
        found = search.warm_sum(x, residual, rest, INFINITY)
        spans.rice(device, found.indices, x.size)
        values.qsgd(device, found.values, 4, 512, 0, largest, 7)

    yield Case("residual + select + rice", 12 + kept, 1 / 1.35, thresholded)
    yield Case("residual + exact top k, warm + rice + qsgd", 12 + kept, 1 / 1.35, topped)
    compressor = wc.Compressor(f"topk({DENSITY}) | rice | qsgd")
    for _ in range(2):
        compressor.compress({"x": x})
    yield Case(
        "a Compressor's step, blob to the host included", 12 + kept, 0, lambda: compressor.prepare({"x": x})
    )


def rivals(cupy: Any, x: Any, k: int) -> Iterator[Case]:
    """Others' ways to a top k."""
    yield Case("cupy.argpartition", 8, 0, lambda: cupy.argpartition(cupy.abs(x), x.size - k)[-k:])
    yield Case("cupy.sort", 8, 0, lambda: cupy.sort(cupy.abs(x)))
    try:
        import torch
    except ImportError:
        return
    if torch.cuda.is_available():
        there = torch.from_dlpack(x)
        yield Case("torch.topk + gather", 8, 0, lambda: there[torch.topk(there.abs(), k, sorted=False)[1]])


def encoding(cupy: Any, x: Any) -> Iterator[Case]:
    """The whole way to a container; a plan's without ``get``, which waits."""
    yield Case("encode", 4.1, 0, lambda: wc.encode(x, ENCODED))
    plan = wc.Plan(x.size, np.float32, ENCODED)
    yield Case("Plan.encode", 4.1, 0, lambda: plan.encode(x))
    with cupy.cuda.Stream(non_blocking=True) as stream:
        stream.begin_capture()
        plan.encode(x)
        graph = stream.end_capture()
    yield Case("Plan.encode, as a graph", 4.1, 0, graph.launch)


def rows(device: CupyDevice, size: int) -> Iterator[list[str]]:
    """The table's rows for a size."""
    x = laplace(device.cupy, size)
    target = device.cupy.empty_like(x)
    copy = milliseconds(device.cupy, lambda: device.copy(x, target))
    bandwidth = 8 * size / copy
    yield ["copy", f"{size:,}", f"{copy:.3f}", "8", f"{bandwidth / 1e6:,.0f} GB/s", ""]
    for case in cases(device, x):
        took = milliseconds(device.cupy, case.call)
        share = case.floor * size / bandwidth / took
        wanted = f"≥ {case.target:.0%}" if case.target else ""
        yield [case.name, f"{size:,}", f"{took:.3f}", f"{case.floor:.3g}", f"{share:.0%}", wanted]


def main() -> None:
    """Measure, print, keep; exit with the reason where there is no GPU."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--elements", type=int, nargs="+", default=SIZES, help="sizes of the gradient")
    parser.add_argument("--figure", type=int, nargs="+", default=figure16.SIZES, help="sizes of Figure 16")
    options = parser.parse_args()
    sizes = options.elements
    try:
        device = cupy_device()
    except DeviceError as error:
        sys.exit(f"nothing was measured: {error}")
    cupy = device.cupy
    name = cupy.cuda.runtime.getDeviceProperties(device.number)["name"].decode()
    text = f"{name}, CuPy {cupy.__version__}\n\n" + CAPTION.format(density=DENSITY, encoded=ENCODED)
    text += markdown(HEADER, [row for size in sizes for row in rows(device, size)])
    text += "\n## The SIDCo paper's Figure 16\n\n" + figure_16(device, name, options.figure)
    print(text)
    print(keep("gpu", "Kernels on a GPU", text))


def figure_16(device: CupyDevice, name: str, sizes: Sequence[int]) -> str:
    """Its table; its picture goes beside it, where Matplotlib is installed."""
    clock = partial(milliseconds, device.cupy)
    found: list[figure16.Time] = []
    for size in sizes:
        x = laplace(device.cupy, size)
        for density in figure16.DENSITIES:
            found += figure16.times(device, x, density, clock)
    text = figure16.report(found)
    try:
        figure16.draw(measure.RESULTS / "gpu.png", found, name)
    except ImportError:
        return text
    return text + "\n![speed-ups](gpu.png)\n"


if __name__ == "__main__":
    main()
