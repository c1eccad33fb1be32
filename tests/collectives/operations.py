"""Collectives and failures of the safety tests.

A new collective needs one line in OPERATIONS, a new failure one line in FAILURES.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

import collectives as co
import wirecodec as wc
from collectives.channel import ByteArray
from tests.collectives.inputs import bits, gradient
from tests.oracles import Array

__all__ = ["FAILURES", "OPERATIONS", "Contribution", "Failure", "Odd", "Operation", "contribution"]

BREAKS, CORRUPTS = 13.0, 17.0  # values that make the codec raise, or write an invalid section


@dataclass(frozen=True)
class Contribution:
    """Arguments of one rank.

    Attributes:
        tensor: float32 (d,), or an invalid object.
        scheme: for operations that have one.
        step: steps that a Compressor or a CLTk has taken.
        corrupts: whether a CLT-k leader sends invalid indices.
    """

    tensor: Any
    scheme: str = "threshold(0.5) | rice | odd"
    step: int = 0
    corrupts: bool = False


def contribution(rank: int, size: int = 9000) -> Contribution:
    """Return valid arguments; d is large enough for rings and segments."""
    return Contribution(gradient(rank, size))


@dataclass(frozen=True)
class Operation:
    """Collective under test.

    Attributes:
        call: runs the collective and returns its results as bytes.
        notices: names of the failures that are errors in this collective.
    """

    call: Callable[[co.Channel, Contribution], bytes]
    notices: frozenset[str]


@dataclass(frozen=True)
class Failure:
    """Failure of one rank.

    Attributes:
        change: converts valid arguments to those of the failing rank.
        reason: of the error on all ranks; None if there is no error.
        skips: whether the rank skips a call.
    """

    change: Callable[[Contribution], Contribution]
    reason: str | None
    skips: bool = False


def _with(value: float) -> Callable[[Contribution], Contribution]:
    """Replace the largest value."""

    def change(right: Contribution) -> Contribution:
        x = right.tensor.copy()
        x[np.argmax(np.abs(x))] = value
        x[np.abs(x) > abs(value)] = 0.5
        return dataclasses.replace(right, tensor=x)

    return change


def _as(make: Callable[[Array], Any]) -> Callable[[Contribution], Contribution]:
    return lambda right: dataclasses.replace(right, tensor=make(right.tensor))


_OTHER_SCHEME = "threshold(0.2) | rice | odd"

FAILURES = {
    "a codec raises": Failure(_with(BREAKS), "encode"),
    "no array": Failure(_as(lambda x: object()), "encode"),
    "no buffer": Failure(_as(lambda x: object()), "argument"),
    "NaN": Failure(_with(np.nan), "value"),
    "another dtype": Failure(_as(lambda x: x.astype(np.float64)), "dtype"),
    "another shape": Failure(_as(lambda x: x[:-1]), "shape"),
    "another scheme": Failure(lambda right: dataclasses.replace(right, scheme=_OTHER_SCHEME), "scheme"),
    "a step behind": Failure(lambda right: dataclasses.replace(right, step=right.step + 1), "scheme"),
    "a skipped call": Failure(lambda right: right, "sequence", skips=True),
    "a corrupt container": Failure(_with(CORRUPTS), "decode"),
    "corrupt indices": Failure(lambda right: dataclasses.replace(right, corrupts=True), "decode"),
    "nothing selected": Failure(_as(np.zeros_like), None),
}

_ANY = frozenset({"a skipped call", "nothing selected"})
_TENSORS = _ANY | {"no array", "another dtype", "another shape"}
_ENCODED = _TENSORS | {"a codec raises", "NaN", "another scheme", "a corrupt container"}
_COMPRESSED = _TENSORS | {"NaN", "another scheme", "a step behind"}
_CHOOSING = _TENSORS | {"NaN", "a step behind", "corrupt indices"}


def _allreduce(channel: co.Channel, mine: Contribution, algorithm: str) -> bytes:
    return bits(co.allreduce(channel, mine.tensor, mine.scheme, algorithm=algorithm))


def _allgather(channel: co.Channel, mine: Contribution) -> bytes:
    return b"".join(bits(tensor.to_dense()) for tensor in co.allgather(channel, mine.tensor, mine.scheme))


def _allgather_bytes(channel: co.Channel, mine: Contribution) -> bytes:
    return b"".join(map(bits, co.allgather_bytes(channel, mine.tensor)))


def _compressed(channel: co.Channel, mine: Contribution) -> bytes:
    compressor = wc.Compressor(mine.scheme)
    compressor.load_state_dict(compressor.state_dict() | {"step": np.array(mine.step)})
    return bits(co.allreduce(channel, mine.tensor, compressor))


class _Leading(co.CLTk):
    """CLT-k with invalid indices if this rank leads."""

    def _prepare(self, local: Any, *args: Any, **settings: Any) -> Any:
        failure = super()._prepare(local, *args, **settings)
        if failure is None:
            local.blob = local.blob.copy()
            local.blob[-9] ^= 1
        return failure


def _cltk(channel: co.Channel, mine: Contribution) -> bytes:
    """Run CLT-k with the last rank, which fails, as the leader."""
    cltk = (_Leading if mine.corrupts else co.CLTk)(0.1)
    cltk.load_state_dict({"step": np.array(channel.size - 1 + mine.step)})
    return bits(cltk.allreduce(channel, mine.tensor))


def _oktopk(channel: co.Channel, mine: Contribution) -> bytes:
    method = co.OkTopK(mine.scheme)
    method.load_state_dict(method.state_dict() | {"step": np.array(mine.step)})
    return bits(method.allreduce(channel, mine.tensor))


OPERATIONS = {
    "allgather_bytes": Operation(_allgather_bytes, _ANY | {"no buffer"}),
    "allgather": Operation(_allgather, _ENCODED),
    "allreduce auto": Operation(partial(_allreduce, algorithm="auto"), _ENCODED),
    "allreduce allgather": Operation(partial(_allreduce, algorithm="allgather"), _ENCODED),
    "allreduce dense": Operation(partial(_allreduce, algorithm="dense"), _ENCODED),
    "allreduce split-pairs": Operation(partial(_allreduce, algorithm="split-pairs"), _ENCODED),
    "allreduce split-bitmap": Operation(partial(_allreduce, algorithm="split-bitmap"), _ENCODED),
    "allreduce split-dense": Operation(partial(_allreduce, algorithm="split-dense"), _ENCODED),
    "allreduce of a Compressor": Operation(
        _compressed, _TENSORS | {"NaN", "another scheme", "a step behind"}
    ),
    "CLTk.allreduce": Operation(_cltk, _CHOOSING),
    "OkTopK.allreduce": Operation(_oktopk, _COMPRESSED),
}


@dataclass(frozen=True)
class Odd:
    """Codec of raw values behind one byte, which makes the decoder raise if it is not 0."""

    name: ClassVar[str] = "odd"
    wire_id: ClassVar[int] = 0x90
    carries_nonfinite: ClassVar[bool] = False

    def encode(self, values: Array, stream: Any) -> bytes:
        if BREAKS in values:
            raise RuntimeError("this codec broke")
        return bytes([CORRUPTS in values]) + values.tobytes()

    @classmethod
    def decode(cls, section: ByteArray, r: int, dtype: np.dtype[Any], limits: Any) -> Array:
        if section.size != 1 + r * dtype.itemsize or section[0]:
            raise wc.Malformed("odd", "refused")
        values: Array = section[1:].copy().view(dtype)
        return values
