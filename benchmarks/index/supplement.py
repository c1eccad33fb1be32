"""Measurements outside the main tables: bitmaps, false positives of Bloom filters."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import wirecodec as wc
from benchmarks.common.inputs import CHUNK
from benchmarks.common.targets import (
    LabelledValues,
    SectionResult,
    TargetResult,
    check_at_least,
    check_at_most,
    measure_sections,
)
from benchmarks.common.timing import measure_copy_time, measure_median_time, numba_threads
from benchmarks.index.supports import Support, draw_rows, draw_runs, draw_uniform
from wirecodec.arrays import bits_of
from wirecodec.limits import UNLIMITED
from wirecodec.registry import index_codecs
from wirecodec.tensors import as_bytes

__all__ = ["measure"]

BLOOM_QUERY = "membership query ≤ 0.3 ns per element, ε = 0.001, r ≤ d/100"
BLOOM_RANDOM = "false positives within 10 % of ε, random supports"
BLOOM_CLUSTERED = "false positives ≤ 2 ε, clustered supports"


def measure(d: int, step: Callable[[str], None], *, budget: float = 0.3) -> tuple[list[TargetResult], str]:
    """Run the supplementary measurements on one thread.

    Args:
        d: elements of the largest supports.
        step: called with the name of each measurement before it starts.
        budget: approximate seconds per time.

    Returns:
        The results of their targets, and a Markdown section with all measurements.
    """
    parts = {"bitmaps": _measure_bitmaps, "Bloom filters": _measure_bloom}
    with numba_threads(1):
        calls = {name: partial(part, d, budget) for name, part in parts.items()}
        return measure_sections("Bitmaps and Bloom filters", calls, step)


def _measure_bitmaps(d: int, budget: float) -> SectionResult:
    """Measure vector to bitmap and bitmap to indices, relative to copies of the vector and the indices."""
    d = min(d, CHUNK)
    to_bitmap: list[tuple[str, float]] = []
    to_indices: list[tuple[str, float]] = []
    table: list[list[str]] = []
    for density in (0.1, 0.3, 0.5):
        support = draw_uniform(d, int(d * density))
        x = np.zeros(d, np.float32)
        x[support.indices] = 1
        copy, case = measure_copy_time(x, budget=budget), f"uniform, {100 * density:g} % of {d:,}"
        ours = copy / measure_median_time(partial(_make_bitmap, x), budget=budget)
        numpy = copy / measure_median_time(partial(_packbits, x), budget=budget)
        to_bitmap.append((case, ours))
        section = as_bytes(wc.codecs.Bitmap().encode(support.indices, d, 0))
        copy = measure_copy_time(support.indices, budget=budget)
        time = measure_median_time(
            partial(wc.codecs.Bitmap.decode, section, d, support.r, UNLIMITED), budget=budget
        )
        table.append(
            [
                f"dense to bitmap, np.packbits, bitmap to indices, {case}",
                f"{ours:.2f}, {numpy:.2f}, {copy / time:.2f}× copy",
            ]
        )
        to_indices.append((case, copy / time))
    return [
        check_at_least("dense float32 vector to bitmap ≥ 1.5× copy", 1.5, to_bitmap),
        check_at_least("bitmap to indices ≥ 0.12× copy", 0.12, to_indices),
    ], table


def _make_bitmap(x: Any) -> Any:
    from wirecodec.kernels.cpu.index import bitmap

    return bitmap.find_nonzero(bits_of(x))


def _packbits(x: Any) -> Any:
    return np.packbits(x != 0, bitorder="little")


def _measure_bloom(d: int, budget: float) -> SectionResult:
    """Measure the rate of false positives relative to the requested rate, and the time of a query."""
    bloom: Any = next((cls for cls in index_codecs().values() if cls.name == "bloom"), None)
    if bloom is None:
        return [TargetResult(f"bloom: {what}") for what in (BLOOM_QUERY, BLOOM_RANDOM, BLOOM_CLUSTERED)], []
    table = []
    ratios: dict[str, list[tuple[str, float]]] = {"random": [], "clustered": []}
    small, rates = min(d, 2_600_000), (0.6, 0.01, 0.001)
    for kind, support in _make_bloom_inputs(small):
        cells = []
        for fpr in rates:
            indices = bloom("p0", fpr).approximate(support.indices, small, 0).found
            rate = (indices.size - support.r) / (small - support.r)
            group = "random" if support.kind == "uniform" else "clustered"
            ratios[group].append((f"{kind}, ε = {fpr:g}", rate / fpr))
            cells.append(f"{rate / fpr:.3f}")
        case = f"bloom: false positives at ε = {', '.join(f'{fpr:g}' for fpr in rates)}, {kind}"
        table.append([case, f"{', '.join(cells)} ε"])
    times = _measure_queries(bloom, d, table, budget)
    deviations = [(case, abs(ratio - 1)) for case, ratio in ratios["random"]]
    return [
        check_at_most(f"bloom: {BLOOM_QUERY}", 0.3, times, "{:.3f} ns"),
        check_at_most(f"bloom: {BLOOM_RANDOM}", 0.1, deviations, "deviation {:.3f}"),
        check_at_most(f"bloom: {BLOOM_CLUSTERED}", 2, ratios["clustered"], "{:.3f} ε"),
    ], table


def _make_bloom_inputs(d: int) -> list[tuple[str, Support]]:
    r = d // 100
    stride = Support("every", d, np.arange(0, d, 100, dtype=np.uint32), 0.0)
    prefix = Support("prefix", d, np.arange(r, dtype=np.uint32), 0.0)
    return [
        ("uniform", draw_uniform(d, r)),
        ("uniform, few", draw_uniform(d, max(r // 10, 1))),
        ("rows of 64", draw_rows(d, r)),
        ("runs of 8", draw_runs(d, r)),
        ("every 100th", stride),
        ("the first 1 %", prefix),
    ]


def _measure_queries(bloom: Any, d: int, table: list[list[str]], budget: float) -> LabelledValues:
    """Measure the time of a query: decoding under ``leftmost`` queries every element once.

    Policy ``p0`` queries every element twice, to count and to fill.
    """
    measures = []
    for density in (0.1, 0.01, 0.001):
        chunks = list(draw_uniform(d, int(d * density)).chunks())
        times = []
        for policy in ("leftmost", "p0"):
            codec = bloom(policy, 1e-3)
            approximations = [(codec.approximate(indices, n, 0), n) for indices, n in chunks]
            jobs = [(as_bytes(one.section), n, one.found.size, UNLIMITED) for one, n in approximations]
            times.append(1e9 * measure_median_time(partial(_decode_all, codec, jobs), budget=budget) / d)
        case = f"uniform, {100 * density:g} % of {d:,}"
        table.append(
            [
                f"bloom: membership query, decoding with p0, ε = 0.001, {case}",
                f"{times[0]:.3f}, {times[1]:.3f} ns per element",
            ]
        )
        if density <= 0.01:
            measures.append((case, times[0]))
    return measures


def _decode_all(codec: Any, jobs: list[Any]) -> None:
    for job in jobs:
        codec.decode(*job)
