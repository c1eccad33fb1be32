"""A Compressor's step on the host: add residuals, choose, encode, and keep what receivers will not get."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from wirecodec.arrays import Array, Bytes, Flat, aligned, read_only
from wirecodec.container.header import open_head
from wirecodec.container.schema import Outlines
from wirecodec.cpu.accumulate import AccumulatedGradient, subtract_sent
from wirecodec.cpu.decode import tensors_of
from wirecodec.cpu.encode import encode_supports
from wirecodec.cpu.select import choose, dense
from wirecodec.errors import EncodeError
from wirecodec.feedback import ErrorFeedback
from wirecodec.limits import UNLIMITED
from wirecodec.sparse import SparseTensor
from wirecodec.step import Asked, Done, Step
from wirecodec.support import Support

__all__ = ["step"]


@dataclass(frozen=True, eq=False)
class _Taken:
    """What was chosen of one tensor.

    Attributes:
        asked: what was to be done.
        support: what is sent.
        selector: its next state, or None.
        total: gradient + residual; None if no residual is kept.
        rest: the sum with +0 at the selected elements, if the selector cleared them.
    """

    asked: Asked
    support: Support
    selector: Array | None
    total: AccumulatedGradient | None
    rest: Array | None = None


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
    sent = _decode_own(blob, {name: each.support for name, each in taken.items()})
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


def _decode_own(blob: Bytes, supports: Mapping[str, Support]) -> dict[str, SparseTensor]:
    """Decode a container as its receivers do, who know its tensors."""
    head = open_head(blob, UNLIMITED, vouched=True)
    schema = {name: (support.shape, support.dtype) for name, support in supports.items()}
    return dict(zip(supports, tensors_of(blob, head, Outlines(head, schema), UNLIMITED), strict=True))


def _take(flat: Flat, asked: Asked) -> _Taken:
    """One tensor: add its residual, choose, gather."""
    rule, residual, gradient = asked.feedback, asked.residual, flat.data
    if residual is not None and residual.size != gradient.size:
        raise EncodeError(f"{gradient.size} elements; its residual has {residual.size}")
    total, seen = None, flat
    if rule is not None:
        room = None
        if residual is not None:
            room = _room(asked.spare, rule.sum_dtype(gradient.dtype, residual.dtype), gradient.size)
        taken = _take_sum(flat, asked, room)
        if taken is not None:
            return taken
        total = AccumulatedGradient.of(rule, gradient, residual, room)
        if residual is not None:
            seen = Flat(read_only(total.sendable()), flat.shape)
    found = choose(seen, asked.scheme, gradient=gradient, state=asked.state, seed=asked.seed)
    return _Taken(asked, *found, total)


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
    return _Taken(asked, support, None, None, rest=room)


def _room(spare: Array | None, dtype: np.dtype[Any], size: int) -> Array:
    """Memory for a tensor's next residual: what is spare, if it fits."""
    if spare is None or spare.dtype != dtype or spare.size != size or spare.ctypes.data % 64:
        return aligned(size, dtype)
    return spare


def _left(taken: _Taken, sent: SparseTensor) -> Array | None:
    """Return the next residual, or None if nothing is kept. EncodeError if a NaN or Inf was not sent."""
    if taken.rest is not None:
        assert taken.support.indices is not None
        return subtract_sent(taken.rest, taken.support.indices, taken.support.values, sent.values)
    if taken.total is None:
        return None
    return taken.total.remainder(None if sent.is_full else sent.indices, sent.values)
