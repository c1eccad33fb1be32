"""Bandwidth of each kernel: its minimum traffic divided by its time, relative to a copy.

The *minimum traffic* of a kernel is the bytes that it must read and write.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

import wirecodec as wc
from benchmarks.gpu import patches, timing
from benchmarks.gpu.cases import DENSITY, SCHEME, SECTOR, SENT_BYTES, TOPK_BYTES, Case, KernelTime
from benchmarks.gpu.peers import generate_peers
from benchmarks.gpu.rows import Job, guard
from wirecodec.kernels.cuda import moments, offset_float, packing, qsgd, rice
from wirecodec.kernels.cuda.device import CupyDevice
from wirecodec.kernels.cuda.select import Selector, infinity_of, rule_of
from wirecodec.kernels.cuda.topk import Search

__all__ = ["count_sectors", "generate_cases", "generate_jobs"]

INFINITY = infinity_of(np.float32)
LARGEST = float(np.finfo(np.float32).max)
MAGNITUDE_MASK = 2**31 - 1


def generate_jobs(device: CupyDevice, sizes: Sequence[int]) -> Iterator[Job]:
    """Yield the measurement of each case, for each number of elements."""
    for size in sizes:
        yield from guard(f"{size:,}", _generate_jobs_of(device, size))


def _generate_jobs_of(device: CupyDevice, size: int) -> Iterator[Job]:
    x = timing.draw_laplace(device.cupy, size)
    copy = timing.measure_event_time(device.cupy, partial(device.copy, x, device.cupy.empty_like(x)))

    def measure(case: Case) -> Iterator[KernelTime]:
        ms = timing.measure_event_time(device.cupy, case.call)
        yield KernelTime(case.name, size, case.traffic, ms, copy)

    yield Job(f"copy, {size:,}", lambda: [KernelTime("copy", size, 8, copy, copy)])
    for name, cases in {
        "kernels": generate_cases(device, x),
        "steps": _generate_steps(device, x),
        "containers": _generate_containers(device, x),
        "patches": patches.generate_cases(device, x),
        "peers": generate_peers(device.cupy, x),
    }.items():
        jobs = (Job(f"{case.name}, {size:,}", partial(measure, case)) for case in cases)
        yield from guard(f"{name}, {size:,}", jobs)


def generate_cases(device: CupyDevice, x: Any) -> Iterator[Case]:
    """Yield every kernel on the float32 array ``x``."""
    n, k = x.size, int(DENSITY * x.size)
    words = x.view(np.uint32)
    select = partial(
        Selector(device, n, np.uint32, 2 * k, bitmap=True).select,
        words,
        _put_rule(device),
        mask=MAGNITUDE_MASK,
        infinity=INFINITY,
    )
    yield Case("select + bitmap + compact", 4 + 1 / 8 + SENT_BYTES, select)
    search = Search(device, n, np.uint32, k)
    yield Case("exact top-k, cold", TOPK_BYTES, lambda: search.cold(words, INFINITY))
    yield Case("exact top-k, warm", TOPK_BYTES, lambda: search.warm(words, INFINITY))
    yield Case("sums for SIDCo", 4, lambda: moments.sum_moments(device, words, 1, 2**31, 0.0, 1.0))
    codes, packed = device.empty(n, np.uint8), device.empty(packing.packed_words(n, 4), np.uint32)
    device.clear(codes)
    yield Case("pack, 4 bits", 1.5, lambda: packing.pack(device, codes, 4, packed))
    yield Case("qsgd", 4.5, lambda: qsgd.encode(device, words, 4, 512, 0, LARGEST, 7))
    format_ = offset_float.OffsetFormat(8, None, None, None, None, INFINITY - 1, False)
    yield Case("offset-float", 9, lambda: offset_float.encode(device, words, format_, 7))


def _put_rule(device: CupyDevice) -> Any:
    """Return the rule of a threshold, the Laplace distribution's quantile, on the device."""
    return device.put(rule_of(int(np.array([-np.log(DENSITY)], np.float32).view(np.uint32)[0])))


def _generate_steps(device: CupyDevice, x: Any) -> Iterator[Case]:
    """Yield a training step: add a residual, select, encode.

    Gradient and residual are read and the new residual is written: 12 bytes per element, plus the sent
    elements.
    """
    n, k = x.size, int(DENSITY * x.size)
    selector = Selector(device, n, np.uint32, 2 * k, bitmap=True)
    rule, search = _put_rule(device), Search(device, n, np.uint32, k)
    residual, rest = device.cupy.zeros_like(x), device.empty(n, np.uint32)
    top = search.cold(x.view(np.uint32), INFINITY)
    traffic = 12 + SENT_BYTES

    def run_threshold_step() -> None:
        selector.select_sum(x, residual, rest, rule, clear=True)
        rice.encode(device, top.indices, n)

    def run_topk_step() -> None:
        found = search.warm_sum(x, residual, rest, INFINITY)
        rice.encode(device, found.indices, n)
        qsgd.encode(device, found.values, 4, 512, 0, LARGEST, 7)

    yield Case("residual + select + rice", traffic, run_threshold_step)
    yield Case("residual + exact top-k, warm + rice + qsgd", traffic, run_topk_step)
    compressor = wc.Compressor(SCHEME)
    for _ in range(2):
        compressor.compress({"x": x})
    yield Case("Compressor step with copy to the host", traffic, lambda: compressor.prepare({"x": x}))


def _generate_containers(device: CupyDevice, x: Any) -> Iterator[Case]:
    """Yield encoding of a whole container, and ``decode_add`` of one on the GPU and on the host.

    ``decode_add`` reads the container, and reads and writes the sectors of the target that it changes.
    """
    yield Case("encode", TOPK_BYTES, lambda: wc.encode(x, SCHEME))
    blob = wc.encode(x, SCHEME)
    on_host = np.array(device.get(blob))  # in memory that is not pinned, as after receiving
    sectors = count_sectors(device.get(wc.decode(blob).indices))
    traffic = (2 * SECTOR * sectors + on_host.size) / x.size
    target = device.cupy.zeros_like(x)
    yield Case("decode_add", traffic, lambda: wc.decode_add(blob, target))
    yield Case("decode_add of a container on the host", traffic, lambda: wc.decode_add(on_host, target))


def count_sectors(indices: Any) -> int:
    """Count the sectors of a float32 target that have one of the indices, (n,) ascending."""
    sectors = indices // (SECTOR // 4)
    return int(np.count_nonzero(np.diff(sectors)) + 1) if indices.size else 0
