"""Measurement of one coder on one vector: size, errors and times."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.common.inputs import CHUNK
from benchmarks.common.timing import measure_minimum_time, numba_threads
from benchmarks.value.cases import Case
from benchmarks.value.coders import Coder
from benchmarks.value.distributions import Floats
from benchmarks.value.peers import compute_relative_error, compute_rms
from benchmarks.value.rate_distortion import Curve

__all__ = ["SEEDS", "Measurement", "measure_coder"]

SEEDS = 4
"""Number of seeds for the bias of a random codec, if the values fit in one chunk."""

_RANDOM_SAMPLE = 4096


@dataclass(frozen=True)
class Measurement:
    """Size, errors and times of one coder on one vector.

    Attributes:
        group: the vector's distribution, or its gradient's file.
        column: its density or size.
        synthetic: True for a known distribution.
        r: number of values.
        coder: name of the coder.
        family: its name without the parameters that vary.
        peer: True for third-party software.
        bits: bits per value, with all side information.
        error: relative L2 error.
        max_error: largest error relative to the root mean square of the values.
        bias: mean of sign(v)·(decoded - v) relative to the same; positive if magnitudes grow.
        random: True if the seed changes the decoded values.
        bound: smallest bits per value at this error; NaN if unknown.
        copy_ns: nanoseconds per value of ``np.copyto``.
        fresh_copy_ns: nanoseconds per value of ``values.copy()``, into new memory as in decoders.
        encode_ns, decode_ns: nanoseconds per value.
    """

    group: str
    column: str
    synthetic: bool
    r: int
    coder: str
    family: str
    peer: bool
    bits: float
    error: float
    max_error: float
    bias: float
    random: bool
    bound: float
    copy_ns: float
    fresh_copy_ns: float
    encode_ns: float
    decode_ns: float

    @property
    def case_name(self) -> str:
        """Return the group and column."""
        return f"{self.group}, {self.column}"

    @property
    def ratio(self) -> float:
        """Return the bits relative to the bound."""
        return self.bits / self.bound

    @property
    def times(self) -> tuple[float, float]:
        """Return the times of encode and decode in copies."""
        return self.encode_ns / self.copy_ns, self.decode_ns / self.copy_ns


def measure_coder(
    coder: Coder, case: Case, values: Floats, curve: Curve | None, *, budget: float = 0.03
) -> Measurement:
    """Encode and decode a vector chunk by chunk, as the library does, on one thread.

    Args:
        coder: the coder to measure.
        case: position of the vector in the tables.
        values: (r,) float32.
        curve: bound of the values, or None.
        budget: approximate seconds per time.

    Raises:
        EncodeError: if the coder does not support the values.
    """
    coder = coder.fit(values)
    chunks = [values[at : at + CHUNK] for at in range(0, values.size, CHUNK)]
    with numba_threads(1):
        codes = [coder.encode(part, 0) for part in chunks]
        jobs = [(code, part.size) for code, part in zip(codes, chunks, strict=True)]
        decoded = np.concatenate([coder.decode(*job) for job in jobs])
        target = np.zeros_like(values)
        copy = measure_minimum_time(lambda: np.copyto(target, values), budget=budget / 2)
        fresh_copy = measure_minimum_time(values.copy, budget=budget / 2)
        encode = _time(lambda: [coder.encode(part, 0) for part in chunks], budget)
        decode = _time(lambda: [coder.decode(*job) for job in jobs], budget)
        random = _is_random(coder, values[:_RANDOM_SAMPLE])
        others = (
            [coder.decode(coder.encode(values, seed), values.size) for seed in range(1, SEEDS)]
            if random and len(chunks) == 1
            else []
        )
    size = compute_rms(values) or 1.0
    error = compute_relative_error(values, decoded)
    nano = 1e9 / values.size
    return Measurement(
        group=case.group,
        column=case.column,
        synthetic=case.synthetic,
        r=values.size,
        coder=coder.name,
        family=coder.family,
        peer=coder.peer,
        bits=8 * sum(coder.nbytes(code) for code in codes) / values.size,
        error=error,
        max_error=float(np.abs(decoded - values).max()) / size,
        bias=float(np.mean([_compute_mean_growth(values, found) for found in [decoded, *others]])) / size,
        random=random,
        bound=curve.at(error) if curve else float("nan"),
        copy_ns=copy * nano,
        fresh_copy_ns=fresh_copy * nano,
        encode_ns=encode * nano,
        decode_ns=decode * nano,
    )


def _compute_mean_growth(values: Floats, decoded: Floats) -> float:
    """Return the mean growth of the magnitudes."""
    return float(np.mean(np.sign(values) * (decoded - values), dtype=np.float64))


def _is_random(coder: Coder, values: Floats) -> bool:
    """Return True if the seed changes the decoded values."""
    first, second = (coder.decode(coder.encode(values, seed), values.size) for seed in (0, 1))
    return not np.array_equal(first, second)


def _time(call: Callable[[], Any], budget: float) -> float:
    """Measure the minimum time of a call, or of two runs if the first takes long."""
    start = time.perf_counter()
    call()
    if (first := time.perf_counter() - start) < 5 * budget:
        return measure_minimum_time(call, budget=budget, min_calls=3)
    start = time.perf_counter()
    call()
    return min(first, time.perf_counter() - start)
