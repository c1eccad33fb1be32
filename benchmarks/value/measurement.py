"""One coder on one vector: its size, its errors, its times."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.common.timing import least_time, on_threads
from benchmarks.index.supports import CHUNK
from benchmarks.value.cases import Case
from benchmarks.value.coders import Coder
from benchmarks.value.distributions import Floats
from benchmarks.value.peers import relative_error, rms
from benchmarks.value.rate_distortion import Curve

__all__ = ["SEEDS", "Figure", "measured"]

SEEDS = 4
"""Over which the bias of a codec that draws is averaged, where one chunk holds the values."""

_DRAWN = 4096


@dataclass(frozen=True)
class Figure:
    """What was measured.

    Args:
        case: where.
        r: values.
        coder: by name.
        family: by name without what varies.
        peer: whether it is another's work.
        bits: a value, everything included.
        error: relative L2.
        worst: the largest error, relative to the root mean square of the values.
        bias: mean of sign(v)·(decoded - v) relative to that; above 0 where magnitudes grow.
        draws: whether another seed gives other values.
        bound: bits a value at this error at the least; NaN where that is not known.
        copied: nanoseconds a value of ``np.copyto``.
        fresh: the same of ``values.copy()``, into memory that the system has to provide, as decoders' is.
        encode, decode: nanoseconds a value.
    """

    case: Case
    r: int
    coder: str
    family: str
    peer: bool
    bits: float
    error: float
    worst: float
    bias: float
    draws: bool
    bound: float
    copied: float
    fresh: float
    encode: float
    decode: float

    @property
    def place(self) -> str:
        """Its group and column."""
        return f"{self.case.group}, {self.case.column}"

    @property
    def ratio(self) -> float:
        """Bits relative to the bound."""
        return self.bits / self.bound

    @property
    def times(self) -> tuple[float, float]:
        """Encode and decode as multiples of a copy."""
        return self.encode / self.copied, self.decode / self.copied


def measured(
    coder: Coder, case: Case, values: Floats, curve: Curve | None, *, budget: float = 0.03
) -> Figure:
    """Encode and decode chunk by chunk, as the library does, on one thread.

    EncodeError where a coder refuses the values.

    Args:
        coder: what is measured.
        case: where the vector stands in the tables.
        values: (r,) float32.
        curve: their bound, if there is one.
        budget: seconds for each of its times, about.
    """
    coder = coder.fitted(values)
    chunks = [values[at : at + CHUNK] for at in range(0, values.size, CHUNK)]
    with on_threads(1):
        codes = [coder.encode(part, 0) for part in chunks]
        jobs = [(code, part.size) for code, part in zip(codes, chunks, strict=True)]
        decoded = np.concatenate([coder.decode(*job) for job in jobs])
        target = np.zeros_like(values)
        copied = least_time(lambda: np.copyto(target, values), budget=budget / 2)
        fresh = least_time(values.copy, budget=budget / 2)
        encode = _seconds(lambda: [coder.encode(part, 0) for part in chunks], budget)
        decode = _seconds(lambda: [coder.decode(*job) for job in jobs], budget)
        draws = _draws(coder, values[:_DRAWN])
        others = (
            [coder.decode(coder.encode(values, seed), values.size) for seed in range(1, SEEDS)]
            if draws and len(chunks) == 1
            else []
        )
    size = rms(values) or 1.0
    error = relative_error(values, decoded)
    nano = 1e9 / values.size
    return Figure(
        case=case,
        r=values.size,
        coder=coder.name,
        family=coder.family,
        peer=coder.peer,
        bits=8 * sum(coder.nbytes(code) for code in codes) / values.size,
        error=error,
        worst=float(np.abs(decoded - values).max()) / size,
        bias=float(np.mean([_growth(values, found) for found in [decoded, *others]])) / size,
        draws=draws,
        bound=curve.at(error) if curve else float("nan"),
        copied=copied * nano,
        fresh=fresh * nano,
        encode=encode * nano,
        decode=decode * nano,
    )


def _growth(values: Floats, decoded: Floats) -> float:
    return float(np.mean(np.sign(values) * (decoded - values), dtype=np.float64))


def _draws(coder: Coder, values: Floats) -> bool:
    """Whether the stream changes what is decoded."""
    first, second = (coder.decode(coder.encode(values, seed), values.size) for seed in (0, 1))
    return not np.array_equal(first, second)


def _seconds(call: Callable[[], Any], budget: float) -> float:
    """The least; where one call takes long, a second alone."""
    start = time.perf_counter()
    call()
    if (first := time.perf_counter() - start) < 5 * budget:
        return least_time(call, budget=budget, least=3)
    start = time.perf_counter()
    call()
    return min(first, time.perf_counter() - start)
