"""Measurement of candidates on this machine: the seconds that the cost model computes with."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeVar

import numpy as np

import wirecodec as wc
from collectives.advise.candidates import Candidate
from collectives.advise.powersgd import Factors
from collectives.exchange.specs import get_limits
from collectives.local_updates.outer import Array, OuterSettings, OuterState
from collectives.local_updates.outer_step import OuterStep
from collectives.local_updates.parameters import measure_movements
from collectives.oktopk.costs import make_calls
from collectives.sums.pieces import PIECES
from wirecodec.comparison.measurement import (
    Call,
    EncodedGradient,
    ProgressCallback,
    allocate_sums,
    ignore_progress,
    measure_medians,
)

T = TypeVar("T", bound="Linear")


@dataclass(frozen=True)
class Linear:
    """Record of sizes and times that are proportional to the size of a gradient."""

    def scaled(self: T, factor: float) -> T:
        """Return the record of a gradient of ``factor`` times the size."""
        fixed = ("error", "every", "piece", "piece_bytes")
        fields = {name: _scale(x, factor) for name, x in vars(self).items() if name not in fixed}
        return dataclasses.replace(self, **fields)


def _scale(value: Any, factor: float) -> Any:
    if isinstance(value, Linear):
        return value.scaled(factor)
    if isinstance(value, float):
        return factor * value
    return round(factor * value) if isinstance(value, int) and not isinstance(value, bool) else value


@dataclass(frozen=True)
class Gradient(Linear):
    """Size of a gradient, and times of dense vectors of this size on one machine.

    Attributes:
        nbytes: M, bytes of all its elements.
        add: seconds to add one such vector to another.
        finish: seconds to allocate a vector of zeros for the sum, and to divide the sum.
        move: seconds of local updates beside the exchange: to compute the movement of the parameters, to
            compare the ranks' states, and to apply the mean.
    """

    nbytes: int
    add: float = 0.0
    finish: float = 0.0
    move: float = 0.0


@dataclass(frozen=True)
class Pairs(Linear):
    """Elements of an encoding as pairs of index and value, which the split algorithms send.

    Attributes:
        elements, stored: d of the gradient, and k of the encoding, 1 or more.
        nbytes: of the pairs.
        encode, decode: seconds to encode them, and to decode and add them.
        scan: seconds to add up and encode a vector of sums, beyond those per stored element.
    """

    elements: int
    stored: int
    nbytes: int
    encode: float = 0.0
    decode: float = 0.0
    scan: float = 0.0


@dataclass(frozen=True)
class Owned(Linear):
    """Work of Ok-Topk beyond the encoding.

    Attributes:
        stored: k, elements of the encoding.
        work: seconds for all elements after their selection, in the pieces and in the chosen sums.
        piece: seconds per piece, and per owner, beyond those for its elements.
        piece_bytes: bytes of a piece beyond those of its elements.
    """

    stored: int
    work: float = 0.0
    piece: float = 0.0
    piece_bytes: int = 0


@dataclass(frozen=True)
class Stages(Linear):
    """Size of an encoding, and times of a scheme's stages on one machine.

    Attributes:
        nbytes: m, bytes of the encoding.
        select: seconds to select elements, a transform included.
        encode: seconds to encode the selected elements.
        decode: seconds to decode one encoding and add it to a dense vector.
        summable: whether the encoding holds every element as a plain float, so that encodings can be summed.
        index_bytes: i, the part of m that CLT-k broadcasts; None for schemes.
        pairs: for the split algorithms; None if they are not compared.
        every: H, steps between two exchanges; 1 except for local updates.
        owned: of Ok-Topk; None for anything else.
        factored: whether these are PowerSGD's factors, of which ``encode`` is all the arithmetic.
    """

    nbytes: int
    select: float = 0.0
    encode: float = 0.0
    decode: float = 0.0
    summable: bool = False
    index_bytes: int | None = None
    pairs: Pairs | None = None
    every: int = 1
    owned: Owned | None = None
    factored: bool = False


@dataclass(frozen=True)
class Measurement(Linear):
    """Measurement of one scheme on one gradient.

    Attributes:
        scheme: name of the candidate.
        elements: of the gradient.
        dense_bytes: bytes of the gradient.
        stored: elements of the encoding.
        stages: bytes and seconds.
        error: as of ``EncodedGradient``.
        calls: the functions to time: select, encode, decode; and to encode and decode pairs, if there are
            any.
    """

    scheme: str
    elements: int
    dense_bytes: int
    stored: int
    stages: Stages
    error: float
    calls: tuple[Call, ...] = field(default=(), compare=False, repr=False)

    @classmethod
    def prepare(
        cls, tensors: Mapping[str, Array], candidate: Candidate, sums: Mapping[str, Array]
    ) -> Measurement:
        """Encode and decode the tensors once, as ``EncodedGradient.of``; the seconds are 0."""
        scheme, leads = candidate.scheme, candidate.leads
        if candidate.rank:
            return cls._prepare_factors(tensors, candidate)
        if candidate.is_whole:
            tensors = {"all": np.concatenate([x.reshape(-1) for x in tensors.values()])}
            sums = allocate_sums(tensors)
        encoded = EncodedGradient.of(tensors, scheme, sums)
        plain = isinstance(scheme.select, wc.selectors.All) and isinstance(scheme.value, wc.codecs.Raw)
        pairs, calls, decoded = None, list(encoded.calls), encoded.decoded
        owned = None
        if candidate.owns and encoded.stored:
            work, piece, nbytes = make_calls(decoded, scheme)
            owned, calls = Owned(encoded.stored, piece_bytes=nbytes), [*calls, work, piece]
        elif 0 < encoded.stored < encoded.elements and not leads:
            blob = wc.encode_many(decoded, PIECES, names=False)
            schema = {name: (tensor.shape, tensor.dtype) for name, tensor in decoded.items()}
            limits = get_limits(schema, [blob])
            pairs = Pairs(encoded.elements, encoded.stored, blob.nbytes)
            calls += [
                lambda: wc.encode_many(decoded, PIECES, names=False),
                lambda: wc.decode_add(blob, sums, limits=limits, schema=schema),
            ]
        stages = Stages(
            encoded.nbytes,
            summable=plain and scheme.transform is None,
            index_bytes=encoded.index_bytes if leads else None,
            pairs=pairs,
            every=candidate.every,
            owned=owned,
        )
        sizes = encoded.elements, encoded.dense_bytes, encoded.stored
        return cls(candidate.name, *sizes, stages, encoded.error, tuple(calls))

    @classmethod
    def _prepare_factors(cls, tensors: Mapping[str, Array], candidate: Candidate) -> Measurement:
        factors = Factors.of(tensors, candidate.rank)
        elements, dense = sum(x.size for x in tensors.values()), sum(x.nbytes for x in tensors.values())
        stages = Stages(factors.nbytes, factored=True)
        return cls(
            candidate.name, elements, dense, factors.nbytes // 4, stages, factors.error, (factors.step,)
        )

    @property
    def ratio(self) -> float:
        """Return the bytes of the gradient per byte of the encoding."""
        return self.dense_bytes / self.stages.nbytes

    def with_seconds(self, scan: float, *seconds: float) -> Measurement:
        """Return the measurement with the seconds of its calls, and of a scan of all sums."""
        if self.stages.factored:
            return dataclasses.replace(self, stages=dataclasses.replace(self.stages, encode=seconds[0]))
        select, encode, decode, *pairs = seconds
        stages = dataclasses.replace(self.stages, select=select, encode=encode, decode=decode)
        if stages.owned is not None:
            work, piece = pairs
            owned = dataclasses.replace(stages.owned, work=work, piece=piece)
            return dataclasses.replace(self, stages=dataclasses.replace(stages, owned=owned))
        if stages.pairs is not None:
            timed = dataclasses.replace(stages.pairs, encode=pairs[0], decode=pairs[1], scan=scan)
            stages = dataclasses.replace(stages, pairs=timed)
        return dataclasses.replace(self, stages=stages)


def measure(
    tensors: Mapping[str, Array],
    schemes: Sequence[Measurement],
    *,
    scale: float = 1.0,
    budget: float = 0.15,
    progress: ProgressCallback = ignore_progress,
) -> tuple[Gradient, list[Measurement]]:
    """Time schemes on a gradient, and sums and movements of the gradient's size.

    Args:
        tensors: {name: array}.
        schemes: prepared on the same tensors.
        scale: size of the gradient to return the times for, in sizes of the measured one.
        budget: seconds per timed call, approximately.
        progress: called with the completed fraction.
    """
    sums, now = allocate_sums(tensors), allocate_sums(tensors)
    state, settings = OuterState(0, sums), OuterSettings(1, 1.0, 0.0, nesterov=False)

    def add() -> None:
        for name, total in now.items():
            np.add(total, sums[name], out=total)

    def finish() -> None:
        for total in sums.values():
            mean = np.zeros(total.size, total.dtype)
            np.divide(mean, 2, out=mean)

    def move() -> None:
        state.digest()
        for name, x in OuterStep(state, measure_movements(now, sums), settings).values():
            np.copyto(now[name], x)

    own: list[Call] = [add, finish, *([move] if any(s.stages.every > 1 for s in schemes) else [])]
    calls = [*own, *(call for scheme in schemes for call in scheme.calls)]
    medians = measure_medians(calls, budget=budget, progress=progress)
    gradient = Gradient(sum(x.nbytes for x in tensors.values()), *medians[: len(own)])
    rest = iter(medians[len(own) :])
    scan = gradient.add + gradient.finish
    measurements = [scheme.with_seconds(scan, *islice(rest, len(scheme.calls))) for scheme in schemes]
    return gradient.scaled(scale), [one.scaled(scale) for one in measurements]
