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
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

import numpy as np

from wirecodec.arrays import Array
from wirecodec.cli.advise_candidates import Candidate
from wirecodec.cli.cost_model import Gradient, Pairs, Stages
from wirecodec.cli.progress import ProgressCallback, ignore_progress
from wirecodec.container.inspect import inspect
from wirecodec.cpu.encode import encode_selection, select_many
from wirecodec.limits import UNLIMITED
from wirecodec.pipeline import decode_add, decode_many, encode_many, sort_names
from wirecodec.select.all import All
from wirecodec.value.raw import Raw

Call: TypeAlias = Callable[[], object]

ROUNDS = 7

_PAIRS = "nonzero | rice | raw"
"""Scheme of the pairs that the split algorithms of ``collectives`` send."""


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
                    pairs=one.stages.pairs and one.stages.pairs.scaled(factor),
                ),
            )
            for one in self.measurements
        )
        return Machine(factor * self.copy, gradient.scaled(factor), tuple(measurements))


@dataclass(frozen=True, eq=False)
class TimedScheme:
    """Scheme on a gradient, ready to be timed.

    Attributes:
        untimed: the measurement without its seconds.
        calls: the functions to time: select, encode, decode; and to encode and decode pairs, if there are
            any.
    """

    untimed: Measurement
    calls: tuple[Call, ...]

    @classmethod
    def prepare(
        cls,
        tensors: Mapping[str, Array],
        candidate: Candidate,
        sums: Mapping[str, Array],
    ) -> TimedScheme:
        """Encode and decode the tensors once, in one container.

        Args:
            tensors: {name: array}.
            candidate: with the scheme for all tensors.
            sums: vectors that decoded values are added to, from ``allocate_sums``; schemes may share them.

        Raises:
            EncodeError: the scheme cannot encode a tensor; the message names tensor and element.
        """
        scheme = candidate.scheme
        named, tensors = len(tensors) > 1, {name: tensors[name] for name in sort_names(tensors)}
        schemes = dict.fromkeys(tensors, scheme)
        selected = select_many(tensors, schemes, seed=0)
        blob = encode_selection(selected, seed=0, names=named).blob
        schema = {name: (x.shape, x.dtype) for name, x in tensors.items()}
        decoded = decode_many(blob, limits=UNLIMITED, schema=schema)
        summable = (
            isinstance(scheme.select, All) and isinstance(scheme.value, Raw) and scheme.transform is None
        )
        leads = candidate.leads
        index_bytes = sum(entry.index_bytes for entry in inspect(blob).entries) if leads else None
        elements, stored = (sum(x) for x in zip(*((t.size, t.nnz) for t in decoded.values()), strict=True))
        pairs, calls = (
            None,
            [
                lambda: select_many(tensors, schemes, seed=0),
                lambda: encode_selection(selected, seed=0, names=named),
                lambda: decode_add(blob, sums, limits=UNLIMITED, schema=schema),
            ],
        )
        if 0 < stored < elements and not leads:
            sparse = encode_many(decoded, _PAIRS, names=False)
            pairs = Pairs(elements, stored, sparse.nbytes, 0.0, 0.0, 0.0)
            calls += [
                lambda: encode_many(decoded, _PAIRS, names=False),
                lambda: decode_add(sparse, sums, limits=UNLIMITED, schema=schema),
            ]
        stages = Stages(blob.nbytes, 0.0, 0.0, 0.0, summable, index_bytes, 0.0, pairs, candidate.every)
        return cls(
            Measurement(
                candidate.name,
                elements,
                sum(x.nbytes for x in tensors.values()),
                stored,
                stages,
                _compute_error(tensors, {name: tensor.to_dense() for name, tensor in decoded.items()}),
            ),
            tuple(calls),
        )

    def with_seconds(
        self, scan: float, select: float, encode: float, decode: float, *pairs: float
    ) -> Measurement:
        """Return the measurement with the seconds of its calls, and of a scan of all sums."""
        stages = dataclasses.replace(self.untimed.stages, select=select, encode=encode, decode=decode)
        if stages.pairs is not None:
            timed = dataclasses.replace(stages.pairs, encode=pairs[0], decode=pairs[1], scan=scan)
            stages = dataclasses.replace(stages, pairs=timed)
        return dataclasses.replace(self.untimed, stages=stages)


def measure(
    tensors: Mapping[str, Array],
    schemes: Sequence[TimedScheme],
    *,
    budget: float = 0.15,
    progress: ProgressCallback = ignore_progress,
) -> Machine:
    """Time schemes on a gradient, and copies, sums and movements of the gradient's size.

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

    def move() -> None:
        for now, start in zip(sums, others, strict=True):  # as collectives.LocalUpdates
            movement = start - now
            zlib.crc32(start.view(np.uint8).data)
            np.copyto(now, start - start.dtype.type(1) * movement)

    own = [copy, add, finish, *([move] if any(s.untimed.stages.every > 1 for s in schemes) else [])]
    calls = [*own, *(call for scheme in schemes for call in scheme.calls)]
    medians = measure_medians(calls, budget=budget, progress=progress)
    gradient = Gradient(sum(x.nbytes for x in tensors.values()), *medians[1 : len(own)])
    rest = iter(medians[len(own) :])
    scan = gradient.add + gradient.finish
    measurements = [scheme.with_seconds(scan, *islice(rest, len(scheme.calls))) for scheme in schemes]
    return Machine(medians[0], gradient, tuple(measurements))


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
