"""How long this machine takes to select, encode and decode: measured here, for ``cost`` to compute with.

A time is the median of calls on the same gradient, warmed up: kernels are compiled, and what fits into the
caches may be there. All calls take turns over several rounds, so that what else happens on the machine for a
while does not fall on one of them alone. No training goes on meanwhile, and all threads that Numba may use
are one rank's.
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
from wirecodec.cli.formatting import table
from wirecodec.cli.units import seconds_text
from wirecodec.limits import UNLIMITED
from wirecodec.pipeline import decode_add, decode_many, encode_supports, select_many
from wirecodec.scheme import Scheme
from wirecodec.select.every import All
from wirecodec.value.raw import Raw

__all__ = [
    "Done",
    "Machine",
    "Measured",
    "Trial",
    "bench_text",
    "measure",
    "median_seconds",
    "unwatched",
    "zeros_for",
]

Call: TypeAlias = Callable[[], object]

Done: TypeAlias = Callable[[float], object]

_ROUNDS = 7
_TICK = 1e-9  # seconds; what is shorter is not told from nothing


def unwatched(share: float) -> None:
    """Nobody asks how far it got."""


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


@dataclass(frozen=True)
class Machine:
    """What was measured in one run.

    Attributes:
        copy: seconds that ``np.copyto`` of the gradient takes, into memory that is there already.
        gradient: what summing it costs.
        measured: the schemes.
    """

    copy: float
    gradient: Gradient
    measured: tuple[Measured, ...]


@dataclass(frozen=True, eq=False)
class Trial:
    """A scheme on a gradient, ready to be timed: all but the seconds, and the calls that take them."""

    untimed: Measured
    calls: tuple[Call, ...]

    @classmethod
    def of(cls, tensors: Mapping[str, Array], scheme: Scheme, sums: Mapping[str, Array]) -> Trial:
        """Of tensors that are all in one container.

        Args:
            tensors: {name: array}.
            scheme: for all of them.
            sums: what decoded values are added to, as ``zeros_for`` makes it; trials may share it.

        EncodeError, which names tensor and element, where the scheme cannot carry them.
        """
        named = len(tensors) > 1
        supports, schemes = select_many(tensors, scheme, seed=0)
        blob = encode_supports(supports, schemes, seed=0, names=named)
        schema = {name: (x.shape, x.dtype) for name, x in tensors.items()}
        decoded = decode_many(blob, limits=UNLIMITED, schema=schema)
        plain = isinstance(scheme.select, All) and isinstance(scheme.value, Raw) and scheme.transform is None
        return cls(
            Measured(
                str(scheme),
                sum(x.size for x in tensors.values()),
                sum(x.nbytes for x in tensors.values()),
                sum(tensor.nnz for tensor in decoded.values()),
                Stages(blob.nbytes, 0.0, 0.0, 0.0, narrow=plain),
                _error(tensors, {name: tensor.to_dense() for name, tensor in decoded.items()}),
            ),
            (
                lambda: select_many(tensors, scheme, seed=0),
                lambda: encode_supports(supports, schemes, seed=0, names=named),
                lambda: decode_add(blob, sums, limits=UNLIMITED, schema=schema),
            ),
        )

    def timed(self, select: float, encode: float, decode: float) -> Measured:
        """With the seconds of its calls."""
        stages = dataclasses.replace(self.untimed.stages, select=select, encode=encode, decode=decode)
        return dataclasses.replace(self.untimed, stages=stages)


def measure(
    tensors: Mapping[str, Array], trials: Sequence[Trial], *, budget: float = 0.15, done: Done = unwatched
) -> Machine:
    """Time schemes on a gradient, and what it takes to copy and to sum it.

    Args:
        tensors: {name: array}.
        trials: of the same.
        budget: seconds for each call, about.
        done: told the share of the work that is done.
    """
    sums, others = (list(zeros_for(tensors).values()) for _ in range(2))
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

    calls = [copy, add, finish, *(call for trial in trials for call in trial.calls)]
    medians = iter(median_seconds(calls, budget=budget, done=done))
    copied = next(medians)
    gradient = Gradient(sum(x.nbytes for x in tensors.values()), next(medians), next(medians))
    measured = tuple(trial.timed(next(medians), next(medians), next(medians)) for trial in trials)
    return Machine(copied, gradient, measured)


def median_seconds(calls: Sequence[Call], *, budget: float, done: Done = unwatched) -> list[float]:
    """Of each call; they take turns, in rounds of which each makes a call at least once.

    Args:
        calls: each is warmed up by one that is not timed.
        budget: seconds for each of them in all rounds.
        done: told the share of the work that is done.
    """
    times: list[list[float]] = [[] for _ in calls]
    for call in calls:
        call()
    for turn in range(_ROUNDS):
        for number, (call, found) in enumerate(zip(calls, times, strict=True)):
            done((turn + number / len(calls)) / _ROUNDS)
            stop = time.perf_counter() + budget / _ROUNDS
            while True:
                begin = time.perf_counter()
                call()
                end = time.perf_counter()
                found.append(end - begin)
                if end >= stop:
                    break
    return [statistics.median(found) for found in times]


def zeros_for(tensors: Mapping[str, Array]) -> dict[str, Array]:
    """A dense vector for each tensor, in the type that a sum takes."""
    return {
        name: np.zeros(x.size, np.float64 if x.dtype == np.float64 else np.float32)
        for name, x in tensors.items()
    }


def _error(tensors: Mapping[str, Array], decoded: Mapping[str, Array]) -> float:
    """Measured against the largest magnitude, so that no square overflows; nan if it is not finite."""
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


def bench_text(machine: Machine, name: str) -> str:
    """The page of ``wirecodec bench``, of one scheme; GB/s are those of the uncompressed gradient."""
    (measured,), copy = machine.measured, machine.copy

    def row(stage: str, seconds: float) -> list[str]:
        return [
            stage,
            seconds_text(seconds),
            f"{measured.dense / max(seconds, _TICK) / 1e9:.3g}",
            f"{seconds / max(copy, _TICK):.3g}",
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
        f"{stages.nbytes:,} bytes, ratio {measured.ratio:.1f}; {measured.stored:,} elements stored, "
        f"{bits:.2f} bits each; error {measured.error:.3g} of the norm",
    ]
    return "\n".join(lines)
