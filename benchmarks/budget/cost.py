"""Time of ``budget``: selection and whole encode against ``topk`` at the same density, in reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

import wirecodec as wc
from benchmarks.budget.gradients import draw_gradient
from benchmarks.common.timing import measure_in_turns, numba_threads
from benchmarks.select.reads import sum_magnitudes
from wirecodec.cpu.chunk import encode_chunks
from wirecodec.cpu.select import select

__all__ = ["COST_BITS", "Cost", "measure_costs"]

COST_BITS = (0.03, 0.25, 0.64, 2.0)


@dataclass(frozen=True)
class Cost:
    """Times of one budget on a Laplace vector, and of ``topk`` with the same elements and a similar step.

    Attributes:
        size: elements.
        bits: bits per element that were asked for.
        density: fraction of the elements that were selected.
        read: processor seconds of one read.
        topk_select, topk_encode: reads.
        budget_select, budget_encode: reads; the selection encodes, and the encoder reuses its sections.
        coding: reads to encode what ``budget`` has selected, with its step.
    """

    size: int
    bits: float
    density: float
    read: float
    topk_select: float
    topk_encode: float
    budget_select: float
    budget_encode: float
    coding: float

    @property
    def excess(self) -> float:
        """Return the reads that a whole encode takes more than with ``topk``."""
        return self.budget_encode - self.topk_encode


def measure_costs(sizes: Sequence[int], step: Callable[[str], None], seconds: float) -> list[Cost]:
    """Measure all sizes and budgets on one thread.

    Args:
        sizes: elements.
        step: called with the name of each measurement before it starts.
        seconds: approximate time per call.
    """
    with numba_threads(1):
        return [_measure_cost(size, bits, step, seconds) for size in sizes for bits in COST_BITS]


def _measure_cost(size: int, bits: float, step: Callable[[str], None], seconds: float) -> Cost:
    step(f"cost: {size:,} elements, {bits:g} bits")
    x = draw_gradient("laplace", size)
    budget = f"budget(bits={bits:g}) | rice | error-bounded"
    sent = wc.decode(wc.encode(x, budget))
    values = x[np.asarray(sent.indices)].astype(np.float64)
    error = float(np.linalg.norm(values - np.asarray(sent.values)) / np.linalg.norm(values))
    topk = f"topk({sent.nnz / size:.6g}) | rice | error-bounded(error={error:.4f})"
    schemes = [wc.Scheme.parse(topk), wc.Scheme.parse(budget)]
    calls: list[Callable[[], Any]] = [
        partial(call, x, one) for call in (select, wc.encode) for one in schemes
    ]
    chosen = replace(select(x, schemes[1]), entries=None)
    calls.append(lambda: list(encode_chunks(0, chosen, schemes[1], 0)))
    found = measure_in_turns([partial(sum_magnitudes, x), *calls], budget=seconds, min_calls=5)
    read, *times = [one.processor for one in found]
    topk_select, budget_select, topk_encode, budget_encode, coding = [time / read for time in times]
    return Cost(
        size,
        bits,
        sent.nnz / size,
        read,
        topk_select,
        topk_encode,
        budget_select,
        budget_encode,
        coding,
    )
