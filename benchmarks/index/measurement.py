"""One coder on one support: its size, the share of the support that comes back, and its speeds."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np

from benchmarks.common.timing import copy_time, median_time, on_threads
from benchmarks.index.cases import Case
from benchmarks.index.coders import Coder
from benchmarks.index.supports import Support

__all__ = ["LARGE", "Figure", "measured"]

LARGE = 260_000
"""Indices from which on times say something about a codec, and two threads may pay."""


@dataclass(frozen=True)
class Figure:
    """What was measured.

    Args:
        case: where.
        kind: of support.
        d: all elements.
        r: those present.
        bound: of the kind of support, in bits an index.
        coder: by name.
        peer: whether it is another's work.
        bits: an index.
        kept: share of the support that comes back.
        found: indices that come back, relative to r.
        copied: GB/s of that copy.
        speeds: of encode and decode relative to a copy of the indices, on one thread.
        two_threads: the same on two, where that was measured.
    """

    case: Case
    kind: str
    d: int
    r: int
    bound: float
    coder: str
    peer: bool
    bits: float
    kept: float
    found: float
    copied: float
    speeds: tuple[float, float]
    two_threads: tuple[float, float] | None

    @property
    def exact(self) -> bool:
        """Whether the support comes back, and nothing else."""
        return self.kept == self.found == 1

    @property
    def ratio(self) -> float:
        """Bits relative to the bound."""
        return self.bits / self.bound


def measured(
    coder: Coder, case: Case, support: Support, *, budget: float = 0.06, two_threads: bool = False
) -> Figure:
    """Encode and decode chunk by chunk, as the library does.

    AssertionError where an exact coder does not give back its input; EncodeError where one refuses it.

    Args:
        coder: what is measured.
        case: where the support stands in the tables.
        support: on what.
        budget: seconds for each of its times, about.
        two_threads: whether to measure also that, if the coder can.
    """
    chunks = list(support.chunks())
    codes = [coder.encode(indices, d) for indices, d in chunks]
    jobs = [(code, d, indices.size) for code, (indices, d) in zip(codes, chunks, strict=True)]
    same = count = 0
    for job, (indices, _) in zip(jobs, chunks, strict=True):
        found = coder.decode(*job)
        if coder.exact and not np.array_equal(found, indices):
            raise AssertionError(f"{coder.name} does not give back {case.group}, {case.column}")
        count += found.size
        same += indices.size if coder.exact else np.intersect1d(found, indices, assume_unique=True).size

    def both() -> tuple[tuple[float, float], float]:
        copy = copy_time(support.indices, budget=budget / 3)
        encode = _seconds(lambda: [coder.encode(*chunk) for chunk in chunks], budget)
        decode = _seconds(lambda: [coder.decode(*job) for job in jobs], budget)
        return (copy / encode, copy / decode), support.indices.nbytes / copy / 1e9

    with on_threads(1):
        one, copied = both()
    two = None
    if two_threads and coder.threads and numba.config.NUMBA_NUM_THREADS > 1:
        with on_threads(2):
            two, _ = both()
    bits = 8 * sum(coder.nbytes(code) for code in codes) / support.r
    return Figure(
        case=case,
        kind=support.kind,
        d=support.d,
        r=support.r,
        bound=support.bound,
        coder=coder.name,
        peer=coder.peer,
        bits=bits,
        kept=same / support.r,
        found=count / support.r,
        copied=copied,
        speeds=one,
        two_threads=two,
    )


def _seconds(call: Callable[[], Any], budget: float) -> float:
    """The median; where one call takes long, a second alone."""
    start = time.perf_counter()
    call()
    if time.perf_counter() - start < 5 * budget:
        return median_time(call, budget=budget, least=3)
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
