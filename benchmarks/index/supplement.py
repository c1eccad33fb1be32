"""What the tables of supports do not show: bitmaps, one span alone, how true a Bloom filter is."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.common.targets import Found, Measures, Verdict, at_least, at_most, decided
from benchmarks.common.timing import copy_time, median_time, on_threads
from benchmarks.index.supports import CHUNK, Support, rows, runs, uniform
from wirecodec.arrays import as_bytes, bits_of
from wirecodec.index import Bitmap
from wirecodec.limits import UNLIMITED
from wirecodec.registry import index_codecs

__all__ = ["measured"]


def measured(d: int, step: Callable[[str], None], *, budget: float = 0.3) -> tuple[list[Verdict], str]:
    """Verdicts on the targets, and a section with all figures; on one thread.

    Args:
        d: elements of the largest supports.
        step: called with the name of what is measured next.
        budget: seconds for each time, about.
    """
    parts = {"bitmaps": _bitmaps, "spans": _spans, "Bloom filters": _bloom}
    with on_threads(1):
        calls = {name: partial(part, d, budget) for name, part in parts.items()}
        return decided("Bitmaps, spans, Bloom filters", calls, step)


def _bitmaps(d: int, budget: float) -> Found:
    """Dense vector to bitmap beside a copy of the vector; bitmap to indices beside one of the indices."""
    d = min(d, CHUNK)
    to_bitmap: list[tuple[str, float]] = []
    to_indices: list[tuple[str, float]] = []
    table: list[list[str]] = []
    for density in (0.1, 0.3, 0.5):
        support = uniform(d, int(d * density))
        x = np.zeros(d, np.float32)
        x[support.indices] = 1
        copy, where = copy_time(x, budget=budget), f"uniform, {100 * density:g} % of {d:,}"
        ours = copy / median_time(partial(_dense_to_bitmap, x), budget=budget)
        numpy = copy / median_time(partial(_packbits, x), budget=budget)
        table.append([f"dense to bitmap, {where}", f"{ours:.2f}× copy (np.packbits: {numpy:.2f}×)"])
        to_bitmap.append((where, ours))
        section = as_bytes(Bitmap().encode(support.indices, d, 0))
        copy = copy_time(support.indices, budget=budget)
        time = median_time(partial(Bitmap.decode, section, d, support.r, UNLIMITED), budget=budget)
        table.append([f"bitmap to indices, {where}", f"{copy / time:.2f}× copy"])
        to_indices.append((where, copy / time))
    return [
        at_least("dense float32 vector to bitmap ≥ 1.5× copy", 1.5, to_bitmap),
        at_least("bitmap to indices ≥ 0.12× copy", 0.12, to_indices),
    ], table


def _dense_to_bitmap(x: Any) -> Any:
    from wirecodec.kernels.cpu import bitmap

    return bitmap.nonzero_bits(bits_of(x))


def _packbits(x: Any) -> Any:
    return np.packbits(x != 0, bitorder="little")


def _spans(d: int, budget: float) -> Found:
    """One span of each codec that decodes spans alone, beside its whole section."""
    d = min(d, CHUNK)
    support = uniform(d, d // 10)
    table = []
    for cls in index_codecs().values():
        decode_span = getattr(cls, "decode_span", None)
        if decode_span is None:
            continue
        section = as_bytes(cls().encode(support.indices, d, 0))
        middle = support.r // 4096 // 2
        part = support.indices[4096 * middle : 4096 * (middle + 1)]
        assert np.array_equal(decode_span(section, d, support.r, middle), part)
        one = median_time(partial(decode_span, section, d, support.r, middle), budget=budget)
        whole = median_time(partial(cls.decode, section, d, support.r, UNLIMITED), budget=budget)
        table.append(
            [
                f"{cls.name}: a span of 4096 of {support.r:,}",
                f"{1e6 * one:.0f} µs; all of it {1e3 * whole:.2f} ms",
            ]
        )
    return [], table


def _bloom(d: int, budget: float) -> Found:
    """False positives over what was asked for, and the time of asking for every element."""
    bloom: Any = next((cls for cls in index_codecs().values() if cls.name == "bloom"), None)
    if bloom is None:
        return [Verdict(f"bloom: {what}") for what in (QUERY, RANDOM, CLUSTERED)], []
    table = []
    found: dict[str, list[tuple[str, float]]] = {"random": [], "clustered": []}
    small = min(d, 2_600_000)
    for fpr in (0.6, 0.01, 0.001):
        for kind, support in _queried(small):
            indices = bloom("p0", fpr).approximate(support.indices, small, 0).found
            rate = (indices.size - support.r) / (small - support.r)
            group = "random" if support.kind == "uniform" else "clustered"
            found[group].append((f"{kind}, ε = {fpr:g}", rate / fpr))
            table.append(
                [f"bloom: false positives at ε = {fpr:g}, {kind}", f"{rate:.5f}, {rate / fpr:.3f} ε"]
            )
    times = _queries(bloom, d, table, budget)
    return [
        at_most(f"bloom: {QUERY}", 0.3, times, "{:.3f} ns"),
        at_most(f"bloom: {RANDOM}", 0.1, [(w, abs(v - 1)) for w, v in found["random"]], "off by {:.3f}"),
        at_most(f"bloom: {CLUSTERED}", 2, found["clustered"], "{:.3f} ε"),
    ], table


QUERY = "every element asked for in ≤ 0.3 ns each, ε = 0.001, r ≤ d/100"
RANDOM = "false positives within 10 % of ε, random supports"
CLUSTERED = "false positives ≤ 2 ε, clustered supports"


def _queried(d: int) -> list[tuple[str, Support]]:
    r = d // 100
    stride = Support("every", d, np.arange(0, d, 100, dtype=np.uint32), 0.0)
    prefix = Support("prefix", d, np.arange(r, dtype=np.uint32), 0.0)
    return [
        ("uniform", uniform(d, r)),
        ("uniform, few", uniform(d, max(r // 10, 1))),
        ("rows of 64", rows(d, r)),
        ("runs of 8", runs(d, r)),
        ("every 100th", stride),
        ("the first 1 %", prefix),
    ]


def _queries(bloom: Any, d: int, table: list[list[str]], budget: float) -> Measures:
    """Of decoding under ``leftmost``, which asks once; ``p0`` asks twice, to count and to fill."""
    measures = []
    for density in (0.1, 0.01, 0.001):
        chunks = list(uniform(d, int(d * density)).chunks())
        times = []
        for policy in ("leftmost", "p0"):
            codec = bloom(policy, 1e-3)
            made = [(codec.approximate(indices, n, 0), n) for indices, n in chunks]
            jobs = [(as_bytes(one.section), n, one.found.size, UNLIMITED) for one, n in made]
            times.append(1e9 * median_time(partial(_decode_all, codec, jobs), budget=budget) / d)
        where = f"uniform, {100 * density:g} % of {d:,}"
        table.append([f"bloom: every element asked for, ε = 0.001, {where}", f"{times[0]:.3f} ns an element"])
        table.append([f"bloom: p0 decoded, ε = 0.001, {where}", f"{times[1]:.3f} ns an element"])
        if density <= 0.01:
            measures.append((where, times[0]))
    return measures


def _decode_all(codec: Any, jobs: list[Any]) -> None:
    for job in jobs:
        codec.decode(*job)
