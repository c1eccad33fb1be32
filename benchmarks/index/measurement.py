"""Measurement of one coder on one support: size, recall and speed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np

from benchmarks.common.timing import measure_copy_time, measure_median_time, numba_threads
from benchmarks.index.cases import Case
from benchmarks.index.coders import Coder
from benchmarks.index.supports import Support

__all__ = ["LARGE", "Measurement", "measure_coder"]

LARGE = 260_000
"""Number of indices above which times characterise the codec, and two threads can pay."""


@dataclass(frozen=True)
class Measurement:
    """Size and speed of one coder on one support.

    Attributes:
        group: the support's kind, or the gradient's file.
        column: its size and density.
        density: r/d, or None for the nonzero elements of a gradient.
        kind: kind of the support.
        d: number of elements.
        r: number of present elements.
        bound: entropy bound of the kind of support, in bits per index.
        coder: name of the coder.
        peer: True for third-party software.
        bits: bits per index.
        recall: fraction of the support that is decoded.
        decoded: number of decoded indices relative to r.
        copy_rate: GB/s of the copy.
        encode, decode: speeds relative to a copy of the indices, on one thread.
        encode_two, decode_two: the same on two threads, or None if not measured.
    """

    group: str
    column: str
    density: float | None
    kind: str
    d: int
    r: int
    bound: float
    coder: str
    peer: bool
    bits: float
    recall: float
    decoded: float
    copy_rate: float
    encode: float
    decode: float
    encode_two: float | None = None
    decode_two: float | None = None

    @property
    def case_name(self) -> str:
        """Return the group and column."""
        return f"{self.group}, {self.column}"

    @property
    def speeds(self) -> tuple[float, float]:
        """Return the speeds of encode and decode on one thread."""
        return self.encode, self.decode

    @property
    def two_threads(self) -> tuple[float, float] | None:
        """Return the speeds on two threads, or None if they were not measured."""
        return (
            None if self.encode_two is None or self.decode_two is None else (self.encode_two, self.decode_two)
        )

    @property
    def exact(self) -> bool:
        """Return True if exactly the support is decoded."""
        return self.recall == self.decoded == 1

    @property
    def ratio(self) -> float:
        """Return the bits relative to the bound."""
        return self.bits / self.bound


def measure_coder(
    coder: Coder, case: Case, support: Support, *, budget: float = 0.06, two_threads: bool = False
) -> Measurement:
    """Encode and decode a support chunk by chunk, as the library does.

    Args:
        coder: the coder to measure.
        case: position of the support in the tables.
        support: the input.
        budget: approximate seconds per time.
        two_threads: True to measure on two threads also, if the coder supports it.

    Raises:
        AssertionError: if an exact coder does not decode to its input.
        EncodeError: if the coder does not support the input.
    """
    chunks = list(support.chunks())
    codes = [coder.encode(indices, d) for indices, d in chunks]
    jobs = [(code, d, indices.size) for code, (indices, d) in zip(codes, chunks, strict=True)]
    common = count = 0
    for job, (indices, _) in zip(jobs, chunks, strict=True):
        decoded = coder.decode(*job)
        if coder.exact and not np.array_equal(decoded, indices):
            raise AssertionError(f"{coder.name} does not decode to its input: {case.group}, {case.column}")
        count += decoded.size
        common += indices.size if coder.exact else np.intersect1d(decoded, indices, assume_unique=True).size

    def measure_speeds() -> tuple[tuple[float, float], float]:
        copy = measure_copy_time(support.indices, budget=budget / 3)
        encode = _time(lambda: [coder.encode(*chunk) for chunk in chunks], budget)
        decode = _time(lambda: [coder.decode(*job) for job in jobs], budget)
        return (copy / encode, copy / decode), support.indices.nbytes / copy / 1e9

    with numba_threads(1):
        one, copy_rate = measure_speeds()
    two = None
    if two_threads and coder.threads and numba.config.NUMBA_NUM_THREADS > 1:
        with numba_threads(2):
            two, _ = measure_speeds()
    return Measurement(
        group=case.group,
        column=case.column,
        density=case.density,
        kind=support.kind,
        d=support.d,
        r=support.r,
        bound=support.bound,
        coder=coder.name,
        peer=coder.peer,
        bits=8 * sum(coder.nbytes(code) for code in codes) / support.r,
        recall=common / support.r,
        decoded=count / support.r,
        copy_rate=copy_rate,
        encode=one[0],
        decode=one[1],
        encode_two=two and two[0],
        decode_two=two and two[1],
    )


def _time(call: Callable[[], Any], budget: float) -> float:
    """Measure the median time of a call, or the time of its second run if the first takes long."""
    start = time.perf_counter()
    call()
    if time.perf_counter() - start < 5 * budget:
        return measure_median_time(call, budget=budget, min_calls=3)
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
