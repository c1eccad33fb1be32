"""How long this machine takes to select, encode and decode: measured here, for ``cost`` to compute with.

A time is the median of a few calls on the same gradient, warmed up: kernels are compiled, and what fits into
the caches is there. Nothing else runs meanwhile, least of all the training, and all threads that Numba may
use are one rank's.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.cost import Gradient, Stages
from wirecodec.limits import UNLIMITED
from wirecodec.pipeline import decode_add, decode_many, encode_supports, select_many
from wirecodec.scheme import Scheme
from wirecodec.select.every import All
from wirecodec.table import table
from wirecodec.units import seconds_text
from wirecodec.value.raw import Raw

__all__ = ["Measured", "bench_text", "copy_seconds", "dense_rates", "measure", "median_seconds"]


@dataclass(frozen=True)
class Measured:
    """One scheme on one gradient.

    Attributes:
        scheme: its string.
        elements, dense: of the gradient, and their bytes.
        stored: elements of the encoding.
        stages: bytes and seconds.
        error: ‖x - y‖ / ‖x‖ of the gradient x and what it decodes to, y; 0 where x is 0.
    """

    scheme: str
    elements: int
    dense: int
    stored: int
    stages: Stages
    error: float

    @property
    def ratio(self) -> float:
        """How many times smaller the encoding is."""
        return self.dense / self.stages.nbytes


def measure(tensors: Mapping[str, Array], scheme: Scheme, *, budget: float = 0.15) -> Measured:
    """A scheme's stages on a gradient, all tensors in one container.

    Args:
        tensors: {name: array}, as ``encode_many`` takes them.
        scheme: for all of them.
        budget: seconds for each stage, about; three calls are made even where they take longer.

    Raises EncodeError, which names tensor and element, where the scheme cannot carry them.
    """
    named = len(tensors) > 1
    supports, schemes = select_many(tensors, scheme, seed=0)
    blob = encode_supports(supports, schemes, seed=0, names=named)
    schema = {name: (x.shape, x.dtype) for name, x in tensors.items()}
    back = decode_many(blob, limits=UNLIMITED, schema=schema)
    sums = {name: np.zeros(x.size, _accumulator(x)) for name, x in tensors.items()}
    stages = Stages(
        blob.nbytes,
        median_seconds(lambda: select_many(tensors, scheme, seed=0), budget=budget),
        median_seconds(lambda: encode_supports(supports, schemes, seed=0, names=named), budget=budget),
        median_seconds(lambda: decode_add(blob, sums, limits=UNLIMITED, schema=schema), budget=budget),
        narrow=isinstance(scheme.select, All) and isinstance(scheme.value, Raw) and scheme.transform is None,
    )
    return Measured(
        str(scheme),
        sum(x.size for x in tensors.values()),
        sum(x.nbytes for x in tensors.values()),
        sum(tensor.nnz for tensor in back.values()),
        stages,
        _error(tensors, {name: tensor.to_dense() for name, tensor in back.items()}),
    )


def dense_rates(tensors: Mapping[str, Array], *, budget: float = 0.15) -> Gradient:
    """What it costs to sum vectors as long as the gradient, in the type that a sum takes."""
    sums = [np.ones(x.size, _accumulator(x)) for x in tensors.values()]
    others = [np.zeros_like(total) for total in sums]

    def add() -> None:
        for total, other in zip(sums, others, strict=True):
            np.add(total, other, out=total)

    def finish() -> None:
        for total in sums:
            mean = np.zeros(total.size, total.dtype)
            np.divide(mean, 2, out=mean)

    return Gradient(
        sum(x.nbytes for x in tensors.values()),
        median_seconds(add, budget=budget),
        median_seconds(finish, budget=budget),
    )


def copy_seconds(tensors: Mapping[str, Array], *, budget: float = 0.15) -> float:
    """``np.copyto`` of the gradient into memory that is there already."""
    targets = {name: x.copy() for name, x in tensors.items()}

    def copy() -> None:
        for name, x in tensors.items():
            np.copyto(targets[name], x)

    return median_seconds(copy, budget=budget)


def median_seconds(call: Callable[[], Any], *, budget: float) -> float:
    """Of three calls after one that warms up, or of as many as ``budget`` seconds have room for."""
    call()
    times: list[float] = []
    stop = time.perf_counter() + budget
    while len(times) < 3 or time.perf_counter() < stop:
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def _accumulator(x: Array) -> np.dtype[Any]:
    return np.dtype(np.float64 if x.dtype == np.float64 else np.float32)


def _error(tensors: Mapping[str, Array], decoded: Mapping[str, Array]) -> float:
    """Measured against the largest magnitude, so that no square overflows; nan if it is not finite."""
    unit = max(float(np.max(np.abs(x), initial=0)) for x in tensors.values())
    if not unit:
        return 0.0
    lost = kept = 0.0
    with np.errstate(all="ignore"):
        for name, x in tensors.items():
            exact = x.astype(np.float64) / unit
            lost += float(np.sum(np.square(decoded[name].astype(np.float64) / unit - exact)))
            kept += float(np.sum(np.square(exact)))
    return math.sqrt(lost / kept)


def bench_text(measured: Measured, copy: float, name: str) -> str:
    """The page of ``wirecodec bench``; rates are of the gradient's own bytes, encoded or not."""

    def row(stage: str, seconds: float) -> list[str]:
        return [
            stage,
            seconds_text(seconds),
            f"{measured.dense / seconds / 1e9:.3g}",
            f"{seconds / copy:.3g}",
        ]

    stages = measured.stages
    bits = 8 * stages.nbytes / measured.stored if measured.stored else 0.0
    lines = [
        f"{name}: {measured.elements:,} elements, {measured.dense:,} bytes; {measured.scheme}",
        *table(
            ["stage", "time", "GB/s", "over np.copyto"],
            [
                row("select", stages.select),
                row("encode", stages.encode),
                row("decode and add", stages.decode),
                row("np.copyto", copy),
            ],
        ),
        f"{stages.nbytes:,} bytes, {measured.ratio:.4g}× smaller; {measured.stored:,} elements stored, "
        f"{bits:.2f} bits each; error {measured.error:.3g} of the norm",
    ]
    return "\n".join(lines)
