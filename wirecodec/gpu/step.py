"""A Compressor's step on the device: add residuals, choose, encode, and keep what receivers will not get.

A tensor of which something is not finite is looked at by the CPU's code, which says what is wrong with it or
carries it; so is one of a type that has no kernels for its sum. Others leave the device as compressed bytes
alone, where their scheme has kernels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wirecodec.arrays import Array, DeviceFlat, Flat, read_only
from wirecodec.cpu.chunk import Part, Support
from wirecodec.cpu.select import choose
from wirecodec.errors import EncodeError
from wirecodec.feedback import ErrorFeedback
from wirecodec.gpu import accumulate as sums
from wirecodec.gpu import decode as decoding
from wirecodec.gpu.arrays import copy_to_host
from wirecodec.gpu.encode import encode_supports
from wirecodec.gpu.fallback import HostFallback
from wirecodec.gpu.select.common import Context
from wirecodec.gpu.select.dispatch import choose as choose_on_device
from wirecodec.gpu.select.dispatch import select_sum
from wirecodec.gpu.support import DeviceSupport
from wirecodec.kernels.cuda.device import Device
from wirecodec.sparse import SparseTensor
from wirecodec.step import Asked

__all__ = ["Taken", "encode", "left", "take"]

MOST = 2**31
"""Elements of a tensor."""


@dataclass(frozen=True, eq=False)
class Taken:
    """What was chosen of one tensor.

    Attributes:
        asked: what was to be done.
        support: on the device, or on the host.
        selector: the selector's next state, or None.
        total: gradient + residual; None where nothing is kept.
    """

    asked: Asked
    support: DeviceSupport | Support
    selector: Any
    total: sums.Sum | _HostSum | None


@dataclass(frozen=True, eq=False)
class _HostSum:
    """Gradient + residual on the host."""

    x: Array
    gradient: Array
    residual: Array | None


def take(device: Device, flat: DeviceFlat, asked: Asked) -> Taken:
    """One tensor: add its residual, choose. Raises EncodeError."""
    scheme, rule, residual = asked.scheme, asked.feedback, asked.residual
    if residual is not None and residual.size != flat.words.size:
        raise EncodeError(f"{flat.words.size} elements; its residual has {residual.size}")
    if flat.words.size > MOST:
        raise EncodeError(f"{flat.words.size} elements; on a GPU a Compressor takes 2^31 at most")
    context = Context(asked.seed, flat, asked.state, asked.last)
    if rule is None:
        return Taken(asked, *choose_on_device(device, flat, scheme, context), None)
    if residual is not None and flat.dtype == residual.dtype and scheme.transform is None:
        support = select_sum(device, flat, residual, scheme.select, context)
        if support is not None:
            return Taken(asked, support, support.state, sums.summed(flat, residual, support.flat))
    try:
        total = sums.corrected(device, rule, flat, residual)
    except HostFallback:
        return _taken_on_host(device, flat, asked, rule)
    return Taken(asked, *choose_on_device(device, total.seen, scheme, context), total)


def _taken_on_host(device: Device, flat: DeviceFlat, asked: Asked, rule: ErrorFeedback) -> Taken:
    """The same by the CPU's code."""
    gradient = copy_to_host(device, flat).data
    residual = None if asked.residual is None else device.get(asked.residual)
    x = rule.corrected(gradient, residual)
    seen = gradient if residual is None else read_only(rule.sendable(x, gradient.dtype))
    found = choose(
        Flat(seen, flat.shape), asked.scheme, gradient=gradient, state=asked.state, seed=asked.seed
    )
    return Taken(asked, *found, _HostSum(x, gradient, residual))


def encode(device: Device, taken: Mapping[str, Taken], seed: int, *, names: bool, fuse: int) -> Any:
    """What was taken, in the order of keys, as one container on the device; EncodeError names the tensor."""
    supports = {name: each.support for name, each in taken.items()}
    schemes = {name: each.asked.scheme for name, each in taken.items()}
    return encode_supports(device, supports, schemes, seed, b"", names=names, fuse=fuse)


def left(device: Device, taken: Taken, sent: Sequence[Part]) -> Any:
    """The next residual (size,), float32 or float64, on the device; None where nothing is kept.

    ``sent``: what receivers decode, in chunks, values as words.
    """
    rule, total, support = taken.asked.feedback, taken.total, taken.support
    if rule is None or total is None:
        return None
    if isinstance(total, sums.Sum):
        return sums.remainder(device, rule, total, sent)
    indices, words = decoding.concatenate_parts(device, sent, total.x.size)
    values = device.get(words).view(total.gradient.dtype)
    got = SparseTensor._of(None if indices is None else device.get(indices), values, support.shape)
    return device.put(np.ascontiguousarray(rule.remainder(total.x, total.gradient, total.residual, got)))
