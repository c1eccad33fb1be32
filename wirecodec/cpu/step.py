"""A Compressor's step on the host: add residuals, choose, encode, and keep what receivers will not get."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from wirecodec.arrays import Array, Flat, aligned, read_only
from wirecodec.cpu.chunk import Support
from wirecodec.cpu.select import choose, dense
from wirecodec.errors import EncodeError
from wirecodec.feedback import ErrorFeedback
from wirecodec.limits import UNLIMITED
from wirecodec.pipeline import decode_many, encode_supports
from wirecodec.sparse import SparseTensor
from wirecodec.step import Asked, Done, Step

__all__ = ["step"]


@dataclass(frozen=True, eq=False)
class _Taken:
    """What was chosen of one tensor.

    Attributes:
        asked: what was to be done.
        support: what is sent.
        selector: its next state, or None.
        gradient: flat.
        x: gradient + residual.
        taken_out: whether what is sent is out of x already.
    """

    asked: Asked
    support: Support
    selector: Array | None
    gradient: Array
    x: Array
    taken_out: bool = False


def step(tensors: Mapping[str, Any], wanted: Step) -> Done:
    """A step of named tensors on the host. EncodeError names the tensor."""
    taken: dict[str, _Taken] = {}
    for name, asked in wanted.asked.items():
        try:
            taken[name] = _take(dense(tensors[name]), asked)
        except EncodeError as error:
            raise error.of(name) from None
    blob = encode_supports(
        {name: each.support for name, each in taken.items()},
        {name: each.asked.scheme for name, each in taken.items()},
        seed=wanted.seed,
        names=wanted.names,
        fuse=wanted.fuse,
    )
    schema = {name: (each.support.shape, each.support.dtype) for name, each in taken.items()}
    sent = decode_many(blob, limits=UNLIMITED, schema=schema)
    left: dict[str, Array | None] = {}
    for name, each in taken.items():
        try:
            left[name] = _left(each, sent[name])
        except EncodeError as error:
            raise error.of(name) from None
    return Done(
        blob,
        blob,
        sent,
        {name: each for name, each in left.items() if each is not None},
        {name: each.selector for name, each in taken.items() if each.selector is not None},
    )


def _take(flat: Flat, asked: Asked) -> _Taken:
    """One tensor: add its residual, choose, gather."""
    rule, residual, gradient = asked.feedback, asked.residual, flat.data
    if residual is not None and residual.size != gradient.size:
        raise EncodeError(f"{gradient.size} elements; its residual has {residual.size}")
    x, seen = gradient, flat
    if rule is not None:
        room = None
        if residual is not None:
            room = _room(asked.spare, rule.wide(gradient.dtype, residual.dtype), gradient.size)
        taken = _take_sum(flat, asked, room)
        if taken is not None:
            return taken
        x = rule.corrected(gradient, residual, room)
        if residual is not None:
            seen = Flat(read_only(rule.sendable(x, gradient.dtype)), flat.shape)
    found = choose(seen, asked.scheme, gradient=gradient, state=asked.state, seed=asked.seed)
    return _Taken(asked, *found, gradient, x)


def _take_sum(flat: Flat, asked: Asked, room: Array | None) -> _Taken | None:
    """The same in one pass, where the selector offers it; what is not sent goes to ``room``."""
    scheme, residual, gradient = asked.scheme, asked.residual, flat.data
    select_sum = getattr(scheme.select, "select_sum", None)
    if select_sum is None or residual is None or room is None or asked.feedback != ErrorFeedback():
        return None
    if scheme.transform is not None or getattr(scheme.index, "lossy", False):
        return None
    if not gradient.dtype == residual.dtype == room.dtype:
        return None
    selection = select_sum(gradient, residual, room)
    if selection is None:
        return None
    support = Support(selection.indices, selection.values, gradient.size, flat.shape)
    return _Taken(asked, support, None, gradient, room, taken_out=True)


def _room(spare: Array | None, dtype: np.dtype[Any], size: int) -> Array:
    """Memory for a tensor's next residual: what is spare, if it fits."""
    if spare is None or spare.dtype != dtype or spare.size != size or spare.ctypes.data % 64:
        return aligned(size, dtype)
    return spare


def _left(taken: _Taken, sent: SparseTensor) -> Array | None:
    """Return the next residual, or None if nothing is kept. EncodeError if a NaN or Inf was not sent."""
    rule, x, indices = taken.asked.feedback, taken.x, taken.support.indices
    if rule is None:
        return None
    if taken.taken_out:
        assert indices is not None
        return rule.remainder_of_rest(x, indices, taken.support.values, sent)
    return rule.remainder(x, taken.gradient, taken.asked.residual, sent)
