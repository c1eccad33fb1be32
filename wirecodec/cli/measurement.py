"""Measurement of schemes on this machine: the seconds that the cost model computes with.

A time is the median of repeated calls on the same gradient. Every call is made once before, so that kernels
are compiled; caches may be warm. All calls alternate over several rounds, so that other load on the machine
does not fall on one of them alone. Nothing is trained meanwhile, and one rank uses all of Numba's threads.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from wirecodec.arrays import Array
from wirecodec.cli.cost_model import Gradient, Stages
from wirecodec.cli.progress import ProgressCallback, ignore_progress
from wirecodec.container.inspect import inspect
from wirecodec.cpu.encode import encode_selection, select_many
from wirecodec.limits import UNLIMITED
from wirecodec.pipeline import decode_add, decode_many, sort_names
from wirecodec.select.all import All
from wirecodec.settings.scheme import Scheme
from wirecodec.value.raw import Raw

__all__ = [
    "Machine",
    "Measurement",
    "TimedScheme",
    "allocate_sums",
    "measure",
    "measure_medians",
]

Call: TypeAlias = Callable[[], object]

ROUNDS = 7


@dataclass(frozen=True)
class Measurement:
    """Measurement of one scheme on one gradient.

    Attributes:
        scheme: its string.
        elements: of the gradient.
        dense_bytes: bytes of the gradient.
        stored: elements of the encoding.
        stages: bytes and seconds.
        error: ‖x - y‖ / ‖x‖ of the gradient x and the decoded gradient y; 0 if x is 0, nan if not finite.
    """

    scheme: str
    elements: int
    dense_bytes: int
    stored: int
    stages: Stages
    error: float

    @property
    def ratio(self) -> float:
        """Return the bytes of the gradient per byte of the encoding."""
        return self.dense_bytes / self.stages.nbytes


@dataclass(frozen=True)
class Machine:
    """Measurements of one run.

    Attributes:
        copy: seconds that ``np.copyto`` of the gradient takes, into allocated memory.
        gradient: its size, and the seconds of summing it.
        measurements: one per scheme.
    """

    copy: float
    gradient: Gradient
    measurements: tuple[Measurement, ...]

    def scaled(self, factor: float) -> Machine:
        """Return the measurements of a gradient of ``factor`` times the size: all stages are linear in it."""
        if factor == 1:
            return self
        gradient = self.gradient
        measurements = (
            dataclasses.replace(
                one,
                elements=round(factor * one.elements),
                dense_bytes=round(factor * one.dense_bytes),
                stored=round(factor * one.stored),
                stages=dataclasses.replace(
                    one.stages,
                    nbytes=round(factor * one.stages.nbytes),
                    index_bytes=one.stages.index_bytes and round(factor * one.stages.index_bytes),
                    select=factor * one.stages.select,
                    encode=factor * one.stages.encode,
                    decode=factor * one.stages.decode,
                ),
            )
            for one in self.measurements
        )
        return Machine(
            factor * self.copy,
            Gradient(round(factor * gradient.nbytes), factor * gradient.add, factor * gradient.finish),
            tuple(measurements),
        )


@dataclass(frozen=True, eq=False)
class TimedScheme:
    """Scheme on a gradient, ready to be timed.

    Attributes:
        untimed: the measurement without its seconds.
        calls: the functions to time: select, encode, and decode.
    """

    untimed: Measurement
    calls: tuple[Call, ...]

    @classmethod
    def prepare(
        cls,
        tensors: Mapping[str, Array],
        scheme: Scheme,
        sums: Mapping[str, Array],
        *,
        clt_k: str | None = None,
    ) -> TimedScheme:
        """Encode and decode the tensors once, in one container.

        Args:
            tensors: {name: array}.
            scheme: for all tensors.
            sums: vectors that decoded values are added to, from ``allocate_sums``; schemes may share them.
            clt_k: name of the measurement if the scheme's indices are CLT-k's, or None.

        Raises:
            EncodeError: the scheme cannot encode a tensor; the message names tensor and element.
        """
        named, tensors = len(tensors) > 1, {name: tensors[name] for name in sort_names(tensors)}
        schemes = dict.fromkeys(tensors, scheme)
        selected = select_many(tensors, schemes, seed=0)
        blob = encode_selection(selected, seed=0, names=named)
        schema = {name: (x.shape, x.dtype) for name, x in tensors.items()}
        decoded = decode_many(blob, limits=UNLIMITED, schema=schema)
        summable = (
            isinstance(scheme.select, All) and isinstance(scheme.value, Raw) and scheme.transform is None
        )
        index_bytes = sum(entry.index_bytes for entry in inspect(blob).entries) if clt_k else None
        return cls(
            Measurement(
                clt_k or str(scheme),
                sum(x.size for x in tensors.values()),
                sum(x.nbytes for x in tensors.values()),
                sum(tensor.nnz for tensor in decoded.values()),
                Stages(blob.nbytes, 0.0, 0.0, 0.0, summable=summable, index_bytes=index_bytes),
                _compute_error(tensors, {name: tensor.to_dense() for name, tensor in decoded.items()}),
            ),
            (
                lambda: select_many(tensors, schemes, seed=0),
                lambda: encode_selection(selected, seed=0, names=named),
                lambda: decode_add(blob, sums, limits=UNLIMITED, schema=schema),
            ),
        )

    def with_seconds(self, select: float, encode: float, decode: float) -> Measurement:
        """Return the measurement with the seconds of its calls."""
        stages = dataclasses.replace(self.untimed.stages, select=select, encode=encode, decode=decode)
        return dataclasses.replace(self.untimed, stages=stages)


def measure(
    tensors: Mapping[str, Array],
    schemes: Sequence[TimedScheme],
    *,
    budget: float = 0.15,
    progress: ProgressCallback = ignore_progress,
) -> Machine:
    """Time schemes on a gradient, and a copy and a sum of the gradient.

    Args:
        tensors: {name: array}.
        schemes: prepared on the same tensors.
        budget: seconds per timed call, approximately.
        progress: called with the completed fraction.
    """
    sums, others = (list(allocate_sums(tensors).values()) for _ in range(2))
    copies = [(x.copy(), x) for x in tensors.values()]

    def copy() -> None:
        for target, x in copies:
            np.copyto(target, x)

    def add() -> None:
        for total, other in zip(sums, others, strict=True):
            np.add(total, other, out=total)

    def finish() -> None:
        for total in sums:
            mean = np.zeros(total.size, total.dtype)
            np.divide(mean, 2, out=mean)

    calls = [copy, add, finish, *(call for scheme in schemes for call in scheme.calls)]
    medians = iter(measure_medians(calls, budget=budget, progress=progress))
    copy_seconds = next(medians)
    gradient = Gradient(sum(x.nbytes for x in tensors.values()), next(medians), next(medians))
    measurements = [scheme.with_seconds(next(medians), next(medians), next(medians)) for scheme in schemes]
    return Machine(copy_seconds, gradient, tuple(measurements))


def measure_medians(
    calls: Sequence[Call], *, budget: float, progress: ProgressCallback = ignore_progress
) -> list[float]:
    """Measure the median seconds of each call.

    Args:
        calls: functions; each is called once untimed, and then at least once per round, in turns.
        budget: seconds per call, over all rounds.
        progress: called with the completed fraction.
    """
    times: list[list[float]] = [[] for _ in calls]
    for call in calls:
        call()
    for turn in range(ROUNDS):
        for number, (call, seconds) in enumerate(zip(calls, times, strict=True)):
            progress((turn + number / len(calls)) / ROUNDS)
            stop = time.perf_counter() + budget / ROUNDS
            while True:
                begin = time.perf_counter()
                call()
                end = time.perf_counter()
                seconds.append(end - begin)
                if end >= stop:
                    break
    return [statistics.median(seconds) for seconds in times]


def allocate_sums(tensors: Mapping[str, Array]) -> dict[str, Array]:
    """Allocate a vector of zeros per tensor: float64 for float64, float32 for all other types."""
    return {
        name: np.zeros(x.size, np.float64 if x.dtype == np.float64 else np.float32)
        for name, x in tensors.items()
    }


def _compute_error(tensors: Mapping[str, Array], decoded: Mapping[str, Array]) -> float:
    """Compute the relative error, in units of the largest magnitude so that no square overflows."""
    lost = kept = 0.0
    with np.errstate(all="ignore"):
        unit = max((float(np.max(np.abs(x), initial=0)) for x in tensors.values()), default=0.0)
        if not unit:
            return 0.0
        for name, x in tensors.items():
            exact = x.astype(np.float64) / unit
            lost += float(np.sum(np.square(decoded[name].astype(np.float64) / unit - exact)))
            kept += float(np.sum(np.square(exact)))
    return math.sqrt(lost / kept)
