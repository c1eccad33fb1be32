"""Bandwidth of each kernel: its minimum traffic divided by its time, relative to a copy.

The *minimum traffic* of a kernel is the bytes that it must read and write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import wirecodec as wc
from benchmarks.gpu import timing
from wirecodec.kernels.cuda import moments, offset_float, packing, qsgd, rice
from wirecodec.kernels.cuda.device import CupyDevice
from wirecodec.kernels.cuda.select import Selector, infinity_of, rule_of
from wirecodec.kernels.cuda.topk import Search

__all__ = ["CAPTION", "HEADER", "Case", "generate_cases", "measure_rows"]

DENSITY = 0.01
INFINITY = infinity_of(np.float32)
LARGEST = float(np.finfo(np.float32).max)
MAGNITUDE_MASK = 2**31 - 1
SCHEME = f"topk({DENSITY:g}) | rice | qsgd(bits=4)"
SENT_BYTES = 8 * DENSITY
"""Bytes per element of the sent indices and values."""
HEADER = ["", "elements", "ms", "minimum bytes per element", "fraction of the copy bandwidth", "target"]
CAPTION = f"""The fraction is minimum bytes / copy bandwidth / time. The input is Laplace values, float32, of
which {DENSITY:g} are kept. QSGD and packing use 4 bits, OffsetFloat uses 8. Third-party selectors have the
minimum bytes of an exact top-k, two reads. Encoding is that of {SCHEME} to a whole container, with the
minimum bytes of a warm top-k.

"""


@dataclass(frozen=True)
class Case:
    """Call to time.

    Attributes:
        name: its name in the table.
        traffic: bytes per element that it must read and write.
        target: smallest fraction of the copy bandwidth, or 0 without a target.
        call: the function.
    """

    name: str
    traffic: float
    target: float
    call: Callable[[], object]


def generate_cases(device: CupyDevice, x: Any) -> Iterator[Case]:
    """Yield every kernel on the float32 array ``x``."""
    n, k = x.size, int(DENSITY * x.size)
    words = x.view(np.uint32)
    threshold = int(np.array([-np.log(DENSITY)], np.float32).view(np.uint32)[0])  # the Laplace quantile
    rule, capacity = device.put(rule_of(threshold)), 2 * k
    selector = Selector(device, n, np.uint32, capacity, bitmap=True)
    select = partial(selector.select, words, rule, mask=MAGNITUDE_MASK, infinity=INFINITY)
    yield Case("select + bitmap + compact", 4 + 1 / 8 + SENT_BYTES, 0.75, select)
    search = Search(device, n, np.uint32, k)
    yield Case("exact top-k, cold", 8, 0.75, lambda: search.cold(words, INFINITY))
    yield Case("exact top-k, warm", 4.1, 0.70, lambda: search.warm(words, INFINITY))
    yield Case("sums for SIDCo", 4, 0.75, lambda: moments.sum_moments(device, words, 1, 2**31, 0.0, 1.0))
    yield from _generate_steps(device, x, selector, rule, search)
    codes, packed = device.empty(n, np.uint8), device.empty(packing.packed_words(n, 4), np.uint32)
    device.clear(codes)
    yield Case("pack, 4 bits", 1.5, 0.70, lambda: packing.pack(device, codes, 4, packed))
    yield Case("qsgd", 4.5, 0.70, lambda: qsgd.encode(device, words, 4, 512, 0, LARGEST, 7))
    format_ = offset_float.OffsetFormat(8, None, None, None, None, INFINITY - 1, False)
    yield Case("offset-float", 9, 0.70, lambda: offset_float.encode(device, words, format_, 7))
    yield Case("encode", 4.1, 0, lambda: wc.encode(x, SCHEME))
    yield from _generate_peers(device.cupy, x, k)


def _generate_steps(
    device: CupyDevice, x: Any, selector: Selector, rule: Any, search: Search
) -> Iterator[Case]:
    """Yield a training step: add a residual, select, encode.

    Gradient and residual are read and the new residual is written: 12 bytes per element, plus the sent
    elements.
    """
    residual, rest = device.cupy.zeros_like(x), device.empty(x.size, np.uint32)
    top = search.cold(x.view(np.uint32), INFINITY)
    traffic = 12 + SENT_BYTES

    def run_threshold_step() -> None:
        selector.select_sum(x, residual, rest, rule)
        rice.encode(device, top.indices, x.size)

    def run_topk_step() -> None:
        found = search.warm_sum(x, residual, rest, INFINITY)
        rice.encode(device, found.indices, x.size)
        qsgd.encode(device, found.values, 4, 512, 0, LARGEST, 7)

    yield Case("residual + select + rice", traffic, 1 / 1.35, run_threshold_step)
    yield Case("residual + exact top-k, warm + rice + qsgd", traffic, 1 / 1.35, run_topk_step)
    compressor = wc.Compressor(f"topk({DENSITY}) | rice | qsgd")
    for _ in range(2):
        compressor.compress({"x": x})
    yield Case("Compressor step with copy to the host", traffic, 0, lambda: compressor.prepare({"x": x}))


def _generate_peers(cupy: Any, x: Any, k: int) -> Iterator[Case]:
    """Yield third-party top-k implementations."""
    yield Case("cupy.argpartition", 8, 0, lambda: cupy.argpartition(cupy.abs(x), x.size - k)[-k:])
    yield Case("cupy.sort", 8, 0, lambda: cupy.sort(cupy.abs(x)))
    try:
        import torch
    except ImportError:
        return
    if torch.cuda.is_available():
        tensor = torch.from_dlpack(x)
        yield Case("torch.topk + gather", 8, 0, lambda: tensor[torch.topk(tensor.abs(), k, sorted=False)[1]])


def measure_rows(device: CupyDevice, size: int) -> Iterator[list[str]]:
    """Measure every kernel at one size and yield table rows."""
    x = timing.draw_laplace(device.cupy, size)
    target = device.cupy.empty_like(x)
    copy = timing.measure_event_time(device.cupy, lambda: device.copy(x, target))
    bandwidth = 8 * size / copy
    yield ["copy", f"{size:,}", f"{copy:.3f}", "8", f"{bandwidth / 1e6:,.0f} GB/s", ""]
    for case in generate_cases(device, x):
        time = timing.measure_event_time(device.cupy, case.call)
        fraction = case.traffic * size / bandwidth / time
        limit = f"≥ {case.target:.0%}" if case.target else ""
        yield [case.name, f"{size:,}", f"{time:.3f}", f"{case.traffic:.3g}", f"{fraction:.0%}", limit]
